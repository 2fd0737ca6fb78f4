"""pullqueue.pickled: pickled calls, and bytes that pretend to be some."""

from __future__ import annotations

import os
import pickle
import pickletools
import random
import sys
import tracemalloc
from base64 import b64encode, urlsafe_b64encode
from collections import OrderedDict
from datetime import date

import pytest
from tables import each_row

from pullqueue.pickled import describe_pickle

LONG = "PULLQUEUE_TEST_LONG" in os.environ


class Order:
    """Something that apps defer methods of."""

    def send(self) -> None:
        """Do nothing."""


def dumped(*args: object, protocol: int = 5, **kwargs: object) -> bytes:
    """Return a call as `deferred.serialize` makes it."""
    return pickle.dumps((print, args, kwargs), protocol)


LONG_TEXT = b"\x80\x04X" + (1_000_000).to_bytes(4, "little") + b"\x01" * 1_000_000 + b"q\x00"
"""The beginning of a pickle: a text that is not printable, which it can get again by `h\\0`."""


@each_row("protocol", [2, 3, 4, 5])
@each_row(
    ("value", "shown"),
    [
        (1, "int"),
        (2**70, "int"),
        ("text", "str"),
        (1.5, "float"),
        (None, "NoneType"),
        (True, "bool"),
        ([1, [2]], "list"),
        ((1, (2, 3), 4, 5), "tuple"),
        ({"a": {1: 2}}, "dict"),
        ({1}, "set"),
        (frozenset({1}), "frozenset"),
        (date(2026, 1, 1), "datetime.date"),
        (OrderedDict(a=1), "collections.OrderedDict"),
        (Order(), f"{__name__}.Order"),
        (print, "print"),
    ],
)
def test_arguments_are_shown_by_their_types(value: object, shown: str, protocol: int) -> None:
    payload = dumped(value, value, key=value, protocol=protocol)

    assert describe_pickle(payload) == f"print({shown}, {shown}, key={shown})"


def test_a_call_of_a_method_has_the_object_and_the_name() -> None:
    """The SDK replaces methods, which Python 2 could not pickle, by a function of its own."""
    payload = b"\x80\x02cgoogle.appengine.ext.deferred.deferred\ninvoke_member\n" + (
        pickle.dumps((Order(), "send", 1), 2)[2:-1] + b"}\x87."
    )

    assert describe_pickle(payload) == f"{__name__}.Order.send(int)"


def test_an_object_of_python_2_has_its_class() -> None:
    rebuilt = b"ccopy_reg\n_reconstructor\ncapp\nOrder\nc__builtin__\nobject\nN\x87R"
    payload = b"\x80\x02cm\nf\n" + rebuilt + b"\x85}\x87."

    assert describe_pickle(payload) == "m.f(app.Order)"


@each_row("encode", [b64encode, urlsafe_b64encode])
@each_row("length", range(4))
def test_a_call_in_base64_is_described(encode: object, length: int) -> None:
    """Some apps encode what they defer, with or without padding."""
    assert callable(encode)
    encoded = encode(dumped("?>" * length))

    assert describe_pickle(encoded) == describe_pickle(encoded.rstrip(b"=")) == "print(str)"


@each_row(
    "payload",
    [
        b"",
        b"\x80",
        b"\x80\x05.",
        b"\x80\x05N.",
        b"plain text",
        pickle.dumps(print, 0),
        b64encode(b"\x80\x05N."),
        b"gA",
        pickle.dumps((print, [], {})),
        pickle.dumps((print, (), [])),
        pickle.dumps((print, ())),
        pickle.dumps((print, (), {}, 1)),
        dumped()[:-1],
        b"\x80\x02h\x01.",  # a memo that nothing was put into
        b"\x80\x02\x86.",  # a tuple of two of an empty stack
        b"\x80\x02t.",  # a tuple up to a mark that is not there
        b"\x80\x02j\xff\xff\xff\xff.",  # a place in a memo of 16 GB
        b"\x80\x02(K\x01u.",  # a key without a value
    ],
)
def test_other_bytes_are_not_described(payload: bytes) -> None:
    assert describe_pickle(payload) is None


@pytest.mark.parametrize(("opcodes", "described"), [(1_999, True), (2_000, True), (2_001, False)])
def test_a_call_is_described_up_to_a_number_of_opcodes(
    opcodes: int,
    described: bool,  # noqa: FBT001 - a parameter of the cases
) -> None:
    """PROTO, GLOBAL, MARK, the numbers, TUPLE, EMPTY_DICT, TUPLE3 and STOP are opcodes."""
    payload = b"\x80\x02cm\nf\n(" + b"K\x01" * (opcodes - 7) + b"t}\x87."

    assert (describe_pickle(payload) is not None) is described


