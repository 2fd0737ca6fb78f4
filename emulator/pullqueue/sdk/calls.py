"""The calls of the task queue service that add, change, lease or delete tasks.

Each reads one request of the SDK's protocol, makes the call on a queue, and fills in the response.
Errors are pullqueue's own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from pullqueue import errors
from pullqueue.engine import verbs
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import QueueCall, bypass_interceptors
from pullqueue.engine.queue import Queue
from pullqueue.engine.queue_base import QueueState
from pullqueue.engine.store import Insertion
from pullqueue.error_codes import find_codes
from pullqueue.sdk.imports import messages
from pullqueue.sdk.task_messages import read_request
from pullqueue.tasks import (
    DeleteResult,
    NameInUseError,
    NewTask,
    Task,
    TaskAlreadyExistsError,
    TombstonedTaskError,
)
from pullqueue.text import decode_name, shorten

_log = logging.getLogger("pullqueue.sdk")

_Error = messages.TaskQueueServiceError
_PULL = messages.TaskQueueMode.PULL

_EXACT_FLOAT_USEC = 2**51
"""From here on (May 2041) a float of seconds, as the client holds etas, misses microseconds."""

_ADD_CODES: dict[type[NameInUseError] | None, int] = {
    None: _Error.OK,
    TaskAlreadyExistsError: _Error.TASK_ALREADY_EXISTS,
    TombstonedTaskError: _Error.TOMBSTONED_TASK,
}
DELETE_CODES = {
    DeleteResult.DELETED: _Error.OK,
    DeleteResult.UNKNOWN: _Error.UNKNOWN_TASK,
    DeleteResult.TOMBSTONED: _Error.TOMBSTONED_TASK,
}


def bulk_add(queue: Queue, request: Any, response: Any) -> None:
    """Add the tasks of a `BulkAdd` to one queue.

    What is invalid refuses the whole batch: it gets its code, the other tasks SKIPPED. A batch of
    one raises instead, since only that carries a message to the user; so does one in which every
    task is valid, as a fault refused it.
    """
    adds = request.add_request
    check_mode(queue, adds)
    added: list[Task] = []
    try:
        added, refused = verbs.insert(queue, [new_task(queue, add) for add in adds])
        codes = [_ADD_CODES[refused.get(decode_name(add.task_name))] for add in adds]
    except errors.InvalidTaskError as error:
        codes = [_find_code(queue, add) for add in adds]
        if len(adds) == 1 or set(codes) == {_Error.SKIPPED}:
            raise
        _log.warning('queue "%s": a batch of %d was not added: %s', queue.name, len(adds), error)
    names = (task.name for task in added)
    for add, code in zip(adds, codes, strict=True):
        result = response.taskresult.add()
        result.result = code
        if code == _Error.OK:
            name = next(names)
            if not add.task_name:
                result.chosen_task_name = name.encode()


def check_mode(queue: Queue, adds: Iterable[Any]) -> None:
    """Refuse push tasks on a pull queue, and pull tasks on a push queue.

    Raises:
        InvalidQueueModeError: a task is of the other mode.
    """
    if any((add.mode == _PULL) is queue.is_push for add in adds):
        rule = 'without method="PULL"' if queue.is_push else 'with method="PULL"'
        raise queue.wrong_mode(f"add its tasks {rule}")


def new_task(queue: Queue, add: Any) -> NewTask:
    """Return the task of an add request to a queue.

    Raises:
        InvalidTaskError: name, tag or URL is not text, or the eta is before 1970.
    """
    if add.eta_usec < 0:
        raise errors.InvalidEtaError(f"eta is {add.eta_usec} microseconds: must be 0 or more")
    return NewTask(
        payload=add.body,
        name=_text(add.task_name, "task name", errors.InvalidTaskNameError) or None,
        tag=_text(add.tag, "tag", errors.InvalidTagError) if add.HasField("tag") else None,
        eta_usec=add.eta_usec,
        request=read_request(add, queue.name) if queue.is_push else None,
    )


def query_and_own_tasks(queue: Queue, request: Any, response: Any) -> None:
    """Lease tasks.

    An empty tag names none, as in Google's test stub: the client cannot add a task with one.
    """
    tag = _text(request.tag, "tag", errors.InvalidTagError) or None
    lease = verbs.lease(
        queue, request.lease_seconds, request.max_tasks, group_by_tag=request.group_by_tag, tag=tag
    )
    add_task = response.task.add
    for task in lease.tasks:
        message = add_task()
        message.task_name = task.name.encode()
        message.eta_usec = task.eta_usec
        message.retry_count = task.retry_count
        message.body = task.payload
        if task.tag is not None:
            message.tag = task.tag.encode()


def modify_task_lease(queue: Queue, request: Any, response: Any) -> None:
    """Change the end of a lease, unless the queue is paused.

    REST and Cloud Tasks change it there, too: only the SDK documents an error, QueuePausedError.
    """
    queue.check_pull()
    if queue.state is QueueState.PAUSED:
        message = f'queue "{queue.name}" is paused: resume it to modify its leases'
        raise errors.QueuePausedError(message, queue_name=queue.name)
    name = decode_name(request.task_name)
    held_usec = request.eta_usec
    if held_usec >= _EXACT_FLOAT_USEC:
        current_usec = queue.get_task(name).eta_usec
        if abs(current_usec - held_usec) <= 1:
            held_usec = current_usec
    task = verbs.modify_lease(queue, name, request.lease_seconds, expected_eta_usec=held_usec)
    response.updated_eta_usec = task.eta_usec


def delete(queue: Queue, request: Any, response: Any) -> None:
    """Delete tasks by name, any number of them."""
    results = queue.delete_tasks(list(map(decode_name, request.task_name)))
    response.result.extend(map(DELETE_CODES.__getitem__, results))


def fetch_queue_stats(queue: Queue | None, response: Any) -> None:
    """Add the statistics of one queue to a response; None: of one that never has tasks."""
    stats = response.queuestats.add()
    if queue is None:
        stats.num_tasks, stats.oldest_eta_usec = 0, -1
        return
    numbers = queue.fetch_statistics()
    stats.num_tasks = numbers.tasks
    oldest_usec = numbers.oldest_eta_usec
    stats.oldest_eta_usec = -1 if oldest_usec is None else oldest_usec
    scanner = stats.scanner_info
    scanner.executed_last_minute = numbers.leased_last_minute
    scanner.executed_last_hour = numbers.leased_last_hour
    scanner.sampling_duration_seconds = 60.0
    scanner.requests_in_flight = numbers.leased + numbers.running
    # Java's client requires it of every queue. A pull queue has no rate.
    scanner.enforced_rate = queue.settings.effective_rate if queue.is_push else 0.0


def add_in_transaction(
    emulator: Emulator, request: Any, response: Any, *, queue: Queue, keep: Callable[[], None]
) -> None:
    """Check the tasks of a transactional `BulkAdd`, name them, and `keep` them until the commit.

    This is the app's call: its response has the names, and a fault of an add triggers here, where
    the transaction can still be rolled back. What the commit then adds is not a call of the app.

    Raises:
        InvalidTaskError: one of them could not be added.
    """
    adds = request.add_request
    check_mode(queue, adds)
    tasks = [new_task(queue, add) for add in adds]
    queue.check(tasks)
    results = []
    for add in adds:
        result = messages.TaskQueueBulkAddResponse.TaskResult(result=_Error.OK)
        if not add.task_name:
            name = _free_name(emulator, queue)
            add.task_name = result.chosen_task_name = name.encode()
        results.append(result)

    def keep_them() -> Insertion:
        keep()
        return Insertion([], {})

    call = QueueCall(queue, "insert", (tasks,), {"transactional": True})
    queue.interceptors.intercept(call, keep_them)
    response.taskresult.extend(results)


@bypass_interceptors()
def _free_name(emulator: Emulator, queue: Queue) -> str:
    while True:
        name = emulator.names()
        try:
            queue.get_task(name)
        except errors.UnknownTaskError:
            return name
        except TombstonedTaskError:
            continue


def _find_code(queue: Queue, add: Any) -> int:
    """Return the code of a task in a batch that is refused."""
    try:
        queue.check([new_task(queue, add)])
    except errors.InvalidTaskError as error:
        return find_codes(error).sdk_code
    return int(_Error.SKIPPED)


def _text(data: bytes, what: str, error: type[errors.InvalidTaskError]) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        text = shorten(data.decode(errors="backslashreplace"))
        raise error(f'{what} is "{text}": use text in UTF-8') from None
