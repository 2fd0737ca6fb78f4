"""Answering serialized calls, the way App Engine's runtimes make them to bundled services."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from contextlib import closing
from functools import lru_cache
from http.client import HTTPConnection, HTTPException
from itertools import compress
from typing import Any

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import amend_origin, call_deadline
from pullqueue.sdk import DATASTORE
from pullqueue.sdk.environment import BRIDGE_PATH
from pullqueue.sdk.imports import DecodeError, apiproxy_errors, messages, remote_api
from pullqueue.sdk.protocol import DEADLINE_SECONDS, logged_call
from pullqueue.sdk.startup.sitecustomize import TICKET
from pullqueue.sdk.stub import CALLS, SERVICE, no_such_call
from pullqueue.sdk.transactions import TransactionalStub
from pullqueue.services import SERVICES
from pullqueue.services.hosting import Services
from pullqueue.services.stubs import find_messages
from pullqueue.text import quoted

_UPSTREAM_SECONDS = 60.0
_HEADERS = {"Content-Type": "application/octet-stream"}

_NOT_PARSED = "cannot be parsed as its protocol buffer"

_TICKET = re.compile(rf"{TICKET}(:([^ ~]*~)?(?P<app>[^ ~]+))? *")
"""What the tickets of `sitecustomize` begin with; the name of the program follows."""
_Rpc = remote_api.RpcError

_log = logging.getLogger("pullqueue.sdk")

_RPC_ERRORS = {
    apiproxy_errors.CallNotFoundError: _Rpc.CALL_NOT_FOUND,
    apiproxy_errors.CancelledError: _Rpc.CANCELLED,
    apiproxy_errors.CapabilityDisabledError: _Rpc.CAPABILITY_DISABLED,
    apiproxy_errors.DeadlineExceededError: _Rpc.DEADLINE_EXCEEDED,
    apiproxy_errors.FeatureNotEnabledError: _Rpc.FEATURE_DISABLED,
    apiproxy_errors.OverQuotaError: _Rpc.OVER_QUOTA,
    apiproxy_errors.RequestTooLargeError: _Rpc.REQUEST_TOO_LARGE,
    apiproxy_errors.ResponseTooLargeError: _Rpc.RESPONSE_TOO_LARGE,
}


def find_app(data: bytes) -> str:
    """Return the id of the app that makes a serialized request, without its partition.

    It is empty if the request does not say so: only apps in Python do.
    """
    request = _parsed(data)
    found = None if request is None else _TICKET.match(request.request_id)
    return found["app"] or "" if found else ""


class CallServer:
    """Answers calls to the task queue service with an emulator's queues."""

    def __init__(
        self, emulator: Emulator, *, services: Services | None, upstream: str | None
    ) -> None:
        """Answer calls to `services`, too; pass others on to `upstream`, a `host:port`.

        Tasks whose transaction was committed before a crash are added now.
        """
        self._services = services
        self._hosted = services.names if services is not None else frozenset()
        self._upstream = upstream
        self._log_once = lru_cache(maxsize=50)(_log.warning)
        self._stub = TransactionalStub.over(emulator)
        self._stub.has_datastore = upstream is not None or DATASTORE in self._hosted
        if services is not None:
            numbers_and_tasks = services.tasks()
            adds = [messages.TaskQueueAddRequest.FromString(task) for _, task in numbers_and_tasks]
            self._add_committed(adds, [number for number, _ in numbers_and_tasks])

    def answer(self, data: bytes, logged: dict[str, Any], deadline: str | None = None) -> bytes:
        """Answer a serialized request with a serialized response.

        Into `logged` goes what the request log records of it. The deadline is how long the caller
        waits, in seconds.
        """
        request = _parsed(data)
        if request is None:
            return _failure(_Rpc.PARSE_ERROR, "the body is not a remote_api Request")
        service, method = request.service_name, request.method
        name = f"{service}.{method}"
        if client := _TICKET.sub("", request.request_id):
            amend_origin(client=client)
        logged |= {"method": name, "path": f"{BRIDGE_PATH} {name}"}
        ends = service == DATASTORE and method in ("Commit", "Rollback")
        try:
            adds = self._stub.take(request.request) if ends else []
        except DecodeError:
            return _failure(_Rpc.PARSE_ERROR, f'the request of "{method}" {_NOT_PARSED}')
        if service == SERVICE or service in self._hosted:
            return self._answer(request, logged, adds, _read_deadline(deadline))
        if self._upstream is None:
            return self._answer_alone(request)
        response = _ask_upstream(self._upstream, data)
        if method == "Commit" and _has_result(response):
            self._stub.add_committed(adds)
        return response

    def _answer(
        self, request: Any, logged: dict[str, Any], adds: Sequence[Any], usec: int
    ) -> bytes:
        """Parse a request, make its call, and return the response."""
        service, method = request.service_name, request.method
        try:
            kinds = self._find_messages(service, method)
        except apiproxy_errors.Error as error:
            return _refusal(error)
        if kinds is None:
            return _failure(_Rpc.CALL_NOT_FOUND, no_such_call(method, service))
        call, result = kinds[0](), kinds[1]()
        fault = _fill(call, request.request)
        if fault is not None:
            return _failure(_Rpc.PARSE_ERROR, f'the request of "{method}" {fault}')
        try:
            if service == SERVICE:
                with call_deadline(usec):
                    self._stub.MakeSyncCall(SERVICE, method, call, result)
            else:
                self._call_service(request, call, result, adds=adds, usec=usec)
        except apiproxy_errors.Error as error:
            logged |= logged_call(service, method, call, result, error)
            return _refusal(error)
        logged |= logged_call(service, method, call, result, None)
        return _serialized(remote_api.Response(response=result.SerializeToString()))

    def _find_messages(self, service: str, method: str) -> tuple[Any, Any] | None:
        if service != SERVICE:
            return find_messages(service, method)
        if method not in CALLS:
            return None
        names = (f"TaskQueue{method}Request", f"TaskQueue{method}Response")
        return getattr(messages, names[0]), getattr(messages, names[1])

    def _call_service(
        self, request: Any, call: Any, result: Any, *, adds: Sequence[Any], usec: int
    ) -> None:
        """Call a service; with a commit go the tasks of its transaction."""
        if self._services is None:
            return
        service, method = request.service_name, request.method
        tasks = [add.SerializeToString() for add in adds] if method == "Commit" else []
        seconds = usec / USEC_PER_SECOND
        try:
            numbers = self._services.call(
                service, method, call, result, seconds=seconds, tasks=tasks
            )
        except apiproxy_errors.Error:
            raise
        except Exception as error:
            # Google's stubs check little, and some raise whatever they meet.
            reason = f"{type(error).__name__}: {error}"
            _log.warning("%s.%s failed: %s", service, method, reason)
            _log.debug("%s.%s failed", service, method, exc_info=True)
            problem = f"Google's stub of {service} failed: {reason}"
            raise apiproxy_errors.RPCFailedError(problem) from error
        if tasks:
            self._add_committed(adds, numbers)

    def _add_committed(self, adds: Sequence[Any], numbers: Sequence[int]) -> None:
        """Add the tasks of commits to their queues, and delete them where services keep them."""
        added = self._stub.add_committed(adds)
        if self._services is not None:
            self._services.delete_tasks([*compress(numbers, added)])

    def _answer_alone(self, request: Any) -> bytes:
        """Return the response to a request for a service that is neither hosted nor upstream.

        A Go app flushes its log at the end of every request, and also writes it to standard error:
        that call succeeds. All others fail, and are logged: the memcache client hides the error.
        """
        service = request.service_name
        if (service, request.method) == ("logservice", "Flush"):
            return _serialized(remote_api.Response(response=b""))
        answered = ", ".join(quoted(name) for name in sorted({SERVICE, *self._hosted}))
        advice = "--services all, or with " if service in SERVICES else ""
        problem = (
            f"pullqueue has no service {quoted(service)}, only {answered}: start it with "
            f"{advice}--api-upstream HOST:PORT to pass its calls on"
        )
        self._log_once(problem)
        return _failure(_Rpc.CALL_NOT_FOUND, problem)


