"""The state of a server beside its emulator: file, requests, faults, tokens, names."""

from __future__ import annotations

import re
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from pullqueue.address import DEFAULT_PORT
from pullqueue.api.tokens import Tokens
from pullqueue.clock import ManualClock, SystemClock
from pullqueue.cron.file import CronJob
from pullqueue.cron.runner import CronRunner
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.events import EventKind
from pullqueue.engine.queue import Queue
from pullqueue.engine.store import QueueContents, QueueRecord, QueueStatistics
from pullqueue.errors import InvalidTaskError
from pullqueue.observe.activity import ActivityLog
from pullqueue.observe.mail_log import Mail
from pullqueue.observe.models import Action
from pullqueue.observe.request_log import RequestLog
from pullqueue.observe.users import User
from pullqueue.push.addresses import PushAddresses
from pullqueue.push.tokens import TokenSigner
from pullqueue.runtime.config_file import ConfigFile
from pullqueue.runtime.delivery import Delivery, Permits
from pullqueue.runtime.fault_registry import FaultRegistry
from pullqueue.runtime.sender_threads import SenderThreads
from pullqueue.tasks import Task

if TYPE_CHECKING:
    from pullqueue.services.hosting import Services

STOP_SECONDS = 5.0
"""Time that attempts and cron jobs together have to end after the server was stopped."""
NO_DELIVERY = (
    "this server does not deliver push tasks: use run_tasks() of pullqueue.testing in a test, or "
    "`pullqueue serve`"
)
_Text = TypeVar("_Text", str, str | None)
_COMMAND = re.compile(r"`pullqueue (?:clock|push-to|reset|tasks) [^`]*")
"""A command of a message that calls a server."""
TOKEN_HEADER = "X-Pullqueue-Token"  # noqa: S105 - the name of the header
TOKEN_FIELD = "pullqueue_token"  # noqa: S105 - the name of the form's field


@dataclass
class Move:
    """A move of the clock that delivers while time passes, in several calls if that takes long."""

    start_usec: int
    target_usec: int
    before: list[tuple[Queue, QueueStatistics, Counter[EventKind]]]
    """The queues with their statistics, and their events at that time, before it."""
    action: Action | None = None
    """What is recorded of it."""


