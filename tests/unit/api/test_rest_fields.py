"""pullqueue.api.fields and pullqueue.api.encoding: partial responses, and how JSON is written."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rest_app import ROOT
from tables import each_row
from werkzeug.test import Client

from pullqueue import Emulator
from pullqueue.api.discovery import document
from pullqueue.api.encoding import encode, zipped
from pullqueue.api.errors import ApiError
from pullqueue.api.fields import FieldMask, apply_mask, fields_in, parse_mask

KNOWN: FieldMask = {"kind": {}, "items": {"id": {}, "tag": {}, "more": {"deep": {}}}}
VALUE: dict[str, Any] = {
    "kind": "k",
    "items": [{"id": 1, "tag": "t", "more": {"deep": 5}}, {"id": 2}],
}


@each_row(
    ("selector", "expected"),
    [
        ("kind", {"kind": "k"}),
        ("items/id", {"items": [{"id": 1}, {"id": 2}]}),
        ("items(id,tag)", {"items": [{"id": 1, "tag": "t"}, {"id": 2}]}),
        ("items/id,items/tag", {"items": [{"id": 1, "tag": "t"}, {"id": 2}]}),
        ("kind,items/more/deep", {"kind": "k", "items": [{"more": {"deep": 5}}, {}]}),
        ("items/more(deep)", {"items": [{"more": {"deep": 5}}, {}]}),
        ("items", {"items": VALUE["items"]}),
        ("items/id,items", {"items": VALUE["items"]}),
        ("items,items/id", {"items": VALUE["items"]}),
        ("*", VALUE),
        ("items/*", {"items": VALUE["items"]}),
        ("*/id", {"items": [{"id": 1}, {"id": 2}]}),
        ("*(id,tag)", {"items": [{"id": 1, "tag": "t"}, {"id": 2}]}),
        (" kind , items/id ", {"kind": "k", "items": [{"id": 1}, {"id": 2}]}),
    ],
)
def test_a_selector_selects_as_the_reference_says(selector: str, expected: dict[str, Any]) -> None:
    assert apply_mask(VALUE, parse_mask(selector, KNOWN)) == expected


@each_row(
    ("selector", "part"),
    [
        ("nope", "nope"),
        ("items/nope", "nope"),
        ("items(id", "items(id"),
        ("items(id))", ")"),
        ("kind/x", "x"),
        ("kind(x)", "x"),
        ("kind/*", "*"),
        ("items()", ")"),
        ("kind,", "kind,"),
        (",kind", ","),
        ("items/", "items/"),
        ("items(", "items("),
        ("/kind", "/"),
        ("(", "("),
        ("items(" * 100_000, "items"),
        ("*" + "/*" * 100_000, "*"),
        ("x" * 1000, "x" * 200),
    ],
)
def test_a_bad_selector_is_refused_with_the_part_that_is_wrong(selector: str, part: str) -> None:
    with pytest.raises(ApiError) as excinfo:
        parse_mask(selector, KNOWN)

    assert str(excinfo.value) == f"Invalid field selection {part}"


def test_fields_can_be_selected_that_the_discovery_document_has() -> None:
    older, newer = document("v1beta1"), document("v1beta2")
    task = fields_in(newer, "tasks.get")

    assert fields_in(newer, "tasks.list") == {"kind": {}, "items": task}
    assert set(task) - set(fields_in(older, "tasks.get")) == {"tag", "retry_count"}
    assert fields_in(newer, "tasks.delete") == {}


def test_a_partial_response_has_only_the_fields_asked_for(
    client: Client, emulator: Emulator
) -> None:
    emulator.queue("pull").add(b"hi", name="one", tag="red")

    response = client.get(f"{ROOT}/pull/tasks?fields=items(id,tag)")
    refused = client.get(f"{ROOT}/pull/tasks/none?fields=id")

    assert response.get_json() == {"items": [{"id": "one", "tag": "red"}]}
    assert refused.get_json()["error"]["code"] == 404


def test_a_bad_selector_changes_nothing(client: Client, emulator: Emulator) -> None:
    """A lease with a bad selector is refused before it leases."""
    emulator.queue("pull").add(b"")

    response = client.post(f"{ROOT}/pull/tasks/lease?numTasks=1&leaseSecs=9&fields=items/x")

    error = response.get_json()["error"]
    assert (error["code"], error["message"]) == (400, "Invalid field selection x")
    assert error["errors"][0]["location"] == "fields"
    assert emulator.queue("pull").list_tasks()[0].retry_count == 0


@pytest.mark.parametrize("query", ["fields=", "fields=id"])
def test_an_empty_selector_selects_everything_and_a_deletion_has_nothing(
    client: Client, emulator: Emulator, query: str
) -> None:
    emulator.queue("pull").add(b"", name="one")

    assert client.delete(f"{ROOT}/pull/tasks/one?{query}").status_code == 204


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
