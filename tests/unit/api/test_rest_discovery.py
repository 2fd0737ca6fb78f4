"""pullqueue.api.discovery: the document, and our own routes held against it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from werkzeug.test import Client

from pullqueue import Emulator
from pullqueue.server.app import flask_app

DOCUMENT = "/discovery/v1/apis/taskqueue/{version}/rest"


def document(client: Client, version: str = "v1beta2") -> dict[str, Any]:
    """Return a served document."""
    return dict(client.get(DOCUMENT.format(version=version)).get_json())


def methods(served: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every method of a document."""
    for resource in served["resources"].values():
        yield from resource["methods"].values()


class TestDocument:
    @pytest.mark.parametrize(
        ("version", "revision", "count"), [("v1beta1", "20120501", 5), ("v1beta2", "20160428", 8)]
    )
    def test_it_points_here(self, client: Client, version: str, revision: str, count: int) -> None:
        """Root, base and batch addresses are those the client reached the server at."""
        served = client.get(
            DOCUMENT.format(version=version), base_url="http://some.host:99"
        ).get_json()

        assert served["id"] == f"taskqueue:{version}"
        assert served["revision"] == revision
        assert served["rootUrl"] == "http://some.host:99/"
        assert served["servicePath"] == f"taskqueue/{version}/projects/"
        assert served["basePath"] == f"/taskqueue/{version}/projects/"
        assert served["baseUrl"] == f"http://some.host:99/taskqueue/{version}/projects/"
        assert served["batchPath"] == f"batch/taskqueue/{version}"
        assert len(list(methods(served))) == count

    def test_the_newer_address(self, client: Client) -> None:
        """/$discovery/rest returns the same document, v1beta2 if no version is named."""
        assert client.get("/$discovery/rest?version=v1beta2").get_json() == document(client)
        assert client.get("/$discovery/rest").get_json() == document(client)
        assert client.get("/$discovery/rest?version=v1beta1").get_json() == document(
            client, "v1beta1"
        )

    @pytest.mark.parametrize(
        "path",
        [
            DOCUMENT.format(version="v9"),
            "/discovery/v1/apis/drive/v3/rest",
            "/$discovery/rest?version=v9",
        ],
    )
    def test_unknown_apis(self, client: Client, path: str) -> None:
        """Other APIs are not found."""
        response = client.get(path)

        assert response.status_code == 404
        assert response.get_json()["error"]["errors"][0]["reason"] == "notFound"

    def test_the_directory(self, client: Client) -> None:
        """The list names all APIs and where their documents are."""
        items = client.get("/discovery/v1/apis").get_json()["items"]

        assert [(item["id"], item["preferred"]) for item in items] == [
            ("taskqueue:v1beta1", False),
            ("taskqueue:v1beta2", True),
            ("cloudtasks:v2", True),
            ("cloudtasks:v2beta2", True),
            ("cloudtasks:v2beta3", True),
        ]
        for item in items:
            path = item["discoveryRestUrl"].removeprefix("http://localhost")
            assert client.get(path).get_json()["id"] == item["id"]
            assert item["discoveryLink"] == "." + path.removeprefix("/discovery/v1")

    @pytest.mark.parametrize(
        ("query", "count"),
        [("name=taskqueue", 2), ("name=drive", 0), ("preferred=true", 4), ("preferred=false", 5)],
    )
    def test_a_narrowed_directory(self, client: Client, query: str, count: int) -> None:
        """The list can be narrowed."""
        assert len(client.get(f"/discovery/v1/apis?{query}").get_json()["items"]) == count


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
class TestOurRoutes:
    def test_are_those_of_the_document(self, client: Client, version: str) -> None:
        """Every method of the document has a route, and there is no other."""
        prefix = f"/taskqueue/{version}/projects/"
        routes = {
            (verb, rule.rule.removeprefix(prefix).replace("<", "{").replace(">", "}"))
            for rule in flask_app().url_map.iter_rules()
            if rule.rule.startswith(prefix)
            for verb in rule.methods or ()
            if verb not in ("HEAD", "OPTIONS")
        }

        served = document(client, version)
        assert routes == {(each["httpMethod"], each["path"]) for each in methods(served)}

    def test_check_the_parameters_of_the_document(self, client: Client, version: str) -> None:
        """One that is required and missing, or is not of its type, is refused by its name."""
        for method in methods(document(client, version)):
            types = {name: each["type"] for name, each in method["parameters"].items()}
            typed = [name for name in types if types[name] in ("integer", "boolean")]
            good = {name: "1" if types[name] == "integer" else "true" for name in typed}
            wrong = [(name, {**good, name: "odd"}, "invalidParameter") for name in typed]
            for name, parameter in method["parameters"].items():
                if parameter.get("required") and parameter["location"] == "query":
                    others = {each: good[each] for each in good if each != name}
                    wrong.append((name, others, "required"))
            for name, query, reason in wrong:
                response = client.open(
                    path(method, version, task="t"),
                    method=method["httpMethod"],
                    query_string=query,
                    json={},
                )
                error = response.get_json()["error"]["errors"][0]
                assert (error["reason"], error["location"]) == (reason, name)

    def test_answer_what_the_document_says(
        self, client: Client, emulator: Emulator, version: str
    ) -> None:
        """Every field of every answer is in its schema, of its type, and none is left out."""
        served = document(client, version)
        emulator.queue("limited").add(b"payload", name="t", tag="red")
        seen: set[str] = set()
        for method in sorted(methods(served), key=call_order):
            response = call(client, emulator, method, version)
            if "response" not in method:
                assert (response.status_code, response.data) == (204, b"")
                continue
            assert response.status_code == 200, response.text
            check(response.get_json(), method["response"], served["schemas"], seen)

        task = {f"Task.{name}" for name in served["schemas"]["Task"]["properties"]}
        assert seen >= task | {"Tasks.items", "Tasks2.items", "TaskQueue.stats", "TaskQueue.acl"}


