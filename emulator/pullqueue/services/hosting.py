"""The services that a server hosts: one stub each, made at the first call to it."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pullqueue.clock import USEC_PER_SECOND, Clock
from pullqueue.errors import StoreError
from pullqueue.observe.entities import CountedKind, Entity
from pullqueue.observe.mail_log import MailLog
from pullqueue.sdk import CALL, DATASTORE, is_installed
from pullqueue.sdk.environment import default_app_id
from pullqueue.services import BLOBSTORE, DEFAULT_SERVICES, PART, URLFETCH
from pullqueue.stores import MEMORY
from pullqueue.text import describe_os_error

if TYPE_CHECKING:
    from pullqueue.engine.emulator import Emulator
    from pullqueue.push.addresses import PushAddresses
    from pullqueue.services.blobs import Blob, Upload
    from pullqueue.services.indexes import CompositeIndexes
    from pullqueue.services.journal import Journal

_IN_PROCESS = frozenset({BLOBSTORE, "images"})
"""The services whose stubs call the datastore by the SDK's client."""
_DEFAULT_HOST = "localhost:8080"
_OWNER_ONLY = 0o700
_PROJECTS = "projects"
"""The folder of the data of other projects."""

_log = logging.getLogger("pullqueue.services")


class Services:
    """Hosts the stubs of services. Thread-safe: a stub that is not answers one call at a time."""

    def __init__(
        self,
        names: frozenset[str] = DEFAULT_SERVICES,
        *,
        clock: Clock,
        data: Path | None = None,
        eventual: bool = False,
        project: str | None = None,
        push_to: PushAddresses | None = None,
        index_yaml: Path | None = None,
        strict: bool = False,
        opens: bool = True,
    ) -> None:
        """Open `data`, the folder of the datastore and the blobs; None: they are in memory.

        Without `opens` a folder that does not exist is made at the first call that needs it.

        `eventual`: queries without an ancestor may miss what was just written. `project`: the only
        app whose data the datastore has; None: any. `push_to` is where the app is reached.
        `index_yaml` gets the composite indexes that queries need; `strict`: queries whose index it
        lacks fail. None: each query has what it needs.

        Raises:
            StoreError: the folder cannot be used.
        """
        self.names = names
        self.data = data
        self.eventual = eventual
        self.project = project
        self.app_id = default_app_id(project)
        """The application id of what the stubs themselves write: it is not part of those calls."""
        self.blobs: Path | None = None
        """The folder of blobs; None: they are in memory."""
        self.journal: Journal | None = None
        """What keeps the datastore; None: it is in memory."""
        self.mails = MailLog()
        """What apps have sent."""
        self._index_yaml = index_yaml
        self._strict = strict
        self._clock = clock
        self._push_to = push_to
        self._stubs: dict[str, Any] = {}
        self._locks = {name: threading.Lock() for name in names}
        self._opening = threading.Lock()
        if data is not None and (opens or data.exists()):
            self._open(data)

    def _open(self, data: Path) -> None:
        try:
            data.mkdir(_OWNER_ONLY, parents=True, exist_ok=True)
        except OSError as error:
            reason = describe_os_error(error)
            raise StoreError(
                f'folder "{data}" cannot be made ({reason}): correct that, or use another --data '
                "folder"
            ) from error
        blobs = data / "blobs"
        if DATASTORE in self.names:
            from pullqueue.services.journal import Journal

            self.journal = Journal(data / "datastore.db")
            # No other server uses the folder: these were being written when one was killed.
            for part in blobs.glob(f"*{PART}"):
                part.unlink(missing_ok=True)
        self.blobs = blobs

    @cached_property
    def indexes(self) -> CompositeIndexes | None:
        """The composite indexes of the app; None: each query has what it needs.

        Raises:
            ConfigFileError: index.yaml cannot be read, or is not valid.
        """
        if self._index_yaml is None or DATASTORE not in self.names:
            return None
        from pullqueue.services.indexes import CompositeIndexes

        return CompositeIndexes(self._index_yaml, required=self._strict)

    @property
    def answered(self) -> list[str]:
        """The names of the services, sorted; none are answered without App Engine's SDK."""
        return sorted(self.names) if is_installed() else []

    def of_project(self, emulator: Emulator, *, push_to: PushAddresses) -> Services:
        """Return the same services for another project of the server, with data of their own.

        They are in memory if its tasks are.
        """
        return Services(
            self.names,
            clock=emulator.clock,
            data=self._data_of(emulator),
            eventual=self.eventual,
            project=emulator.project,
            push_to=push_to,
            strict=self._strict,
            opens=False,
        )

    def _data_of(self, emulator: Emulator) -> Path | None:
        if self.data is None or emulator.store_url == MEMORY:
            return None
        return self.data / _PROJECTS / quote(emulator.project or "")

    def delete_data_of(self, emulator: Emulator) -> None:
        """Delete the data of another project, once they are closed."""
        data = self._data_of(emulator)
        if data is None or not data.exists():
            return
        try:
            shutil.rmtree(data)
        except OSError as error:
            reason = describe_os_error(error)
            _log.warning('folder "%s" of a deleted project is left: %s; delete it', data, reason)

    def close(self) -> None:
        """Close the files."""
        if self.journal is not None:
            self.journal.close()

    def call(
        self,
        service: str,
        method: str,
        request: Any,
        response: Any,
        *,
        seconds: float,
        tasks: Sequence[bytes] = (),
    ) -> list[int]:
        """Make a call, and wait for those before it at most that many seconds.

        With a commit of the datastore come the tasks of its transaction, which are in the journal
        from then on; return their numbers for `delete_tasks`.

        Raises:
            apiproxy_errors.Error: the call failed.
        """
        from pullqueue.sdk.imports import apiproxy_errors
        from pullqueue.sdk.stub import no_such_call

        lock = self._locks[service]
        if not lock.acquire(timeout=max(0.0, min(seconds, threading.TIMEOUT_MAX))):
            raise apiproxy_errors.DeadlineExceededError(
                f"{service}.{method} was not answered within {seconds:g} seconds"
            )
        try:
            stub = self._stub(service)
            if not hasattr(stub, f"{CALL}{method}"):
                raise apiproxy_errors.CallNotFoundError(no_such_call(method, service))
            if service == DATASTORE:
                return list(stub.call(method, request, response, list(tasks)))
            if service != URLFETCH:
                with self._client(service):
                    stub.MakeSyncCall(service, method, request, response, "pullqueue")
        finally:
            lock.release()
        if service == URLFETCH:
            # Its calls take long, and what they call may fetch, too; this stub needs no lock.
            stub.MakeSyncCall(service, method, request, response)
        return []

    def store_upload(
        self, session: str, fields: Iterable[tuple[str, str]], files: Iterable[tuple[str, Any]]
    ) -> Upload:
        """Store the files of a form that was sent to an upload URL; see `blobs.store_upload`.

        Raises:
            ApiError: the URL is not valid, a file is too large, or blobs are not hosted.
        """
        with self._blobs() as storage:
            from pullqueue.services.blobs import store_upload

            return store_upload(storage, session, fields, files, now=self.now())

    def open_blob(self, key: str) -> Blob | None:
        """Open a blob for reading; None: there is none of that key.

        Raises:
            ApiError: blobs are not hosted.
        """
        with self._blobs() as storage:
            from pullqueue.services.blobs import open_blob

            return open_blob(storage, key)

    @contextmanager
    def _blobs(self) -> Iterator[Any]:
        """Yield what keeps the blobs, in a block in which the datastore can be called."""
        if not {BLOBSTORE, DATASTORE} <= self.names:
            from pullqueue.api.errors import ApiError

            raise ApiError(
                f"this server does not host {BLOBSTORE} with {DATASTORE}: name both in --services",
                status=404,
            )
        with self._locks[BLOBSTORE], self._client(BLOBSTORE):
            yield self._stub(BLOBSTORE).storage

    def _stub(self, service: str) -> Any:
        if service not in self._stubs:
            from pullqueue.services.stubs import make_stub

            with self._opening:
                if self.data is not None and self.blobs is None:
                    self._open(self.data)
            self._stubs[service] = make_stub(service, self)
        return self._stubs[service]

    def _client(self, service: str) -> AbstractContextManager[None]:
        """Return a block in which the stub of a service can call the datastore and the blobs."""
        if service not in _IN_PROCESS:
            return nullcontext()
        from pullqueue.sdk.imports import apiproxy_errors
        from pullqueue.services.stubs import use_local_client

        if DATASTORE not in self.names:
            raise apiproxy_errors.FeatureNotEnabledError(
                f"the service {service} needs {DATASTORE}: name it in --services, too"
            )
        return use_local_client(self, self._stub(BLOBSTORE) if BLOBSTORE in self.names else None)

    @property
    def has_entities(self) -> bool:
        """Whether an app has used the datastore."""
        journal = self.journal
        return DATASTORE in self._stubs or (journal is not None and journal.has_entities)

    def count_kinds(self) -> list[CountedKind]:
        """Return each kind of entities with their number, sorted."""
        with self._locks[DATASTORE]:
            kinds: list[CountedKind] = self._stub(DATASTORE).count_kinds()
            return kinds

    def list_entities(self, kind: CountedKind, limit: int) -> list[Entity]:
        """Return the first entities of a kind, by key."""
        with self._locks[DATASTORE]:
            entities: list[Entity] = self._stub(DATASTORE).list_entities(kind, limit)
            return entities

    def tasks(self) -> list[tuple[int, bytes]]:
        """Return the tasks of commits that no queue has, as a crash came between, with numbers."""
        return [] if self.journal is None else self.journal.tasks()

    def delete_tasks(self, numbers: Sequence[int]) -> None:
        """Delete tasks from the journal, once their queue has them."""
        if self.journal is None or not numbers:
            return
        try:
            self.journal.delete_tasks(numbers)
        except self.journal.errors as error:
            # At the next start they are added again, unless the queue knows their names.
            _log.warning("tasks of a committed transaction stay in the journal: %s", error)

    def reset(self) -> None:
        """Delete the data of all services."""
        with ExitStack() as stack:
            # Stubs that call others are first: one that waits for the datastore has its own lock.
            for name in sorted(self.names, key=lambda name: name not in _IN_PROCESS):
                stack.enter_context(self._locks[name])
            self._stubs.clear()
            self.mails.clear()
            if self.journal is not None:
                self.journal.clear()
            if self.blobs is not None:
                shutil.rmtree(self.blobs, ignore_errors=True)

    def now(self) -> datetime:
        """Return the time of the server."""
        return self._clock.now()

    def seconds(self) -> float:
        """Return the time of the server, in seconds since 1970."""
        return self._clock.now_usec() / USEC_PER_SECOND

    def module_hosts(self) -> Iterator[tuple[str, str]]:
        """Yield the modules of the app with their `host:port`, as far as the server knows them."""
        hosts = list(self._push_to.hosts()) if self._push_to else []
        yield "default", dict(hosts).get(None, _DEFAULT_HOST)
        yield from ((module, host) for module, host in hosts if module not in (None, "default"))
