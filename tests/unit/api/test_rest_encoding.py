"""pullqueue.api.encoding: how JSON is written."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullqueue.api.encoding import encode, zipped

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
rows = st.lists(
    st.dictionaries(st.text(max_size=3), st.text(max_size=9) | st.integers()), max_size=4
)


@given(st.dictionaries(st.text(), values) | st.dictionaries(st.text(), rows))
def test_what_the_library_writes(value: dict[str, Any]) -> None:
    """Indented by one space at each level, or without a space between the parts.

    The API has no numbers with a fraction.
    """
    assert encode(value).decode() == json.dumps(value, indent=1) + "\n"
    assert encode(value, indented=False).decode() == json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize("text", ["},\n   {", '},\n  {"', "{", "}", '"', "\\", "\u2028", "\ud800"])
def test_text_that_looks_like_structure(text: str) -> None:
    """What is in a text stays in it."""
    value = {"items": [{"id": text}, {"tag": text, "id": "x"}]}

    assert encode(value).decode() == json.dumps(value, indent=1) + "\n"


def test_zipped() -> None:
    """A zipped answer is the same each time, and comes back whole."""
    body = b"x" * 1000

    assert zipped(body) == zipped(body)
    assert gzip.decompress(zipped(body)) == body
