"""The discovery documents of Cloud Tasks, compared with those of Google's client."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

import pytest
from rest_app import methods_of
from tables import each_row
from werkzeug.test import Client

from pullqueue.cloudtasks.versions import V2BETA2, VERSIONS, Version

NEWER_PARAMETERS = {"extraLocationTypes"}
"""Those of Google's document that the messages do not have yet."""
FIXED = (
    *("kind", "discoveryVersion", "id", "name", "version", "title", "protocol"),
    *("servicePath", "basePath", "batchPath", "fullyEncodeReservedExpansion"),
)
NOT_SHOWN = {"mtlsRootUrl", "ownerName", "ownerDomain", "canonicalName", "version_module"}
SHAPE = ("type", "format", "$ref", "items", "additionalProperties")
"""What a field is; the values of enums become more with time."""


pytestmark = pytest.mark.parametrize("version", VERSIONS.values(), ids=list(VERSIONS))


@pytest.fixture
def google(version: Version) -> dict[str, Any]:
    """Return the document that google-api-python-client contains."""
    documents = files("googleapiclient.discovery_cache") / "documents"
    return dict(json.loads((documents / f"cloudtasks.{version.name}.json").read_text("utf-8")))


def shape(value: dict[str, Any]) -> dict[str, Any]:
    """Return what a field is, without its description."""
    return {
        key: shape(each) if isinstance(each, dict) else each
        for key, each in value.items()
        if key in SHAPE
    } | {"enum": "enum" in value}


@each_row("path", ["$discovery/rest?version=", "discovery/v1/apis/cloudtasks/"])
def test_paths_parameters_and_messages_are_those_of_google(
    client: Client, google: dict[str, Any], version: Version, path: str
) -> None:
    """Fields of messages are Google's but for those its document leaves out, and newer ones."""
    document = client.get(f"/{path}{version.name}" + ("" if "$" in path else "/rest")).get_json()
    ours, theirs = ({one["id"]: one for one in methods_of(each)} for each in (document, google))

    assert {key: document[key] for key in FIXED} == {key: google[key] for key in FIXED}
    assert (document["description"], len(document["revision"])) == (version.description, 8)
    urls = [document[key] for key in ("rootUrl", "baseUrl", "documentationLink")]
    assert urls == ["http://localhost/"] * 3
    assert set(google) - set(document) == NOT_SHOWN
    [scope] = google["auth"]["oauth2"]["scopes"]
    text = "Manage your queues and tasks in Cloud Tasks"
    assert document["auth"]["oauth2"]["scopes"] == {scope: {"description": text}}
    assert len(ours) == len(version.methods)
    left_out = {identifier.rpartition(".")[2] for identifier in set(theirs) - set(ours)}
    assert left_out == {name.rpartition(".")[2] for name, _, _ in version.unimplemented}

    for identifier, method in ours.items():
        assert method["scopes"] == [scope]
        for key in ("path", "flatPath", "httpMethod", "request", "response", "parameterOrder"):
            assert method.get(key) == theirs[identifier].get(key), identifier
        names, known_names = (set(each[identifier]["parameters"]) for each in (ours, theirs))
        assert known_names - NEWER_PARAMETERS <= names <= known_names
        for name, parameter in method["parameters"].items():
            known = theirs[identifier]["parameters"].get(name)
            for key in ("type", "format", "location", "pattern", "required"):
                assert known is None or parameter.get(key) == known.get(key), (identifier, name)

    missing = {
        name: set(google["schemas"][name]["properties"]) - set(schema["properties"])
        for name, schema in document["schemas"].items()
        if name in google["schemas"] and "properties" in google["schemas"][name]
    }

    for name, schema in document["schemas"].items():
        assert (schema["id"], schema["type"]) == (name, "object")
        known = google["schemas"].get(name, {}).get("properties", {})
        for field, value in schema["properties"].items():
            assert shape(value) == shape(known.get(field, value)), (name, field)

    newer = {"Task": {"retryConfig"}} if version is V2BETA2 else {}
    in_path = {"CreateTaskRequest": {"parent"}}
    assert {name: fields for name, fields in missing.items() if fields} == newer | in_path
    if "BufferTaskRequest" in document["schemas"]:
        assert set(document["schemas"]["BufferTaskRequest"]["properties"]) == {"body"}
    assert set(re.findall(r"'\$ref': '(\w+)'", str(document))) == set(document["schemas"])
