"""The `pullqueue` command.

A command is imported when it is used, and imports what it needs when it runs: `pullqueue --help`
and the linter must not wait for Flask.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import takewhile
from typing import Final

import click

from pullqueue.cli._words import Choice, Group, unknown_option
from pullqueue.config.findings import InvalidQueueConfigError
from pullqueue.error_codes import EXIT_FAILURE, find_codes
from pullqueue.errors import InvalidCronError, PullQueueError
from pullqueue.text import describe_os_error, escaped

_SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Run an emulator": {"serve": ".serve", "exec": ".exec"},
    "Queues, tasks and records of a running server": {
        "queues": ".client.queues",
        "tasks": ".client.tasks",
        "seed": ".client.seed",
        "snapshot": ".client.snapshot",
        "requests": ".client.requests",
        "mails": ".client.mails",
        "workers": ".client.activity",
        "activity": ".client.activity",
        "cron": ".client.cron",
        "faults": ".client.faults",
        "clock": ".client.clock",
    },
    "The running server itself": {
        "server": ".client.server",
        "wait": ".client.server",
        "push-to": ".client.server",
        "reload": ".client.server",
        "reset": ".client.server",
        "credentials": ".client.server",
    },
    "Check queue.yaml": {
        "lint": ".lint",
        "explain": ".lint",
        "plan": ".plan",
        "convert": ".convert",
        "schema": ".lint",
    },
    "Shell": {"help": __name__, "completion": __name__},
}
"""The commands of each section of the help, and the modules they are in."""
_MODULES = {name: module for section in _SECTIONS.values() for name, module in section.items()}
_MEANT: Final[Mapping[str, str]] = {
    "rules": "use `pullqueue explain --list`",
    "tasks add --delay": "use --countdown",
    "tasks add --payload": "use `pullqueue tasks add QUEUE PAYLOAD`, or --file",
    "tasks delete --all": "use `pullqueue queues purge`",
    "tasks lease --count": "use --max",
}
"""What to use instead of commands and options that other commands, or other programs, have."""
_INTERRUPTED = 130
"""What shells return for a command that Ctrl-C has ended."""


class _Commands(Group):
    """The commands, in sections."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands, sorted."""
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if advice := _MEANT.get(cmd_name):
            raise click.UsageError(f"there is no command `{cmd_name}`: {advice}", ctx)
        if cmd_name not in _MODULES:
            return super().get_command(ctx, cmd_name)
        module = import_module(_MODULES[cmd_name], __name__)
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of each section: what they do, or the commands of a group."""
        room = formatter.width - 6 - max(map(len, _MODULES))
        for section, names in _SECTIONS.items():
            rows = []
            for name in names:
                command = self.get_command(ctx, name)
                if isinstance(command, click.Group):
                    rows.append((name, ", ".join(command.list_commands(ctx))))
                elif command:
                    rows.append((name, command.get_short_help_str(room)))
            with formatter.section(section):
                formatter.write_dl(rows)


@click.group(
    cls=_Commands,
    name="pullqueue",
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(
    None, "-V", "--version", package_name="pullqueue", message="%(prog)s %(version)s"
)
def pullqueue() -> None:
    """App Engine's task queues, pull and push, on your own machine."""


@click.command
@click.argument("command", nargs=-1)
def help(*, command: tuple[str, ...]) -> None:  # noqa: A001 - the command's name
    """Show the help of a COMMAND, such as `tasks list`."""
    pullqueue.main(args=[*command, "--help"], prog_name="pullqueue", standalone_mode=False)


@click.command
@click.argument("shell", type=Choice(["bash", "zsh", "fish"]))
def completion(*, shell: str) -> None:
    """Print the script that completes commands in SHELL.

    It completes options, and the names of queues and tasks of a running server.

    \b
        eval "$(pullqueue completion bash)"              # in ~/.bashrc
        eval "$(pullqueue completion zsh)"               # in ~/.zshrc
        pullqueue completion fish | source               # in ~/.config/fish/config.fish
    """  # noqa: D301 - the mark is click's
    from click.shell_completion import shell_complete

    shell_complete(pullqueue, {}, "pullqueue", "_PULLQUEUE_COMPLETE", f"{shell}_source")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    0: done. 1: there are findings, or the operation was refused. 2: wrong usage. 3: there is no
    server, a file or stream cannot be used, or the command has a bug. 130: Ctrl-C ended it.
    `arguments` are those of the process by default.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    try:
        status = pullqueue.main(
            args=given,
            prog_name="pullqueue",
            standalone_mode=False,
            color=False if is_plain else None,
        )
    except Exception as error:  # noqa: BLE001 - reported, or logged with its traceback
        # What follows `--` are the arguments of another program.
        return _report(error, as_json="--json" in takewhile("--".__ne__, given))
    return status if isinstance(status, int) else 0


def _no_such_option(error: click.NoSuchOption, ctx: click.Context) -> str:
    command = ctx.command_path.removeprefix("pullqueue ")
    advice = _MEANT.get(f"{command} {error.option_name}")
    if advice:
        return f"there is no option `{error.option_name}`: {advice}"
    return unknown_option(error.option_name, ctx)


def _report(error: Exception, *, as_json: bool) -> int:
    usage, prefix = "", "pullqueue: "
    match error:
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return error.exit_code
        # The second: Ctrl-C while a class is made in an import, before Python 3.12.
        case click.Abort() | RuntimeError(__cause__=KeyboardInterrupt()):
            return _INTERRUPTED
        case click.ClickException():
            message, status = error.format_message(), error.exit_code
            ctx = error.ctx if isinstance(error, click.UsageError) else None
            if ctx is not None:
                if isinstance(error, click.NoSuchOption):
                    message = _no_such_option(error, ctx)
                status = getattr(ctx.command, "usage_status", status)
                usage = f"{ctx.get_usage()}\nTry '{ctx.command_path} --help' for help.\n\n"
        case PullQueueError():
            message, status = str(error), find_codes(error).exit_status
            if isinstance(error, InvalidQueueConfigError | InvalidCronError):
                prefix = ""  # each line begins with the place of a finding
        case OSError(errno=errno.ENOSPC):
            message, status = (
                f"the output cannot be written: {describe_os_error(error)}",
                EXIT_FAILURE,
            )
        case _:
            import logging

            logging.getLogger("pullqueue.cli").error(
                "the command failed because of a bug", exc_info=error
            )
            return EXIT_FAILURE
    if as_json:
        details = {"message": message, "exit_status": status}
        click.echo(json.dumps({"error": details}), err=True)
    else:
        # A message may contain control characters, which a file's name or content brings.
        # click indents the values of an option with tabs.
        lines = "\n".join(map(escaped, message.replace("\n\t", "\n    ").split("\n")))
        click.echo(f"{usage}{prefix}{lines}", err=True)
    return status
