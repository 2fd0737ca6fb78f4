"""Showing a pickled call, the payload of `deferred.defer`, without making anything of it.

A payload may come from anyone. Loading a pickle runs what it names, and even its containers can
cost years: the hash of a tuple that is nested sixty times in pairs of itself takes 2**60 steps. So
only the opcodes are read, each once, and of the values that they describe only types are kept, and
the beginnings of texts: a text can be used a thousand times.
"""

from __future__ import annotations

import pickletools
import re
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from pullqueue.text import shorten

_BEGINNING = b"\x80"
"""Of a pickle of protocol 2 or later."""
_BASE64 = re.compile(rb"gA[A-Za-z0-9+/_-]*={0,2}").fullmatch
"""A pickle of protocol 2 or later in base64; some apps encode what they defer."""
_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
_MAX_OPCODES: Final = 2_000
"""How many opcodes are read: 2 ms. A call with a list of a thousand numbers has 1,010."""
_MAX_BYTES: Final = 1 << 21
"""Maximum size of what is read: a task of 1 MiB in base64 is smaller."""
_MAX_TEXT: Final = 120
"""How much of a text is kept, in characters: more than is shown of a name."""
_MAX_SHOWN: Final = 20
_CLASSES: Final = ("REDUCE", "NEWOBJ", "NEWOBJ_EX", "OBJ")
"""The opcodes that make an object of a class and arguments; its type is shown as the class."""
_IN_PLACE: Final = ("APPEND", "APPENDS", "ADDITEMS", "BUILD", "SETITEM", "SETITEMS")
"""The opcodes that change the value below their operands, and leave it on the stack."""


@dataclass(slots=True)
class _Value:
    """What a pickle describes, as far as it is shown: its type, and what a call needs of it."""

    type: str
    text: str | None = None
    items: Sequence[_Value] = ()
    named: dict[str, _Value] = field(default_factory=dict)
    """The items of a dict whose keys are text."""


def describe_pickle(payload: bytes) -> str | None:
    """Return a pickled call as text, such as `mails.send(str, count=int)`; None: it is not one.

    The pickle may be in base64. A call of more than 2,000 opcodes or 2 MiB is not described.
    """
    if len(payload) > _MAX_BYTES:
        return None
    encoded = not payload.startswith(_BEGINNING)
    if encoded and not _BASE64(payload):
        return None
    try:
        if encoded:
            payload = b64decode(payload.translate(_STANDARD) + b"==")
        call = _Machine().run(payload)
    except (ValueError, IndexError, KeyError, Warning):
        return None  # not a pickle, or one that cannot be loaded
    return None if call is None else _call_text(call.items)


def _call_text(parts: Sequence[_Value]) -> str | None:
    """Return a call as text, if this is its function, a tuple of arguments, and a dict."""
    if [part.type for part in parts[1:]] != ["tuple", "dict"]:
        return None
    name, args, named = parts[0].type, parts[1].items, parts[2].named
    if name.endswith(".invoke_member") and len(args) > 1 and args[1].text is not None:
        # What the SDK makes of a method: its object comes first, then its name.
        name, args = f"{args[0].type}.{args[1].text}", args[2:]
    pairs = islice(named.items(), _MAX_SHOWN + 1)
    shown = [shorten(value.type) for value in args[: _MAX_SHOWN + 1]]
    shown += [f"{shorten(key)}={shorten(value.type)}" for key, value in pairs]
    shown[_MAX_SHOWN:] = ["..."] if len(shown) > _MAX_SHOWN else []
    return f"{shorten(name, limit=100)}({', '.join(shown)})"


class _Machine:
    """Runs the opcodes of a pickle on types instead of values."""

    def __init__(self) -> None:
        self._stack: list[_Value] = []
        self._marks: list[int] = []
        self._memo: dict[int, _Value] = {}

    def run(self, payload: bytes) -> _Value | None:
        """Return what a pickle describes; None: it has too many opcodes.

        Raises:
            ValueError, IndexError, KeyError: it is not a pickle.
        """
        for number, (opcode, argument, _) in enumerate(pickletools.genops(payload)):
            if number == _MAX_OPCODES:
                return None
            self._step(opcode, argument)
        return self._stack[-1]

    def _step(self, opcode: pickletools.OpcodeInfo, argument: Any) -> None:
        name = opcode.name
        if name == "MARK":
            self._marks.append(len(self._stack))
        elif name == "DUP":
            self._stack.append(self._stack[-1])
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self._memo[argument] = self._stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = self._stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self._stack.append(self._memo[argument])
        elif name != "STOP":
            operands = self._popped([each.name for each in opcode.stack_before])
            if opcode.stack_after:
                self._stack.append(_result(opcode, argument, operands))

    def _popped(self, kinds: Sequence[str]) -> list[_Value]:
        if "mark" not in kinds:
            first = len(self._stack) - len(kinds)
        else:
            first = self._marks.pop() - kinds.index("mark")
        if first < 0:
            raise IndexError(first)
        operands = self._stack[first:]
        del self._stack[first:]
        return operands


def _result(opcode: pickletools.OpcodeInfo, argument: Any, operands: list[_Value]) -> _Value:
    """Return the value that an opcode leaves on the stack."""
    name, kind = opcode.name, opcode.stack_after[-1].name
    if name in ("SETITEM", "SETITEMS"):
        operands[0].named.update(_named(operands[1:]))
    if name in _IN_PLACE:
        return operands[0]
    if kind == "tuple":
        return _Value(kind, items=operands)
    if kind == "dict":
        return _Value(kind, named=_named(operands))
    text = argument[:_MAX_TEXT] if kind == "str" else None
    return _Value(_type_of(opcode, argument, operands)[:_MAX_TEXT], text)


def _type_of(opcode: pickletools.OpcodeInfo, argument: Any, operands: list[_Value]) -> str:
    if opcode.name in ("GLOBAL", "INST"):
        return _class_name(*argument.split(" ", 1))
    if opcode.name == "STACK_GLOBAL":
        return _class_name(*(each.text or "" for each in operands))
    if opcode.name in _CLASSES:
        rebuilt = operands[0].type == "copy_reg._reconstructor" and operands[1].items
        return rebuilt[0].type if rebuilt else operands[0].type
    kind = opcode.stack_after[-1].name
    return {"None": "NoneType"}.get(kind, kind if argument is None else type(argument).__name__)


def _named(items: Sequence[_Value]) -> dict[str, _Value]:
    pairs = zip(items[::2], items[1::2], strict=True)
    return {key.text: value for key, value in pairs if key.text is not None}


def _class_name(module: str, name: str = "") -> str:
    return f"{module}.{name}".removeprefix("builtins.").removeprefix("__builtin__.")
