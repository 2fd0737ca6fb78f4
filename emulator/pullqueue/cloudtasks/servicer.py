"""The service: what both transports call with a message, and get a message from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from pullqueue.api.auth import Authorizer
from pullqueue.api.resources import Project
from pullqueue.cloudtasks import access, batches, errors, locations, queues, tasks, texts
from pullqueue.cloudtasks.calls import Call, ResourceName
from pullqueue.cloudtasks.messages import Message
from pullqueue.cloudtasks.methods import Method
from pullqueue.cloudtasks.versions import VERSIONS
from pullqueue.errors import PullQueueError, UnknownQueueError
from pullqueue.observe.activity import ProjectLog
from pullqueue.runtime.state import ServerState

_KNOWN: Final = vars(queues) | vars(tasks) | vars(batches) | vars(access) | vars(locations)
_FUNCTIONS: Final[Mapping[str, Callable[[Call], Message]]] = MappingProxyType(
    {
        method.name: _KNOWN[method.function]
        for version in VERSIONS.values()
        for method in version.methods
    }
)

_ORDINARY: Final = frozenset(
    {*(texts.TASK_EXISTS, texts.TASK_DELETED, texts.TASK_GONE, texts.NOT_FOUND), texts.QUEUE_EXISTS}
)
"""Errors that apps expect: they add each task once by its name, and create queues at each start."""


class Servicer:
    """Carries out calls on one emulator. Safe under threads."""

    def __init__(self, state: ServerState) -> None:
        """Serve the emulator of a server."""
        self._state = state
        self._log = ProjectLog("pullqueue.server", state.emulator)
        self._log_once = lru_cache(maxsize=1000)(self._log.warning)
        self._authorizer = (
            Authorizer(state.tokens, scopes=access.SCOPES, audience=access.AUDIENCE)
            if state.acl
            else None
        )
        self.requests = state.requests
        self.request_bytes = state.emulator.limits.rest_body_bytes

    def authenticate(self, token: str) -> str | None:
        """Return the e-mail address of the holder of a token; None: access is not restricted."""
        if self._authorizer is None:
            return None
        return self._authorizer.authenticate(token).email

    def now(self) -> datetime:
        """Return the time of the emulator."""
        return self._state.emulator.clock.now()

    def queue_name(self, location: str, queue: str) -> str:
        """Return the name that the emulator has for a queue of a location; empty for none."""
        return queue and self._state.emulator.name_at(location, queue)

    def call(self, method: Method, request: Message, *, caller: str | None) -> Message:
        """Carry out one call; raise a CloudTasksError if it is refused, or failed."""
        try:
            return self._call(method, request, caller)
        except UnknownQueueError as error:
            refused = errors.as_service_error(error)
            if method.name == "DeleteQueue":
                refused = errors.CloudTasksError(
                    texts.NOT_FOUND, rpc_code="NOT_FOUND", advice=refused.explanation
                )
        except PullQueueError as error:
            refused = errors.as_service_error(error)
        except Exception as error:
            self._log.error(
                "%s failed because of a bug in the emulator", method.name, exc_info=error
            )
            raise errors.CloudTasksError(
                "the emulator failed: see its log", rpc_code="INTERNAL"
            ) from error
        self._log_refused(method, refused)
        raise refused

    def _call(self, method: Method, request: Message, caller: str | None) -> Message:
        name = self._find_resource(method, request)
        call = Call(request, name, self._state, caller, method)
        if method.permission and name.queue:
            self._check_permission(call, method)
        response = _FUNCTIONS[method.name](call)
        self._state.wake()
        return response

    def _log_refused(self, method: Method, refused: errors.CloudTasksError) -> None:
        """Log an error, once: a client may show only the text of production, or nothing.

        Apps expect some errors; those are in the request log only.
        """
        if str(refused) in _ORDINARY:
            return
        advice = f" ({refused.explanation})" if refused.explanation else ""
        self._log_once(f"{method.name} refused, {refused.rpc_code}: {refused}{advice}")

    def _check_permission(self, call: Call, method: Method) -> None:
        try:
            queue = call.queue
        except UnknownQueueError:
            if method.creates:
                return
            raise
        resource = str(call.name.of_queue)
        access.check_permission(queue, call.caller, method.permission, resource=resource)

    def _find_resource(self, method: Method, request: Message) -> ResourceName:
        text = method.read_resource(request)
        if not text:
            raise errors.invalid_field(method.field, "is missing")
        name = ResourceName.parse(text, method.resource or "<project>", field=method.field)
        served, location = self._state.emulator.project, self._state.emulator.location
        if served is not None and Project.of(name.project).app_id != Project.of(served).app_id:
            advice = f'project "{name.project}" is not served here, only "{served}"'
            raise errors.permission_denied(name.project, advice=advice)
        locations.check_location(name, text, method.field, location)
        return name
