"""The engine against a deliberately naive model, on operations that Hypothesis chooses."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from stores import LONG, store_url

from pullqueue import (
    AttemptRecord,
    DeleteResult,
    Emulator,
    HttpRequest,
    Limits,
    ManualClock,
    NameInUseError,
    OverQuotaError,
    Task,
    TaskLeaseExpiredError,
    TaskState,
    TombstonedTaskError,
    UnknownTaskError,
)
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings, RetryParameters
from pullqueue.engine.attempts import finish_attempt, start_attempt
from pullqueue.stores import open_store

pytestmark = pytest.mark.slow

LIMITS = Limits(tombstone_seconds=50, lease_payload_bytes=12)
STORAGE = 60
RETRY_LIMITS: dict[str, int | None] = {"free": None, "twice": 2, "never": 0}
"""The pull queues."""
PUSH = "push"
REQUEST = HttpRequest("/w", headers=(("A", "b"),))
CONFIG = QueueConfig(
    queues=(
        QueueSettings(name=PUSH),
        *(
            QueueSettings(
                name=name,
                mode=QueueMode.PULL,
                retry_parameters=RetryParameters(task_retry_limit=limit),
            )
            for name, limit in RETRY_LIMITS.items()
        ),
    ),
    total_storage_limit_bytes=STORAGE,
)

pull_queues = st.sampled_from(sorted(RETRY_LIMITS))
queues = st.sampled_from([PUSH, *sorted(RETRY_LIMITS)])
names = st.sampled_from(["a", "b", "c", "d"])
tags = st.sampled_from([None, "", "red", "blue"])
seconds = st.integers(0, 20)


@dataclass
class ModelTask:
    queue: str
    name: str
    payload: bytes
    tag: str | None
    eta: int
    arrival: int
    leases: int = 0
    attempts: AttemptRecord = field(default_factory=AttemptRecord)

    @property
    def size(self) -> int:
        request = len("/wAb") if self.queue == PUSH else 0
        return len(self.payload) + len(self.name) + len(self.tag or "") + request

    @property
    def waiting_state(self) -> str:
        if not self.leases:
            return "scheduled"
        if self.queue != PUSH:
            return "leased"
        return "running" if self.is_running else "retrying"

    @property
    def is_running(self) -> bool:
        return self.leases > self.attempts.finished


class EngineMachine(RuleBasedStateMachine):
    """Applies each operation to the engine and to the model, and compares them."""

    store = "memory"
    """The URL of the store."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.emulator = Emulator(
            CONFIG, clock=self.clock, limits=LIMITS, store=open_store(self.store)
        )
        self.emulator.reset()
        self.now = 0
        self.tasks: list[ModelTask] = []
        self.tombstones: dict[tuple[str, str], int] = {}
        self.exhausted: dict[str, list[str]] = {name: [] for name in (PUSH, *RETRY_LIMITS)}
        self.arrivals = 0
        self.leased: list[Task] = []

    def teardown(self) -> None:
        self.emulator.close()

    # -- the model -------------------------------------------------------------------------------

    def usec(self, second: int) -> int:
        """Return a second of the model in the engine's time."""
        start = ManualClock.DEFAULT_START + timedelta(seconds=second)
        return int(start.timestamp()) * 1_000_000

    def find(self, queue: str, name: str) -> ModelTask | None:
        return next((t for t in self.tasks if (t.queue, t.name) == (queue, name)), None)

    def add_tombstone(self, task: ModelTask, when: int) -> None:
        self.tasks.remove(task)
        self.tombstones[task.queue, task.name] = when + LIMITS.tombstone_seconds

    def exhaust_due(self) -> None:
        """Exhaust what has used up its leases, in the order in which they ended."""
        exhausted = [
            task
            for task in self.tasks
            if (limit := RETRY_LIMITS.get(task.queue)) is not None
            and 0 < limit <= task.leases
            and task.eta <= self.now
        ]
        for task in sorted(exhausted, key=lambda task: (task.eta, task.arrival)):
            self.add_tombstone(task, task.eta)
            self.exhausted[task.queue].append(task.name)
        self.tombstones = {name: end for name, end in self.tombstones.items() if end > self.now}

    def due(self, queue: str, count: int) -> list[ModelTask]:
        free = [task for task in self.tasks if task.queue == queue and task.eta <= self.now]
        return sorted(free, key=lambda task: (task.eta, task.arrival))[:count]

    def take(self, queue: str, wanted: list[ModelTask], lease_seconds: int) -> list[ModelTask]:
        if RETRY_LIMITS[queue] == 0:
            for task in sorted(wanted, key=lambda task: task.arrival):
                self.add_tombstone(task, self.now)
                self.exhausted[queue].append(task.name)
            return []
        fitting: list[ModelTask] = []
        for task in wanted:
            size = sum(len(each.payload) for each in [*fitting, task])
            if fitting and size > LIMITS.lease_payload_bytes:
                break
            fitting.append(task)
        for task in fitting:
            task.eta = self.now + lease_seconds
            task.leases += 1
        return fitting

    # -- what can be done ------------------------------------------------------------------------

    @rule(queue=queues, name=names, tag=tags, size=st.integers(0, 15), wait=st.integers(-5, 15))
    def add(self, queue: str, name: str, tag: str | None, size: int, wait: int) -> None:
        """A name in use and a full store are refused; otherwise the task is there."""
        taken = self.find(queue, name) is not None or (queue, name) in self.tombstones
        tag, request = (None, REQUEST) if queue == PUSH else (tag, None)
        task = ModelTask(queue, name, b"x" * size, tag, self.now + wait, self.arrivals)
        full = sum(t.size for t in [*self.tasks, task]) > STORAGE
        try:
            eta = self.clock.now() + timedelta(seconds=wait)
            self.emulator.queue(queue).add(
                task.payload, name=name, tag=tag, eta=eta, request=request
            )
        except NameInUseError as error:
            assert taken
            assert isinstance(error, TombstonedTaskError) == ((queue, name) in self.tombstones)
        except OverQuotaError:
            assert full
            assert not taken
        else:
            assert not taken
            assert not full
            self.tasks.append(task)
            self.arrivals += 1

    @rule(queue=pull_queues, lease_seconds=seconds, count=st.integers(1, 4))
    def lease(self, queue: str, lease_seconds: int, count: int) -> None:
        """The first due tasks, in order, as long as they fit."""
        expected = self.take(queue, self.due(queue, count), lease_seconds)
        self.check_lease(self.emulator.queue(queue).lease_tasks(lease_seconds, count), expected)

    @rule(queue=pull_queues, lease_seconds=seconds, count=st.integers(1, 4), tag=tags)
    def lease_by_tag(self, queue: str, lease_seconds: int, count: int, tag: str | None) -> None:
        """The same among the tasks of one tag; without one, that of the first due task."""
        due = self.due(queue, 1000)
        wanted = due[0].tag if tag is None and due else tag
        expected = self.take(
            queue, [task for task in due if task.tag == wanted][:count], lease_seconds
        )
        found = self.emulator.queue(queue).lease_tasks_by_tag(lease_seconds, count, tag)
        self.check_lease(found, expected)

    def check_lease(self, found: list[Task], expected: list[ModelTask]) -> None:
        assert [(t.name, t.tag, t.payload, t.retry_count, t.eta_usec) for t in found] == [
            (t.name, t.tag, t.payload, t.leases, self.usec(t.eta)) for t in expected
        ]
        self.leased += found
        self.exhaust_due()

    @rule(data=st.data(), lease_seconds=seconds)
    def modify(self, data: st.DataObject, lease_seconds: int) -> None:
        """Only the holder of the current lease can change it."""
        assume(self.leased)
        held = data.draw(st.sampled_from(self.leased))
        task = self.find(held.queue_name, held.name)
        current = task is not None and self.now < task.eta and self.usec(task.eta) == held.eta_usec
        try:
            changed = self.emulator.queue(held.queue_name).modify_task_lease(held, lease_seconds)
        except (TaskLeaseExpiredError, UnknownTaskError, TombstonedTaskError) as error:
            # Without its lease count a task added again under the same name could look the same.
            assert not current or (task is not None and not task.leases)
            assert isinstance(error, TaskLeaseExpiredError) == (task is not None)
        else:
            assert current
            assert task is not None
            task.eta = self.now + lease_seconds
            assert changed.eta_usec == self.usec(task.eta)
            self.leased.append(changed)
            self.exhaust_due()

    def attempt(self, task: ModelTask) -> Task:
        """Return a push task as the engine has it, having seen that it is the model's."""
        stored = self.emulator.queue(PUSH).get_task(task.name)
        assert (stored.request, stored.retry_count) == (REQUEST, task.leases)
        assert stored.attempts == task.attempts
        return stored

    def draw_push_task(self, data: st.DataObject, *, running: bool) -> ModelTask:
        """Choose a push task whose attempt has not ended, or another one."""
        found = [t for t in self.tasks if t.queue == PUSH and t.is_running == running]
        assume(found)
        return data.draw(st.sampled_from(found))

    @rule(data=st.data(), lease_seconds=seconds, running=st.booleans())
    def start(self, data: st.DataObject, lease_seconds: int, *, running: bool) -> None:
        """An attempt starts, of a task that is due or not, or after a crash."""
        task = self.draw_push_task(data, running=running)
        started = start_attempt(
            self.emulator.queue(PUSH),
            self.attempt(task),
            lease_seconds=lease_seconds,
            attempts=task.attempts,
        )
        task.leases += 1
        task.eta = self.now + lease_seconds
        assert started == self.attempt(task)

    @rule(
        data=st.data(),
        lease_seconds=seconds,
        status=st.sampled_from([200, 500]),
        retries=st.booleans(),
    )
    def finish(
        self, data: st.DataObject, lease_seconds: int, status: int, *, retries: bool
    ) -> None:
        """An attempt ends, in time or late."""
        task = self.draw_push_task(data, running=True)
        attempts = AttemptRecord(finished=task.leases, status=status)
        finish_attempt(
            self.emulator.queue(PUSH),
            self.attempt(task),
            attempts=attempts,
            backoff_seconds=lease_seconds if retries else None,
        )
        task.attempts = attempts
        task.eta = self.now + lease_seconds
        if status == 200 or not retries:
            self.add_tombstone(task, self.now)
        if status == 500 and not retries:
            self.exhausted[PUSH].append(task.name)

    @rule(queue=queues, name=names)
    def delete(self, queue: str, name: str) -> None:
        """Deleted, deleted before, or never there."""
        task = self.find(queue, name)
        if task is not None:
            expected = DeleteResult.DELETED
            self.add_tombstone(task, self.now)
        elif (queue, name) in self.tombstones:
            expected = DeleteResult.TOMBSTONED
        else:
            expected = DeleteResult.UNKNOWN
        assert self.emulator.queue(queue).delete_tasks(name) == [expected]
        self.exhaust_due()

    @rule(queue=queues)
    def purge(self, queue: str) -> None:
        gone = [task for task in self.tasks if task.queue == queue]
        for task in gone:
            self.add_tombstone(task, self.now)
        assert self.emulator.queue(queue).purge() == len(gone)
        self.exhaust_due()

    @rule(by=st.integers(1, 30))
    def advance(self, by: int) -> None:
        """Time passes, and only forwards."""
        self.clock.advance(by)
        self.now += by
        self.exhaust_due()

    # -- what must always hold -------------------------------------------------------------------

    @invariant()
    def nothing_lost_and_nothing_doubled(self) -> None:
        """Every queue has the model's tasks in the model's order."""
        for queue in (PUSH, *RETRY_LIMITS):
            here = [task for task in self.tasks if task.queue == queue]
            here.sort(key=lambda task: (task.eta, task.arrival))
            found = self.emulator.queue(queue).list_tasks(1000)
            assert [(t.name, t.tag, t.eta_usec, t.retry_count) for t in found] == [
                (t.name, t.tag, self.usec(t.eta), t.leases) for t in here
            ]

    @invariant()
    def storage_is_counted(self) -> None:
        assert self.emulator.bytes_stored == sum(task.size for task in self.tasks)

    @invariant()
    def states_are_counted(self) -> None:
        for name in (PUSH, *RETRY_LIMITS):
            queue = self.emulator.queue(name)
            here = [task for task in self.tasks if task.queue == name]
            ahead = [task for task in here if task.eta > self.now]
            numbers = queue.fetch_statistics()
            assert (numbers.tasks, numbers.available) == (len(here), len(here) - len(ahead))
            for state in set(TaskState) - {TaskState.AVAILABLE}:
                count = sum(task.waiting_state == state.value for task in ahead)
                assert getattr(numbers, state.value) == count
                assert len(queue.list_tasks(1000, state=state)) == count
            leased = [task for task in ahead if task.waiting_state in ("leased", "running")]
            last = max((self.usec(task.eta) for task in leased), default=None)
            assert last == queue.last_lease_end_usec()

    @invariant()
    def exhausted_tasks_are_kept(self) -> None:
        """In the order in which they were exhausted."""
        for name, expected in self.exhausted.items():
            assert [task.name for task in self.emulator.queue(name).exhausted] == expected


@pytest.mark.long
@pytest.mark.parametrize(("store", "examples"), [("memory", 20), ("sqlite", 4), ("postgres", 1)])
def test_engine_and_model_agree(store: str, examples: int) -> None:
    """After any operations, in any order and in each store, both have the same tasks."""
    with store_url(store) as url:
        machine = type("Machine", (EngineMachine,), {"store": url})
        examples *= 100 if LONG else 1
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=40,
                # Most operations need tasks: of few examples, many may be discarded by chance.
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
            ),
        )
