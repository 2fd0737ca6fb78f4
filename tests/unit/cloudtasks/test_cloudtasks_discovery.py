"""The discovery document of Cloud Tasks v2beta2, compared with the one of Google's client."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any
from urllib.request import urlopen

import pytest

from pullqueue.cloudtasks.versions import V2BETA2
from pullqueue.server.lifecycle import Server

OURS = {"extraLocationTypes"}
"""Parameters that Google's document leaves out."""


def fetched(server: Server, path: str) -> dict[str, Any]:
    """Return the JSON at a path."""
    with urlopen(f"{server.url}/{path}") as response:  # noqa: S310
        return dict(json.load(response))


def methods_of(resource: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the methods below a resource by their ids."""
    found = {method["id"]: method for method in resource.get("methods", {}).values()}
    for inner in resource.get("resources", {}).values():
        found |= methods_of(inner)
    return found


@pytest.fixture(scope="module")
def google() -> dict[str, Any]:
    """Return the document that google-api-python-client contains."""
    documents = files("googleapiclient.discovery_cache") / "documents"
    return dict(json.loads((documents / "cloudtasks.v2beta2.json").read_text("utf-8")))


@pytest.mark.parametrize(
    "path", ["$discovery/rest?version=v2beta2", "discovery/v1/apis/cloudtasks/v2beta2/rest"]
)
def test_the_methods(server: Server, google: dict[str, Any], path: str) -> None:
    """Paths, parameters, and messages in and out are Google's."""
    document = fetched(server, path)
    ours, theirs = methods_of(document), methods_of(google)

    assert document["rootUrl"] == f"{server.url}/"
    assert len(ours) == len(V2BETA2.methods)
    left_out = {identifier.rpartition(".")[2] for identifier in set(theirs) - set(ours)}
    refused = {name for name, _, _ in V2BETA2.unimplemented}
    assert left_out == refused | {"get"}  # of long-running operations

    for identifier, method in ours.items():
        for key in ("path", "flatPath", "httpMethod", "request", "response", "parameterOrder"):
            assert method.get(key) == theirs[identifier].get(key), identifier
        assert set(theirs[identifier]["parameters"]) - set(method["parameters"]) <= OURS
        for name, parameter in method["parameters"].items():
            known = theirs[identifier]["parameters"].get(name)
            for key in ("type", "format", "location", "pattern", "required"):
                assert known is None or parameter.get(key) == known.get(key), (identifier, name)


def test_the_messages(server: Server, google: dict[str, Any]) -> None:
    """Their fields are Google's but for those that its document leaves out, and newer ones."""
    document = fetched(server, "$discovery/rest?version=v2beta2")
    missing = {
        name: set(google["schemas"][name]["properties"]) - set(schema["properties"])
        for name, schema in document["schemas"].items()
        if name in google["schemas"] and "properties" in google["schemas"][name]
    }

    assert {name: fields for name, fields in missing.items() if fields} == {
        "Task": {"retryConfig"},
        "CreateTaskRequest": {"parent"},  # the path has it
    }


def test_the_directory(server: Server) -> None:
    """It lists the API beside the other one."""
    (item,) = fetched(server, "discovery/v1/apis?name=cloudtasks")["items"]

    assert item["id"] == "cloudtasks:v2beta2"
    assert item["discoveryRestUrl"].endswith("/discovery/v1/apis/cloudtasks/v2beta2/rest")
