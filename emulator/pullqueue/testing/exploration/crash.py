"""Ending workers and handlers at each of their calls, to see whether the rest can take over."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from pullqueue.config.model import QueueMode
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.engine.queue import Queue
from pullqueue.testing import arguments
from pullqueue.testing.arguments import Severity
from pullqueue.testing.draining import Driver, Worker
from pullqueue.testing.exploration.injector import CALLER_GETS_ERROR, CrashInjector, CrashPlan
from pullqueue.testing.exploration.left_threads import ending_waits
from pullqueue.testing.exploration.progress import Stopwatch
from pullqueue.testing.exploration.results import CrashFailure, CrashResult, CrashTestError
from pullqueue.testing.memory import Memory
from pullqueue.testing.place import note_apps
from pullqueue.testing.points import Trial
from pullqueue.testing.points.actors import following_ends
from pullqueue.testing.points.strands import without_orders
from pullqueue.testing.sender import App, Sender, SendFunction
from pullqueue.testing.undeleted import Undeleted


def crash_test(
    emulator: Emulator,
    worker: Worker | None = None,
    *,
    setup: Callable[[], object],
    check: Callable[[], object],
    app: App | None = None,
    send: SendFunction | None = None,
    deferred: bool = False,
    queues: Iterable[Queue | str] | None = None,
    services: bool = True,
    errors: bool = False,
    restart: Callable[[], object] | None = None,
    unseen: Severity = "error",
    undeleted: Severity = "warn",
    max_calls: int = 1000,
) -> CrashResult:
    """Check that a worker, or an app's handlers, survive a crash at any of their calls.

    For each crash the queues are emptied, `setup` fills them (and resets the app), and the worker
    runs as in `drain`. With `app`, `send` or `deferred`, as in `run_tasks`, push tasks are sent as
    well, or only these, if `worker` is None; `queues` are those to empty, or their names, all if it
    is None. Then `check` is called: it raises, or returns False, if the state is wrong. The first
    run is without a crash.

    Each time the worker or a handler is killed at another of its calls: before it, after it (of
    those to a database if the effect stays, as of a commit), or, where a queue is called, with the
    answer lost. If it is a worker, its leases expire, and a new
    worker does the rest. If it is a handler, the attempt has no response, and its task is retried
    by the options of its queue; so it is where the handler ends and its response is lost, another
    crash of each attempt. After its response, such as in a background task, it is not retried. An
    exception of a handler is status 500, as in production; in the run without a crash it is raised.

    With `errors`, each call fails, too, in a run of its own: nothing was done, and the caller gets
    an error; of a queue a `TransientError`, of a service the SDK's timeout, of a database, where
    the call writes or commits, the package's own, such as `sqlite3.OperationalError`. Calls to
    services that change something also lose their answers.

    With `services`, calls to other bundled services, such as the datastore, count as well if App
    Engine's SDK uses the emulator, and so do calls to databases, by `sqlite3`, SQLAlchemy, Django
    and others. Where a module of the app uses a database, and no call to it was seen, that is an
    error, or a warning, or neither (`unseen`). A transaction that was open is rolled back. Each run
    begins at the time at which the test has called, and memcache is empty when `setup` is called.

    A pull task that is exhausted in the run without a crash, since the worker has not deleted it,
    leads to a warning, or an error, or neither (`undeleted`). A warning names the globals of the
    app's modules that it changes: whoever takes over has them, as a new instance has not. With
    `restart`, a function that resets them, it is called in place of the warning: after each kill,
    and, as a crash of its own, after each attempt that has ended.

    Return the number of crashes, with whether these are all, and whose calls were seen. Calls of
    whoever was killed have no effect, so what it does while it ends (`finally`), or in threads,
    also after the test, does not change queues, services and databases. It opens no file for
    writing, renames and removes none, starts no program, and sends nothing by requests and httpx.
    What it changes in memory, in files that are open, and at other servers is not undone.

    Raises:
        CrashTestError: after some crashes `check` fails, or whatever took over does.
        AssertionError: `check` fails without any crash, `setup` leaves no task, the worker makes no
            call, or the app uses a database of which no call was seen, or, with
            `undeleted="error"`, a task is exhausted without a crash.
        ClockError: the clock cannot be moved.
        InvalidQueueModeError: one of `queues` is a push queue without an app, or a pull queue
            without a worker.
        TypeError: `emulator` is not one, `queues` is not a list, no worker and no app is passed,
            the worker calls `run_tasks`, or a function is asynchronous or a generator.
        UnknownQueueError: one of `queues` does not exist.
    """
    arguments.check_is_emulator(emulator)
    arguments.check_flags(services=services, errors=errors)
    arguments.check_choices(arguments.SEVERITIES, unseen=unseen, undeleted=undeleted)
    sender = Sender(app, send, deferred=deferred)
    if worker is None and not sender.is_set:
        raise TypeError(
            "nothing to crash: pass the worker, or the app that has the handlers as app= (a WSGI "
            "app), send= (a function that sends a request by a test client) or deferred=True"
        )
    if worker is not None:
        arguments.check_actor(worker)
    modes = (QueueMode.PULL,) * (worker is not None) + (QueueMode.PUSH,) * sender.is_set
    selected = arguments.select_queues(emulator, queues, modes=modes)
    note_apps(worker, app, send)
    trial = _CrashTrial(
        emulator=emulator,
        setup=setup,
        check=check,
        worker=worker or (lambda: None),
        make_driver=partial(Driver, emulator, sender, selected, max_calls=max_calls),
        queues=selected,
        errors=errors,
        restart=restart,
        memory=Memory([each for each in (worker, setup, send) if each], check),
    )
    failures = trial.failures(modes, services=services)
    if failures:
        raise CrashTestError(failures, trial.crashes) from failures[0].error
    if restart is None and (kept := trial.memory.changed_globals):
        warnings.warn(
            f"crash_test: the app changes {', '.join(kept)} in memory, which whoever takes over "
            "after a crash has here, and a new instance has not, so that is not tried: pass "
            "restart=, a function that resets it; keep a fake of a database in the test",
            stacklevel=2,
        )
    trial.undeleted.report("crash_test, without a crash", 'undeleted="ignore"', undeleted)
    not_seen = trial.find_unseen("crash_test", unseen)
    return CrashResult(
        trial.crashes,
        is_complete=trial.crashes == trial.planned,
        bound=", ".join(trial.left_out()),
        estimate=trial.planned,
        seen=trial.seen,
        unseen=not_seen,
    )


@dataclass(eq=False, kw_only=True)
class _CrashTrial(Trial):
    """One run of `crash_test`."""

    worker: Worker
    make_driver: Callable[..., Driver]
    """Makes one with the options of the test."""
    queues: arguments.SelectQueues
    errors: bool
    """Calls fail as well."""
    restart: Callable[[], object] | None
    """Resets what the app keeps in memory, as the start of a new instance does."""
    memory: Memory
    """Compared in the run of the first crash, without `restart`: what is made once, and kept, is
    there by then."""
    crashes: int = 0
    """Number of crashes until now."""
    planned: int = 0
    """Number of those that the first run can have."""
    hides_responses: bool = False
    """True if it is not known of a handler of the first run when its response was sent."""
    unordered: set[str] = field(default_factory=set)
    """Where threads of one handler of the first run write, in an order that nobody decides."""
    undeleted: Undeleted = field(init=False, repr=False)
    """What is left of the run without a crash; of others, crashes can have used up the leases."""
    _last: CrashFailure | None = None

    def left_out(self) -> Iterator[str]:
        """Yield what was not tried."""
        if not self.errors:
            yield "without errors of calls (errors=True)"
        if "point()" in self.seen:
            yield "without crashes after what point() is called for"
        if self.hides_responses:
            yield "not of what handlers do after their responses (send=)"
        if self.unordered:
            yield without_orders(self.unordered)

    def failures(self, modes: tuple[QueueMode, ...], *, services: bool) -> list[CrashFailure]:
        """Run without a crash, then with each, and return what fails; `modes` are those to run."""
        with following_ends, ending_waits, self.observing(services=services):
            stopwatch = Stopwatch()
            plans = self.without_crash(modes)
            self.planned = len(plans)
            found = []
            progress = "crash_test: {:,} of {:,} crashes".format
            for number, plan in enumerate(plans):
                stopwatch.report(partial(progress, number, len(plans)))
                with _all_young():
                    found.append(self.crash(plan))
            return [failure for failure in found if failure is not None]

    def without_crash(self, modes: tuple[QueueMode, ...]) -> list[CrashPlan]:
        """Run without a crash, and return the crashes that there can be."""
        self.begin()
        self._check_tasks(modes)
        self.memory.begin()
        self.undeleted = Undeleted(self.emulator, self.queues)
        injector = CrashInjector(CrashPlan(None, 0), restart=self.restart)
        self._run(injector, errors="raise")
        self.undeleted.look()
        self.hides_responses = any(each.hides_response for each in injector.attempts)
        ran = (injector.worker, *injector.attempts)
        self.unordered.update(*(each.strands.unordered for each in ran))
        if injector.refusal is not None:
            raise injector.refusal
        planned = list(injector.planned(errors=self.errors))
        if not planned:
            raise AssertionError("crash_test: the worker makes no call to a queue")
        error = self.verify()
        if error is not None:
            raise error
        return planned

    def crash(self, plan: CrashPlan) -> CrashFailure | None:
        """Run with a crash, and return what is wrong after it, if anything."""
        self.begin()
        injector = CrashInjector(plan, restart=self.restart and self._restart)
        if not self.crashes and self.restart is None:
            self.memory.begin()
            injector.look = self.memory.has_changed
        error: BaseException | None = None
        try:
            self._run_until_crash(injector)
            if injector.crashed is not None:
                self._drain(self.worker, errors="retry")
                injector.look("")
                error = self.verify()
        except Exception as raised:  # noqa: BLE001 - whatever goes wrong is a failure
            error = raised
        if injector.crashed is None and error is None:
            return None  # this run was shorter than the first
        self.crashes += 1
        if injector.crashed is not None:
            injector.crashed.check_caught("crash_test")
        if error is None:
            return None
        error.__cause__ = error.__cause__ or injector.last_error  # so that its traceback is shown
        failure = injector.failure(error, self.describe())
        if self._last is None or not failure.has_cause_of(self._last):
            for log in chain.from_iterable(injector.held.values()):
                log()
        self._last = failure
        return failure

    def _drain(self, worker: Worker, *, errors: str) -> None:
        driver = self.make_driver(errors=errors)
        driver.run(worker)
        driver.check("crash_test")

    def _run_until_crash(self, injector: CrashInjector) -> None:
        try:
            self._run(injector, errors="retry")
        except Exception:
            # The worker has got an error, which may end it like a crash.
            if injector.plan.crash not in CALLER_GETS_ERROR or injector.crashed != injector.worker:
                raise

    def _restart(self) -> None:
        arguments.refuse_lazy(self.restart and self.restart(), "restart")

    @bypass_interceptors()
    def _check_tasks(self, modes: tuple[QueueMode, ...]) -> None:
        full = [queue for queue in self.emulator.queues if queue.fetch_statistics().tasks]
        selected = self.queues()
        if any(queue in selected for queue in full):
            return
        kinds = " or ".join(mode.value for mode in modes)
        where, advice = f"a {kinds} queue", "add at least one"
        if QueueMode.PUSH in modes:
            advice += "; the request of a user can be one"
        if any(queue.mode in modes for queue in full):
            where, advice = "those queues", f'it left tasks in queue "{full[0].name}"'
        elif full:
            advice = _INSTEAD[full[0].mode]
        raise AssertionError(
            f"crash_test: setup left no task in {where}, so there is nothing to run: {advice}"
        )

    def _run(self, injector: CrashInjector, *, errors: str) -> None:
        def work() -> object:
            injector.worker.check_alive()  # it can be killed in a thread that it has started
            with injector.worker.acting():
                return self.worker()

        self.running = injector
        try:
            with injector.worker.ending():
                self._drain(work, errors=errors)
        except Exception:
            if not injector.worker.has_ended:
                raise
        finally:
            self.running = None
        injector.end_instance()


@contextmanager
def _all_young() -> Iterator[None]:
    """Keep the objects that are made in the block in the youngest generation of garbage.

    So `gc.collect(0)` finds what of it is left. To look at all objects takes 100 ms in a process
    that has loaded the SDK, most of the time of a crash.
    """
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


_INSTEAD = {
    QueueMode.PULL: "it left pull tasks only; pass the worker that leases them",
    QueueMode.PUSH: (
        "it left push tasks only; pass app=, send= or deferred=True (not a worker that calls "
        "run_tasks), so that they are sent and their handlers killed"
    ),
}
"""What to pass where tasks of a kind are left."""
