"""The OpenAPI document of the control routes."""

from __future__ import annotations

import os
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest
import yaml
from control_client import ControlClient
from jsonschema import Draft202012Validator

from pullqueue import Emulator
from pullqueue.resources.operations import OPERATIONS, Operation
from pullqueue.server.app import flask_app
from pullqueue.server.lifecycle import Server

THE_DOCUMENT = "/_emulator/openapi.json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    control = ControlClient(Server(Emulator.from_text("queue: []")))
    document: dict[str, Any] = control.send("GET", THE_DOCUMENT).body
    return document


def test_every_route_is_described(document: dict[str, Any]) -> None:
    """The document has all routes of the server, and no other."""
    served = {
        (verb, path.replace("<queue:", "{").replace("<", "{").replace(">", "}"))
        for rule in flask_app().url_map.iter_rules()
        if rule.rule.startswith("/_emulator") and rule.rule != THE_DOCUMENT
        for path in [rule.rule.removeprefix("/_emulator")]
        for verb in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    described = {
        (verb.upper(), path) for path, verbs in document["paths"].items() for verb in verbs
    }

    assert described == served


EXAMPLES = [
    pytest.param(operation, name, id=f"{operation.verb} {operation.path}: {name}")
    for operation in OPERATIONS
    for name in operation.examples
]


@pytest.mark.parametrize(("operation", "name"), EXAMPLES)
def test_the_examples_of_the_document_are_accepted(
    control: ControlClient, document: dict[str, Any], operation: Operation, name: str
) -> None:
    """Each, by the operation and by the schema that it is an example of."""
    described = document["paths"][operation.path][operation.verb.lower()]
    content = described["requestBody"]["content"]["application/json"]
    value = content["examples"][name]["value"]
    whole = {**content["schema"], "components": document["components"]}
    Draft202012Validator(whole).validate(value)
    made = {"name": "t", "clock": "manual"}
    control.post("/projects", made)
    is_of_projects = operation.path.startswith("/projects")
    path = operation.path if is_of_projects else f"{operation.path}?project=t"

    reply = control.post(path, value)

    # The server of this test delivers nothing.
    assert reply.status == 200 or "does not deliver push tasks" in reply.message


def test_the_document_is_what_clients_know(document: dict[str, Any]) -> None:
    """A change of the interface is made on purpose: `openapi.yaml` is what clients know."""
    operations = {
        f"{verb.upper()} {path}": described
        for path, verbs in document["paths"].items()
        for verb, described in verbs.items()
    }
    served = yaml.safe_dump(
        operations | document["components"]["schemas"], sort_keys=False, width=100
    )
    known = Path(__file__).with_name("openapi.yaml")
    if "PULLQUEUE_REGENERATE" in os.environ:
        known.write_text(served, "utf-8")

    old, new = known.read_text("utf-8").splitlines(), served.splitlines()
    changes = "\n".join(unified_diff(old, new, "known", "served", n=9, lineterm=""))
    assert not changes, (
        f"{changes}\nIf this is meant: PULLQUEUE_REGENERATE=1 pytest "
        "tests/unit/resources/test_resources_document.py"
    )
