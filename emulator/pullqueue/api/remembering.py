"""Remembers what was worked out of short texts that clients send time and again."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar, TypeVarTuple

_Text = TypeVar("_Text", str, bytes)
_More = TypeVarTuple("_More")
_R = TypeVar("_R")

_MOST = 128
_LONGEST = 2_048
"""What is longer is not kept: with `_MOST`, it bounds the memory that clients can fill."""


def remembering(
    function: Callable[[_Text, *_More], _R],
) -> Callable[[_Text, *_More], _R]:
    """Let a function remember its latest results; nobody may change them."""
    known = lru_cache(_MOST)(function)

    @wraps(function)
    def call(text: _Text, *more: *_More) -> _R:
        return (known if len(text) <= _LONGEST else function)(text, *more)

    return call
