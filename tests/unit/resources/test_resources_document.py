"""The OpenAPI document of the control routes."""

from __future__ import annotations

import os
from difflib import unified_diff
from pathlib import Path

import yaml
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


def test_the_document_as_it_was(control: ControlClient) -> None:
    """A change of the interface is made on purpose: `openapi.yaml` is what clients know."""
    schemas = control.document["components"]["schemas"]
    operations = {
        f"{verb.upper()} {path}": described
        for path, verbs in control.document["paths"].items()
        for verb, described in verbs.items()
    }
    served = yaml.safe_dump(operations | schemas, sort_keys=False, width=100)
    known = Path(__file__).with_name("openapi.yaml")
    if "PULLQUEUE_REGENERATE" in os.environ:
        known.write_text(served, "utf-8")

    old, new = known.read_text("utf-8").splitlines(), served.splitlines()
    changes = "\n".join(unified_diff(old, new, "known", "served", n=9, lineterm=""))
    assert not changes, (
        f"{changes}\nIf this is meant: PULLQUEUE_REGENERATE=1 pytest "
        "tests/unit/resources/test_resources_document.py"
    )
