"""The `pullqueue` command.

A command is imported when it is used, and imports what it needs when it runs: `pullqueue --help`
and the linter must not wait for Flask.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from itertools import chain
from typing import Final

import click

from pullqueue.config.text import escaped, reason_of
from pullqueue.error_codes import EXIT_FAILURE, codes_of
from pullqueue.errors import InvalidQueueConfigError, PullQueueError

_SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Run an emulator": {"serve": "serve", "exec": "exec"},
    "Inspect a running server": {
        "queues": "queues",
        "stats": "queues",
        "tasks": "tasks",
        "wait": "operate",
    },
    "Change a running server": {
        "seed": "seed",
        "snapshot": "operate",
        "reset": "operate",
        "reload": "operate",
        "clock": "clock",
        "faults": "faults",
        "credentials": "credentials",
    },
    "Check queue.yaml": {
        "lint": "lint",
        "explain": "explain",
        "convert": "convert",
        "schema": "schema",
    },
    "Shell": {"help": "shell", "completion": "shell"},
}
"""The commands of each section of the help, and the modules they are in."""
_MODULES = dict(chain.from_iterable(section.items() for section in _SECTIONS.values()))
_INTERRUPTED = 130
"""What shells return for a command that Ctrl-C has ended."""

_log = logging.getLogger("pullqueue.cli")


class _Commands(click.Group):
    """The commands, in sections."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands, sorted."""
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - the same
        """Import one command; None if it does not exist."""
        if cmd_name not in _MODULES:
            return None
        command = getattr(import_module(f"{__name__}.{_MODULES[cmd_name]}"), cmd_name)
        assert isinstance(command, click.Command)  # noqa: S101 - what `_SECTIONS` promises
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name.

        Raises:
            UsageError: it does not exist.
        """
        if args[0] not in _MODULES and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(unknown_command(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of each section and what they do."""
        room = formatter.width - 6 - max(map(len, _MODULES))
        for section, names in _SECTIONS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            rows = [(name, each.get_short_help_str(room)) for name, each in commands if each]
            with formatter.section(section):
                formatter.write_dl(rows)


@click.group(
    cls=_Commands,
    name="pullqueue",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(
    None, "-V", "--version", package_name="pullqueue", message="%(prog)s %(version)s"
)
def pullqueue() -> None:
    """App Engine's pull queues on your own machine."""


def unknown_command(name: str) -> str:
    """Return the message for a command that does not exist."""
    near = get_close_matches(name, _MODULES, n=1)
    advice = f"did you mean `{near[0]}`?" if near else "`pullqueue --help` lists the commands"
    return f"there is no command `{name}`: {advice}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    0: done. 1: there are findings, or the operation was refused. 2: wrong usage. 3: there is no
    server, a file or stream cannot be used, or the command has a bug. 130: Ctrl-C ended it.
    `arguments` are those of the process by default.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = pullqueue.main(
            args=given,
            prog_name="pullqueue",
            standalone_mode=False,
            color=False if os.environ.get("NO_COLOR") else None,
        )
    except Exception as error:  # noqa: BLE001 - reported, or logged with its traceback
        return _report(error, as_json="--json" in given)
    return status if isinstance(status, int) else 0


def _report(error: Exception, *, as_json: bool) -> int:
    """Write what went wrong to standard error, and return the exit status."""
    usage, prefix = "", "pullqueue: "
    match error:
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return error.exit_code
        case click.ClickException():
            message, status = error.format_message(), error.exit_code
            usage = _usage(error)
        case click.Abort():
            return _INTERRUPTED
        case PullQueueError():
            message, status = str(error), codes_of(error).exit_status
            if isinstance(error, InvalidQueueConfigError):
                prefix = ""  # each line begins with the place of a finding
        case OSError(errno=errno.ENOSPC):
            message, status = f"the output cannot be written: {reason_of(error)}", EXIT_FAILURE
        case _:
            _log.error("the command failed because of a bug", exc_info=error)
            return EXIT_FAILURE
    if as_json:
        details = {"message": message, "exit_status": status}
        click.echo(json.dumps({"error": details}), err=True)
    else:
        # A message may contain control characters, which a file's name or content brings.
        lines = "\n".join(escaped(line) for line in message.split("\n"))
        click.echo(f"{usage}{prefix}{lines}", err=True)
    return status


def _usage(error: click.ClickException) -> str:
    """Return how the command is used, if that was not respected."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    if ctx is None:
        return ""
    return f"{ctx.get_usage()}\nTry '{ctx.command_path} --help' for help.\n\n"
