"""Assertions about queues; their messages show what was there instead."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias
from urllib.parse import parse_qs

from pullqueue.engine.emulator import Emulator
from pullqueue.engine.events import EventKind
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.engine.queue import Queue
from pullqueue.engine.validation import AnyTask, name_of
from pullqueue.tasks import HttpRequest, Task, count_tasks
from pullqueue.testing.arguments import check_pull_queue, check_queue
from pullqueue.testing.describing import describe_payload, describe_queue, describe_task
from pullqueue.testing.record import records_of
from pullqueue.text import quoted

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class _Untagged(Enum):
    UNTAGGED = "untagged"

    def __repr__(self) -> str:
        return "UNTAGGED"

    __str__ = __repr__


UNTAGGED: Final = _Untagged.UNTAGGED
"""Means a task without a tag in `assert_added(queue, tag=UNTAGGED)`."""

_MISSES_SHOWN = 5


class JsonPayload:
    """Equals every payload that is this value as JSON, with any spaces and order of keys.

        assert_added(queue, payload=JsonPayload({"order": 7}))

    With `partial`, objects may have more keys than these, at any depth.
    """

    def __init__(self, expected: Json, *, partial: bool = False) -> None:
        self._expected = expected
        self._partial = partial

    def __eq__(self, other: object) -> bool:
        if isinstance(other, JsonPayload):
            return (self._expected, self._partial) == (other._expected, other._partial)
        if not isinstance(other, bytes | str):
            return NotImplemented
        try:
            actual = json.loads(other)
        except ValueError:
            return False
        return _same(self._expected, actual, partial=self._partial)

    __hash__ = None  # type: ignore[assignment] # equal to things whose hashes differ

    def __repr__(self) -> str:
        partial = ", partial=True" if self._partial else ""
        return f"JsonPayload({self._expected!r}{partial})"


def _same(expected: Json, actual: Json, *, partial: bool) -> bool:
    if isinstance(expected, dict) and isinstance(actual, dict):
        if not partial and expected.keys() != actual.keys():
            return False
        return all(
            k in actual and _same(v, actual[k], partial=partial) for k, v in expected.items()
        )
    if isinstance(expected, list) and isinstance(actual, list):
        same_length = len(expected) == len(actual)
        return same_length and all(
            _same(e, a, partial=partial) for e, a in zip(expected, actual, strict=True)
        )
    # True == 1 in Python, but not in JSON.
    return isinstance(expected, bool) == isinstance(actual, bool) and expected == actual


Payload = bytes | str | JsonPayload
Params = Mapping[str, object]


def assert_empty(queue: Queue | Emulator) -> None:
    """Assert that a queue has no task; of an `Emulator`, that all queues are empty.

    Exhausted tasks are not in the queue any more: `queue.exhausted` has them.

    Raises:
        AssertionError: there are tasks.
        TypeError: `queue` is neither a `Queue` nor an `Emulator`.
    """
    with bypass_interceptors():
        queues = queue.queues if isinstance(queue, Emulator) else [check_queue(queue)]
        full = [(q, count) for q in queues if (count := q.fetch_statistics().tasks)]
        if full:
            what = [f'queue "{q.name}" is not empty: it has {count_tasks(n)}' for q, n in full]
            _fail("\n".join(what), *(q for q, _ in full))


def assert_available(queue: Queue, count: int | None = None) -> None:
    """Assert that a queue has `count` available tasks; at least one if `count` is None.

    Those of a pull queue can be leased, those of a push queue are due.

    Raises:
        AssertionError: it has another number.
        TypeError: `queue` is not a `Queue`.
    """
    with bypass_interceptors():
        _check_count("available", check_queue(queue), queue.fetch_statistics().available, count)


def assert_leased(queue: Queue, count: int | None = None) -> None:
    """Assert that `count` tasks of a queue are leased; at least one if `count` is None.

    Raises:
        AssertionError: another number is leased.
        InvalidQueueModeError: the queue is a push queue.
        TypeError: `queue` is not a `Queue`.
    """
    with bypass_interceptors():
        _check_count("leased", check_pull_queue(queue), queue.fetch_statistics().leased, count)


def assert_exhausted(
    queue: Queue, task: AnyTask | str | None = None, count: int | None = None
) -> None:
    """Assert that a task is exhausted; without `task`, that `count` tasks are, or at least one.

    `task` is a task, also one of App Engine's SDK, or a name.

    Raises:
        AssertionError: the task is not exhausted, or another number is.
        TypeError: `queue` is not a `Queue`.
    """
    with bypass_interceptors():
        exhausted = check_queue(queue).exhausted
        if task is None:
            _check_count("exhausted", queue, len(exhausted), count)
            return
        name = name_of(task)
        found = sum(task.name == name for task in exhausted)
        if not _is_expected(found, count):
            rule = _retry_rule(queue)
            _fail(f'task "{name}" of queue "{queue.name}", which {rule}, is not exhausted', queue)


def _retry_rule(queue: Queue) -> str:
    retry = queue.settings.retry_parameters
    limit = None if retry is None else retry.task_retry_limit
    if limit is None:
        return "has no task_retry_limit"
    return f"permits {limit} {'retries' if queue.is_push else 'leases'}"


def assert_added(
    queue: Queue,
    *,
    count: int | None = None,
    payload: Payload | None = None,
    tag: str | Literal[_Untagged.UNTAGGED] | None = None,
    name: str | None = None,
    url: str | None = None,
    method: str | None = None,
    params: Params | None = None,
) -> None:
    """Assert that `count` tasks (None: at least one) were added, even if they are deleted now.

    Only tasks with this `payload`, `tag` and `name` are counted, if these are passed;
    `tag=UNTAGGED` means tasks without a tag. Of push tasks, `url` is compared with or without the
    query, and `params` with the query and the form in the body, decoded: a text for each name, or a
    list of texts. Under the pytest fixtures, and in blocks of `emulation` and `record_calls`, all
    tasks are known; otherwise only those that are in the queue or were exhausted.

    Raises:
        AssertionError: another number was added; the message shows the nearest misses.
        InvalidQueueModeError: an argument is only for queues of the other mode.
        TypeError: `queue` is not a `Queue`, or `payload` is a dict or a list, or `params` is
            not a mapping.
    """
    if isinstance(payload, dict | list):
        raise TypeError(f"payload is {payload}: pass JsonPayload({payload}), bytes or text")
    if not isinstance(params, Mapping | None):
        raise TypeError(f'params is {quoted(params)}: pass a mapping, such as {{"to": "ada"}}')
    wanted = _Wanted(payload, tag, name, url, method, params)
    with bypass_interceptors():
        wanted.check_mode(check_queue(queue))
        tasks, unknown = _added_tasks(queue)
    found = sum(not wanted.differences(task) for task in tasks)
    found += sum(wanted.is_met_by_name(name) for name in unknown)
    if _is_expected(found, count):
        return
    expected = "at least one task" if count is None else count_tasks(count)
    lines = [f'expected {expected}{wanted} added to queue "{queue.name}", but found {found}']
    lines += _misses(wanted, tasks, queue.now_usec())
    if unknown:
        facts = "request" if queue.is_push else "payload and tag"
        lines.append(f"  {count_tasks(len(unknown))} left the queue with unknown {facts}")
    raise AssertionError("\n".join(lines))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What an added task should be like."""

    payload: Payload | None
    tag: str | _Untagged | None
    name: str | None
    url: str | None
    method: str | None
    params: Params | None

    def check_mode(self, queue: Queue) -> None:
        """Raise an InvalidQueueModeError if the mode of a queue permits no task like this."""
        of_push = (("url", self.url), ("method", self.method), ("params", self.params))
        wrong = (("tag", self.tag),) if queue.is_push else of_push
        for word, value in wrong:
            if value is not None:
                raise queue.wrong_mode(f"its tasks have no {word}; remove {word}=")

    def is_met_by_name(self, name: str) -> bool:
        """Return True if a task of which only the name is known is like this."""
        others = (self.payload, self.tag, self.url, self.method, self.params)
        return all(value is None for value in others) and self.name in (None, name)

    def differences(self, task: Task) -> list[str]:
        """Return in what a task differs."""
        found = []
        if self.name is not None and task.name != self.name:
            found.append(f'name is "{task.name}"')
        if self.tag is not None and task.tag != (None if self.tag is UNTAGGED else self.tag):
            found.append("it has no tag" if task.tag is None else f"tag is {quoted(task.tag)}")
        if task.request is not None:
            found += self._request_differences(task.request, task.payload)
        payload = self.payload.encode() if isinstance(self.payload, str) else self.payload
        if payload is not None and payload != task.payload:
            found.append(f"payload is {describe_payload(task.payload)}")
        return found

    def _request_differences(self, request: HttpRequest, payload: bytes) -> list[str]:
        found = []
        if self.url not in (None, request.url, request.url.partition("?")[0]):
            found.append(f"url is {quoted(request.url)}")
        if self.method not in (None, request.method):
            found.append(f"method is {request.method}")
        if self.params is not None:
            params = params_of(request, payload)
            if params != {name: _texts(value) for name, value in self.params.items()}:
                plain = {k: v[0] if len(v) == 1 else v for k, v in params.items()}
                found.append(f"params are {plain}")
        return found

    def __str__(self) -> str:
        names = ("name", "tag", "url", "method", "params", "payload")
        parts = [(name, getattr(self, name)) for name in names]
        given = [
            f"{word}={quoted(value, limit=1000)}" for word, value in parts if value is not None
        ]
        return f" with {', '.join(given)}" if given else ""


