"""The push tasks of a schedule of `race_test`: each attempt is an actor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import NamedTuple

from pullqueue.clock import duration_usec
from pullqueue.engine.emulator import Emulator
from pullqueue.push.attempt import Attempt, RunningAttempt
from pullqueue.push.dispatcher import Dispatcher
from pullqueue.push.request import PushResponse
from pullqueue.tasks import Task
from pullqueue.testing.arguments import SelectQueues
from pullqueue.testing.describing import describe_request
from pullqueue.testing.points.footprint import Footprint, task_footprint
from pullqueue.testing.running import is_endless
from pullqueue.testing.sender import Sender
from pullqueue.text import shorten


class Refusal(BaseException):
    """what the test has passed is wrong; `.error` says why"""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class DueTask(NamedTuple):
    """An attempt that can start now."""

    attempt: tuple[str, str, int]
    """Queue, task and number."""
    name: str
    work: Callable[[], str]
    """Makes the attempt, and returns how it has ended."""
    request: str
    """What is sent."""

    @property
    def key(self) -> str:
        """The name of the task, whichever attempt it is."""
        return f'task "{self.attempt[1]}"'


class PushTasks:
    """The push tasks of a schedule."""

    def __init__(
        self,
        emulator: Emulator,
        sender: Sender,
        queues: SelectQueues,
        note: Callable[[Footprint], None],
    ) -> None:
        self._emulator = emulator
        self._sender = sender
        self._queues = queues
        self._note = note
        """Gets what the beginning and the end of an attempt read and write."""
        self._dispatcher = Dispatcher(emulator, rates=False)
        self._running: dict[RunningAttempt, int] = {}
        """Those that have started and whose deadline, in microseconds, has not passed."""
        self.retried: set[str] = set()
        """The keys of tasks whose last attempt has failed, and which are not exhausted."""
        self.first_error: Exception | None = None
        """The first exception of a handler."""
        self.endless: str | None = None
        """Why a schedule would not end: a task that fails again and again, without a limit."""

    def due(self) -> Iterator[DueTask]:
        """Yield those that can start now."""
        for queue in self._queues():
            running = self._dispatcher.counts[queue.name]
            slots = queue.settings.effective_concurrent_requests - running
            for task in self._dispatcher.find_startable(queue, slots):
                number = task.retry_count + 1
                name = f'task "{task.name}"' + (f", attempt {number}" if number > 1 else "")
                yield DueTask(
                    (queue.name, task.name, number),
                    name,
                    partial(self._attempt, task),
                    describe_request(task.request, task.payload),
                )

    def next_usec(self) -> int | None:
        """Return when time alone makes one due."""
        times = map(self._dispatcher.next_usec, self._queues())
        return min((usec for usec in times if usec is not None), default=None)

    @property
    def deadlines(self) -> Collection[int]:
        """Those of attempts that have started and that time has not ended, in microseconds."""
        return self._running.values()

    def end_overdue(self) -> Iterator[str]:
        """End the attempts whose deadline has passed; their handlers go on, as in production."""
        now_usec = self._emulator.now_usec()
        for running, deadline_usec in list(self._running.items()):
            if now_usec >= deadline_usec:
                del self._running[running]
                reason = running.request.late
                ended = self._finish(running, PushResponse(None, reason=reason))
                yield f'ends task "{running.task.name}": {reason}, {ended.outcome}'

    def _attempt(self, task: Task) -> str:
        try:
            self._sender.check(task, self._emulator.queue(task.queue_name).settings)
        except ValueError as error:
            raise Refusal(error) from None
        self._note(task_footprint(task))
        running = self._dispatcher.start(task)
        if running is None:
            return "is gone"
        deadline_usec = duration_usec(running.request.deadline_seconds)
        self._running[running] = self._emulator.now_usec() + deadline_usec
        response = self._dispatcher.send(running, self._sender)
        if self._running.pop(running, None) is None:
            return "responds after its deadline"
        attempt = self._finish(running, response)
        status = attempt.reason if attempt.status is None else f"status {attempt.status}"
        raised = ""
        if attempt.error is not None:
            text = shorten(f"{type(attempt.error).__name__}: {attempt.error}", limit=100)
            raised = f" ({text})"
            self.first_error = self.first_error or attempt.error
        return f"responds: {status}{raised}, {attempt.outcome}"

    def _finish(self, running: RunningAttempt, response: PushResponse) -> Attempt:
        self._note(task_footprint(running.task))
        attempt = self._dispatcher.finish(running, response)
        change = self.retried.add if attempt.outcome == "will retry" else self.retried.discard
        change(f'task "{running.task.name}"')
        task, settings = running.task, self._emulator.queue(running.task.queue_name).settings
        if attempt.outcome == "will retry" and is_endless(task, settings, attempt.number):
            self.endless = (
                f'task "{task.name}" has failed {attempt.number} times and is retried forever, '
                "since it has no task_retry_limit"
            )
        return attempt
