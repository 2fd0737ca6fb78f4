"""The OpenAPI document of the control routes."""

from __future__ import annotations

import json
import os
from pathlib import Path

from control_client import ControlClient

from pullqueue.server.app import flask_app

THE_DOCUMENT = "/_emulator/openapi.json"


def test_every_route_is_described(control: ControlClient) -> None:
    """The document has all routes of the server, and no other."""
    served = {
        (verb, rule.rule.removeprefix("/_emulator").replace("<", "{").replace(">", "}"))
        for rule in flask_app().url_map.iter_rules()
        if rule.rule.startswith("/_emulator") and rule.rule != THE_DOCUMENT
        for verb in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    described = {
        (verb.upper(), path) for path, verbs in control.document["paths"].items() for verb in verbs
    }

    assert described == served


def test_operations_have_names_of_their_own(control: ControlClient) -> None:
    """Each operation id is once, so that clients can be generated."""
    ids = [
        operation["operationId"]
        for verbs in control.document["paths"].values()
        for operation in verbs.values()
    ]

    assert len(set(ids)) == len(ids)


def test_the_document_as_it_was(control: ControlClient) -> None:
    """A change of the interface is made on purpose: `openapi.txt` is what clients know."""
    paths, schemas = control.document["paths"], control.document["components"]["schemas"]
    lines = [
        f"{verb.upper()} {path} {json.dumps(described)}"
        for path, verbs in paths.items()
        for verb, described in verbs.items()
    ]
    lines += [f"{name} {json.dumps(schema)}" for name, schema in schemas.items()]
    known = Path(__file__).with_name("openapi.txt")
    if "PULLQUEUE_REGENERATE" in os.environ:
        known.write_text("\n".join([*lines, ""]), "utf-8")

    assert lines == known.read_text("utf-8").splitlines()
