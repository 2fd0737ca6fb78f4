"""Running the push tasks of an emulator in a test: by the app itself, without a server."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timedelta
from itertools import chain
from typing import Literal, TypeAlias

from pullqueue.address import known_app_host
from pullqueue.clock import duration_usec, movable_clock, to_usec
from pullqueue.config.model import QueueMode, QueueSettings
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.engine.queue import Queue
from pullqueue.engine.validation import AnyTask, name_of
from pullqueue.errors import ClockError, DeadlineExceededError, TaskError
from pullqueue.faults.declaration import Faults
from pullqueue.push.attempt import Attempt
from pullqueue.push.dispatcher import Dispatcher, is_dispatched, make_due
from pullqueue.push.request import PushResponse
from pullqueue.push.retry import find_retry, has_no_limit
from pullqueue.push.wsgi_sender import environ_restored
from pullqueue.tasks import Task, count_tasks, is_success
from pullqueue.testing import arguments
from pullqueue.testing.arguments import Errors
from pullqueue.testing.clock import sleeping
from pullqueue.testing.describing import describe, describe_payload
from pullqueue.testing.points import loaded_rpcs
from pullqueue.testing.sender import App, Sender, SendFunction
from pullqueue.text import counted, format_span, quoted

_READ_AHEAD = 100
"""Tasks that are read at once."""
_MOST_FAILURES = 30
"""How often a task may fail whose retries have no limit, where all work is to be done: 16 hours."""

Until: TypeAlias = "Literal['now', 'empty'] | timedelta | datetime"


def run_tasks(
    emulator: Emulator,
    app: App | None = None,
    *,
    send: SendFunction | None = None,
    queues: Iterable[Queue | str] | None = None,
    until: Until = "now",
    follow: bool = True,
    errors: Errors = "raise",
    rates: bool = False,
    deferred: bool = False,
    max_attempts: int = 1000,
) -> list[Attempt]:
    """Send the push tasks that are due to an app, and return the attempts.

    One after the other, in order of eta and arrival; tasks that handlers add are sent as well.

    `app` is a WSGI app, such as one of Flask or Django, or a dict of apps by target: a service,
    which gets the tasks of its versions as well, or the origin of an HTTP target of Cloud Tasks.
    Instead, `send` is a function that gets each request (a `PushRequest`) and returns a status, or
    an object with `status_code` or `status_int`, such as the response of a test client. With
    `deferred`, calls that `deferred.defer` has added are made in this process, without the app.

    `queues` are push queues, or their names; all if it is None. `until` is `"now"`, or how far the
    clock moves, from one eta to the next: `"empty"`, until no task is left, a timedelta or an aware
    datetime. With `follow=False`, only tasks that are due at the call are sent, once each, and not
    those that handlers add. An exception of a handler is raised here, after the task has failed;
    with `errors="strict"` a status outside 200 to 299 is an AssertionError, too; with
    `errors="retry"` an exception is only status 500, as in production. With `rates`, the rate and
    the bucket_size of each queue apply, by the emulator's clock, which is moved by `time.sleep` of
    a handler.

    Raises:
        AssertionError: tasks are still due after `max_attempts` attempts; or with `"empty"`, tasks
            are in a queue that is paused or has `rate: 0`; or `errors="strict"`, and a task failed.
        ClockError: the clock cannot be moved, and `until` is not `"now"`.
        InvalidQueueModeError: one of `queues` is a pull queue.
        TypeError: an argument has a wrong type, or none says where tasks are sent.
        UnknownQueueError: one of `queues` does not exist.
        ValueError: an argument is not valid, or there is no app for the target of a task.
    """
    arguments.check_is_emulator(emulator, then="app")
    arguments.check_choices(arguments.ERRORS, errors=errors)
    arguments.check_flags(follow=follow)
    if not follow and until != "now":
        raise ValueError(f'until is {quoted(until)}: follow=False needs until="now"')
    sender = _make_sender(app, send, deferred=deferred)
    runner = TaskRunner(
        emulator,
        sender,
        arguments.select_queues(emulator, queues, modes=(QueueMode.PUSH,)),
        errors=errors,
        rates=rates,
        max_attempts=max_attempts,
    )
    _run(emulator, runner, until, follow=follow)
    return runner.attempts


def _run(emulator: Emulator, runner: TaskRunner, until: Until, *, follow: bool) -> None:
    if until == "now":
        runner.run_due(follow=follow)
    elif until == "empty":
        runner.run_until(None)
    elif isinstance(until, timedelta | datetime):
        now_usec = movable_clock(emulator).now_usec()
        end_usec = (
            to_usec(until) if isinstance(until, datetime) else now_usec + duration_usec(until)
        )
        if end_usec < now_usec:
            raise ClockError(f"until is {until}, which is past: a clock never goes back")
        runner.run_until(end_usec)
    else:
        raise ValueError(f'until is {quoted(until)}: use "now", "empty", a timedelta or a datetime')


def run_task(
    emulator: Emulator,
    task: AnyTask,
    app: App | None = None,
    *,
    send: SendFunction | None = None,
    errors: Errors = "raise",
    deferred: bool = False,
) -> Attempt:
    """Send one push task to an app, whether or not it is due, and return the attempt.

    `task` is a task of a push queue, also one of App Engine's SDK; the eta, the rate and a pause of
    its queue do not matter. The other arguments are those of `run_tasks`.

    Raises:
        AssertionError: `errors="strict"`, and the task failed.
        InvalidQueueModeError: it is a pull task.
        TaskError: an attempt of it has begun and not ended, as within its own handler.
        TombstonedTaskError: it was deleted or exhausted.
        TypeError: an argument has a wrong type, or none says where the task is sent.
        UnknownTaskError: the queue has no such task.
        ValueError: an argument is not valid, or there is no app for the target of the task.
    """
    arguments.check_is_emulator(emulator, then="task")
    arguments.check_choices(arguments.ERRORS, errors=errors)
    sender = _make_sender(app, send, deferred=deferred)
    queue_name = getattr(task, "queue_name", None)
    if queue_name is None:  # of the `get_filtered_tasks` of Google's stub
        queue_name = getattr(task, "headers", {}).get("X-AppEngine-QueueName")
    if not isinstance(queue_name, str):
        raise TypeError(
            f"task is {quoted(task)}: pass a task, such as emulator.queue(NAME).get_task(NAME)"
        )
    queue = emulator.queue(queue_name)
    if not queue.is_push:
        raise queue.wrong_mode("its tasks are not sent to an app; a worker leases them")
    with bypass_interceptors():
        stored = queue.get_task(name_of(task))
    return TaskRunner(emulator, sender, lambda: [queue], errors=errors).run_now(stored)


def _make_sender(app: App | None, send: SendFunction | None, *, deferred: bool) -> Sender:
    sender = Sender(app, send, deferred=deferred)
    if not sender.is_set:
        raise TypeError("app is missing: pass the WSGI app that has the handlers, or send=")
    return sender


_FIRST_LOST = "the first response of each push task is lost (pullqueue_lose_first_response)"


@contextmanager
def first_responses_lost(emulator: Emulator) -> Iterator[None]:
    """Lose the first response of each push task in the block, so that each is sent twice.

    The second attempt is due at once, so that `run_tasks` makes it, too, without moving the clock.
    """
    with Faults(emulator) as faults:
        faults.lose_response("attempt", DeadlineExceededError(_FIRST_LOST), per_task=True, times=1)
        yield


class TaskRunner:
    """Runs the push tasks of some queues, one attempt after the other."""

    def __init__(
        self,
        emulator: Emulator,
        sender: Sender,
        queues: arguments.SelectQueues,
        *,
        errors: str,
        rates: bool = False,
        max_attempts: int = 1000,
        limit_name: str = "max_attempts",
        ends_endless: bool = False,
    ) -> None:
        arguments.check_flags(rates=rates)
        arguments.check_numbers(1, **{limit_name: max_attempts})
        self.attempts: list[Attempt] = []
        """Those that have ended, in order."""
        self._emulator = emulator
        self._sender = sender
        self._queues = queues
        self._due: list[Task] = []
        """Read ahead, the one to be sent next at the end."""
        self._errors = errors
        self._dispatcher = Dispatcher(emulator, rates=rates, app_host=known_app_host())
        self._max_attempts = max_attempts
        self._limit_name = limit_name
        self._ends_endless = ends_endless
        """Whether a task that fails again and again, without a limit, is an error."""

    def run_due(self, *, follow: bool = True) -> None:
        """Send what is due, and what that adds; without `follow`, only what is due now."""
        if not self.has_due(read=_READ_AHEAD if follow else sys.maxsize):
            return
        with self._at_work():  # as a decorator, it would be a frame of each report
            while self._due or (follow and self.has_due()):
                task = self._due.pop()
                if is_dispatched(self._emulator.queue(task.queue_name)):
                    self._check_maximum(task)
                    self._attempt(task)
                # Or else a handler has paused it meanwhile.

    def run_now(self, task: Task) -> Attempt:
        """Send a task, due or not; raise a TaskError if it is being sent."""
        with self._at_work():
            self._attempt(task, is_due=False)
        if not self.attempts:
            raise TaskError(
                f'task "{task.name}" of queue "{task.queue_name}" is being sent already',
                queue_name=task.queue_name,
                task_name=task.name,
            )
        return self.attempts[-1]

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Restore what handlers change in this process, and let their sleeps move the clock."""
        if rpcs := loaded_rpcs():
            rpcs.finish_calls()  # of the test, since those of a handler end with its request
        with ExitStack() as stack:
            stack.enter_context(environ_restored())
            with suppress(ClockError):  # otherwise they take the machine's time, as all else
                clock = movable_clock(self._emulator)
                stack.enter_context(sleeping(clock, clock.advance))
            yield

    def _check_maximum(self, task: Task) -> None:
        settings = self._emulator.queue(task.queue_name).settings
        if self._ends_endless and is_endless(task, settings, task.retry_count):
            raise AssertionError(
                f"{self._why_retried(task).strip(' ;')}\n{describe(self._emulator)}"
            )
        if len(self.attempts) == self._max_attempts:
            raise AssertionError(
                f"{self._max_attempts} attempts were made to send tasks, and some are still "
                f"due;{self._why_retried(task)} if this is not an endless loop, pass a higher "
                f"{self._limit_name}\n{describe(self._emulator)}"
            )

    def _why_retried(self, task: Task) -> str:
        """Return why a task is retried that often; empty if a limit will soon end that."""
        failures = task.retry_count
        retry = find_retry(task, self._emulator.queue(task.queue_name).settings)
        limit, age_limit = retry.task_retry_limit, retry.task_age_limit_seconds
        if not failures:
            return ""
        if limit is None and age_limit is None:
            until = "forever, since it has no task_retry_limit"
        elif limit is not None and age_limit is not None and failures > limit:
            until = (
                f"until both limits are exceeded: task_retry_limit, {limit}, is exceeded, "
                f"task_age_limit, {format_span(age_limit)}, is not"
            )
        else:
            return ""
        return (
            f' task "{task.name}" of queue "{task.queue_name}" has failed '
            f"{counted(failures, 'time')} and is retried {until};"
        )

    def run_until(self, end_usec: int | None) -> None:
        """Send what becomes due until a time, and move the clock there; None: until all is sent."""
        clock = movable_clock(self._emulator)
        with self._at_work():  # once, for it takes as long as several attempts
            self.run_due()
            while (next_usec := self.next_usec()) is not None:
                if end_usec is not None and next_usec > end_usec:
                    break
                clock.move_to_usec(next_usec)
                self.run_due()
        if end_usec is None:
            self.refuse_left()
        elif clock.now_usec() < end_usec:
            clock.move_to_usec(end_usec)

    def has_tasks(self) -> bool:
        """Return True unless all queues are empty."""
        return any(map(_count, self._queues()))

    def refuse_left(self) -> None:
        """Raise an AssertionError if there are tasks that time alone does not permit to send."""
        left = [_why_left(queue, count) for queue in self._queues() if (count := _count(queue))]
        if left:
            raise AssertionError("\n".join([*left, describe(self._emulator)]))

    def has_due(self, *, read: int = _READ_AHEAD) -> bool:
        """Return True if a task can be sent now; `read` tasks of each queue are read ahead."""
        if not self._due:
            # Tasks that are added from now on come after these.
            found = (self._dispatcher.find_startable(queue, read) for queue in self._queues())
            self._due = sorted(chain.from_iterable(found), reverse=True)
        return bool(self._due)

    def next_usec(self) -> int | None:
        """Return when the next task becomes due, or a token permits it to start."""
        times = map(self._dispatcher.next_usec, self._queues())
        return min((usec for usec in times if usec is not None), default=None)

    def _attempt(self, task: Task, *, is_due: bool = True) -> None:
        self._sender.check(task, self._emulator.queue(task.queue_name).settings)
        start = self._dispatcher.start if is_due else self._dispatcher.run_now
        running = start(task)
        if running is None:  # another thread was faster
            return
        started_usec = self._emulator.now_usec()
        response = self._dispatcher.send(running, self._sender)
        deadline_usec = duration_usec(running.request.deadline_seconds)
        is_late = self._emulator.now_usec() - started_usec > deadline_usec
        if is_late:
            response = PushResponse(None, reason=running.request.late, error=response.error)
        attempt = self._dispatcher.finish(running, response)
        # Or else the test would not see what a handler in another thread has put.
        if (rpcs := loaded_rpcs()) and rpcs.end_request():
            warnings.warn(
                f'task "{task.name}" of queue "{task.queue_name}" ({running.request.url}): its '
                "handler did not await all that it writes by ndb, such as by `put_async()`, so "
                "it is not written: call get_result(), or decorate the handler with ndb.toplevel",
                stacklevel=2,
            )
        self.attempts.append(attempt)
        if (attempt.reason or "").startswith(_FIRST_LOST):
            self._make_due(attempt.task)
        if self._errors == "retry" or is_success(attempt.status):
            return
        if attempt.error is not None:
            raise attempt.error
        # Without a response only a fault has done its work, unless the handler was too slow.
        if self._errors == "strict" and (attempt.status is not None or is_late):
            raise AssertionError(_failure(attempt))

    @bypass_interceptors()
    def _make_due(self, task: Task) -> None:
        with suppress(TaskError):  # it is exhausted, or the handler has deleted it
            queue = self._emulator.queue(task.queue_name)
            make_due(queue, queue.get_task(task.name))


