"""The methods of the API: what each does with the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from flask import Request

from pullqueue.api import bodies, messages, resources
from pullqueue.api.answers import Json
from pullqueue.api.errors import ApiError
from pullqueue.api.parameters import Parameters
from pullqueue.api.projects import Project
from pullqueue.config.model import QueueMode
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.queue import Queue
from pullqueue.errors import (
    InvalidEtaError,
    InvalidQueueModeError,
    NameInUseError,
    TombstonedTaskError,
)
from pullqueue.tasks import DeleteResult, not_deleted

EMPTY_HEADER = "X-Pullqueue-Empty"
"""Says why a lease gave no tasks though there may be some."""

_LISTED = 100
"""Tasks in one answer of tasks.list; there is no paging (reference)."""


class Call(NamedTuple):
    """One call of a method, its path resolved."""

    emulator: Emulator
    project: Project
    queue: Queue
    task_name: str
    """Empty where the path names no task."""
    parameters: Parameters
    request: Request
    data: bytes
    """The body."""

    def body(self) -> Json:
        """Give the JSON of the body.

        Raises:
            ApiError: there is none.
        """
        return bodies.as_json(self.request, self.data)

    def new_lease_seconds(self) -> int:
        """Give the length of the lease that update and patch ask for.

        Raises:
            ApiError: it is missing or out of range.
        """
        return self.parameters.integer(
            "newLeaseSeconds", minimum=0, maximum=self.emulator.limits.lease_seconds
        )


class Reply(NamedTuple):
    """What a method answers."""

    body: Json | None = None
    """None: nothing, with status 204."""
    headers: Mapping[str, str] = {}


def get_queue(call: Call) -> Reply:
    """taskqueues.get: one queue, with its statistics if asked for."""
    statistics = call.parameters.boolean("getStats")
    return Reply(resources.queue_json(call.queue, call.project, statistics=statistics))


def insert_task(call: Call) -> Reply:
    """tasks.insert: add one task."""
    body = call.body()
    new = resources.new_task(body)
    named = resources.text_field(body, "queueName")
    if named is not None and resources.short_queue_name(named) != call.queue.name:
        raise _other_queue(messages.QUEUE_NAME_INVALID, named, call)
    try:
        task = call.queue.add_many([new])[0]
    except NameInUseError as error:
        text = messages.NAME_TAKEN.format(name=error.task_name)
        raise ApiError(text, explanation=str(error)) from None
    except InvalidEtaError as error:
        raise ApiError(f"leaseTimestamp: {error}") from None
    return Reply(resources.task_json(task, call.queue.name))


def list_tasks(call: Call) -> Reply:
    """tasks.list: the first hundred tasks, leased or not, without their payloads."""
    name = call.queue.name
    tasks = call.queue.list_tasks(_LISTED)
    items = [resources.task_json(task, name, payload=False) for task in tasks]
    return Reply(resources.list_json(resources.LISTED_KIND, items))


def lease_tasks(call: Call) -> Reply:
    """tasks.lease: lease the first available tasks."""
    return _lease(
        call,
        group_by_tag=call.parameters.boolean("groupByTag"),
        tag=call.parameters.text("tag"),
    )


def lease_tasks_whatever_their_tag(call: Call) -> Reply:
    """tasks.lease of v1beta1, which knows no tags."""
    return _lease(call, group_by_tag=False, tag=None)


def _lease(call: Call, *, group_by_tag: bool, tag: str | None) -> Reply:
    limits = call.emulator.limits
    lease_seconds = call.parameters.integer("leaseSecs", minimum=0, maximum=limits.lease_seconds)
    max_tasks = call.parameters.integer("numTasks", minimum=1, maximum=limits.tasks_per_lease)
    if tag is not None and not group_by_tag:
        message = f"tag {tag!r:.100} is given without groupByTag: add groupByTag=true"
        raise ApiError.parameter(message, "tag")
    lease = call.queue.lease(
        lease_seconds,
        max_tasks,
        group_by_tag=group_by_tag,
        tag=tag,
        payload_bytes=limits.rest_lease_payload_bytes,
    )
    name = call.project.queue_id(call.queue.name)
    answer = resources.list_json(
        resources.LEASED_KIND, [resources.task_json(task, name) for task in lease.tasks]
    )
    return Reply(answer, {EMPTY_HEADER: "lease-rate"} if lease.rate_limited else {})


def get_task(call: Call) -> Reply:
    """tasks.get: one task, without a lease."""
    try:
        task = call.queue.get_task(call.task_name)
    except TombstonedTaskError as error:
        raise ApiError(str(error), status=404, reason="notFound") from None
    return Reply(resources.task_json(task, call.queue.name))


def update_task(call: Call) -> Reply:
    """tasks.update: change the lease that the body holds.

    The task is the one the body names, whatever the path says, as on App Engine.
    """
    seconds = call.new_lease_seconds()
    body = call.body()
    named = resources.text_field(body, "queueName")
    if named is not None and resources.short_queue_name(named) != call.queue.name:
        raise _other_queue(messages.QUEUE_NAME_INVALID, named, call)
    task_name = resources.text_field(body, "id")
    if not task_name:
        raise ApiError(messages.ID_REQUIRED, reason="required")
    expected_eta_usec = resources.integer_field(body, "leaseTimestamp")
    if expected_eta_usec is None:
        raise ApiError(messages.LEASE_TIMESTAMP_REQUIRED, reason="required")
    task = call.queue.modify_lease(task_name, seconds, expected_eta_usec=expected_eta_usec)
    return Reply(resources.task_json(task, call.queue.name))


def patch_task(call: Call) -> Reply:
    """tasks.patch: change the current lease; the body needs the queue's name alone."""
    seconds = call.new_lease_seconds()
    body = call.body()
    named = resources.text_field(body, "queueName")
    if not named:
        raise ApiError(messages.QUEUE_NAME_INVALID, reason="required")
    if resources.short_queue_name(named) != call.queue.name:
        raise _other_queue(messages.QUEUE_NAME_FIXED, named, call)
    if resources.text_field(body, "id") not in (None, "", call.task_name):
        raise ApiError(messages.TASK_ID_FIXED)
    expected_eta_usec = resources.integer_field(body, "leaseTimestamp")
    task = call.queue.modify_lease(call.task_name, seconds, expected_eta_usec=expected_eta_usec)
    return Reply(resources.task_json(task, call.queue.name))


def delete_task(call: Call) -> Reply:
    """tasks.delete: delete one task, leased or not."""
    result = call.queue.delete_tasks(call.task_name)[0]
    if result is not DeleteResult.DELETED:
        why = not_deleted(result)
        explanation = f"task {call.task_name!r} of queue {call.queue.name!r} {why}"
        raise ApiError(messages.TASK_NAME_INVALID, explanation=explanation)
    return Reply()


def queue_of(emulator: Emulator, name: str) -> Queue:
    """Give a pull queue by the name in a path.

    Raises:
        UnknownQueueError: there is none.
        InvalidQueueModeError: it is a push queue.
    """
    queue = emulator.queue(name)
    if queue.mode is not QueueMode.PULL:
        raise InvalidQueueModeError(
            f"queue {name!r} is a push queue: the REST API works with pull queues only; set "
            "`mode: pull` in queue.yaml",
            queue_name=name,
        )
    return queue


def _other_queue(text: str, named: str, call: Call) -> ApiError:
    explanation = f"queueName is {named!r:.200}, but the path says {call.queue.name!r}"
    return ApiError(text, explanation=explanation)
