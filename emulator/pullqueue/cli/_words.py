"""Words of the command line that are not known: refused with the word that is meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from pullqueue.text import closest, did_you_mean, quoted


class Choice(click.Choice[str]):
    """One of these words; an unknown one is refused with the word that is meant."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click's signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str:
        """Return the word."""
        if value not in self.choices:
            advice = did_you_mean(value, self.choices)
            self.fail(f"{quoted(value)} does not exist: {advice}", param, ctx)
        return super().convert(value, param, ctx)


class Group(click.Group):
    """Commands; an unknown one is refused with the command that is meant."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command.

        Raises:
            UsageError: it does not exist.
        """
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
