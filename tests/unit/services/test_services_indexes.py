"""The composite indexes that queries need, and an index.yaml."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from services_client import APP, Client, RefusedError, datastore_pb

from pullqueue import ManualClock
from pullqueue.errors import ConfigFileError
from pullqueue.server.lifecycle import Server
from pullqueue.services.hosting import Services

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from google.appengine.datastore import datastore_index

Serve = Callable[..., Server]
EQUAL, LESS = datastore_pb.Query.Filter.EQUAL, datastore_pb.Query.Filter.LESS_THAN
DESCENDING = datastore_pb.Query.Order.DESCENDING
COUNT_THEN_TIME = "indexes:\n- kind: Vote\n  properties:\n  - name: count\n  - name: time\n"


def make_query(
    *,
    equal: tuple[str, ...] = (),
    less: str = "",
    order: tuple[str, ...] = (),
    kind: str = "Vote",
    ancestor: Any = None,
) -> Any:
    """Return a query; an order that begins with `-` is descending."""
    query = datastore_pb.Query(app=APP, kind=kind)
    for operator, names in ((EQUAL, equal), (LESS, (less,) if less else ())):
        for name in names:
            term = query.filter.add(op=operator)
            term.property.add(name=name, multiple=False).value.int64Value = 1
    for name in order:
        added = query.order.add(property=name.removeprefix("-"))
        if name.startswith("-"):
            added.direction = DESCENDING
    if ancestor is not None:
        query.ancestor.CopyFrom(ancestor)
    return query


def run(client: Client, query: Any) -> None:
    client.datastore("RunQuery", query, datastore_pb.QueryResult())


def indexes_of(path: Path) -> list[Any]:
    definitions = datastore_index.ParseIndexDefinitions(path.read_text("utf-8"))
    return sorted(map(str, datastore_index.IndexDefinitionsToKeys(definitions)))


def test_queries_that_production_answers_without_a_file_are_answered(
    serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "index.yaml"
    clients = [Client(serve(index_yaml=path, strict=strict).url) for strict in (True, False)]
    for query in (
        make_query(),
        make_query(equal=("count",)),
        make_query(equal=("count", "time")),
        make_query(less="count"),
        make_query(less="count", order=("count",)),
        make_query(order=("-count",)),
        make_query(order=("__key__",)),
        make_query(equal=("count",), order=("__key__",)),
        make_query(kind="__kind__"),
        make_query(ancestor=Client("").key("a")),
        make_query(equal=("count",), ancestor=Client("").key("a")),
    ):
        for client in clients:
            run(client, query)
    assert not path.exists()


NEED_INDEX = [
    (make_query(equal=("count",), order=("time",)), "- name: count\n  - name: time\n"),
    (
        make_query(equal=("count",), order=("-time",)),
        "- name: count\n  - name: time\n    direction: desc\n",
    ),
    (make_query(equal=("count",), less="time"), "- name: count\n  - name: time\n"),
    (make_query(order=("count", "time")), "- name: count\n  - name: time\n"),
    (make_query(less="count", order=("count", "time")), "- name: count\n  - name: time\n"),
    (make_query(less="count", ancestor=Client("").key("a")), "- name: count\n"),
    (make_query(order=("-__key__",)), "- name: __key__\n    direction: desc\n"),
]


@pytest.mark.parametrize(("query", "properties"), NEED_INDEX, ids=range(len(NEED_INDEX)))
def test_queries_that_need_an_index_are_answered_from_when_the_file_has_it(
    serve: Serve, tmp_path: Path, query: Any, properties: str
) -> None:
    """The text of the refusal, added to the file, is all that is needed; nothing restarts."""
    path = tmp_path / "index.yaml"
    client = Client(serve(index_yaml=path, strict=True).url)
    with pytest.raises(RefusedError) as refused:
        run(client, query)
    ancestor = "  ancestor: yes\n" if query.HasField("ancestor") else ""
    index = f"- kind: Vote\n{ancestor}  properties:\n  {properties}"
    assert refused.value.code == datastore_pb.Error.NEED_INDEX
    assert str(refused.value) == f"no matching index found. recommended index is:\n{index}"

    path.write_text(f"indexes:\n{index}", "utf-8")
    run(client, query)
    path.write_text("indexes:\n", "utf-8")
    with pytest.raises(RefusedError, match="no matching index found"):
        run(client, query)

    # A file that is not required gets it.
    path.unlink()
    adding = Client(serve(index_yaml=path).url)
    run(adding, query)
    run(adding, query)
    assert path.read_text("utf-8") == f"indexes:\n{index}"
    run(client, query)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# by hand\n",
        "indexes:",
        "indexes:\n",
        "indexes:\n- kind: Other\n  properties:\n  - name: a\n  - name: b",
        "indexes:\n  - kind: Other\n    properties:\n      - name: a\n      - name: b\n",
        "indexes:\n\n# AUTOGENERATED\n\n- kind: Other\n  ancestor: yes\n",
    ],
)
def test_an_index_is_added_after_what_the_file_has(serve: Serve, tmp_path: Path, text: str) -> None:
    path = tmp_path / "index.yaml"
    path.write_text(text, "utf-8")
    before = indexes_of(path)

    run(Client(serve(index_yaml=path).url), make_query(order=("count", "time")))

    assert path.read_text("utf-8").startswith(text)
    assert len(indexes_of(path)) == len(before) + 1
    assert set(indexes_of(path)) > set(before)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["index.yaml"]


@pytest.mark.parametrize("text", ["indexes: []\n", "indexes:\n- {kind: Other}\n\tx"])
def test_a_file_to_which_nothing_can_be_added_is_not_changed(
    serve: Serve, tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that was broken while the server runs, too; what it lacks is in the log."""
    path = tmp_path / "index.yaml"
    client = Client(serve(index_yaml=path).url)
    run(client, make_query())
    path.write_text(text, "utf-8")
    with caplog.at_level(logging.WARNING, "pullqueue.services"):
        run(client, make_query(order=("count", "time")))

    assert path.read_text("utf-8") == text
    if "\t" not in text:
        assert "lacks an index, and was not changed" in caplog.text
        assert "- kind: Vote\n  properties:\n  - name: count\n  - name: time" in caplog.text
    else:
        assert "the indexes that were read before are used" in caplog.text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("indexes: [", r'"index.yaml" is not a valid index.yaml: .*line 1, column 11'),
        ("indices:\n", r'"index.yaml" is not a valid index.yaml: Unexpected attribute'),
        ("indexes:\n- kind: A\n  properties:\n  - name: a\n    direction: up\n", "'up'"),
        ("indexes: 3\n", "is not a valid index.yaml"),
        (b"\xff", '"index.yaml" cannot be read: it is not UTF-8'),
    ],
)
def test_a_file_that_is_not_valid_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | bytes, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("index.yaml")
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    services = Services(clock=ManualClock(), index_yaml=path)
    with pytest.raises(ConfigFileError, match=problem):
        services.indexes  # noqa: B018 - reads the file


def test_an_index_of_other_properties_is_not_enough(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "index.yaml"
    path.write_text(COUNT_THEN_TIME, "utf-8")
    client = Client(serve(index_yaml=path, strict=True).url)
    run(client, make_query(order=("count", "time")))
    run(client, make_query(equal=("count",), order=("time",)))
    for other in (("time", "count"), ("count", "-time"), ("count", "time", "other")):
        with pytest.raises(RefusedError, match="no matching index found"):
            run(client, make_query(order=other))
