"""`pullqueue lint`: what production would refuse or silently change in a queue.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from pullqueue.config.settings import PROFILES
from pullqueue.errors import ConfigFileError
from pullqueue.lint.reporters import FORMATS

if TYPE_CHECKING:
    from pullqueue.lint.options import Arguments


class UnusableFileError(click.ClickException):
    """a file cannot be read or written: status 2, as of other linters"""

    exit_code = 2


@contextmanager
def usable_files() -> Iterator[None]:
    """Raise `UnusableFileError` where a file cannot be read or written."""
    try:
        yield
    except ConfigFileError as error:
        raise UnusableFileError(str(error)) from None


@click.command
@click.argument("paths", nargs=-1, metavar="[FILE|FOLDER|-]...")
@click.option(
    "--profile", type=click.Choice(PROFILES), help="Rules of which program to apply [gcloud]."
)
@click.option("--select", multiple=True, metavar="RULE", help="Check these rules only.")
@click.option("--ignore", multiple=True, metavar="RULE", help="Do not check these rules.")
@click.option(
    "--severity",
    multiple=True,
    metavar="RULE=LEVEL",
    help="Set a rule to error, warning, info or off; turns on a rule that is off.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "never"]),
    help="Lowest severity that makes the exit status 1 [error].",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(list(FORMATS)),
    help="Output format [full; github under GitHub Actions].",
)
@click.option(
    "--color",
    "colour",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colour of the full format [auto]; NO_COLOR and FORCE_COLOR are respected.",
)
@click.option(
    "--fix",
    is_flag=True,
    help="Fix what can be fixed without changing the meaning of the file.",
)
@click.option(
    "--unsafe-fixes", is_flag=True, help="With --fix: also make fixes that need a review."
)
@click.option("--diff", is_flag=True, help="Print what --fix would change, and write nothing.")
@click.option(
    "--against",
    metavar="REV|FILE",
    help="Report queues that a git revision or another file has, and the checked file lacks.",
)
@click.option("--strict", is_flag=True, default=None, help="Also report an empty `queue:`.")
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Leave out files of a folder, with a pattern as in .gitignore.",
)
@click.option(
    "--force-exclude", is_flag=True, help="Leave out named files, too, if they are excluded."
)
@click.option(
    "--config", metavar="FILE", help="Read settings from this TOML file only [pyproject.toml]."
)
@click.option("--baseline", metavar="FILE", help="Do not report the findings in this file.")
@click.option(
    "--write-baseline", metavar="FILE", help="Write all findings to a baseline, and exit with 0."
)
@click.option("--watch", is_flag=True, help="Check again whenever a file changes, until Ctrl-C.")
@click.option(
    "--stdin-filename", default="<stdin>", metavar="NAME", help="File name of the input of `-`."
)
@click.pass_context
@usable_files()
def lint(ctx: click.Context, /, **options: Any) -> None:  # noqa: ANN401 - as click passes them
    """Check queue.yaml files.

    Without arguments, those in this folder and below. A RULE is a name (push-key-on-pull), a code
    (QY301), the beginning of codes (QY3) or `all`; `pullqueue explain --list` lists them.

    A comment `# queue-lint: ignore[RULE]` on a line or above it suppresses findings there,
    `# queue-lint: ignore-file[RULE]` in the whole file. Settings are read from the table
    [tool.pullqueue.lint] of the pyproject.toml nearest to each file; what concerns the whole run
    (fail-on, exclude, baseline), from the one nearest to the working directory.

    Exit status: 0 nothing found, 1 findings, 2 usage error, no file found or unreadable files,
    3 internal error.
    """
    from pullqueue.lint.command import run  # noqa: PLC0415 - only a run needs it
    from pullqueue.lint.options import Arguments  # noqa: PLC0415 - the same

    arguments: Arguments = Arguments(**options)
    ctx.exit(run(arguments))
