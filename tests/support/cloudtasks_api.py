"""Calls of Cloud Tasks in one form, over REST and over gRPC, without a client library."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce
from operator import getitem
from typing import Any
from urllib.parse import quote, urlencode

import grpc
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.rpc.status_pb2 import Status
from urllib3 import PoolManager
from werkzeug.datastructures import Headers
from werkzeug.test import Client, EnvironBuilder, TestResponse

from pullqueue.cloudtasks.messages import message_class
from pullqueue.cloudtasks.methods import Method
from pullqueue.cloudtasks.versions import V2BETA2, Version
from pullqueue.error_codes import RPC_CODES
from pullqueue.server.lifecycle import Server

LOCATION = "projects/app/locations/us-central1"
PULL, PUSH, MADE = (f"{LOCATION}/queues/{name}" for name in ("pull", "push", "made"))
Call = Callable[..., dict[str, Any]]
"""Calls a method by its name, with the fields of its request as JSON has them."""


class ApiRefused(Exception):  # noqa: N818 - reads as what happened
    """A call was refused; its text is the message, and in parentheses the advice."""

    def __init__(self, code: str, message: str, details: list[dict[str, Any]]) -> None:
        self.code = code
        self.message = message
        self.details = details
        """The details as JSON, each with its `@type`."""
        advice = [detail["message"] for detail in details if detail["@type"].endswith("dMessage")]
        self.advice = advice[-1] if advice else ""
        super().__init__(f"{code}: {message}" + (f" ({self.advice})" if advice else ""))


def refused(code: str, text: str = "") -> Any:
    """Expect a call to be refused."""
    return pytest.raises(ApiRefused, match=f"^{code}: .*{text}" if text else f"^{code}")


class HttpClient:
    """Sends requests to a server as a client of werkzeug does to an application."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: Any = PoolManager(retries=False, timeout=60)

    def open(self, path: str, *, method: str, data: Any, headers: dict[str, str]) -> TestResponse:
        """Send a request and return the response."""
        url = self._url + path
        sent = self._pool.request(method, url, body=data, headers=headers, redirect=False)
        request = EnvironBuilder(path, method=method).get_request()
        return TestResponse([sent.data], str(sent.status), Headers(dict(sent.headers)), request)


class RestApi:
    """The REST interface of an application or a server, spoken by hand."""

    def __init__(
        self, client: Client | HttpClient, token: str | None = None, *, version: Version = V2BETA2
    ) -> None:
        self._client = client
        self._version = version
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def __call__(self, name: str, /, **fields: Any) -> dict[str, Any]:
        method = find_method(self._version, name)
        path, query, body = transcoded(method, json.loads(json.dumps(fields)))
        return self.send(method.verb, f"{quote(path)}?{urlencode(query)}", body)

    def send(self, verb: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send a request to a path below the version's and return the JSON of the response."""
        data = body if isinstance(body, bytes | None) else json.dumps(body)
        url = f"/{self._version.name}/{path}"
        response = self._client.open(url, method=verb, data=data, headers=self._headers)
        answer: dict[str, Any] = response.get_json()
        if response.status_code < 300:
            return answer
        error = answer["error"]
        assert RPC_CODES[error["status"]].http_status == error["code"] == response.status_code
        raise ApiRefused(error["status"], error["message"], error.get("details", []))


class GrpcApi:
    """The gRPC interface of a server, without Google's client."""

    def __init__(
        self, server: Server, token: str | None = None, *, version: Version = V2BETA2
    ) -> None:
        self._version = version
        self.channel = grpc.insecure_channel(server.start_grpc())
        self._metadata = () if token is None else (("authorization", f"Bearer {token}"),)

    def __call__(self, name: str, /, **fields: Any) -> dict[str, Any]:
        method = find_method(self._version, name)
        message = ParseDict(fields, message_class(method.version, method.request)())
        data = self.send(method, message.SerializeToString())
        return dict(MessageToDict(message_class(method.version, method.response).FromString(data)))

    def send(
        self,
        method: Method,
        data: bytes,
        *,
        metadata: tuple[tuple[str, str], ...] | None = None,
        timeout: float | None = 30,
    ) -> bytes:
        """Send the bytes of a request, routed by any name, and return those of the response.

        Metadata that are given replace the routing, and the token.
        """
        if metadata is None:
            routing = ("x-goog-request-params", f"{method.field}=projects%2Fany")
            metadata = (*self._metadata, routing)
        call = self.channel.unary_unary(f"/{method.service}/{method.name}")
        try:
            return bytes(call(data, metadata=metadata, timeout=timeout))
        except grpc.RpcError as error:
            trailers = dict(error.trailing_metadata() or ())
            status = Status.FromString(trailers.get("grpc-status-details-bin", b""))
            assert status.message in ("", error.details())  # as Google's clients require
            details = MessageToDict(status).get("details", [])
            raise ApiRefused(error.code().name, error.details(), details) from None


def ids(page: dict[str, Any]) -> list[str]:
    """Return the ids of the tasks or queues of a page."""
    found: list[dict[str, Any]] = page.get("tasks", []) + page.get("queues", [])
    return [each["name"].rpartition("/")[2] for each in found]


def app_engine(url: str = "/mail", body: str = "", **fields: Any) -> dict[str, Any]:
    """Return the message of an App Engine task."""
    return {"appEngineHttpRequest": {"relativeUri": url, "body": body, **fields}}


def http(url: str = "https://api.example.com/work", **fields: Any) -> dict[str, Any]:
    """Return the message of an HTTP task."""
    return {"httpRequest": {"url": url, **fields}}


def find_method(version: Version, name: str) -> Method:
    """Return the method with a name."""
    return next(method for method in version.methods if method.name == name)


def transcoded(
    method: Method, fields: dict[str, Any]
) -> tuple[str, dict[str, Any], dict[str, Any] | None]:
    """Return path, query and body of a REST request."""
    *holders, field = method.field.split(".")
    if not method.resource:
        return method.suffix, {"appId": fields["appId"]}, fields.get("httpBody")
    holder = reduce(getitem, holders, fields)
    path = f"{holder.pop(field)}{method.suffix}"
    if "<task_id>" in path:
        path = path.replace("<task_id>", fields.pop("taskId", ""))
    if method.body == "*":
        return path, {}, fields
    body = fields.pop(method.body, {}) if method.body else None
    return path, fields, body
