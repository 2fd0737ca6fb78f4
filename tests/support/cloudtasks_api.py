"""Calls of Cloud Tasks in one form, over REST and over gRPC, without a client library."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote, urlencode

import grpc
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from pullqueue.cloudtasks.messages import message_class
from pullqueue.cloudtasks.methods import Method
from pullqueue.cloudtasks.versions import V2BETA2, Version
from pullqueue.server.lifecycle import Server

LOCATION = "projects/app/locations/us-central1"
PULL = f"{LOCATION}/queues/pull"
Call = Callable[..., dict[str, Any]]
"""Calls a method by its name, with the fields of its request."""


class ApiRefused(Exception):  # noqa: N818 - reads as what happened
    """A call was refused."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(f"{code}: {message}")


def refused(code: str, text: str = "") -> Any:
    """Expect a call to be refused."""
    return pytest.raises(ApiRefused, match=f"{code}: .*{text}")


class RestApi:
    """The REST interface, spoken by hand."""

    def __init__(
        self, server: Server, token: str | None = None, *, version: Version = V2BETA2
    ) -> None:
        self._server = server
        self._version = version
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def call(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Call a method with the fields of its request, as JSON has them."""
        method = method_of(self._version, name)
        path, query, body = _transcoded(method, json.loads(json.dumps(fields)))
        status, answer = self.send(method.verb, f"{quote(path)}?{urlencode(query)}", body)
        if status >= 300:
            raise ApiRefused(answer["error"]["status"], answer["error"]["message"])
        return answer

    def send(self, verb: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """Send a request to a path below the version's and return status and JSON."""
        connection = HTTPConnection(self._server.host, self._server.port, timeout=60)
        data = body if isinstance(body, bytes | None) else json.dumps(body)
        connection.request(verb, f"/{self._version.name}/{path}", data, self._headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer


class GrpcApi:
    """The gRPC interface, without Google's client."""

    def __init__(
        self, server: Server, token: str | None = None, *, version: Version = V2BETA2
    ) -> None:
        self._version = version
        self.channel = grpc.insecure_channel(server.start_grpc())
        self._metadata = () if token is None else (("authorization", f"Bearer {token}"),)

    def call(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Call a method with the fields of its request, as JSON has them."""
        method = method_of(self._version, name)
        message = ParseDict(fields, message_class(method.version, method.request)())
        data = self.send(method, message.SerializeToString())
        return dict(MessageToDict(message_class(method.version, method.response).FromString(data)))

    def send(self, method: Method, data: bytes) -> bytes:
        """Send the bytes of a request and return those of the response."""
        try:
            return bytes(
                self.channel.unary_unary(f"/{method.service}/{method.name}")(
                    data, metadata=self._metadata, timeout=60
                )
            )
        except grpc.RpcError as error:
            raise ApiRefused(error.code().name, error.details()) from None


def method_of(version: Version, name: str) -> Method:
    """Return the method with a name."""
    return next(method for method in version.methods if method.name == name)


def _transcoded(
    method: Method, fields: dict[str, Any]
) -> tuple[str, dict[str, Any], dict[str, Any] | None]:
    """Return path, query and body of a REST request."""
    *holders, field = method.field.split(".")
    holder = fields
    for name in holders:
        holder = fields[name]
    if not method.resource:
        return method.suffix, {"appId": fields["appId"]}, fields["httpBody"]
    path = f"{holder.pop(field)}{method.suffix}"
    if method.body == "*":
        return path, {}, fields
    body = fields.pop(method.body, {}) if method.body else None
    return path, fields, body
