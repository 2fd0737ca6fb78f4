"""The OpenAPI document of the emulator's own routes."""

from __future__ import annotations

import json

from openapi_spec_validator import validate
from werkzeug.test import Client

from pullqueue import Emulator
from pullqueue.server.app import create_app


def test_the_document_is_valid() -> None:
    client = Client(create_app(Emulator.from_text("queue: []")))

    answer = client.get("/_emulator/openapi.json", base_url="http://127.0.0.1:8124")

    validate(json.loads(answer.data))
