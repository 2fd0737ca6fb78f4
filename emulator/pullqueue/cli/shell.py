"""`pullqueue help` and `pullqueue completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from pullqueue.cli import unknown_command

_VARIABLE = "_PULLQUEUE_COMPLETE"


@click.command
@click.argument("command", nargs=-1)
@click.pass_context
def help(ctx: click.Context, *, command: tuple[str, ...]) -> None:  # noqa: A001 - the command's name
    """Show the help of a COMMAND, such as `tasks list`."""
    shown = ctx.find_root()
    for name in command:
        group = shown.command
        found = group.get_command(shown, name) if isinstance(group, click.Group) else None
        if found is None:
            where = shown.command_path
            advice = f"`{where} --help` lists the commands"
            raise click.UsageError(
                unknown_command(name)
                if shown.parent is None
                else f"`{where}` has no `{name}`: {advice}"
            )
        shown = click.Context(found, info_name=name, parent=shown)
    click.echo(shown.get_help())


@click.command
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, *, shell: str) -> None:
    """Print the script that completes commands in SHELL.

    It completes options, and the names of queues and tasks of a running server.

    \b
        eval "$(pullqueue completion bash)"              # in ~/.bashrc
        eval "$(pullqueue completion zsh)"               # in ~/.zshrc
        pullqueue completion fish | source               # in ~/.config/fish/config.fish
    """  # noqa: D301 - the mark is click's
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"click has no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, "pullqueue", _VARIABLE).source())
