"""The delivery of push tasks by a server: the thread that looks which may be sent now."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from time import perf_counter

from pullqueue.address import SplitUrl, known_app_host
from pullqueue.clock import USEC_PER_SECOND, SystemClock
from pullqueue.config.model import DEFAULT_CONCURRENT_REQUESTS
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.engine.queue import Queue, walk
from pullqueue.engine.store import Claim
from pullqueue.errors import TransientError
from pullqueue.observe.activity import ProjectLog
from pullqueue.observe.request_log import RequestLog
from pullqueue.push.addresses import KEPT, PushAddresses
from pullqueue.push.dispatcher import Dispatcher, is_dispatched
from pullqueue.push.tokens import TokenSigner
from pullqueue.runtime.attempts import RENEWAL_SECONDS, Attempts, Problems
from pullqueue.runtime.sender_threads import SenderThreads
from pullqueue.tasks import AttemptResult, Task, TaskState

_INTERVAL_SECONDS = 0.002
"""Between two looks for due tasks: no queue sends more than 500 tasks a second."""
_POLL_SECONDS = 0.1
_SHARED_POLL_SECONDS = 0.25
"""Interval of the looks for due tasks, in a store that other servers use as well."""
_WOKEN_POLL_SECONDS = 10.0
"""As `_POLL_SECONDS`, where whatever adds or changes a task wakes the thread: time may jump."""
_UNCLAIMED_POLL_SECONDS = 5.0
"""As `_SHARED_POLL_SECONDS`, the same, while the server that adds a task can send it itself."""
_CLAIMED_SECONDS = 12.0
"""How long after an attempt this server may be the one that sends the tasks: claims end by then."""
_LEASE_SECONDS = 15.0
"""How long the task of an attempt is leased: after a crash it runs again that much later."""
_LATE_SECONDS = 0.25
"""How late a look for due tasks can be, on a busy machine, without a loss of rate."""
_ACTIVE_SECONDS = 2.0
"""How long after an attempt the next one of its queue starts to the millisecond."""
_PAGE = 500
"""Tasks that are read at once where all that are due are looked at."""
_LOGGED = 1_000
"""Reasons to keep tasks of which it is known that they were logged."""


@dataclass
class Permits:
    """Attempts that may start."""

    left: int


class Delivery:
    """Sends the push tasks of an emulator to the addresses of an app.

    Times of tasks are those of the store. Deadlines, and when leases are renewed, are by the
    machine's own time.
    """

    def __init__(
        self,
        emulator: Emulator,
        requests: RequestLog,
        addresses: PushAddresses,
        *,
        signer: TokenSigner,
        senders: SenderThreads,
        advise: Callable[[str], str],
    ) -> None:
        """Send to addresses, with tokens of `signer`; record each attempt among the requests.

        Attempts are made in threads of `senders`. `advise` completes the commands of a text that is
        logged.
        """
        self._senders = senders
        self.addresses = addresses
        self._emulator = emulator
        self._advise = advise
        self._log = ProjectLog("pullqueue.push", emulator)
        self.dispatcher = Dispatcher(
            emulator,
            throttle=True,
            lease_seconds=_LEASE_SECONDS,
            # By a clock that is moved, what passes at once is not the time of a busy machine.
            late_seconds=_LATE_SECONDS if isinstance(emulator.clock, SystemClock) else 0,
            app_host=known_app_host(),
            signer=signer,
        )
        """Finds the tasks that may be sent, and applies the rates of queues."""
        self._problems = Problems()
        """Under the names of queues; those of all queues under ""."""
        self._wake = threading.Event()
        self.attempts = Attempts(
            self.dispatcher,
            requests,
            addresses,
            self._problems,
            threads=self._senders,
            log=self._log,
            on_end=self.wake,
        )
        self._stopping = self.attempts.stopping
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        """None: nothing is to be done before `wake`."""
        self.is_started = self.is_held = False
        """Whether it sends; and whether it starts no attempts, until that is set to False."""
        self.permits: Permits | None = None
        """How many more attempts may start; None: any number."""
        self.is_woken = False
        """Whether all calls that add or change tasks of this server wake it."""
        self._is_passing = False
        """Whether a manual clock passes time."""
        self._renewed = self._closed_idle = perf_counter()
        self._active_until = 0.0
        """Until when connections may be open that were used."""
        self._started: dict[str, float] = {}
        """When an attempt of each queue was last started."""
        self._looking = threading.Condition()
        """Notified after each look for due tasks."""
        self._looks_begun = self._looks_ended = 0
        self._is_settled = False
        """True if the last look found nothing to start, and no attempt was running."""
        self._logged: set[tuple[str, str]] = set()

    def start(self, *, own_ports: Iterable[int] = ()) -> None:
        """Begin to send tasks, but none to `own_ports` of this machine: those of this server."""
        self.is_started = True
        self.attempts.sender.own_ports = frozenset(own_ports)
        self._warn_of_targets()
        self.wake()

    def use_addresses(self) -> None:
        """Send tasks to the addresses as they are now; attempts under way go on."""
        self._logged.clear()
        self._warn_of_targets()
        self.look_again()

    def look_again(self) -> None:
        """Look at the tasks that wait for an address: there are others, or an app listens now."""
        self.dispatcher.look_again()
        self.wake()

    def _warn_of_targets(self) -> None:
        unknown = self.addresses.unknown_targets(each.settings for each in self._emulator.queues)
        if unknown is not None:
            self._log.warning("%s", unknown)

    def wake(self) -> None:
        """Look for due tasks at once: time was moved, or something else was changed."""
        self._wake.set()
        with self._starting:
            if self._thread is None and self.is_started and not self._stopping.is_set():
                self._thread = threading.Thread(
                    target=self._run, name="pullqueue push", daemon=True
                )
                self._thread.start()

    def stop_starting(self) -> None:
        """Start no more attempts."""
        self.attempts.stop_starting()
        self._notify_of_end()

    def discard(self) -> None:
        """Start no more attempts, and end those under way without a trace."""
        self.attempts.discard()
        self._notify_of_end()

    def _notify_of_end(self) -> None:
        self._wake.set()
        with self._looking:
            self._looking.notify_all()

    def stop(self, end: float) -> None:
        """Wait for the attempts under way until a time by `perf_counter`, and end the others."""
        with self._starting:
            thread = self._thread
        if thread is not None:
            thread.join(max(0, end - perf_counter()))
        self.attempts.stop(end)

    @property
    def threads(self) -> int:
        """How many attempts may be made at the same time, of all queues."""
        return self._senders.share

    def free_threads(self, queue: Queue) -> int:
        """Return how many more attempts of a queue the threads of this server permit to start."""
        names = {each.name for each in self._emulator.queues if is_dispatched(each)} | {queue.name}
        return self._share(queue.name, self.dispatcher.counts, names)

    def settle(self, seconds: float) -> bool:
        """Wait until no attempt runs and none may start now; False: that takes longer."""
        end = perf_counter() + seconds
        with self._looking:
            looks = self._looks_begun  # what has begun may have missed something
            self.wake()
            while not self._stopping.is_set() and (left := end - perf_counter()) > 0:
                if self._looks_ended > looks and self._is_settled:
                    return True
                self._looking.wait(left)  # each attempt that ends leads to another look
        return False

    def _run(self) -> None:
        wait_seconds = 0.0
        while not self._ends(wait_seconds):
            self._wake.wait(wait_seconds)
            is_busy = not self._is_passing or self.dispatcher.counts
            if self._stopping.wait(_INTERVAL_SECONDS if is_busy else 0):
                return
            self._wake.clear()
            self._looks_begun += 1
            wait_seconds = self._poll_seconds
            was_idle = not self.dispatcher.counts and self.attempts.is_idle
            try:
                self._look_after()
                wait_seconds = self._idle_seconds() if self.is_held else self._start_due()
                self._problems.clear("")
            except Exception as error:  # noqa: BLE001 - the thread goes on, whatever happens
                if self._stopping.is_set():  # the store may be closed
                    return
                self._problems.report("", "push tasks cannot be delivered", error)
            with self._looking:
                self._is_settled = was_idle and wait_seconds > 0
                self._looks_ended = self._looks_begun
                self._looking.notify_all()

    def _ends(self, wait_seconds: float) -> bool:
        """Return whether the thread ends: a server can have thousands of projects that are idle."""
        if wait_seconds < inf:
            return False
        with self._starting:
            if self._wake.is_set():
                return False
            self._thread = None
        return True

    def _idle_seconds(self) -> float:
        """Return when to look again where nothing may be started; inf: when it is woken.

        What runs is looked after.
        """
        is_idle = perf_counter() >= self._active_until and self.is_woken
        return inf if is_idle and not self._emulator.is_shared else self._poll_seconds

    @property
    def _poll_seconds(self) -> float:
        return _SHARED_POLL_SECONDS if self._emulator.is_shared else _POLL_SECONDS

    @contextmanager
    def _reporting(self, queue: Queue) -> Iterator[None]:
        """Log what goes wrong with one queue in the block: the others do not wait for it."""
        try:
            yield
        except TransientError:  # of the store: it is that of all queues
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is
            if self._stopping.is_set():
                return
            self._problems.report(
                queue.name, f'push tasks of queue "{queue.name}" cannot be delivered', error
            )

    def _look_after(self) -> None:
        """Renew the leases of running attempts, and close idle connections, if it is time."""
        now = perf_counter()
        if self.dispatcher.counts:
            self._active_until = now + _ACTIVE_SECONDS
        if now - self._closed_idle >= _POLL_SECONDS:
            self._closed_idle = now
            self.attempts.sender.close_idle()
        if now - self._renewed >= RENEWAL_SECONDS:
            self._renewed = now
            attempts = self.dispatcher.running
            for running in attempts:
                running.renew()
            # Others that share the store count no attempts of this server, so it keeps its claims.
            for queue in {running.queue.name: running.queue for running in attempts}.values():
                self.dispatcher.claim(queue)

    def _start_due(self) -> float:
        """Start the attempts that may start now; return when to look again, in seconds."""
        queues = []
        for queue in self._emulator.queues:
            with self._reporting(queue):
                if is_dispatched(queue):
                    queues.append(queue)
        busy = self.dispatcher.counts
        before = busy.total()
        for queue in queues:
            with self._reporting(queue):
                limit = self._share(queue.name, busy, [each.name for each in queues])
                permits = self.permits
                started = self._start_due_of(queue, min(limit, permits.left) if permits else limit)
                busy[queue.name] += started
                if permits is not None:
                    permits.left -= started
                self._problems.clear(queue.name)
        if busy.total() > before:
            return 0
        return self._poll_seconds if self._is_passing else self._wait_seconds(queues)

    def _start_due_of(self, queue: Queue, limit: int) -> int:
        self._log_cap(queue)
        # What waits when time begins to pass, waits until it has passed.
        found = self.dispatcher.find_deliverable(
            queue, limit, self._find_address, sweeps=not self._is_passing
        )
        started = 0
        for task, address in found:
            # So that the limits of the queue hold over all servers that share the store.
            claim = self.dispatcher.claim(queue)
            if claim is Claim.NEW:  # there may be fewer tokens
                return started + self._start_due_of(queue, limit - started)
            if self._stopping.is_set() or claim is Claim.REFUSED:
                break
            self.attempts.start(task, address)
            started += 1
            self._started[queue.name] = now = perf_counter()
            self._active_until = now + _ACTIVE_SECONDS
        return started

    def _wait_seconds(self, queues: list[Queue]) -> float:
        """Return when to look for due tasks again, where none could be started."""
        now, wait_seconds = perf_counter(), self._idle_seconds()
        last = max(self._started.values(), default=-inf)
        if self.is_woken and self._emulator.is_shared and now - last > _CLAIMED_SECONDS:
            wait_seconds = _UNCLAIMED_POLL_SECONDS
        for queue in queues:
            is_active = now - self._started.get(queue.name, -inf) < _ACTIVE_SECONDS
            if self.is_woken or is_active:
                with bypass_interceptors():
                    next_usec = self.dispatcher.next_usec(queue)
                if next_usec is not None:
                    left = (next_usec - self._emulator.now_usec()) / USEC_PER_SECOND
                    wait_seconds = min(wait_seconds, max(left, 0.001), _WOKEN_POLL_SECONDS)
        return wait_seconds

    def _find_address(self, task: Task) -> SplitUrl | None:
        """Return where a task is sent; None: it is kept, which is logged once for each queue."""
        queue = self._emulator.queue(task.queue_name)
        found = self.addresses.find(task, queue.settings)
        if not isinstance(found, str):
            return None if self._is_passed_over(queue, found) else found
        if (task.queue_name, found) not in self._logged:
            if len(self._logged) == _LOGGED:  # a client can make up any number of origins
                self._logged.clear()
            self._logged.add((task.queue_name, found))
            names, why = (task.name, task.queue_name), self._advise(found)
            self._log.warning('task "%s" of queue "%s" is %s: %s', *names, KEPT, why)
        return None

    def _is_passed_over(self, queue: Queue, address: SplitUrl) -> bool:
        """Return whether tasks for an address wait for the end of the time that passes.

        They do if it refuses connections, unless a fault could answer them.
        """
        is_refused = self._is_passing and address.origin in self.attempts.sender.refused
        return is_refused and not queue.interceptors

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Deliver in the block, in which a manual clock passes time.

        Nothing waits for the machine's clock, and an address that refuses a connection is not asked
        again. At the end of the block the attempts are counted that tasks for such addresses have
        had.
        """
        self.attempts.sender.refused.clear()
        self._is_passing = True
        try:
            yield
        finally:
            if self.attempts.sender.refused:
                for queue in filter(is_dispatched, self._emulator.queues):
                    self._count_refused(queue)
            self._is_passing = False
            self.look_again()

    @bypass_interceptors()
    def _count_refused(self, queue: Queue) -> None:
        counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
        shortest_seconds = queue.fetch_statistics().available / self.dispatcher.enforced_rate(queue)
        for task in walk(queue, page=_PAGE, state=TaskState.AVAILABLE):
            address = self.addresses.find(task, queue.settings)
            if not isinstance(address, str) and self._is_passed_over(queue, address):
                counts[self.attempts.sender.refused[address.origin]] += self.attempts.count_refused(
                    task, address, shortest_seconds=shortest_seconds
                )
        for reason, found in counts.items():
            queue.store.count_failed(queue.name, found, AttemptResult(0, reason))

    def _log_cap(self, queue: Queue) -> None:
        slots = queue.settings.max_concurrent_requests or 0
        # The default is nobody's wish: a queue that CreateQueue makes has it in its settings.
        is_wish = slots != DEFAULT_CONCURRENT_REQUESTS
        if is_wish and slots > self.threads and ("", "") not in self._logged:
            self._logged.add(("", ""))  # once, however many queues there are
            self._log.warning(
                'queue "%s" has max_concurrent_requests %d; this server makes at most %d attempts '
                "at the same time, of all queues",
                queue.name,
                slots,
                self.threads,
            )

    def _share(self, name: str, busy: Counter[str], names: Collection[str]) -> int:
        """Return how many more attempts of a queue may start, so that others are not held up.

        Half of the threads are divided among the queues, the others are for whoever needs them.
        """
        free = self.threads - busy.total()
        own = max(1, self.threads // 2 // len(names))
        reserved = sum(max(0, own - busy[other]) for other in names if other != name)
        return max(0, min(free, max(own - busy[name], free - reserved)))
