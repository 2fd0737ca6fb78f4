"""Random messages of services, valid and not, for a server that must survive all of them."""

from __future__ import annotations

from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

INTEGERS = (0, 1, 2, 5, 1000, 2**31 - 1, 2**32 - 1, 2**52, 2**63 - 1, 2**64 - 1)
TEXTS = (
    *("", "a", "dev~my-app", "other", "Vote", "pull", "default", "__key__", "é\u2028", "\x00"),
    *("x" * 501, "x" * 1501, "http://127.0.0.1:9/x", "http://[", "a@example.com", "%s%d", "{}"),
)
FLOATS = (0.0, 1.5, -1.0, 1e30, float("inf"), float("nan"))
DEEPEST = 12
"""How far fields that are required are filled in; some messages contain themselves."""
_OPTIONAL_DEEPEST = 5


class RandomMessages:
    """Makes messages that follow from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - not a secret

    def fill(self, message: Any, depth: int = 0) -> Any:
        """Set fields of a message at random, required ones mostly; return the message."""
        needed = message.FindInitializationErrors()
        for field in message.DESCRIPTOR.fields:
            required = field.name in needed
            chance = 0.97 if required else 0.5 if depth < 2 else 0.25
            if depth > (DEEPEST if required else _OPTIONAL_DEEPEST):
                continue
            if self.random.random() > chance:
                continue
            if hasattr(getattr(message, field.name), "extend"):  # it is repeated
                values = [self._value(field, depth) for _ in range(self.random.randrange(4))]
                getattr(message, field.name).extend(values)
            elif field.message_type is not None:
                getattr(message, field.name).CopyFrom(self._value(field, depth))
            else:
                setattr(message, field.name, self._value(field, depth))
        return message

    def mutate(self, data: bytes) -> bytes:
        """Return data with some bytes changed, cut off, inserted or reversed."""
        changed = bytearray(data or b"\0")
        for _ in range(self.random.randrange(1, 4)):
            start, end = sorted(self.random.randrange(len(changed) + 1) for _ in range(2))
            match self.random.randrange(3):
                case 0:
                    changed[start:end] = bytes(reversed(changed[start:end]))
                case 1:
                    changed[start:end] = b""
                case 2:
                    changed[start:start] = self.random.randbytes(self.random.randrange(5))
        return bytes(changed)

    def _value(self, field: Any, depth: int) -> Any:
        if field.message_type is not None:
            return self.fill(GetMessageClass(field.message_type)(), depth + 1)
        if field.enum_type is not None:
            return self.random.choice(field.enum_type.values).number
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_BOOL:
                return self.random.random() < 0.5
            case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
                return self.random.choice(FLOATS)
            case FieldDescriptor.CPPTYPE_STRING:
                plain = field.name in {"app", "app_id"} and self.random.random() < 0.8
                text = "dev~my-app" if plain else self.random.choice(TEXTS)
                return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
        wide = field.cpp_type in {FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64}
        signed = field.cpp_type in {FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64}
        limit = 1 << ((64 if wide else 32) - signed)
        numbers = [number for number in INTEGERS if number < limit]
        return self.random.choice([*numbers, *(-number for number in numbers if signed)])
