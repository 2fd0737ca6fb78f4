"""Replacing functions for the whole process while a test needs it, in whichever thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch


class Patches:
    """What is replaced while at least one block needs it; blocks may end in any order."""

    def __init__(self, apply: Callable[[Patches], None]) -> None:
        """`apply` replaces what there is to replace, in the first block."""
        self._apply = apply
        self._blocks = 0
        self._lock = threading.Lock()
        self._stack = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            self._blocks += 1
            if self._blocks == 1:
                self._apply(self)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                self._stack.close()

    def decorate(self, owner: object, name: str, decorate: Callable[[Any], object]) -> None:
        """Decorate a function of a class or module until the last block ends."""
        self._stack.enter_context(patch.object(owner, name, decorate(getattr(owner, name))))

    def at_end(self, callback: Callable[..., object], *args: object) -> None:
        """Call a function when the last block ends."""
        self._stack.callback(callback, *args)