def path(method: dict[str, Any], version: str, task: str) -> str:
    """Return the path of a method, for the queue called limited."""
    filled = method["path"].format(project="app", taskqueue="limited", task=task)
    return f"/taskqueue/{version}/projects/{filled}"


ORDER = ["insert", "lease", "update", "patch", "get", "list", "delete"]


def call_order(method: dict[str, Any]) -> int:
    """Put the methods in an order in which each can succeed."""
    return ORDER.index(method["id"].rpartition(".")[2])


def call(client: Client, emulator: Emulator, method: dict[str, Any], version: str) -> Any:
    """Call a method with all its parameters."""
    name = method["id"].rpartition(".")[2]
    query = {
        "getStats": "true",
        "numTasks": 1,
        "leaseSecs": 60,
        "groupByTag": "true",
        "tag": "red",
        "newLeaseSeconds": 60,
    }
    held = emulator.queue("limited").get_task("t")
    body = {
        "id": "other" if name == "insert" else "t",
        "queueName": "limited",
        "payloadBase64": "aGk=",
        "leaseTimestamp": "0" if name == "insert" else str(held.eta_usec),
        "tag": "blue",
    }
    return client.open(
        path(method, version, task="t"),
        method=method["httpMethod"],
        query_string={key: query[key] for key in method["parameters"] if key in query},
        json=body if "request" in method else None,
    )


PYTHON_TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}


def check(value: Any, shape: dict[str, Any], schemas: dict[str, Any], seen: set[str]) -> None:
    """Hold a value against a schema, and note the fields met."""
    if "$ref" in shape:
        check(value, schemas[shape["$ref"]], schemas, seen)
        return
    assert isinstance(value, PYTHON_TYPES[shape["type"]])
    if shape.get("format") == "int64":
        assert str(int(str(value))) == value
    for item in value if isinstance(value, list) else ():
        check(item, shape["items"], schemas, seen)
    for name, item in value.items() if isinstance(value, dict) else ():
        seen.add(f"{shape.get('id', '')}.{name}")
        check(item, shape["properties"][name], schemas, seen)
        assert item == shape["properties"][name].get("default", item)
