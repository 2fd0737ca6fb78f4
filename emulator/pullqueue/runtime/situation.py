"""What a queue did in the last minute, what its tasks do now, and what may start next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from math import ceil
from typing import Final, Literal

from pullqueue.clock import USEC_PER_SECOND, ManualClock
from pullqueue.config.model import Rate
from pullqueue.engine.events import MINUTE_USEC, EventKind, Interface
from pullqueue.engine.queue import Queue
from pullqueue.engine.queue_base import QueueState
from pullqueue.engine.store import QueueStatistics
from pullqueue.observe.models import Request
from pullqueue.push.addresses import KEPT
from pullqueue.push.attempt import RunningAttempt
from pullqueue.push.dispatcher import is_dispatched
from pullqueue.runtime.state import NO_DELIVERY, ServerState
from pullqueue.tasks import AttemptResult, Task, TaskState

MINUTE: Final = timedelta(minutes=1)
MINUTE_SECONDS: Final = 60.0
_DAY_USEC: Final = 24 * 60 * MINUTE_USEC
_LOOKED_AT: Final = 100
"""Due tasks that are looked at one by one, if the queue has no more than these."""
_FIRST: Final = 10
"""Tasks that are looked at if it has more: those that wait for an address become the first ones."""
_LEASES: Final = ("tasks.lease", "taskqueue.QueryAndOwnTasks")
"""The methods that lease, of the REST APIs and of the SDK."""
_OPERATORS: Final = (Interface.CONTROL, Interface.CONSOLE)
"""The interfaces by which operators lease, and not workers."""
_LATER: Final = (TaskState.SCHEDULED, TaskState.RETRYING, TaskState.RUNNING)
"""The states of push tasks that end with time."""
_ENDED: Final = (EventKind.ATTEMPT_FAILED, EventKind.ATTEMPT_SUCCEEDED)
_LONG_SECONDS: Final = 10.0
"""From this duration on, an attempt takes long."""

Limit = Literal["slots", "threads", "rate"]
Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Found:
    """A cause that applies, of a number of tasks or attempts."""

    count: int
    text: str
    severity: Severity = "info"


def why_kept(state: ServerState, queue: Queue) -> str | None:
    """Return that tasks of a push queue are kept, and how to deliver them; None: it sends them."""
    why = next(_why_kept(state, queue, queue.list_tasks(_FIRST)), None)
    return state.address_commands(why)


def _why_kept(state: ServerState, queue: Queue, tasks: Iterable[Task]) -> Iterator[str]:
    """Yield why tasks are kept, those that are sent left out."""
    kept, settings = state.push_to.kept(queue.settings), queue.settings
    for task in tasks:
        why = state.push_to.missing(task, settings)
        is_of_app = task.request is not None and not task.request.is_http_target
        if why is not None:
            yield kept if kept and is_of_app else f"{KEPT}: {why}"
        elif state.delivery is None:
            yield f"{KEPT}: {NO_DELIVERY}"


def next_change_usec(state: ServerState, queue: Queue) -> int | None:
    """Return when time alone changes something in a queue: see `Situation.next_usec`."""
    if not queue.is_push:
        return queue.next_change_usec()
    return Situation(state, queue, queue.fetch_statistics()).next_usec


@dataclass
class Situation:
    """A queue of a server, as it is now. Each fact is found when it is first needed."""

    state: ServerState
    queue: Queue
    numbers: QueueStatistics

    # -- what happened ---------------------------------------------------------------------------

    @cached_property
    def counts(self) -> Counter[EventKind]:
        """How many events of each kind there were in the last minute."""
        return self.queue.count_events(last=MINUTE)

    @cached_property
    def by_operators(self) -> Counter[EventKind]:
        """How many tasks operators have changed in the last minute, by console and commands."""
        return self.state.activity.tasks_of_operators(self.queue.name, last=MINUTE)

    @property
    def leased(self) -> int:
        """Tasks that workers have leased in the last minute."""
        return self._by_workers(EventKind.LEASED)

    @property
    def deleted(self) -> int:
        """Tasks that workers have deleted in the last minute: they have finished these."""
        return self._by_workers(EventKind.DELETED)

    def _by_workers(self, kind: EventKind) -> int:
        return max(0, self.counts[kind] - self.by_operators[kind])

    @cached_property
    def expired(self) -> int:
        """Leases of workers that have expired in the last minute.

        They are not recorded, but follow from all events: reading these takes long, so they are 0
        if workers have finished half of the tasks that they have leased, or more.
        """
        if self.queue.is_push or (self.deleted and 2 * self.deleted >= self.leased):
            return 0
        if not (self.leased or self._may_have_leased):
            return 0
        since_usec, by_workers, expired = self.now_usec - MINUTE_USEC, set[str](), 0
        for each in self.queue.events():
            if each.kind is EventKind.LEASED:
                is_operator = each.origin is not None and each.origin.interface in _OPERATORS
                (by_workers.discard if is_operator else by_workers.add)(each.task_name)
            elif each.kind is EventKind.LEASE_EXPIRED and each.usec > since_usec:
                expired += each.task_name in by_workers
        return expired

    @property
    def _may_have_leased(self) -> bool:
        """Whether leases of available tasks may have expired.

        A task was leased in the last day, and one of those that are looked at was leased before, or
        there are more than are looked at.
        """
        day = self.queue.flow(since_usec=self.now_usec - _DAY_USEC)
        if not any(EventKind.LEASED in counts for counts in day.values()):
            return False
        return not self.is_looked_through or any(each.retry_count for each in self.looked_at)

    @property
    def ended_last_minute(self) -> int:
        """Attempts that ended in the last minute."""
        return sum(self.counts[kind] for kind in _ENDED)

    @property
    def failed(self) -> int:
        """Attempts of the time that is looked at that failed."""
        return self.counts[EventKind.ATTEMPT_FAILED] if self.since_usec is None else self._failed[1]

    @property
    def ended(self) -> int:
        """Attempts of the time that is looked at that ended."""
        return self.ended_last_minute or self._failed[1]

    @cached_property
    def failures(self) -> Counter[AttemptResult]:
        """How the attempts of the time that is looked at have failed."""
        if not self.failed:
            return Counter()
        since_usec, last = self.since_usec, MINUTE
        if since_usec is not None:
            last = timedelta(microseconds=self.now_usec - since_usec + 1)
        return self.queue.count_failures(last=last)

    @property
    def since_usec(self) -> int | None:
        """The time from which on attempts are looked at; None: the last minute.

        It is since when all have failed, where none ended in the last minute and tasks that failed
        wait.
        """
        return None if self.ended_last_minute else self.failing_usec

    @property
    def failing_usec(self) -> int | None:
        """The minute since which all attempts fail, while tasks that failed wait."""
        return self._failed[0]

    @cached_property
    def _failed(self) -> tuple[int | None, int]:
        """The minute since which all attempts fail, and how many they are."""
        failed, succeeded = (self.counts[kind] for kind in _ENDED)
        if succeeded or not (failed or self._has_failed_tasks):
            return None, 0
        since_usec, total = None, 0
        minutes = self.queue.flow(since_usec=self.now_usec - _DAY_USEC)
        for minute_usec, counts in sorted(minutes.items(), reverse=True):
            if EventKind.ATTEMPT_SUCCEEDED in counts:
                break
            if EventKind.ATTEMPT_FAILED in counts:
                since_usec, total = minute_usec, total + counts[EventKind.ATTEMPT_FAILED]
        return since_usec, total

    @property
    def _has_failed_tasks(self) -> bool:
        """Whether tasks wait, or run again, whose last attempts failed."""
        if not self.queue.is_push:
            return False
        again = (*self.looked_at, *(each.task for each in self.attempts))
        return self.numbers.retrying > 0 or any(each.attempts.status is not None for each in again)

    @cached_property
    def lease_calls(self) -> list[Request]:
        """The calls of the last minute that asked to lease tasks."""
        found = self.state.requests.latest_of(self.queue.name, last=MINUTE)
        return [each for each in found if each.method.endswith(_LEASES)]

    # -- what is so ------------------------------------------------------------------------------

    @cached_property
    def now_usec(self) -> int:
        """The time of the queue."""
        return self.queue.now_usec()

    @property
    def is_manual(self) -> bool:
        """Whether time passes only when somebody moves the clock."""
        return isinstance(self.state.emulator.clock, ManualClock)

    @property
    def is_stopped(self) -> bool:
        """Whether no task may start or be leased, whatever time passes."""
        if self.queue.is_push:
            return not is_dispatched(self.queue)
        return self.queue.state is not QueueState.RUNNING

    @cached_property
    def attempts(self) -> list[RunningAttempt]:
        """The attempts of this server that are under way."""
        delivery = self.state.delivery
        running = [] if delivery is None else delivery.dispatcher.running
        return [each for each in running if each.queue.name == self.queue.name]

    @cached_property
    def _overdue(self) -> int:
        """How many attempts have tasks that only seem to be due.

        A clock was moved past their leases, which are renewed by the machine's time.
        """
        return sum(each.task.eta_usec <= self.now_usec for each in self.attempts)

    @property
    def due(self) -> int:
        """How many tasks are due, or available, and wait."""
        return max(0, self.numbers.available - self._overdue)

    @property
    def running(self) -> int:
        """How many attempts are under way, at this server or at others with its store."""
        return self.numbers.running + self._overdue

    @cached_property
    def longest_seconds(self) -> float:
        """The duration of the attempt that takes longest, by the clock or by the machine's."""
        return max((self.seconds_of(each) for each in self.attempts), default=0.0)

    def seconds_of(self, attempt: RunningAttempt) -> float:
        """Return how long an attempt has been running, by the clock or by the machine's."""
        started_usec = attempt.task.attempts.dispatched_usec or self.now_usec
        return max(attempt.seconds, (self.now_usec - started_usec) / USEC_PER_SECOND)

    @property
    def is_held_up(self) -> bool:
        """Whether an attempt takes long."""
        return self.longest_seconds >= _LONG_SECONDS

    @property
    def is_moving(self) -> bool:
        """Whether attempts are under way, and none takes long."""
        return self.running > 0 and not self.is_held_up

    def first(self, state: TaskState, tag: str | None = None) -> Task | None:
        """Return the first task in a state, by its eta; with a tag: of those that have it."""
        return next(iter(self.queue.list_tasks(1, state=state, tag=tag)), None)

    def seconds_until(self, usec: int) -> float:
        """Return how long it takes until a time."""
        return max(0, usec - self.now_usec) / USEC_PER_SECOND

    @cached_property
    def due_seconds(self) -> float:
        """For how long the first of the due tasks has been due."""
        running = {each.task.name for each in self.attempts}
        first = self.queue.list_tasks(1 + self._overdue, state=TaskState.AVAILABLE)
        etas = [task.eta_usec for task in first if task.name not in running]
        return (self.now_usec - etas[0]) / USEC_PER_SECOND if etas else 0.0

    @property
    def wait_severity(self) -> Severity:
        """How severe it is that tasks are due and wait."""
        return "info" if self.due_seconds < MINUTE_SECONDS else "warning"

    # -- where tasks go --------------------------------------------------------------------------

    @cached_property
    def looked_at(self) -> list[Task]:
        """The due tasks, or the first of many; where none is due, the first of the others."""
        if not self.numbers.tasks:
            return []
        most = _LOOKED_AT if 0 < self.due <= _LOOKED_AT else _FIRST
        if not self.due:
            return self.queue.list_tasks(most)
        running = {each.task.name for each in self.attempts}
        tasks = self.queue.list_tasks(most + self._overdue, state=TaskState.AVAILABLE)
        return [task for task in tasks if task.name not in running][:most]

    @cached_property
    def kept(self) -> list[str]:
        """Why tasks among those that are looked at are not sent, one text for each."""
        is_push = self.queue.is_push
        return list(_why_kept(self.state, self.queue, self.looked_at)) if is_push else []

    @property
    def is_looked_through(self) -> bool:
        """Whether all tasks that are due, or all that there are, were looked at."""
        return len(self.looked_at) == (self.due or self.numbers.tasks)

    # -- what may start --------------------------------------------------------------------------

    @cached_property
    def rate(self) -> float:
        """How many tasks may start in a second: 0 if they are not delivered."""
        delivery = self.state.delivery
        return 0 if delivery is None else delivery.dispatcher.enforced_rate(self.queue)

    @property
    def is_slowed(self) -> bool:
        """Whether the rate is lower than that of queue.yaml."""
        return 0 < self.rate < self.queue.settings.effective_rate

    @property
    def rate_text(self) -> str:
        """The rate of queue.yaml, or the lower one of an app that is overloaded."""
        settings = self.queue.settings
        if self.is_slowed:
            return f"{self.rate:.3g}/s"
        return str(settings.rate or Rate(count=settings.effective_rate))

    @cached_property
    def tokens(self) -> int:
        """How many attempts the rate permits to start now."""
        delivery = self.state.delivery
        return 0 if delivery is None else delivery.dispatcher.tokens(self.queue)

    @property
    def slots(self) -> int:
        """How many attempts the queue may have at the same time."""
        return self.queue.settings.effective_concurrent_requests

    @property
    def free_slots(self) -> int:
        """How many more attempts the queue, and this server, may have at the same time."""
        delivery = self.state.delivery
        free = 0 if delivery is None else delivery.free_threads(self.queue)
        return max(0, min(free, self.slots - self.running))

    @cached_property
    def limit(self) -> Limit | None:
        """What the due tasks of a push queue wait for; None: they wait for nothing."""
        delivery = self.state.delivery
        is_push = self.queue.is_push and not self.is_stopped and not self.kept
        if delivery is None or not is_push or not self.due:
            return None
        if self.running >= self.slots:
            return "slots"
        if not delivery.free_threads(self.queue):
            return "threads"
        is_soon = not self.is_manual and self.due < self.rate
        return "rate" if self.due > self.tokens and not is_soon else None

    @property
    def rate_seconds(self) -> float:
        """How long it takes until the rate has permitted all due tasks to start."""
        delivery = self.state.delivery
        if delivery is None:
            return 0
        return self.seconds_until(delivery.dispatcher.token_usec(self.queue, self.due))

    @property
    def next_usec(self) -> int | None:
        """The next eta, end of a lease of a worker, or attempt that the rate permits; None: never.

        Attempts that are under way renew their leases, whose ends change nothing.
        """
        times = [self.queue.next_change_usec()]
        if self.attempts:
            running = {each.task.name for each in self.attempts}
            first = [self.queue.list_tasks(len(running) + 1, state=each) for each in _LATER]
            times = [task.eta_usec for tasks in first for task in tasks if task.name not in running]
        if self.limit == "rate" and self.state.delivery is not None:
            times.append(self.state.delivery.dispatcher.token_usec(self.queue))
        later = (usec for usec in times if usec is not None and usec > self.now_usec)
        return min(later, default=None)

    def advice(self, seconds: float) -> str:
        """Return the command that makes time pass, where only a manual clock does."""
        deliver = " --deliver" if self.queue.is_push else ""
        return f"`pullqueue clock advance {max(1, ceil(seconds))}s{deliver}`"
