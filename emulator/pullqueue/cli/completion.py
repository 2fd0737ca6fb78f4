"""`pullqueue completion`: what a shell needs to complete the command."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_VARIABLE = "_PULLQUEUE_COMPLETE"


@click.command
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, *, shell: str) -> None:
    """Print the script that completes commands in SHELL.

    Options and the names of a running server's queues are completed, too.

    \b
        eval "$(pullqueue completion bash)"              # in ~/.bashrc
        eval "$(pullqueue completion zsh)"               # in ~/.zshrc
        pullqueue completion fish | source               # in ~/.config/fish/config.fish
    """  # noqa: D301 - the mark is click's
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"click has no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, "pullqueue", _VARIABLE).source())
