"""pullqueue.api.answers: how JSON is written."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullqueue.api.answers import Plain, compact, pretty, zipped

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
rows = st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=9) | st.integers()))


@given(st.dictionaries(st.text(), values) | st.dictionaries(st.text(), rows))
def test_what_the_library_writes(value: dict[str, Any]) -> None:
    """Indented by one space at each level, or without a space between the parts."""
    assert pretty(value) == json.dumps(value, indent=1) + "\n"
    assert compact(value) == json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize("text", ["},\n   {", '},\n  {"', "{", "}", '"', "\\", "\u2028", "\ud800"])
def test_text_that_looks_like_structure(text: str) -> None:
    """What stands in a text stays in it."""
    value = {"items": [{"id": text}, {"tag": text, "id": "x"}]}

    assert pretty(value) == json.dumps(value, indent=1) + "\n"


@given(st.text(alphabet="AZaz09-_=", max_size=9))
def test_text_known_to_be_plain(text: str) -> None:
    """Text that needs no look is written as any other."""
    plain, usual = ({"items": [{"payloadBase64": value}]} for value in (Plain(text), text))

    assert pretty(plain) == pretty(usual)
    assert compact(plain) == compact(usual)


def test_zipped() -> None:
    """A zipped answer is the same each time, and comes back whole."""
    body = b"x" * 1000

    assert zipped(body) == zipped(body)
    assert gzip.decompress(zipped(body)) == body
