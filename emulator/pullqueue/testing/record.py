"""A record of the calls under test: which tasks were added, and who leased them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import CalledQueue, QueueCall, current_caller
from pullqueue.engine.queue import Queue
from pullqueue.engine.store import Insertion, Lease
from pullqueue.tasks import Task


class CallRecord:
    """An interceptor that keeps every task as it was when it was added, and who leased it."""

    def __init__(self) -> None:
        self._added: dict[str, list[Task]] = {}
        self._lessees: dict[tuple[str, str, int], str] = {}
        """By queue, task and the number of the lease."""
        self._early_leases: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Delete what was recorded, as the emulator was reset."""
        with self._lock:
            self._added.clear()
            self._lessees.clear()
            self._early_leases.clear()

    def __call__(self, call: QueueCall, call_next: Callable[[], object]) -> object:
        """Carry a call out, and record its result."""
        result = call_next()
        if isinstance(result, Insertion):
            with self._lock:
                for task in result.added:
                    self._added.setdefault(task.queue_name, []).append(task)
        elif isinstance(result, Lease):
            self._record_lease(call.queue, result)
        return result

    def _record_lease(self, queue: CalledQueue, lease: Lease) -> None:
        lessee = _current_client()
        with self._lock:
            for task in lease.tasks:
                self._lessees[queue.name, task.name, task.retry_count] = lessee
            added = self._added.get(queue.name)
            if added and not lease.tasks and queue.now_usec() < added[-1].enqueued_usec:
                self._early_leases[queue.name] = queue.now_usec(), added[-1].enqueued_usec

    def added(self, queue_name: str) -> list[Task]:
        """Return the tasks that were added to a queue, in order."""
        with self._lock:
            return list(self._added.get(queue_name, ()))

    def lessee(self, queue_name: str, task_name: str, lease_number: int) -> str | None:
        """Return the client that leased a task, with its thread if that is known."""
        return self._lessees.get((queue_name, task_name, lease_number))

    def early_lease(self, queue_name: str) -> tuple[int, int] | None:
        """Return the times of a lease in vain and of an add that is later but came before it.

        In microseconds; None if there was none, as the clock never went back.
        """
        return self._early_leases.get(queue_name)


def _current_client() -> str:
    caller = current_caller()
    client = "Python" if caller is None else str(caller)
    if caller is not None and caller.port is not None:
        return f"{client} from port {caller.port}"
    return f"{client} in thread {threading.current_thread().name}"


def records_of(owner: Emulator | Queue) -> Iterator[CallRecord]:
    """Yield the records that are now made of the calls to a queue or to all."""
    for interceptor in owner.interceptors:
        if isinstance(interceptor, CallRecord):
            yield interceptor


@contextmanager
def record_calls(emulator: Emulator) -> Iterator[None]:
    """Record the tasks that are added in the block, and who leases tasks.

    `assert_added` finds the tasks even after their deletion; messages name who leased them.
    """
    with emulator.interceptors.installed(CallRecord(), bypassed=False):
        yield
