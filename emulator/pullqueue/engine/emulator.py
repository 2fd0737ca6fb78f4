"""An app's queues: made from a queue.yaml, sharing one clock, one store and one storage limit."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import replace

from pullqueue import config as queue_yaml
from pullqueue.address import DEFAULT_LOCATION
from pullqueue.clock import USEC_PER_SECOND, Clock, SystemClock
from pullqueue.config.model import QueueConfig, QueueSettings
from pullqueue.engine import task_errors, validation
from pullqueue.engine.interceptors import CallLog, Interceptors
from pullqueue.engine.memory.store import MemoryStore
from pullqueue.engine.queue import Queue
from pullqueue.engine.retention import Retention, compute_retention
from pullqueue.engine.settings_validation import check_settings
from pullqueue.engine.store import (
    NameSource,
    QueueContents,
    QueueRecord,
    StoreFactory,
    random_names,
)
from pullqueue.errors import QueueNameInUseError, UnknownQueueError, is_expected_error
from pullqueue.limits import Limits
from pullqueue.tasks import LOCATED, split_queue_name
from pullqueue.text import closest, quoted

__tracebackhide__ = is_expected_error

_NAMES_LISTED = 10
"""How many names the message about an unknown queue has at most."""


class Emulator:
    """The queues of one app.

    Two emulators share nothing. All methods are thread-safe.
    """

    def __init__(
        self,
        config: QueueConfig,
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        project: str | None = None,
        location: str | None = None,
        store: StoreFactory = MemoryStore,
        names: NameSource | None = None,
    ) -> None:
        """Make empty queues from a configuration.

        `clock` is the system's when None; `project` the application id that callers must use,
        any when None; `location` the same for the location of Cloud Tasks; `store` keeps the tasks:
        in memory, or what `pullqueue.stores.open_store` returns for a URL; `names` generates the
        names of tasks that have none, and can be replaced at any time.
        """
        self.clock = clock or SystemClock()
        self.limits = limits or Limits()
        self.project = project
        self.location = location
        self.service_accounts: frozenset[str] = frozenset()
        """The only ones that tasks and queues can name for tokens; empty: any."""
        self.interceptors = Interceptors()
        self.names = names or random_names()
        self.call_logs: list[CallLog] = []
        """Record the calls of Google's SDK in this process; servers add their request logs."""
        self.store = store(
            clock=self.clock,
            limits=self.limits,
            names=lambda: self.names(),  # noqa: PLW0108 - looked up at each call, since it can be replaced
        )
        """What stores its tasks; users go by the queues."""
        self._lock = threading.Lock()
        self.config: QueueConfig
        """The current configuration."""
        self._queues: dict[str, Queue] = {}
        self._checked_usec = 0
        """When the changes of other processes were looked for last."""
        try:
            self._configure(config)
        except BaseException:
            self.store.close()
            raise

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        project: str | None = None,
        location: str | None = None,
        profile: str = "gcloud",
        store: StoreFactory = MemoryStore,
    ) -> Emulator:
        """Create an emulator from a queue.yaml.

        Raises:
            ConfigFileError: the file cannot be read.
            InvalidQueueConfigError: the file is not valid; `.problems` lists everything found.
        """
        config = queue_yaml.load(path, profile=profile)
        return cls(
            config, clock=clock, limits=limits, project=project, location=location, store=store
        )

    @classmethod
    def from_text(
        cls,
        text: str,
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        project: str | None = None,
        location: str | None = None,
        profile: str = "gcloud",
        store: StoreFactory = MemoryStore,
    ) -> Emulator:
        """Create an emulator from the text of a queue.yaml.

        Raises:
            InvalidQueueConfigError: the text is not valid; `.problems` lists everything found.
        """
        config = queue_yaml.loads(text, profile=profile)
        return cls(
            config, clock=clock, limits=limits, project=project, location=location, store=store
        )

    def __repr__(self) -> str:
        return f"Emulator(file={self.config.file!r}, queues={[q.name for q in self.queues]!r})"

    @property
    def queues(self) -> list[Queue]:
        """All queues in the order of queue.yaml, then those removed or created at run time."""
        self._follow()
        return list(self._queues.values())

    def queue(self, name: str) -> Queue:
        """Return a queue by name: `orders`, `orders@europe-west1`, or as Cloud Tasks names it.

        Raises:
            TypeError: `name` is not a string.
            UnknownQueueError: there is no such queue.
        """
        if not isinstance(name, str):
            raise TypeError(f"{quoted(name)} is not the name of a queue: pass a string")
        self._follow()
        if name not in self._queues:
            # Another process may have made it just now.
            self._follow(at_once=True)
        queue = self._queues.get(name)
        if queue is None:
            project, location, queue_name = split_queue_name(name)
            if project in ("", self.project or project):
                queue = self._queues.get(self.name_at(location, queue_name))
        if queue is None:
            raise UnknownQueueError(self._unknown(name), queue_name=name)
        return queue

    def name_at(self, location: str, queue_name: str, *, creates: bool = False) -> str:
        """Return the name that the queue of a location of Cloud Tasks has here.

        In the emulator's location, or without one in us-central1, it is the same; in another one
        `orders@europe-west1`. But without a location, the queues of queue.yaml are in each one that
        has none of its own by their name; so is `default`, unless a call `creates` one.
        """
        if location in ("", self.location or DEFAULT_LOCATION):
            return queue_name
        located = f"{queue_name}{LOCATED}{location}"
        self._follow()
        queue = self._queues.get(queue_name)
        if self.location or queue is None or located in self._queues:
            return located
        everywhere = self._in_file if creates else self._listed
        return queue_name if queue_name in everywhere else located

    def reconfigure(self, config: QueueConfig, *, disable_created: bool = False) -> None:
        """Apply another configuration.

        Queues are added and changed, and resumed unless `resume_paused_queues` is false; one that
        is no longer listed is disabled and keeps its tasks until it is listed again. Queues made at
        run time are left alone, or disabled, as a deployment of queue.yaml does it with those of
        its location: until they are resumed.
        """
        resume = config.resume_paused_queues is not False
        self._configure(config, resume=resume, disable_created=disable_created)

    def create_queue(self, settings: QueueSettings) -> Queue:
        """Create a queue at run time, in addition to those of queue.yaml, and return it.

        Its tasks are deleted after 31 days, and the names of deleted tasks are reserved for an
        hour, unless the settings say otherwise.

        Raises:
            InvalidQueueNameError: the name is not valid.
            InvalidQueueSettingsError: a setting is not valid.
            QueueNameInUseError: the name is that of a queue, or of one deleted in the last 7 days.
            UnknownQueueError: another process deleted the queue while it was created.
        """
        name = validation.check_queue_name(settings.name)
        check_settings(settings)
        reserved_usec = self.limits.deleted_queue_seconds * USEC_PER_SECOND
        with self._lock:
            self._load()
            created = name not in self._queues and self.store.create_queue(
                name, settings=self._with_defaults(settings), reserved_usec=reserved_usec
            )
            self._load()
            if created and name not in self._queues:  # another process has deleted it again
                raise task_errors.deleted_queue(name)
            if created:
                return self._queues[name]
            reason = "exists" if name in self._queues else "was deleted not long ago"
        raise QueueNameInUseError(f'queue "{name}" {reason}: choose another name', queue_name=name)

    def update_queue(self, settings: QueueSettings) -> Queue:
        """Change the settings of a queue; one of queue.yaml has them until it is reconfigured.

        Raises:
            UnknownQueueError: there is no such queue.
            InvalidQueueSettingsError: a setting is not valid.
        """
        queue = self.queue(settings.name)
        check_settings(settings)
        with self._lock:
            if queue.is_runtime:
                settings = self._with_defaults(settings)
                self.store.change_queue_record(queue.name, settings=settings)
            queue.configure(settings, storage_limit_bytes=self.config.total_storage_limit_bytes)
        return queue

    def delete_queue(self, name: str) -> None:
        """Delete a queue and everything in it; one of queue.yaml is back when that is reloaded.

        Raises:
            UnknownQueueError: there is no such queue.
        """
        name = self.queue(name).name
        with self._lock:
            self.store.delete_queue(name)
            self._load()

    def reset(self) -> None:
        """Delete all tasks, leases, names, history and queues created at run time.

        The configuration and the clock are not changed.
        """
        self.store.clear()
        self._configure(self.config)

    def export(self) -> dict[str, QueueContents]:
        """Return the contents of all queues, as of one time, for `restore`."""
        return self.store.export()

    def restore(self, contents: Mapping[str, QueueContents]) -> None:
        """Delete all tasks, names and history, and store these contents instead.

        Raises:
            UnknownQueueError: contents are for a queue that does not exist; nothing changes.
            InvalidQueueSettingsError: a setting of a queue is not valid; nothing changes.
        """
        retentions: dict[str, Retention] = {}
        for name, restored in contents.items():
            record = restored.record or QueueRecord()
            if record.settings is not None:
                check_settings(record.settings)
            if record.deleted_usec is None:
                settings = self._find_settings(name, record)
                if settings is None:
                    raise UnknownQueueError(self._unknown(name), queue_name=name)
                retentions[name] = compute_retention(settings)
        with self._lock:
            self.store.restore(contents, retentions=retentions)
            self._load()

    def check(self) -> None:
        """Check that the store can store tasks now.

        Raises:
            StoreFullError: it has the maximum number of tasks.
            TransientError: it cannot, for a temporary reason.
            InternalError: it cannot.
        """
        self.store.check()

    def close(self) -> None:
        """Close the files and connections of the store. The emulator cannot be used afterwards."""
        self.store.close()

    @property
    def bytes_stored(self) -> int:
        """The size of all tasks together: payloads, names and tags, in bytes of UTF-8."""
        return self.store.count_bytes()

    @property
    def unlisted_tasks(self) -> dict[str, int]:
        """How many tasks the store has of queues that do not exist, by the name of the queue.

        Such queues were in queue.yaml before a restart.
        """
        names = {queue.name for queue in self.queues}
        counts = self.store.count_tasks().items()
        return {name: tasks for name, tasks in counts if name not in names}

    @property
    def store_url(self) -> str:
        """Where its tasks are stored, without a password: `memory`, or the URL of the store."""
        return self.store.url

    @property
    def is_shared(self) -> bool:
        """True if other servers may use its store at the same time."""
        return self.store.is_shared

    def now_usec(self) -> int:
        """Return the time by which tasks become due, in microseconds: that of the store.

        It is the clock's, unless several servers share the store.
        """
        return self.store.now_usec()

    def next_change_usec(self) -> int | None:
        """Return the next time at which anything changes by itself, or None."""
        times = (queue.next_change_usec() for queue in self.queues)
        return min((usec for usec in times if usec is not None), default=None)

    def last_lease_end_usec(self) -> int | None:
        """Return the end of the current lease that ends last, or None."""
        times = (queue.last_lease_end_usec() for queue in self.queues)
        return max((usec for usec in times if usec is not None), default=None)

    def _configure(
        self, config: QueueConfig, *, resume: bool = False, disable_created: bool = False
    ) -> None:
        listed = config.by_name()
        with self._lock:
            records = self.store.read_queue_records()
            self.config, self._listed = config, listed
            self._in_file = frozenset(settings.name for settings in config.queues)
            for name, record in records.items():
                if name in listed:
                    if record.deleted_usec is not None or record.settings is not None:
                        # queue.yaml takes the place of what was deleted, or created at run time.
                        self.store.drop_queue_record(name)
                    elif record.paused and resume:
                        self.store.change_queue_record(name, paused=False)
            for name, queue in self._queues.items():
                is_kept = queue.is_runtime and not (disable_created and LOCATED not in name)
                if name in listed or not is_kept:
                    queue.is_disabled = name not in listed
                if name in listed:
                    self._configured(listed[name])
            self._load()

    def _configured(self, settings: QueueSettings) -> Queue:
        queue = self._queues.get(settings.name)
        storage_limit_bytes = self.config.total_storage_limit_bytes
        if queue is None:
            return Queue(
                settings,
                store=self.store,
                limits=self.limits,
                storage_limit_bytes=storage_limit_bytes,
                clock=self.clock,
                interceptors=self.interceptors,
            )
        queue.configure(settings, storage_limit_bytes=storage_limit_bytes)
        return queue

    def _with_defaults(self, settings: QueueSettings) -> QueueSettings:
        """Return the settings of a queue that is created at run time."""
        lifetime, tombstone = settings.task_lifetime_seconds, settings.tombstone_seconds
        if lifetime is None:
            lifetime = self.limits.created_queue_task_seconds
        if tombstone is None:
            tombstone = self.limits.created_queue_tombstone_seconds
        return replace(settings, task_lifetime_seconds=lifetime, tombstone_seconds=tombstone)

    def _follow(self, *, at_once: bool = False) -> None:
        """Load what other processes may have changed: once a second, or `at_once`."""
        if not self.store.is_shared:
            return
        now_usec = self.clock.now_usec()
        if not at_once and 0 <= now_usec - self._checked_usec < USEC_PER_SECOND:
            return
        # One thread loads, the others do not wait for it: the database may hang.
        if self._lock.acquire(blocking=False):
            try:
                self._checked_usec = now_usec
                self._load()
            finally:
                self._lock.release()

    def _load(self) -> None:
        """Make the queues what queue.yaml lists and the store has recorded."""
        records = self.store.read_queue_records()
        queues: dict[str, Queue] = {}
        for name in dict.fromkeys([*self._listed, *self._queues, *records]):
            record = records.get(name, QueueRecord())
            queue = self._queues.get(name)
            if name in self._listed:
                # A process made it whose queue.yaml does not have it.
                record = record._replace(settings=None)
            elif queue is not None and queue.is_runtime and record.settings is None:
                record = QueueRecord(deleted_usec=self.now_usec())
            settings = self._find_settings(name, record)
            if settings is not None and record.deleted_usec is None:
                queue = queues[name] = self._configured(settings)
            if queue is not None:
                queue.record = record
        self._queues = queues

    def _find_settings(self, name: str, record: QueueRecord) -> QueueSettings | None:
        """Return the settings of a queue with a record; None: there is no such queue."""
        if record.settings is not None and name not in self._listed:
            return record.settings
        queue = self._queues.get(name)
        return self._listed.get(name) if queue is None else queue.settings

    def _unknown(self, name: str) -> str:
        record = self.store.read_queue_records().get(name)
        if record is not None and record.deleted_usec is not None:
            return f"queue {quoted(name)} was deleted"
        close = closest(str(name), self._queues, cutoff=0.6)
        implicit = self._listed.keys() - self._in_file
        names = sorted(self._queues.keys() - implicit)
        listed = ", ".join(map(quoted, names[:_NAMES_LISTED]))
        more = len(names) - _NAMES_LISTED
        hint = f"the queues are {listed}" + (f" and {more} more" if more > 0 else "")
        if close:
            hint = f"did you mean {quoted(close)}?"
        elif not names:
            hint = "create it by CreateQueue of Cloud Tasks, or list it in queue.yaml"
        missing = f"is not in {self.config.file}" if self.config.file else "was not created"
        return f"queue {quoted(name)} {missing}: {hint}"
