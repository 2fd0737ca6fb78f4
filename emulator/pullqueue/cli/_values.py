"""Values of options that click's own types refuse in other words, or not at all."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _FloatType = click.ParamType[float]
else:
    _FloatType = click.ParamType  # takes no parameter before click 8.4


class _Number(_FloatType):
    """A finite number; click takes `nan` and `inf` for one."""

    name = "number"

    def __init__(
        self, *, what: str, example: str, least: float, most: float = sys.float_info.max
    ) -> None:
        """Take numbers from `least` to `most`; `what` and `example` are for the refusal."""
        self._least = least
        self._most = most
        self._advice = f"give {what}, such as {example}"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click's signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Give the number."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not self._least <= number <= self._most:
            self.fail(f"{value!r} is none: {self._advice}", param, ctx)
        return number


SECONDS = _Number(least=0, what="a number of seconds, 0 or more", example="60")
SIGNED_SECONDS = _Number(least=-sys.float_info.max, what="a number of seconds", example="60")
PAUSE_SECONDS = _Number(least=0.1, what="a number of seconds, 0.1 or more", example="2")
SHARE = _Number(least=0, most=1, what="a number from 0 to 1", example="0.5")
