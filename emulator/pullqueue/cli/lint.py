"""`pullqueue lint`: what production would refuse or quietly change in a queue.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pullqueue.config.profiles import PROFILES

if TYPE_CHECKING:
    from pullqueue.lint.command import Arguments

_FORMATS = (
    "full", "concise", "json", "jsonl", "github", "gitlab", "sarif", "junit", "rdjson",
)  # fmt: skip


@click.command
@click.argument("paths", nargs=-1, metavar="[FILE|FOLDER|-]...")
@click.option("--profile", type=click.Choice(PROFILES), help="Whose rules count [gcloud].")
@click.option("--select", multiple=True, metavar="RULE", help="Look for these rules only.")
@click.option("--ignore", multiple=True, metavar="RULE", help="Do not look for these rules.")
@click.option(
    "--severity",
    multiple=True,
    metavar="RULE=LEVEL",
    help="Make a rule error, warning, info or off; turns on a rule that is off.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "never"]),
    help="The least severity that makes the exit status 1 [error].",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(_FORMATS),
    help="Output format [full; github under GitHub Actions].",
)
@click.option(
    "--color",
    "colour",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colour of the full format [auto]; NO_COLOR and FORCE_COLOR are heeded.",
)
@click.option("--fix", is_flag=True, help="Mend what can be mended without a change of meaning.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix: mend also what needs a look after.")
@click.option("--diff", is_flag=True, help="Show what --fix would do, and write nothing.")
@click.option("--against", metavar="FILE|REV", help="Report queues that were there before.")
@click.option("--strict", is_flag=True, default=None, help="Report an empty `queue:` too.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Leave out in folders.")
@click.option("--watch", is_flag=True, help="Check again whenever a file changes, until Ctrl-C.")
@click.option(
    "--stdin-filename", default="<stdin>", metavar="NAME", help="What to call the input of `-`."
)
@click.pass_context
def lint(ctx: click.Context, /, **options: Any) -> None:  # noqa: ANN401 - as click passes them
    """Check queue.yaml files.

    Those here and below, unless files or folders are named. A RULE is a name (rate-on-pull), a code
    (QY301), the beginning of codes (QY3) or `all`; `pullqueue explain --list` lists them.

    A comment `# queue-lint: ignore[RULE]` on a line or above it hides a finding there,
    `# queue-lint: ignore-file[RULE]` in the whole file. Settings can stand in pyproject.toml under
    [tool.pullqueue.lint].

    Exit status: 0 nothing found, 1 findings, 2 wrong usage, no file or unreadable ones, 3 internal
    error.
    """
    from pullqueue.lint.command import Arguments, run  # noqa: PLC0415 - only a run needs it

    arguments: Arguments = Arguments(**options)
    ctx.exit(run(arguments))