class ServerState:
    """One served emulator and the records of its server."""

    services: Services | None = None
    """Those of App Engine's other services that are answered here; None: there are none."""
    url = grpc_address = ""
    """Where the server listens; empty: it does not, or another program does."""
    move: Move | None = None
    """The last move of the clock, if its time is not reached."""
    snapshot_loaded: datetime | None = None
    """When a snapshot was last loaded, by the emulator's clock; None: since a reset, none."""
    project = ""
    """Its name, of a project that is not the server's own."""

    def __init__(
        self,
        emulator: Emulator,
        *,
        tokens: Tokens | None = None,
        config_file: ConfigFile | None = None,
        host_names: Iterable[str] | None = None,
        push_to: PushAddresses | None = None,
        senders: SenderThreads | None = None,
        cron: Sequence[CronJob] = (),
        acl: bool = False,
    ) -> None:
        """Make the state of a server for an emulator.

        `tokens` are those that callers need where the acl is enforced. `config_file` is the file
        of the configuration, if it can be reloaded. `host_names` are the names in Host headers
        that are answered, beside addresses and localhost; None answers to any. Push tasks are
        delivered to `push_to`, in threads of `senders`; None: they are not delivered. The jobs in
        `cron` are requested there when they are due. With `acl`, callers need a token.
        """
        self.emulator = emulator
        self.tokens = tokens or Tokens(emulator.clock)
        self.config_file = config_file
        self.host_names = (
            None if host_names is None else frozenset(name.lower() for name in host_names)
        )
        self.activity = ActivityLog(emulator)
        self.requests = RequestLog(emulator, self.activity)
        self.faults = FaultRegistry(emulator)
        self.users: dict[str, User] = {}
        """Those of the app who are signed in, by e-mail address."""
        self.push_to = PushAddresses() if push_to is None else push_to
        """Where push tasks are sent."""
        self.signer = TokenSigner(lambda email, scopes: self.tokens.issue(email, scopes).text)
        """Makes the tokens that HTTP tasks carry."""
        self.senders = senders or SenderThreads()
        self._delivering = threading.Lock()
        self.delivery: Delivery | None = None
        """Sends push tasks; None: this server does not, until it gets addresses."""
        if push_to is not None:
            self._make_delivery()
        self.cron = CronRunner(cron, emulator, self.requests, self.push_to)
        """Runs the jobs of cron.yaml."""
        self.limits_manual_clocks = isinstance(emulator.clock, ManualClock)
        """Whether its lease rate also applies to projects with a manual clock."""
        self.acl = acl
        """True if callers need a token, as `tokens` has them."""
        self.own_ports: list[int] = []
        self.started = SystemClock().now()
        self._started = perf_counter()
        self.on_reset: list[Callable[[], None]] = []
        """Called by `reset`, so that others delete what they keep beside the emulator."""
        self.token = secrets.token_urlsafe(24)
        """What a browser must send with each change: only pages of this server know it."""

    def address_commands(self, text: _Text) -> _Text:
        """Return a text whose commands reach this server and project, wherever they are run."""
        if text is None:
            return text
        is_default = not self.url or urlsplit(self.url).port == DEFAULT_PORT
        options = "" if is_default else f" --url {self.url}"
        options += f" --project {self.project}" if self.project else ""
        return _COMMAND.sub(rf"\g<0>{options}", text)

    @property
    def mails(self) -> list[Mail]:
        """What apps have sent by App Engine's mail service, the latest first."""
        return [] if self.services is None else self.services.mails.latest()

    @property
    def uptime_seconds(self) -> float:
        """How long the server has been running, whatever its clock says."""
        return perf_counter() - self._started

    def run_now(self, task: Task) -> bool:
        """Start an attempt of a push task, past eta, rate and pause; False: one is running.

        Raises:
            InvalidTaskError: it has no address, or no token can be made, or it is a pull task.
        """
        address = self.push_to.find(task, self.emulator.queue(task.queue_name).settings)
        if self.delivery is None:
            address = NO_DELIVERY
        if self.delivery is None or isinstance(address, str):
            text = f'task "{task.name}" of queue "{task.queue_name}" cannot be sent: {address}'
            raise InvalidTaskError(self.address_commands(text))
        return self.delivery.attempts.run_now(task, address)

    def deliver_to(self, addresses: Iterable[str], *, keep_others: bool = False) -> None:
        """Send push tasks to other addresses from now on, each `[TARGET=]URL`; none: keep them.

        The addresses of other targets can stay.

        Raises:
            ValueError: one is not valid, or two are for the same tasks; nothing is changed.
        """
        self.push_to.replace(addresses, keep_others=keep_others)
        if self.delivery is not None:
            self.delivery.use_addresses()
        elif self.push_to:
            self._make_delivery()
            self.wake()

    @contextmanager
    def delivering(self, *, most: int | None = None) -> Iterator[None]:
        """Send push tasks in the block, of a project that otherwise sends none, too.

        At most that many attempts are started, if `most` is given. Another block waits for this.
        """
        delivery = self.delivery
        if delivery is None:
            yield
            return
        with self._delivering:
            # In this order: the thread may be looking.
            delivery.permits = None if most is None else Permits(most)
            is_held, delivery.is_held = delivery.is_held, False
            self.wake()
            try:
                yield
            finally:
                delivery.is_held, delivery.permits = is_held, None

    def wake(self) -> None:
        """Look for due push tasks now, in a thread that starts when it is first needed."""
        delivery = self.delivery
        if delivery is None:
            return
        if self.url and not delivery.is_started:
            delivery.start(own_ports=self.own_ports)
        delivery.wake()

    def _make_delivery(self) -> None:
        self.delivery = Delivery(
            self.emulator,
            self.requests,
            self.push_to,
            signer=self.signer,
            senders=self.senders,
            advise=self.address_commands,
        )

    def stop_starting(self) -> None:
        """Start no more attempts and cron jobs."""
        for each in self._senders:
            each.stop_starting()

    def stop(self, end: float | None = None) -> None:
        """Start no more, and wait for those under way until a time by `perf_counter`."""
        end = perf_counter() + STOP_SECONDS if end is None else end
        self.stop_starting()
        for each in self._senders:
            each.stop(end)

    @property
    def _senders(self) -> Sequence[CronRunner | Delivery]:
        return (self.cron,) if self.delivery is None else (self.cron, self.delivery)

    def reset(self, *, keep_queues: bool = False, services: bool = False) -> None:
        """Delete tasks, names, history, requests and faults; keep queue.yaml, clock and activity.

        Queues created at run time are deleted as well, unless `keep_queues` is true. With
        `services`, the data of App Engine's other services are deleted, such as the datastore's.
        """
        self.faults.clear()
        created = [queue for queue in self.emulator.queues if keep_queues and queue.is_runtime]
        self.emulator.restore(
            {
                queue.name: QueueContents([], [], {}, [], QueueRecord(settings=queue.settings))
                for queue in created
            }
        )
        for delete in self.on_reset:
            delete()
        if services and self.services is not None:
            self.services.reset()
        self.requests.clear()
        self.activity.clear_clients()
        self.snapshot_loaded = self.move = None
