"""The entities of apps, as routes and console list them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import requests
from services_client import Client, datastore_pb, entity_pb
from tables import each_row

from pullqueue.server.lifecycle import Server

Serve = Callable[..., Server]


def put(client: Client, key: Any, *properties: Any, raw: tuple[Any, ...] = ()) -> None:
    request = datastore_pb.PutRequest()
    entity = request.entity.add()
    entity.key.CopyFrom(key)
    entity.entity_group.SetInParent()
    entity.property.extend(properties)
    entity.raw_property.extend(raw)
    client.datastore("Put", request, datastore_pb.PutResponse())


def prop(name: str, *, multiple: bool = False, meaning: int | None = None, **value: Any) -> Any:
    made = entity_pb.Property(name=name, multiple=multiple)
    if meaning is not None:
        made.meaning = meaning
    made.value.SetInParent()
    for field, content in value.items():
        setattr(made.value, field, content)
    return made


def path_key(client: Client, *path: tuple[str, str | int], namespace: str = "") -> Any:
    key = entity_pb.Reference(app=client.app)
    if namespace:
        key.name_space = namespace
    for kind, identifier in path:
        element = key.path.element.add(type=kind)
        if isinstance(identifier, int):
            element.id = identifier
        else:
            element.name = identifier
    return key


def get(server: Server, path: str, **query: object) -> Any:
    return requests.get(f"{server.url}/_emulator{path}", params=query, timeout=10).json()  # type: ignore[arg-type]


def test_kinds_are_counted_for_each_app_and_namespace(serve: Serve) -> None:
    server = serve()
    client, other = Client(server.url), Client(server.url, "dev~other")
    assert get(server, "/kinds") == {"kinds": []}
    put(client, client.key("a"))
    put(client, client.key("b"))
    put(client, path_key(client, ("Vote", "a"), namespace="n"))
    put(other, other.key("a"))
    put(client, path_key(client, ("Vote", "a"), ("Line", 1)))

    kinds = get(server, "/kinds")["kinds"]

    assert [tuple(each.values()) for each in kinds] == [
        ("dev~my-app", "", "Line", 1),
        ("dev~my-app", "", "Vote", 2),
        ("dev~my-app", "n", "Vote", 1),
        ("dev~other", "", "Vote", 1),
    ]
    client.delete("a")
    client.delete("b")
    assert len(get(server, "/kinds")["kinds"]) == 3


@each_row(
    ("properties", "shown"),
    [
        ([], {}),
        ([prop("b", stringValue=b"tea"), prop("a", int64Value=-1)], {"a": "-1", "b": "tea"}),
        ([prop("a", booleanValue=True), prop("b", doubleValue=0.5)], {"a": "True", "b": "0.5"}),
        ([prop("a")], {"a": "None"}),
        ([prop("a", stringValue=b"")], {"a": ""}),
        ([prop("a", stringValue=b"x\ny\x00<b>")], {"a": r"x\ny\x00<b>"}),
        ([prop("a", stringValue=b"x" * 500)], {"a": "x" * 500}),
        ([prop("a", stringValue=b"x" * 501)], {"a": "x" * 497 + "..."}),
        (
            [prop("a", meaning=entity_pb.Property.GD_RATING, int64Value=101)],
            {"a": "(BadValueError)"},
        ),
        (
            [prop("a", multiple=True, int64Value=1), prop("a", multiple=True, int64Value=2)],
            {"a": "[1, 2]"},
        ),
        ([prop("a", multiple=True, int64Value=1)], {"a": "[1]"}),
        ([prop("a", meaning=entity_pb.Property.EMPTY_LIST)], {"a": "[]"}),
        (
            [prop("a", meaning=entity_pb.Property.GD_WHEN, int64Value=1_000_000)],
            {"a": "datetime.datetime(1970, 1, 1, 0, 0, 1)"},
        ),
    ],
)
def test_values_are_text(serve: Serve, properties: list[Any], shown: dict[str, str]) -> None:
    """Of an entity to which the datastore adds a property, `__scatter__`: of some keys it does."""
    server = serve()
    client = Client(server.url)
    put(client, client.key("tea"), *properties)
    [entity] = get(server, "/entities", kind="Vote")["entities"]
    assert entity == {"key": 'Vote "tea"', "properties": shown}


def test_values_that_are_not_indexed_are_shown_and_not_loaded(serve: Serve) -> None:
    """A pickle of a client stays the bytes that it is."""
    server = serve()
    client = Client(server.url)
    blob = prop("data", stringValue=b"\x80\x04}.", meaning=entity_pb.Property.BLOB)
    text = prop("text", stringValue=b"long", meaning=entity_pb.Property.TEXT)
    put(client, client.key("a"), raw=(blob, text))
    [entity] = get(server, "/entities", kind="Vote")["entities"]
    assert entity["properties"] == {"data": r"b'\x80\x04}.'", "text": "long"}


def test_the_first_entities_by_key_are_listed(serve: Serve) -> None:
    server = serve()
    client = Client(server.url)
    for path in ([("Vote", "a"), ("Vote", "b")], [("Vote", "a")], [("Vote", 10)]):
        put(client, path_key(client, *path))

    for limit in (1, 2, 3, 4, 1000):
        listed = get(server, "/entities", kind="Vote", limit=limit)
        keys = ["Vote 10", 'Vote "a"', 'Vote "a" / Vote "b"'][:limit]
        assert [each["key"] for each in listed["entities"]] == keys
        assert listed["kind"]["entities"] == 3


def test_bad_queries_are_refused(serve: Serve) -> None:
    server = serve()
    for client in (Client(server.url), Client(server.url, "dev~other")):
        put(client, client.key("a"))
    mine = {"kind": "Vote", "app": "dev~my-app"}
    queries: list[tuple[dict[str, object], int, str]] = [
        ({}, 400, 'the parameter "kind" is missing'),
        ({"kind": "Other"}, 404, 'there is no entity of kind "Other"'),
        ({"kind": "Vote", "namespace": "n"}, 404, 'there is no entity of kind "Vote"'),
        ({"kind": "Vote", "app": "nobody"}, 404, 'there is no entity of kind "Vote"'),
        ({"kind": "Vote"}, 400, 'several apps have this kind: pass app, one of "dev~my-app", "'),
        ({**mine, "limit": 0}, 400, "limit is not valid"),
        ({**mine, "limit": 1001}, 400, "limit is not valid"),
    ]
    for query, status, problem in queries:
        error = get(server, "/entities", **query)["error"]
        assert (error["code"], problem in error["message"]) == (status, True), error


def test_a_server_without_a_datastore_says_so(serve: Serve) -> None:
    server = serve(names=frozenset({"memcache"}))
    assert "name datastore_v3 in --services" in get(server, "/kinds")["error"]["message"]


def test_the_console_lists_kinds_and_entities(serve: Serve) -> None:
    server = serve()
    home = f"{server.url}/console/"
    assert "/console/entities" not in requests.get(home, timeout=10).text
    assert "No entities" in requests.get(f"{home}entities", timeout=10).text
    client = Client(server.url)
    put(client, client.key("<b>"), prop("text", stringValue=b"<script>"))

    assert 'href="/console/entities"' in requests.get(home, timeout=10).text
    kinds = requests.get(f"{home}entities", timeout=10).text
    assert "/console/entities?kind=Vote&amp;app=dev~my-app&amp;namespace=" in kinds
    page = requests.get(f"{home}entities?kind=Vote", timeout=10).text
    assert "Vote &#34;&lt;b&gt;&#34;" in page
    assert "&lt;script&gt;" in page
    missing = requests.get(f"{home}entities?kind=Other", timeout=10)
    assert missing.status_code == 404
    assert "there is no entity of kind" in missing.text


def test_entities_of_a_file_are_listed_before_the_first_call(serve: Serve, tmp_path: Path) -> None:
    with ExitStack() as first:
        server = serve(first, data=tmp_path)
        Client(server.url).put("a", 1)
    server = serve(data=tmp_path)
    assert 'href="/console/entities"' in requests.get(f"{server.url}/console/", timeout=10).text
    assert get(server, "/kinds")["kinds"][0]["entities"] == 1
