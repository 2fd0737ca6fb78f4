"""The `pullqueue` command.

Each command is a module of this package with a click command of the same name. It is imported
when it is asked for, and imports what it needs when it runs: `pullqueue --help` and the linter must
not wait for Flask.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules

import click

from pullqueue.cli._reasons import reason_of
from pullqueue.config.text import escaped
from pullqueue.error_codes import EXIT_INTERNAL, EXIT_USAGE, codes_of
from pullqueue.errors import InvalidQueueConfigError, PullQueueError

_INTERRUPTED = 130
"""What shells give for a command that Ctrl-C has ended."""

_log = logging.getLogger("pullqueue.cli")


class _Commands(click.Group):
    """The modules of this package as commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Give the names of all commands, sorted."""
        return sorted(module.name for module in iter_modules(__path__) if module.name[0] != "_")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None where there is no such."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = getattr(import_module(f"{__name__}.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101 - what this package promises
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Give the command that the arguments name.

        Raises:
            UsageError: there is no such.
        """
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            near = get_close_matches(args[0], known, n=1)
            advice = f"did you mean {near[0]!r}?" if near else "`pullqueue --help` lists them"
            raise click.UsageError(f"there is no command {args[0]!r}: {advice}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    name="pullqueue",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="pullqueue", message="%(prog)s %(version)s")
def pullqueue() -> None:
    """App Engine's pull queues on your own machine."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit status.

    0 is success, 1 is for findings of the linter, 2 for wrong usage or unusable input, 3 for a
    fault of the command's own, 130 for a command that Ctrl-C has ended. `arguments` are those
    of the process where none are given.
    """
    try:
        status = pullqueue.main(
            args=None if arguments is None else list(arguments),
            prog_name="pullqueue",
            standalone_mode=False,
        )
    except Exception as error:  # noqa: BLE001 - told, or logged with its traceback
        return _told(error)
    return status if isinstance(status, int) else 0


def _told(error: Exception) -> int:
    """Say what went wrong and give the exit status."""
    status = EXIT_USAGE
    match error:
        case click.exceptions.NoArgsIsHelpError():
            error.show()
        case click.ClickException():
            _tell(error)
        case click.Abort():
            status = _INTERRUPTED
        case InvalidQueueConfigError():
            click.echo(_escaped(error), err=True)
            status = codes_of(error).exit_status
        case PullQueueError():
            click.echo(f"pullqueue: {_escaped(error)}", err=True)
            status = codes_of(error).exit_status
        case OSError(errno=errno.ENOSPC):
            click.echo(f"pullqueue: the output cannot be written: {reason_of(error)}", err=True)
        case _:
            _log.error("the command failed through a fault of its own", exc_info=error)
            status = EXIT_INTERNAL
    return status


def _tell(error: click.ClickException) -> None:
    """Say what was wrong, below how the command is used where that was not heeded."""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        path = error.ctx.command_path
        click.echo(f"{error.ctx.get_usage()}\nTry '{path} --help' for help.\n", err=True)
    click.echo(f"pullqueue: {_escaped(error.format_message())}", err=True)


def _escaped(message: object) -> str:
    """Return a message without control characters, which a file's name or content may bring."""
    return "\n".join(escaped(line) for line in str(message).split("\n"))
