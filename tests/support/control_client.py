"""A client of the control routes that checks every answer against the OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator
from werkzeug.test import Client

from pullqueue.error_codes import advice_in
from pullqueue.resources.openapi import document
from pullqueue.server.lifecycle import Server


class Reply(NamedTuple):
    """An answer."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def message(self) -> str:
        """The text of a refusal."""
        error = self.body["error"]
        return advice_in(error) or str(error["message"])


@cache
def validator(verb: str, path: str, status: int) -> Draft202012Validator | None:
    """Return the schema that the document has for such an answer; None: it has no such route."""
    for template, verbs in document()["paths"].items():
        pattern = re.sub(r"\{[^}]+\}", "[^/]+", template)
        if re.fullmatch(pattern, path) and verb.lower() in verbs:
            responses = verbs[verb.lower()]["responses"]
            answer = responses.get(str(status), responses["default"])
            (content,) = answer["content"].values()
            components = document()["components"]
            return Draft202012Validator({**content["schema"], "components": components})
    return None


def beginning(body: Any) -> Any:
    """Return JSON with the first items of its lists: to validate all takes longer than the call."""
    if isinstance(body, dict):
        return {name: beginning(value) for name, value in body.items()}
    return [*map(beginning, body[:5])] if isinstance(body, list) else body


class ControlClient:
    """Calls the application of a server, without a socket."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._client = Client(server._app)

    def get(self, path: str) -> Reply:
        return self.call("GET", path)

    def post(self, path: str, body: object = None) -> Reply:
        return self.call("POST", path, {} if body is None else body)

    def call(
        self, verb: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Do something; the answer is as the document says."""
        reply = self.send(verb, f"/_emulator{path}", body, headers)
        if schema := validator(verb, path.partition("?")[0], reply.status):
            schema.validate(beginning(reply.body))
        return reply

    def send(
        self, verb: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send a request to any route of the server."""
        answer = self._client.open(
            path,
            method=verb,
            data=body if body is None or isinstance(body, bytes) else json.dumps(body),
            headers=dict(headers or {}),
            base_url=self._server.url,
            environ_overrides={"REMOTE_ADDR": "127.0.0.1"},
        )
        is_json = answer.mimetype == "application/json"
        text = answer.text
        return Reply(
            answer.status_code, json.loads(text) if is_json else text, dict(answer.headers)
        )