def is_endless(task: Task, settings: QueueSettings, failures: int) -> bool:
    """Return whether a task fails without end: it has failed often, and no limit ends that."""
    return failures >= _MOST_FAILURES and has_no_limit(find_retry(task, settings))


def _failure(attempt: Attempt) -> str:
    task, request = attempt.task, attempt.request
    result = attempt.reason if attempt.status is None else f"status {attempt.status}"
    body = f": {describe_payload(attempt.body)}" if attempt.body else ""
    return (
        f'task "{task.name}" of queue "{task.queue_name}" ({request.method} {request.url}) '
        f"{attempt.outcome} after attempt {attempt.number}: {result}{body}"
    )


@bypass_interceptors()
def _count(queue: Queue) -> int:
    return queue.fetch_statistics().tasks


def _why_left(queue: Queue, count: int) -> str:
    left = f"with {count_tasks(count)} that cannot be sent"
    if queue.settings.effective_rate:
        return (
            f'queue "{queue.name}" is {queue.state.value}, {left}: resume it, or name other queues '
            "in queues=[...]"
        )
    example = f'queues=[{{"name": "{queue.name}", "mode": "push", "rate": "5/s"}}]'
    return (
        f'queue "{queue.name}" has `rate: 0`, {left}, and `resume` does not change that: set '
        f"another rate in queue.yaml, or in a test with @pytest.mark.pullqueue({example}), or "
        "leave the queue out of the queues=[...] of this call"
    )
