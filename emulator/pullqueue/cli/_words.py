"""Words of the command line that are not known: refused with the word that is meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from pullqueue.text import closest, did_you_mean, quoted


class Choice(click.Choice[str]):
    """One of these words; an unknown one is refused with the word that is meant."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word."""
        if value not in self.choices:
            advice = did_you_mean(value, self.choices)
            self.fail(f"{quoted(value)} does not exist: {advice}", param, ctx)
        return super().convert(value, param, ctx)


class Group(click.Group):
    """Commands; an unknown one is refused with the command that is meant.

    Without a command, but perhaps with options, the default is run if there is one.
    """

    def __init__(self, *args: Any, default: str = "list", **attributes: Any) -> None:
        """Take the name of the command that is run if none is named, and what click takes."""
        super().__init__(*args, **attributes)
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Add the default where no command is named."""
        named = any(arg in self.commands or arg in ctx.help_option_names for arg in args)
        options_only = not args or args[0].startswith("-")
        has_default = self._default in self.commands and not ctx.resilient_parsing
        if has_default and options_only and not named:
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the commands, in the order of their definition."""
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; raise a UsageError if it does not exist."""
        command = super().get_command(ctx, cmd_name)
        if command is None and not ctx.resilient_parsing and not cmd_name.startswith("-"):
            message = unknown_word("command", cmd_name, self.list_commands(ctx), ctx)
            raise click.UsageError(message, ctx)
        return command


def unknown_option(name: str, ctx: click.Context) -> str:
    """Return the message on an option that a command does not have."""
    known = [each for param in ctx.command.get_params(ctx) for each in param.opts if each[0] == "-"]
    return unknown_word("option", name, known, ctx)


def unknown_word(kind: str, word: str, known: Iterable[str], ctx: click.Context) -> str:
    """Return the message on a command or an option that does not exist."""
    near = closest(word, known, cutoff=0.6)
    advice = f"did you mean `{near}`?" if near else f"`{ctx.command_path} --help` lists the {kind}s"
    return f"there is no {kind} `{word}`: {advice}"
