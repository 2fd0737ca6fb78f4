"""Showing a pickled call, the payload of `deferred.defer`, without running anything of it."""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Mapping
from typing import Self

_BEGINNING = b"\x80"
"""Of a pickle of protocol 2 or later."""
_MEMO_PUTS = ("PUT", "BINPUT", "LONG_BINPUT")


def describe_pickle(payload: bytes) -> str | None:
    """Return a pickled call as text, such as `mails.send(str, count=int)`; None: it is not one."""
    if not payload.startswith(_BEGINNING):
        return None
    try:
        if not _is_bounded(payload):
            return None
        function, args, kwargs = _Unpickler(io.BytesIO(payload)).load()
    except Exception:  # noqa: BLE001 - whatever other bytes lead to
        return None
    if not (isinstance(args, tuple) and isinstance(kwargs, Mapping)):
        return None
    name = _type_name(function)
    if name.endswith(".invoke_member") and len(args) > 1 and isinstance(args[1], str):
        # What the SDK makes of a method: its object comes first, then its name.
        name, args = f"{_type_name(args[0])}.{args[1]}", args[2:]
    shown = [_type_name(value) for value in args]
    shown += [f"{key}={_type_name(value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(shown)})"


def _is_bounded(payload: bytes) -> bool:
    """Return whether loading it takes no more memory than its size is worth.

    The memo has as many places as the largest number says, which may be in the billions.
    """
    return all(
        opcode.name not in _MEMO_PUTS or (argument or 0) < len(payload)
        for opcode, argument, _ in pickletools.genops(payload)
    )


class _Placeholder:
    """Replaces what a pickle names: made of any arguments, with any state."""

    def __new__(cls, *_: object, **__: object) -> Self:
        return object.__new__(cls)

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __setstate__(self, _: object) -> None:
        pass

    def __setitem__(self, _: object, __: object) -> None:
        pass

    def append(self, _: object) -> None:
        """Take an item of a list."""

    def extend(self, _: object) -> None:
        """Take the items of a list."""


class _Unpickler(pickle.Unpickler):
    """Loads no function and no class: each is replaced by a placeholder of its name."""

    def find_class(self, module: str, name: str) -> type[_Placeholder]:
        """Return the placeholder."""
        return type(f"{module}.{name}", (_Placeholder,), {})

    def persistent_load(self, _: object) -> _Placeholder:
        """Return a placeholder for what is not in the pickle."""
        return _Placeholder()


def _type_name(value: object) -> str:
    kind = value if isinstance(value, type) else type(value)
    return kind.__name__.removeprefix("builtins.").removeprefix("__builtin__.")