@each_row(("count", "more"), [(19, ""), (20, ""), (21, ", ...")])
def test_the_first_arguments_are_shown(count: int, more: str) -> None:
    shown = ", ".join(["int"] * min(count, 20))

    assert describe_pickle(dumped(*range(count))) == f"print({shown}{more})"


@each_row(
    "payload",
    [
        # The hash of the key takes 2**60 steps, as would its text.
        b"\x80\x02cm\nf\n)}" + b")" + b"2\x86" * 60 + b"K\x01s\x87.",
        b"\x80\x02cm\nf\n)" + b"2\x86" * 60 + b"\x85}\x87.",
        b"\x80\x02L" + b"9" * 1_000_000 + b"L\n.",
        b"\x80\x02" + b"(" * 1_000_000,
        b"\x80\x02" + b"]" * 1_000_000,
        b"\x80\x02\x8b\xff\xff\xff\x7f.",  # a number of 2 GB
        b"\x80\x04\x8d" + b"\xff" * 8 + b".",  # a text of 16 EB
        b"gA" + b"A" * 1_000_000,
        LONG_TEXT + b"h\x00h\x00\x93" * 600 + b".",
        b"\x80\x02cm\nf\n(" + LONG_TEXT[2:] + b"h\x00\x93q\x01" + b"h\x01" * 1_900 + b"t}\x87.",
        b"\x80\x02cm\nf\n)}(" + LONG_TEXT[2:] + b"h\x00" * 1_901 + b"u\x87.",
        b"\x80\x02c" + b"\x01" * 1_000_000 + b"\nf\nq\x01(" + b"h\x01" * 1_900 + b"t}\x87.",
        b"\x80\x02cm\nf\n)}\x87." * 200_000,
    ],
)
def test_a_hostile_pickle_costs_little(payload: bytes) -> None:
    """Opcodes are read once, nothing is made of them, and no text is copied again and again."""
    tracemalloc.start()
    describe_pickle(payload)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        described = describe_pickle(payload)
    finally:
        sys.setprofile(None)

    assert described is None or len(described) < 2_000
    assert calls < 70_000


def test_control_characters_and_long_names_are_cut() -> None:
    payload = b"\x80\x02c\x1b[2J" + b"m" * 10_000 + b"\nf\n)}\x87."

    described = describe_pickle(payload)

    assert described is not None
    assert described.startswith("\\x1b[2Jmm")
    assert len(described) < 120


def argument_of(opcode: pickletools.OpcodeInfo, chance: random.Random) -> bytes:
    """Return an argument that an opcode may have, mostly."""
    if opcode.arg is None:
        return b""
    text = chance.choice([b"", b"1", b"app", b"'a'", b"\x1b", b"\xff", b"9" * 50])
    size = opcode.arg.n
    if size >= 0:
        return chance.choice([bytes([chance.randrange(4)]) + bytes(size), b"\xff" * size])[:size]
    if size == pickletools.UP_TO_NEWLINE:
        return text + b"\n" + (text + b"\n") * (opcode.arg.name == "stringnl_noescape_pair")
    width = {pickletools.TAKEN_FROM_ARGUMENT1: 1, pickletools.TAKEN_FROM_ARGUMENT8U: 8}
    return len(text).to_bytes(width.get(size, 4), "little") + text


def generated(chance: random.Random) -> bytes:
    """Return a pickle of opcodes by chance, most of which have the operands that they need."""
    made, depth, marks = b"\x80\x02", 0, 0
    for _ in range(chance.randrange(1, 100)):
        opcode = chance.choice(pickletools.opcodes)
        needs_mark = pickletools.markobject in opcode.stack_before
        needed = len(opcode.stack_before) - needs_mark
        if opcode.name != "STOP" and needed <= depth and needs_mark <= marks:
            made += opcode.code.encode("latin-1") + argument_of(opcode, chance)
            depth += len(opcode.stack_after) - needed
            marks += (opcode.name == "MARK") - needs_mark
    return made + chance.choice([b".", b"cm\nf\n)}\x87."])


def test_no_bytes_are_an_error() -> None:
    """Opcodes by chance, calls with some bytes changed, and bytes by chance: the text is short."""
    chance = random.Random(7)  # noqa: S311 - repeatable chance
    seeds = [dumped(1, "a", [1, {2: (3,)}], Order(), protocol=each, k=2.5) for each in (2, 3, 4, 5)]
    described = 0
    for _ in range(100_000 if LONG else 2_000):
        kind = chance.random()
        changed = bytearray(generated(chance) if kind < 0.5 else chance.choice(seeds))
        for _ in range(chance.randrange(6)):
            changed[chance.randrange(1, len(changed))] = chance.randrange(256)
        if kind > 0.9:
            changed[1:] = chance.randbytes(chance.randrange(200))
        text = describe_pickle(bytes(changed))
        described += text is not None
        assert len(text or "") < 2_000

    assert described