def _read_deadline(text: str | None) -> int:
    try:
        return round(float(text or DEADLINE_SECONDS) * USEC_PER_SECOND)
    except (ValueError, OverflowError):  # not a number, or infinite
        return round(DEADLINE_SECONDS * USEC_PER_SECOND)


def _ask_upstream(upstream: str, data: bytes) -> bytes:
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
    # Text that is not UTF-8 is bytes.
    texts = (request.service_name, request.method, request.request_id)
    return request if all(isinstance(text, str) for text in texts) else None


def _fill(message: Any, data: bytes) -> str | None:
    """Parse serialized data into a message; return what is wrong with the data, if anything."""
    try:
        message.ParseFromString(data)
    except DecodeError:
        return _NOT_PARSED
    missing = message.FindInitializationErrors()
    return f"lacks {', '.join(missing)}" if missing else None


def _refusal(error: Any) -> bytes:
    if not isinstance(error, apiproxy_errors.ApplicationError):
        return _failure(_RPC_ERRORS.get(type(error), _Rpc.UNKNOWN), str(error))
    refusal = remote_api.ApplicationError(code=error.application_error, detail=error.error_detail)
    return _serialized(remote_api.Response(application_error=refusal))


def _failure(code: int, detail: str) -> bytes:
    # The SDK's client takes the text for a format.
    failure = remote_api.RpcError(code=code, detail=detail.replace("%", "%%"))
    return _serialized(remote_api.Response(rpc_error=failure))


def _serialized(response: Any) -> bytes:
    data: bytes = response.SerializeToString()
    return data
