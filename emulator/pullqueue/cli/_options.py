"""Options of several commands, and the checks of their values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from pullqueue.address import LARGEST_PORT
from pullqueue.text import SECONDS_PER_UNIT, format_span, quoted

Command = Callable[..., Any]

DURATION_ADVICE = "use seconds, or a time span such as 10min, 2h or 7d"

_SPAN = re.compile(r"(\d{1,15}(?:\.\d+)?)\s*(s|min|m|h|d)", re.ASCII)
PORT = click.IntRange(0, LARGEST_PORT)


class Number(click.FloatRange):
    """A finite number in a range; click's accepts `nan` and `inf`."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not finite.", param, ctx)
        return number


class Duration(Number):
    """A number of seconds in a range, or a time span such as `10min`, `2h` or `7d`."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number of seconds."""
        if isinstance(value, str):
            seconds = parse_seconds(value)
            if seconds is None:
                self.fail(f"{quoted(value)} is not a valid duration: {DURATION_ADVICE}", param, ctx)
            if self.max is not None and seconds > self.max:
                allowed = f"the maximum is {format_span(self.max)}"
                self.fail(f"{quoted(value)} is not a valid duration: {allowed}", param, ctx)
            value = seconds
        return super().convert(value, param, ctx)


def parse_seconds(text: str) -> float | None:
    """Return the seconds of a duration as it is written on the command line; None if it is not."""
    if match := _SPAN.fullmatch(text.strip()):
        return float(match[1]) * SECONDS_PER_UNIT[match[2][0]]
    try:
        return float(text)
    except ValueError:
        return None


def checked(is_valid: Callable[[str], object], what: str) -> Callable[..., Any]:
    """Return the callback of an option whose value, or each value, must be valid."""

    def check(_ctx: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        for each in value if isinstance(value, tuple) else (value,):
            if each is not None and not is_valid(each):
                raise click.BadParameter(f'"{each}" is not a valid {what}')
        return value

    return check


def parsed(parse: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return the callback of an option whose value is parsed; a ValueError says what is wrong."""

    def callback(_ctx: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def is_passed(parameter: str) -> bool:
    """Return whether an option of the running command is on its command line."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is ParameterSource.COMMANDLINE
