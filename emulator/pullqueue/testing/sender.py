"""Where the helpers of tests send push tasks: to the app itself, or by a function of the test."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from pullqueue.config.model import QueueSettings
from pullqueue.push.request import (
    PushRequest,
    PushResponse,
    Send,
    effective_request,
    find_target,
    list_targets,
    send_following,
)
from pullqueue.push.wsgi_sender import TEST_BODY_KEPT, WsgiSender
from pullqueue.tasks import Task, default_url
from pullqueue.testing.arguments import SYNC_SEND, check_flags, refuse_lazy
from pullqueue.testing.points.responses import note_end, noting_end
from pullqueue.text import is_integer, quoted

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

App: TypeAlias = "WSGIApplication | Mapping[str | None, WSGIApplication]"
"""A WSGI app, or several by their targets; None: of tasks without a target."""
SendFunction: TypeAlias = Callable[[PushRequest], object]
"""Sends a request and returns a status, or a response that has one."""

_DEFERRED_URL = default_url("deferred")
"""Where `deferred.defer` sends its calls."""


class Sender:
    """Sends the requests of push tasks to where the arguments of `run_tasks` say."""

    def __init__(
        self, app: App | None, send: SendFunction | None, *, deferred: bool = False
    ) -> None:
        check_flags(deferred=deferred)
        if app is not None and send is not None:
            raise TypeError("both app and send are set: use one of them")
        self.is_set = app is not None or send is not None or deferred
        """True if one of them says where tasks are sent."""
        self._apps: dict[str | None, Send] | None = None
        self._send: Send | None = None
        if isinstance(app, Mapping):
            self._apps = {target: WsgiSender(one, noting_end) for target, one in app.items()}
        elif app is not None:
            self._send = WsgiSender(app, noting_end)
        elif send is not None:
            self._send = _FunctionSender(send)
        self._deferred: Send | None = None
        if deferred:
            from pullqueue.sdk.deferred import run_deferred  # noqa: PLC0415 - imports the SDK

            self._deferred = run_deferred

    def __call__(self, request: PushRequest) -> PushResponse:
        """Send a request; `check` has accepted its task."""
        return send_following(request, lambda request: self._find(request.url, request.target))

    def check(self, task: Task, settings: QueueSettings) -> None:
        """Raise a ValueError unless there is somewhere to send a task."""
        request = effective_request(task, settings)
        target = find_target(request, settings)
        if self._find(request.url, target) is not None:
            return
        needed, example = "app is missing", "pass it"
        if self._apps is not None:
            of_target = "without a target" if target is None else f"with target {quoted(target)}"
            needed = f"there is no app for tasks {of_target}"
            example = f"pass app={{{'None' if target is None else quoted(target)}: ...}}"
        raise ValueError(
            f'{needed}, and task "{task.name}" of queue "{task.queue_name}" ({request.method} '
            f"{request.url}) is due: {example}"
        )

    def _find(self, url: str, target: str | None) -> Send | None:
        if self._deferred is not None and url == _DEFERRED_URL:
            return self._deferred
        if self._apps is None:
            return self._send
        return next((self._apps[name] for name in list_targets(target) if name in self._apps), None)


class _FunctionSender:
    """Sends requests by a function of the test, such as one that uses a test client."""

    def __init__(self, send: SendFunction) -> None:
        if not callable(send):
            raise TypeError(f"send is {quoted(send)}: pass a function that gets a PushRequest")
        if any(map(inspect.iscoroutinefunction, (send, type(send).__call__))):
            raise TypeError(f"send is {quoted(send)}, a coroutine function: {SYNC_SEND}")
        self._send = send

    def __call__(self, request: PushRequest) -> PushResponse:
        try:
            result = self._send(request)
        except Exception as error:  # noqa: BLE001 - of the handler, whatever it is
            return PushResponse(500, error=error)
        if isinstance(result, PushResponse):
            return result
        refuse_lazy(result, "send")
        status = result
        for name in ("status_code", "status_int"):
            status = getattr(status, name, status)
        if status is not result:
            note_end()
        if not is_integer(status) or not 100 <= status <= 599:
            raise TypeError(
                f"send returned {quoted(status)}: it must return a status, such as 200, or an "
                "object with status_code or status_int"
            )
        found = getattr(result, "headers", {})
        wait, location = str(found.get("Retry-After", "")), str(found.get("Location", ""))
        return PushResponse(int(status), _body_of(result), retry_after=wait, location=location)


def _body_of(response: object) -> bytes:
    # Django, Starlette, httpx and requests; Flask and werkzeug; webtest.
    bodies = (getattr(response, name, None) for name in ("content", "data", "body"))
    return next((body for body in bodies if isinstance(body, bytes)), b"")[:TEST_BODY_KEPT]