def params_of(request: HttpRequest, payload: bytes) -> dict[str, list[str]]:
    """Return the decoded parameters of a request: of its query, and of the form in its body."""
    texts = [request.url.partition("#")[0].partition("?")[2]]
    types = [value for name, value in request.headers if name.lower() == "content-type"]
    if any(value.startswith("application/x-www-form-urlencoded") for value in types):
        texts.append(payload.decode(errors="replace"))
    return parse_qs("&".join(filter(None, texts)), keep_blank_values=True)


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]


def _misses(wanted: _Wanted, tasks: Sequence[Task], now_usec: int) -> Iterable[str]:
    misses = [(len(d), d, task) for task in tasks if (d := wanted.differences(task))]
    misses.sort(key=lambda miss: miss[0])
    if not tasks:
        yield "  nothing was added"
    elif misses:
        yield "  nearest misses:"
    for _, differences, task in misses[:_MISSES_SHOWN]:
        yield f"    {', '.join(differences)}: {describe_task(task, now_usec)}"
    if len(misses) > _MISSES_SHOWN:
        yield f"    and {len(misses) - _MISSES_SHOWN} more"


def _check_count(state: str, queue: Queue, found: int, count: int | None) -> None:
    if not _is_expected(found, count):
        expected = "at least one" if count is None else str(count)
        _fail(f'expected {expected} {state} in queue "{queue.name}", but found {found}', queue)


def _is_expected(found: int, count: int | None) -> bool:
    return found > 0 if count is None else found == count


def _fail(message: str, *queues: Queue) -> None:
    raise AssertionError(
        "\n".join([message, *(line for q in queues for line in describe_queue(q))])
    )


def _added_tasks(queue: Queue) -> tuple[list[Task], list[str]]:
    """Return the tasks added to a queue, in order, and the names of those no longer known."""
    known: defaultdict[tuple[str, int], dict[int, Task]] = defaultdict(dict)
    remembered = [task for record in records_of(queue) for task in record.added(queue.name)]
    for task in [*queue.exhausted, *queue.list_tasks(sys.maxsize), *remembered]:
        known[task.name, task.enqueued_usec][task.sequence] = task
    tasks: list[Task] = []
    unknown: list[str] = []
    # The latest first: early events may be deleted while their tasks are still known.
    for event in reversed(queue.events()):
        if event.kind is EventKind.ADDED:
            same_name = known[event.task_name, event.usec]
            if same_name:
                tasks.append(same_name.pop(max(same_name)))
            else:
                unknown.append(event.task_name)
    return tasks[::-1], unknown[::-1]
