"""The stub that stands for the task queue service in the SDK's apiproxy.

Pull queues are the emulator's; push queues are those of Google's own stub, which this one is made
of, so that a suite that mixes push tasks, `deferred` and pull queues keeps working.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullqueue.clock import USEC_PER_SECOND, Clock
from pullqueue.config.model import QueueMode
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.queue import Queue
from pullqueue.errors import PullQueueError, QueueDisabledError, UnknownQueueError
from pullqueue.sdk import calls, operators
from pullqueue.sdk.faults import application_error, sdk_error
from pullqueue.sdk.imports import (
    api_base_pb2,
    apiproxy_errors,
    apiproxy_stub_map,
    messages,
    taskqueue_stub,
)
from pullqueue.sdk.inspected import InspectedStub
from pullqueue.sdk.rpc import EagerRPC
from pullqueue.sdk.texts import text_of

_DATASTORE = "datastore_v3"
_DATASTORE_ERROR = messages.TaskQueueServiceError.DATASTORE_ERROR


def seconds_of(clock: Clock) -> Callable[[], float]:
    """Give a function that tells a clock's time as the SDK has it: in seconds since the epoch."""
    return lambda: clock.now_usec() / USEC_PER_SECOND


class PullQueueStub(InspectedStub):
    """Answers the calls for pull queues from an emulator, the others as Google's stub does.

    Made either by `over`, or of a stub of Google's by `adopt`.
    """

    @classmethod
    def over(cls, emulator: Emulator) -> PullQueueStub:
        """Make a stub whose queues are those of an emulator."""
        stub = cls(gettime=seconds_of(emulator.clock))
        stub._attach(emulator)
        return stub

    @classmethod
    def adopt(cls, google_stub: Any, emulator: Emulator) -> PullQueueStub:
        """Turn a stub of Google's into one whose pull queues are those of an emulator.

        Names are made up by Google's stub, task1, task2 and so on over all queues. Where it was
        told of a queue.yaml, the emulator is configured by it.
        """
        emulator.names = google_stub._GetGroup()._ChooseTaskName
        google_stub.__class__ = cls
        stub: PullQueueStub = google_stub
        stub._attach(emulator)
        stub._reread()
        return stub

    def release(self) -> None:
        """Make a stub that was adopted Google's again."""
        self._detach()
        del self._paused
        self.__class__ = taskqueue_stub.TaskQueueServiceStub

    def _attach(self, emulator: Emulator) -> None:
        super()._attach(emulator)
        self._paused: set[str] = set()

    # -- what the apiproxy asks ------------------------------------------------------------------

    def CreateRPC(self) -> EagerRPC:
        """Give a call that runs as soon as it is started."""
        return EagerRPC(stub=self)

    def MakeSyncCall(
        self, service: str, call: str, request: Any, response: Any, request_id: str | None = None
    ) -> None:
        """Make one call; the errors it raises are the SDK's."""
        self._reread()
        try:
            super().MakeSyncCall(service, call, request, response, request_id)
        except PullQueueError as error:
            raise sdk_error(error) from error

    def SetError(self, error: Any, method: str | None = None, error_rate: float = 1) -> None:
        """Let calls fail; None ends it, for one method as well."""
        if error is None and method is not None:
            super().SetError(apiproxy_errors.Error(), method, 0)
        else:
            super().SetError(error, method, error_rate)

    # -- calls of the public client --------------------------------------------------------------

    def _Dynamic_BulkAdd(self, request: Any, response: Any, request_id: str | None) -> None:
        if not request.add_request:
            return
        first = request.add_request[0]
        queue = self._pull_queue(first.queue_name, pull=first.mode == messages.TaskQueueMode.PULL)
        in_transaction = first.HasField("transaction") or first.HasField("datastore_transaction")
        if in_transaction:
            _check_datastore()
        if queue is None:
            super()._Dynamic_BulkAdd(request, response, request_id)
        elif in_transaction:
            self._add_in_transaction(queue, request, response)
        else:
            calls.bulk_add(queue, request, response)

    def _Dynamic_Add(self, request: Any, response: Any, request_id: str | None) -> None:
        bulk = messages.TaskQueueBulkAddRequest(add_request=[request])
        results = messages.TaskQueueBulkAddResponse()
        try:
            self._Dynamic_BulkAdd(bulk, results, request_id)
        except PullQueueError as error:
            # The datastore stub sends this call for each task of a transaction it has committed,
            # and lets errors of the service pass, but no others.
            raise application_error(error) from error
        (result,) = results.taskresult
        if result.result != messages.TaskQueueServiceError.OK:
            raise apiproxy_errors.ApplicationError(result.result)
        if isinstance(response, messages.TaskQueueAddResponse):
            response.chosen_task_name = result.chosen_task_name

    def _Dynamic_QueryAndOwnTasks(self, request: Any, response: Any, request_id: Any) -> None:
        queue = self._pull_queue(request.queue_name, pull=True)
        if queue is None:
            super()._Dynamic_QueryAndOwnTasks(request, response, request_id)
        else:
            self._check_not_paused(queue)
            calls.query_and_own_tasks(queue, request, response)

    def _Dynamic_ModifyTaskLease(self, request: Any, response: Any, request_id: Any) -> None:
        queue = self._pull_queue(request.queue_name, pull=True)
        if queue is None:
            super()._Dynamic_ModifyTaskLease(request, response, request_id)
        else:
            self._check_not_paused(queue)
            calls.modify_task_lease(queue, request, response)

    def _Dynamic_Delete(self, request: Any, response: Any, request_id: Any) -> None:
        queue = self._pull_queue(request.queue_name)
        if queue is None:
            super()._Dynamic_Delete(request, response, request_id)
        else:
            calls.delete(queue, request, response)

    def _Dynamic_PurgeQueue(self, request: Any, response: Any, request_id: Any) -> None:
        queue = self._pull_queue(request.queue_name)
        if queue is None:
            super()._Dynamic_PurgeQueue(request, response, request_id)
        else:
            queue.purge()

    def _Dynamic_FetchQueueStats(self, request: Any, response: Any, request_id: Any) -> None:
        for name in request.queue_name:
            queue = self._pull_queue(name)
            if queue is None:
                one = messages.TaskQueueFetchQueueStatsRequest(queue_name=[name])
                super()._Dynamic_FetchQueueStats(one, response, request_id)
            else:
                calls.fetch_queue_stats(queue, response)

    # -- calls of an operator --------------------------------------------------------------------

    def _Dynamic_QueryTasks(self, request: Any, response: Any, request_id: Any) -> None:
        queue = self._pull_queue(request.queue_name)
        if queue is None:
            super()._Dynamic_QueryTasks(request, response, request_id)
        else:
            operators.query_tasks(queue, request, response)

    def _Dynamic_FetchTask(self, request: Any, response: Any, request_id: Any) -> None:
        queue = self._pull_queue(request.queue_name)
        if queue is None:
            super()._Dynamic_FetchTask(request, response, request_id)
        else:
            operators.fetch_task(queue, request, response)

    def _Dynamic_ForceRun(self, request: Any, response: Any, request_id: Any) -> None:
        if self._pull_queue(request.queue_name) is None:
            super()._Dynamic_ForceRun(request, response, request_id)
        else:
            response.result = messages.TaskQueueServiceError.INVALID_QUEUE_MODE

    def _Dynamic_FetchQueues(self, request: Any, response: Any, request_id: Any) -> None:
        listed = sorted(self._listed_queues(), key=lambda queue: queue.name)
        operators.fetch_queues(listed[: request.max_rows], self._paused, response)

    def _Dynamic_UpdateQueue(self, request: Any, response: Any, request_id: Any) -> None:
        operators.update_queue(self._emulator, request)

    def _Dynamic_PauseQueue(self, request: Any, response: Any, request_id: Any) -> None:
        name = self._emulator.queue(text_of(request.queue_name)).name
        (self._paused.add if request.pause else self._paused.discard)(name)

    def _Dynamic_DeleteQueue(self, request: Any, response: Any, request_id: Any) -> None:
        operators.delete_queue(self._emulator, text_of(request.queue_name))

    def _Dynamic_DeleteGroup(self, request: Any, response: Any, request_id: Any) -> None:
        operators.delete_group(self._emulator)

    def _Dynamic_UpdateStorageLimit(self, request: Any, response: Any, request_id: Any) -> None:
        operators.update_storage_limit(self._emulator, request, response)

    # -- parts -----------------------------------------------------------------------------------

    def _pull_queue(self, name: bytes, *, pull: bool = False) -> Queue | None:
        """Give the emulator's queue of a name, or None where Google's stub has to answer.

        The emulator also answers for push queues where the caller means a pull queue (`pull`),
        and for unknown ones: its errors say what is wrong.
        """
        try:
            queue = self._emulator.queue(text_of(name))
        except UnknownQueueError:
            if self._all_queues_valid or name == b"__cron":
                return None
            raise
        return queue if pull or queue.mode is QueueMode.PULL else None

    def _check_not_paused(self, queue: Queue) -> None:
        if queue.name in self._paused:
            raise QueueDisabledError(
                f"queue {queue.name!r} is paused: resume it to lease its tasks",
                queue_name=queue.name,
            )

    def _add_in_transaction(self, queue: Queue, request: Any, response: Any) -> None:
        """Hand tasks to the datastore, which sends each one back when it commits."""
        unnamed = [not add.task_name for add in request.add_request]
        calls.prepare_transactional(self._emulator, queue, request.add_request)
        try:
            apiproxy_stub_map.MakeSyncCall(
                _DATASTORE, "AddActions", request, api_base_pb2.VoidProto()
            )
        except apiproxy_errors.ApplicationError as error:
            code = error.application_error + _DATASTORE_ERROR
            raise apiproxy_errors.ApplicationError(code, error.error_detail) from error
        for add, made_up in zip(request.add_request, unnamed, strict=True):
            result = response.taskresult.add()
            result.result = messages.TaskQueueServiceError.OK
            if made_up:
                result.chosen_task_name = add.task_name


def _check_datastore() -> None:
    """Refuse what has to wait for a transaction, where nothing could tell that it is committed."""
    if apiproxy_stub_map.apiproxy.GetStub(_DATASTORE) is None:
        raise apiproxy_errors.ApplicationError(
            messages.TaskQueueServiceError.DATASTORE_BAD_REQUEST,
            "tasks cannot be added in a transaction here, since there is no datastore that could "
            "send them when it commits: add them without transactional=True, or, in a test, set up "
            "the SDK's datastore stub",
        )
