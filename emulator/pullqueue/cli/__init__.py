"""The `pullqueue` command.

Each command is a module of this package with a click command of the same name. It is imported
when it is asked for, and imports what it needs when it runs: `pullqueue --help` and the linter must
not wait for Flask.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules

import click

from pullqueue.error_codes import EXIT_INTERNAL, EXIT_USAGE, codes_of
from pullqueue.errors import InvalidQueueConfigError, PullQueueError

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
    fault of the command's own. `arguments` are those of the process where none are given.
    """
    try:
        status = pullqueue.main(
            args=None if arguments is None else list(arguments),
            prog_name="pullqueue",
            standalone_mode=False,
        )
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except click.Abort:
        return EXIT_USAGE
    except InvalidQueueConfigError as error:
        click.echo(error, err=True)
        return codes_of(error).exit_status
    except PullQueueError as error:
        click.echo(f"pullqueue: {error}", err=True)
        return codes_of(error).exit_status
    except Exception:  # noqa: BLE001 - logged, with its traceback
        _log.exception("the command failed through a fault of its own")
        return EXIT_INTERNAL
    return status if isinstance(status, int) else 0
