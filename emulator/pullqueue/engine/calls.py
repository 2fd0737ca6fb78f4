"""The way every call takes to a queue, and the one place to step into it.

Tools for tests stand on the path and let calls fail, wait or be counted; the queue itself knows
nothing of them. While nobody stands there, the path costs one look.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, TypeVar, cast

from pullqueue.errors import is_refusal

if TYPE_CHECKING:
    from pullqueue.engine.queue_view import QueueView

__tracebackhide__ = is_refusal

_Q = TypeVar("_Q", bound="QueueView")
_P = ParamSpec("_P")
_R = TypeVar("_R")

VERBS = (
    "add",
    "lease_tasks",
    "lease_tasks_by_tag",
    "modify_task_lease",
    "delete_tasks",
    "purge",
    "fetch_statistics",
    "get_task",
    "list_tasks",
)
"""The calls that can be stepped into, by the names that users of the API know."""


class QueueCall(NamedTuple):
    """One call on its way to a queue."""

    queue: QueueView
    method: str
    """The queue's method through which all such calls go, such as `lease`."""
    arguments: tuple[object, ...]
    options: Mapping[str, object]


Interceptor = Callable[[QueueCall, Callable[[], object]], object]
"""Stands on the path of the calls: takes a call and a function that does it.

It may do the call or not, or twice; it gives the answer, or another, or raises.
"""


class CallPath:
    """What the calls of one emulator pass on their way, whichever door they come through."""

    def __init__(self) -> None:
        self.interceptors: tuple[Interceptor, ...] = ()
        self._lock = threading.Lock()

    def add(self, interceptor: Interceptor) -> None:
        """Let calls pass an interceptor, before those that are there already."""
        with self._lock:
            self.interceptors = (interceptor, *self.interceptors)

    def remove(self, interceptor: Interceptor) -> None:
        """Let calls pass an interceptor no longer; nothing happens if they do not."""
        with self._lock:
            self.interceptors = tuple(i for i in self.interceptors if i is not interceptor)

    def follow(self, call: QueueCall, arrive: Callable[[], object]) -> object:
        """Take a call along the path to its end, and its answer back."""
        for interceptor in reversed(self.interceptors):
            arrive = partial(interceptor, call, arrive)
        return arrive()


def on_call_path(method: Callable[Concatenate[_Q, _P], _R]) -> Callable[Concatenate[_Q, _P], _R]:
    """Let the calls of a method of `Queue` take the path of their emulator."""

    @wraps(method)
    def call(queue: _Q, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not queue.call_path.interceptors:
            return method(queue, *args, **kwargs)
        passing = QueueCall(queue, method.__name__, args, kwargs)
        answer = queue.call_path.follow(passing, partial(method, queue, *args, **kwargs))
        return cast("_R", answer)

    return call
