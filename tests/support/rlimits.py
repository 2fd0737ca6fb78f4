"""Limits of the system that this process has for a while, as on a disk that is full."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from resource import getrlimit, setrlimit


@contextmanager
def limited(kind: int, soft: int) -> Iterator[None]:
    """Set one of the limits of `resource` until the block ends."""
    before = getrlimit(kind)
    setrlimit(kind, (soft, before[1]))
    try:
        yield
    finally:
        setrlimit(kind, before)
