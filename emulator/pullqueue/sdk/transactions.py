"""Tasks that are added in transactions of a datastore in another process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from functools import partial
from typing import Any

from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.sdk import calls
from pullqueue.sdk.imports import apiproxy_errors, messages
from pullqueue.sdk.stub import SERVICE, EmulatorStub, in_transaction, no_datastore

_TASKS_PER_TRANSACTION = 5
"""As in Google's datastore (App Engine's documentation of transactional tasks)."""
_MAX_TRANSACTIONS = 1000
"""Maximum number of open ones; the oldest is dropped, as a datastore rolls back those left open."""

_Error = messages.TaskQueueServiceError
_ADDED_BEFORE = (_Error.TASK_ALREADY_EXISTS, _Error.TOMBSTONED_TASK)
_TEMPORARY = (_Error.TRANSIENT_ERROR, _Error.INTERNAL_ERROR)
_Transaction = type(messages.TaskQueueAddRequest().transaction)

_log = logging.getLogger("pullqueue.sdk")


class TransactionalStub(EmulatorStub):
    """Keeps the tasks of a transaction until the app's call that commits it has succeeded.

    The app makes that call through the same bridge. Until then the tasks have names, but
    are not in the queue.
    """

    has_datastore = False
    """Whether the app's datastore is reached through the bridge."""

    def _attach(self, emulator: Any) -> None:
        super()._attach(emulator)
        self._pending: dict[bytes, list[Any]] = {}
        self._pending_lock = threading.Lock()

    def _Dynamic_BulkAdd(self, request: Any, response: Any, request_id: str | None) -> None:
        if not in_transaction(request):
            super()._Dynamic_BulkAdd(request, response, request_id)
            return
        first = request.add_request[0]
        if not self.has_datastore or not first.HasField("transaction"):
            raise no_datastore()
        queue = self.queue(first.queue_name)
        key = first.transaction.SerializeToString()
        keep = partial(self._keep, key, request.add_request)
        calls.add_in_transaction(self._emulator, request, response, queue=queue, keep=keep)

    def _keep(self, key: bytes, adds: Any) -> None:
        with self._pending_lock:
            pending = self._pending.setdefault(key, [])
            if len(pending) + len(adds) > _TASKS_PER_TRANSACTION:
                raise apiproxy_errors.ApplicationError(
                    _Error.DATASTORE_BAD_REQUEST,
                    f"Too many messages, maximum allowed {_TASKS_PER_TRANSACTION}",
                )
            pending += adds
            while len(self._pending) > _MAX_TRANSACTIONS:
                self._pending.pop(next(iter(self._pending)))

    def take(self, transaction: bytes) -> list[Any]:
        """Return the add requests of a serialized transaction, which ends."""
        # It may lack fields, which is refused when it is used.
        key = _Transaction.FromString(transaction).SerializePartialToString()
        with self._pending_lock:
            adds = self._pending.pop(key, [])
        for add in adds:
            add.ClearField("transaction")
        return adds

    def add_committed(self, adds: Iterable[Any]) -> list[bool]:
        """Add the tasks of a transaction that was committed; return which need not be tried again.

        Those that are there already are left alone: before a crash, they were added.
        """
        return [self._add_committed(add) for add in adds]

    def _add_committed(self, add: Any) -> bool:
        try:
            with bypass_interceptors():
                self.MakeSyncCall(SERVICE, "Add", add, messages.TaskQueueAddResponse())
        except apiproxy_errors.Error as error:
            code = getattr(error, "application_error", None)
            if code not in _ADDED_BEFORE:
                name = add.task_name.decode()
                _log.warning('task "%s" of a committed transaction is not added: %s', name, error)
            return code not in _TEMPORARY
        return True
