"""A client of the control routes that holds every answer against the OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator

from pullqueue.error_codes import advice_in
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


class ControlClient:
    """Speaks HTTP to a running server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._document: dict[str, Any] = self.send("GET", "/_emulator/openapi.json").body

    @property
    def document(self) -> dict[str, Any]:
        """The OpenAPI document as it was served."""
        return self._document

    def get(self, path: str) -> Reply:
        """Ask for something."""
        return self.call("GET", path)

    def post(self, path: str, body: object = None) -> Reply:
        """Change something."""
        return self.call("POST", path, {} if body is None else body)

    def call(
        self,
        verb: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Do something; the answer is as the document says."""
        reply = self.send(verb, f"/_emulator{path}", body, headers)
        schema = self._schema(verb, path.partition("?")[0], reply.status)
        if schema is not None:
            whole = {**schema, "components": self._document["components"]}
            Draft202012Validator(whole).validate(reply.body)
        return reply

    def _schema(self, verb: str, path: str, status: int) -> dict[str, Any] | None:
        for template, verbs in self._document["paths"].items():
            pattern = re.sub(r"\{[^}]+\}", "[^/]+", template)
            if re.fullmatch(pattern, path) and verb.lower() in verbs:
                responses = verbs[verb.lower()]["responses"]
                answer = responses.get(str(status), responses["default"])
                (content,) = answer["content"].values()
                return dict(content["schema"])
        return None

    def send(
        self,
        verb: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request to any route of the server, exactly as it is written."""
        connection = HTTPConnection(self._server.host, self._server.port, timeout=60)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body)
            connection.request(verb, path, data, dict(headers or {}))
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        is_json = answer.headers.get_content_type() == "application/json"
        return Reply(answer.status, json.loads(text) if is_json else text, dict(answer.headers))
