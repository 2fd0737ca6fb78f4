"""How calls, names and errors look on the SDK's side."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from time import perf_counter
from typing import Any

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.engine import interceptors
from pullqueue.engine.events import Interface, Origin
from pullqueue.error_codes import find_codes
from pullqueue.errors import DeadlineExceededError, OverQuotaError, PullQueueError
from pullqueue.sdk.imports import apiproxy_errors, apiproxy_rpc
from pullqueue.text import decode_name

_SHOWN_BYTES = 64 * 1024
_UNLOGGED = interceptors.Caller(Origin(Interface.SDK))
_CALL_ERRORS: dict[type[PullQueueError], type[Exception]] = {
    DeadlineExceededError: apiproxy_errors.DeadlineExceededError,
    OverQuotaError: apiproxy_errors.OverQuotaError,
}
DEADLINE_SECONDS = 60.0
"""The deadline of a call that names none, as in the SDK's client on App Engine."""


class EagerRPC(apiproxy_rpc.RPC):  # type: ignore[misc]  # the SDK is not typed
    """A call that is made when it is started, as on App Engine, not when someone waits for it.

    It runs in the caller's thread; its callback runs when it is waited for.
    """

    def _MakeCallImpl(self) -> None:
        self._state = apiproxy_rpc.RPC.RUNNING
        started = perf_counter()
        usec = round((self.deadline or DEADLINE_SECONDS) * USEC_PER_SECOND)
        logs = self.stub.call_logs
        caller = interceptors.current_caller() or _caller(logs)
        with interceptors.call_deadline(usec), interceptors.called_by(caller):
            self._CaptureTrace(self._SendRequest)
        if logs:
            call = logged_call(self.package, self.call, self.request, self.response, self.exception)
            seconds = perf_counter() - started
            for log in logs:
                log.record_call(call, seconds=seconds, origin=caller.origin, touched=caller.touched)

    def _WaitImpl(self) -> bool:
        self._state = apiproxy_rpc.RPC.FINISHING
        if self.callback:
            self.callback()
        return True


def _caller(logs: Sequence[interceptors.CallLog]) -> interceptors.Caller:
    """Return the caller of a call in process, with a number of the first log."""
    if not logs:
        return _UNLOGGED
    return interceptors.Caller(logs[0].origin(Interface.SDK), touched=interceptors.Touched())


def logged_call(
    service: str, method: str, request: Any, response: Any, error: Any
) -> dict[str, Any]:
    """Return what a request log records of a call, and of its response or error."""
    first = next(iter(getattr(request, "add_request", ())), request)
    name = getattr(first, "queue_name", b"")
    status: int = HTTPStatus.OK
    if error is not None:
        cause = error.__context__
        is_ours = isinstance(cause, PullQueueError)
        status = find_codes(cause).http_status if is_ours else HTTPStatus.BAD_REQUEST
    return {
        "method": f"{service}.{method}",
        # Statistics are those of several queues.
        "queue": decode_name(name if isinstance(name, bytes) else next(iter(name), b"")),
        "status": status,
        "body": _format_message(request),
        "response": _format_message(response) if error is None else str(error).encode(),
    }


def _format_message(message: Any) -> bytes:
    """Return a message as text, or, where it is long, as it is on the wire."""
    if message.ByteSize() > _SHOWN_BYTES:
        data: bytes = message.SerializeToString()
        return data
    return str(message).encode()


def sdk_error(error: PullQueueError) -> Exception:
    """Return the SDK's exception for an error; of most the client makes a `taskqueue.Error`.

    Deadline and quota are errors of the call, not of the service: App Engine raises them below
    the service, and the client does not change them.
    """
    own = _CALL_ERRORS.get(type(error))
    return application_error(error) if own is None else own(str(error))


def application_error(error: PullQueueError) -> Exception:
    """Return an error as one of the task queue service, whatever it is."""
    sdk: Exception = apiproxy_errors.ApplicationError(find_codes(error).sdk_code, str(error))
    return sdk
