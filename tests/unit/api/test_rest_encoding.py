"""pullqueue.api.encoding: how JSON is written."""

from __future__ import annotations

import gzip
import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pullqueue.api.encoding import encode, zipped

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)


@given(st.dictionaries(st.text(), values, max_size=3))
@example({"\x7f": None})
@example({"items": [{"id": '},\n   {"'}, {"tag": "\u2028\ud800", "id": "x"}]})
def test_what_the_library_writes(value: dict[str, Any]) -> None:
    """Indented by one space at each level, or without a space between the parts.

    The API has no numbers with a fraction.
    """
    assert encode(value).decode() == json.dumps(value, indent=1) + "\n"
    assert encode(value, indented=False).decode() == json.dumps(value, separators=(",", ":"))


def test_a_zipped_answer_is_the_same_each_time() -> None:
    body = b"x" * 1000

    assert zipped(body) == zipped(body)
    assert gzip.decompress(zipped(body)) == body
