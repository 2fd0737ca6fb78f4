"""An app's queues: made from a queue.yaml, sharing one clock, one store and one storage limit."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from pullqueue import config as queue_yaml
from pullqueue.clock import Clock, SystemClock
from pullqueue.engine.interceptors import Interceptors
from pullqueue.engine.memory.store import MemoryStore
from pullqueue.engine.names import NameSource, random_names
from pullqueue.engine.queue import Queue
from pullqueue.engine.store import QueueContents, StoreFactory
from pullqueue.errors import UnknownQueueError, is_refusal
from pullqueue.limits import Limits

if TYPE_CHECKING:
    from pullqueue.config.model import QueueConfig, QueueSettings

__tracebackhide__ = is_refusal

_DEFAULT_QUEUE = "default"
"""Every app has it, whether or not queue.yaml says so; it is a push queue."""


class Emulator:
    """The queues of one app.

    Two emulators share nothing. All methods are safe under threads.
    """

    def __init__(
        self,
        config: QueueConfig,
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        project: str | None = None,
        store: StoreFactory | str = MemoryStore,
        names: NameSource | None = None,
    ) -> None:
        """Make empty queues from a configuration.

        `clock` is the system's when None; `project` the application id that callers must use,
        any when None; `store` keeps the tasks: in memory, or at a URL (see `pullqueue.stores`);
        `names` generates the names of tasks that have none, and can be replaced at any time.
        """
        self.clock = clock or SystemClock()
        self.limits = limits or Limits()
        self.project = project
        self.interceptors = Interceptors()
        self.names = names or random_names()
        self._store = _factory(store)(
            clock=self.clock,
            limits=self.limits,
            names=lambda: self.names(),  # noqa: PLW0108 - looked up at each call, since it can be replaced
        )
        self._lock = threading.Lock()
        self._queues: dict[str, Queue] = {}
        try:
            self.reconfigure(config)
        except BaseException:
            self._store.close()
            raise

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        project: str | None = None,
        profile: str = "gcloud",
        store: StoreFactory | str = MemoryStore,
    ) -> Emulator:
        """Make an emulator from a queue.yaml.

        Raises:
            ConfigFileError: the file cannot be read.
            InvalidQueueConfigError: the file is not valid; `.problems` lists everything found.
        """
        config = queue_yaml.load(path, profile=profile)
        return cls(config, clock=clock, limits=limits, project=project, store=store)

    @classmethod
    def from_text(
        cls,
        text: str,
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        project: str | None = None,
        profile: str = "gcloud",
        store: StoreFactory | str = MemoryStore,
    ) -> Emulator:
        """Make an emulator from the text of a queue.yaml.

        Raises:
            InvalidQueueConfigError: the text is not valid; `.problems` lists everything found.
        """
        config = queue_yaml.loads(text, profile=profile)
        return cls(config, clock=clock, limits=limits, project=project, store=store)

    def __repr__(self) -> str:
        return f"Emulator(file={self.config.file!r}, queues={[q.name for q in self.queues]!r})"

    @property
    def config(self) -> QueueConfig:
        """The current configuration."""
        return self._config

    @property
    def queues(self) -> list[Queue]:
        """All queues in the order of queue.yaml, then those removed from it."""
        return list(self._queues.values())

    def queue(self, name: str) -> Queue:
        """Return a queue by name.

        Raises:
            UnknownQueueError: queue.yaml has no such queue.
        """
        queue = self._queues.get(name)
        if queue is None:
            raise UnknownQueueError(self._unknown(name), queue_name=name)
        return queue

    def reconfigure(self, config: QueueConfig) -> None:
        """Apply another configuration, as a deployment of queue.yaml would.

        Queues are added and changed; one that is no longer listed is disabled and keeps its tasks
        until it is listed again.
        """
        from pullqueue.config.model import QueueSettings  # noqa: PLC0415 - keeps the import cheap

        listed = {settings.name: settings for settings in config.queues}
        if config.default_queue:
            listed.setdefault(_DEFAULT_QUEUE, QueueSettings(name=_DEFAULT_QUEUE))
        with self._lock:
            queues: dict[str, Queue] = {}
            for name, settings in listed.items():
                queues[name] = self._configured(settings, config.total_storage_limit_bytes)
            for name, queue in self._queues.items():
                if name not in queues:
                    queue.disable()
                    queues[name] = queue
            self._queues = queues
            self._config = config

    def reset(self) -> None:
        """Delete all tasks, leases, names and records; keep the configuration and the clock."""
        self._store.clear()

    def export(self) -> dict[str, QueueContents]:
        """Return the contents of all queues, as of one time, for `restore`."""
        return self._store.export()

    def restore(self, contents: Mapping[str, QueueContents]) -> None:
        """Delete all tasks, names and records, and store these contents instead.

        Raises:
            UnknownQueueError: contents are for a queue that is not in queue.yaml; nothing changes.
        """
        retry_limits = {name: self.queue(name).retry_limit for name in contents}
        self._store.restore(contents, retry_limits=retry_limits)

    def check(self) -> None:
        """Check that the store can store tasks now.

        Raises:
            TransientError: it cannot, for a reason that may pass.
            InternalError: it cannot.
        """
        self._store.check()

    def close(self) -> None:
        """Close the files and connections of the store. The emulator cannot be used after it."""
        self._store.close()

    @property
    def bytes_stored(self) -> int:
        """The size of all tasks together: payloads, names and tags, in bytes of UTF-8."""
        return self._store.bytes_stored()

    def now_usec(self) -> int:
        """Return the time by which tasks become due, in microseconds: that of the store.

        It is the clock's, unless several servers share the store.
        """
        return self._store.now_usec()

    def next_change(self) -> datetime | None:
        """Return the next time at which anything changes by itself, or None."""
        return min(_present(queue.next_change() for queue in self.queues), default=None)

    def last_lease_end(self) -> datetime | None:
        """Return the end of the current lease that ends last, or None."""
        return max(_present(queue.last_lease_end() for queue in self.queues), default=None)

    def _configured(self, settings: QueueSettings, storage_limit_bytes: int | None) -> Queue:
        queue = self._queues.get(settings.name)
        if queue is None:
            return Queue(
                settings,
                store=self._store,
                limits=self.limits,
                storage_limit_bytes=storage_limit_bytes,
                clock=self.clock,
                interceptors=self.interceptors,
            )
        queue.configure(settings, storage_limit_bytes=storage_limit_bytes)
        return queue

    def _unknown(self, name: str) -> str:
        import difflib  # noqa: PLC0415 - keeps the import of pullqueue cheap

        names = sorted(self._queues)
        close = difflib.get_close_matches(str(name), names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(map(repr, names))}"
        return f"queue {name!r} is not in {self._config.file}: {hint}"


def _factory(store: StoreFactory | str) -> StoreFactory:
    if not isinstance(store, str):
        return store
    from pullqueue.stores import store_from_url  # noqa: PLC0415 - most emulators need none of it

    return store_from_url(store)


def _present(times: Iterable[datetime | None]) -> list[datetime]:
    return [time for time in times if time is not None]
