"""Answering serialized calls, the way App Engine's runtimes make them to bundled services."""

from __future__ import annotations

import logging
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from typing import Any

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import call_deadline
from pullqueue.sdk.environment import BRIDGE_PATH
from pullqueue.sdk.imports import DecodeError, apiproxy_errors, messages, remote_api
from pullqueue.sdk.protocol import DEADLINE_SECONDS, logged_call
from pullqueue.sdk.stub import CALLS, DATASTORE, SERVICE, no_such_call
from pullqueue.sdk.transactions import TransactionalStub
from pullqueue.text import quoted

_UPSTREAM_SECONDS = 60.0
_LOGGED_SERVICES = 50
"""How many missing services are logged: a client can make up any number of names."""
_HEADERS = {"Content-Type": "application/octet-stream"}

_Rpc = remote_api.RpcError

_log = logging.getLogger("pullqueue.sdk")

_RPC_ERRORS = {
    apiproxy_errors.OverQuotaError: _Rpc.OVER_QUOTA,
    apiproxy_errors.DeadlineExceededError: _Rpc.DEADLINE_EXCEEDED,
    apiproxy_errors.RequestTooLargeError: _Rpc.REQUEST_TOO_LARGE,
}


class CallServer:
    """Answers calls to the task queue service with an emulator's queues."""

    def __init__(self, emulator: Emulator, *, upstream: str | None = None) -> None:
        """Pass calls to other services on to `upstream`, a `host:port`."""
        self._upstream = upstream
        self._missing: set[str] = set()
        """What was logged of services that were called though there is no upstream."""
        self._stub = TransactionalStub.over(emulator)
        self._stub.has_datastore = upstream is not None

    def answer(self, data: bytes, logged: dict[str, Any], deadline: str | None = None) -> bytes:
        """Answer a serialized request with a serialized response.

        Into `logged` goes what the request log records of it. The deadline is how long the caller
        waits, in seconds.
        """
        request = _parsed(data)
        if request is None:
            return _failure(_Rpc.PARSE_ERROR, "the body is not a remote_api Request")
        name = f"{request.service_name}.{request.method}"
        logged |= {"method": name, "path": f"{BRIDGE_PATH} {name}"}
        if request.service_name == SERVICE:
            with call_deadline(_deadline_usec(deadline)):
                return self._answer(request.method, request.request, logged)
        if self._upstream is None:
            return self._answer_alone(request)
        response = _answer_of(self._upstream, data)
        if request.service_name == DATASTORE:
            self._stub.end_transaction(
                request.method, request.request, succeeded=_has_result(response)
            )
        return response

    def _answer(self, method: str, data: bytes, logged: dict[str, Any]) -> bytes:
        if method not in CALLS:
            return _failure(_Rpc.CALL_NOT_FOUND, no_such_call(method))
        call = getattr(messages, f"TaskQueue{method}Request")()
        result = getattr(messages, f"TaskQueue{method}Response")()
        fault = _fill(call, data)
        if fault is not None:
            return _failure(_Rpc.PARSE_ERROR, f'the request of "{method}" {fault}')
        try:
            self._stub.MakeSyncCall(SERVICE, method, call, result)
        except apiproxy_errors.Error as error:
            logged |= logged_call(method, call, result, error)
            return _refusal(error)
        logged |= logged_call(method, call, result, None)
        return _serialized(remote_api.Response(response=result.SerializeToString()))

    def _answer_alone(self, request: Any) -> bytes:
        """Return the response to a request for another service where no upstream is named.

        A Go app flushes its log at the end of every request, and also writes it to standard error:
        that call succeeds. All others fail, and are logged: the memcache client hides the error.
        """
        service = request.service_name
        if (service, request.method) == ("logservice", "Flush"):
            return _serialized(remote_api.Response(response=b""))
        problem = (
            f'pullqueue has no service {quoted(service)}, only "taskqueue": start it '
            "with --api-upstream HOST:PORT to pass calls to other services on"
        )
        if problem not in self._missing and len(self._missing) < _LOGGED_SERVICES:
            self._missing.add(problem)
            _log.warning("%s", problem)
        return _failure(_Rpc.CALL_NOT_FOUND, problem)


def _deadline_usec(text: str | None) -> int:
    try:
        return round(float(text or DEADLINE_SECONDS) * USEC_PER_SECOND)
    except (ValueError, OverflowError):  # not a number, or infinite
        return round(DEADLINE_SECONDS * USEC_PER_SECOND)


def _answer_of(upstream: str, data: bytes) -> bytes:
    """Return the upstream's answer to a serialized request, or an error that names it."""
    try:
        with closing(HTTPConnection(upstream, timeout=_UPSTREAM_SECONDS)) as connection:
            connection.request("POST", BRIDGE_PATH, data, _HEADERS)
            response = connection.getresponse()
            body = response.read()
        if response.status == 200:
            return body
        reason: object = f"status {response.status}"
    except (OSError, HTTPException) as error:
        reason = error
    return _failure(_Rpc.UNKNOWN, f"the upstream {upstream} did not respond: {reason}")


def _has_result(response: bytes) -> bool:
    try:
        return bool(remote_api.Response.FromString(response).HasField("response"))
    except DecodeError:
        return False


def _parsed(data: bytes) -> Any | None:
    request = remote_api.Request()
    try:
        request.ParseFromString(data)
    except DecodeError:
        return None
    return request


def _fill(message: Any, data: bytes) -> str | None:
    """Parse serialized data into a message; return what is wrong with the data, if anything."""
    try:
        message.ParseFromString(data)
    except DecodeError:
        return "cannot be parsed as its protocol buffer"
    missing = message.FindInitializationErrors()
    return f"lacks {', '.join(missing)}" if missing else None


def _refusal(error: Any) -> bytes:
    for kind, code in _RPC_ERRORS.items():
        if isinstance(error, kind):
            return _failure(code, str(error))
    refusal = remote_api.ApplicationError(code=error.application_error, detail=error.error_detail)
    return _serialized(remote_api.Response(application_error=refusal))


def _failure(code: int, detail: str) -> bytes:
    # The SDK's client takes the text for a format.
    failure = remote_api.RpcError(code=code, detail=detail.replace("%", "%%"))
    return _serialized(remote_api.Response(rpc_error=failure))


def _serialized(response: Any) -> bytes:
    data: bytes = response.SerializeToString()
    return data
