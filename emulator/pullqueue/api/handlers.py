"""The methods of the API: what each does with the engine. Requests are refused by ApiError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pullqueue.api import messages, resources
from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.api.requests import Parameters, as_json
from pullqueue.api.resources import Project
from pullqueue.engine import task_errors, verbs
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.queue import Queue
from pullqueue.errors import InvalidEtaError
from pullqueue.tasks import DeleteResult, TombstonedTaskError, not_deleted
from pullqueue.text import quoted

EMPTY_HEADER = "X-Pullqueue-Empty"
"""States why a lease returned no tasks although there may be some."""

_LISTED_TASKS = 100
"""Tasks in one response to tasks.list; there is no paging (reference)."""


class RequestContext(NamedTuple):
    """One request to a method, its path resolved."""

    emulator: Emulator
    version: str
    project: Project
    queue: Queue
    task_name: str
    """Empty where the path names no task."""
    parameters: Parameters
    data: bytes

    def body(self) -> Json:
        """Return the JSON object in the body."""
        return as_json(self.data)

    def new_lease_seconds(self) -> int:
        """Return the length of the lease that update and patch ask for."""
        return self.parameters.integer(
            "newLeaseSeconds", minimum=0, maximum=self.emulator.limits.lease_seconds
        )


class Result(NamedTuple):
    """What a method returns."""

    body: Json | None = None
    """None: nothing, with status 204."""
    headers: Mapping[str, str] = {}


def get_queue(context: RequestContext) -> Result:
    """taskqueues.get: one queue, with its statistics if asked for."""
    statistics = context.parameters.boolean("getStats")
    return Result(resources.queue_json(context.queue, context.project, statistics=statistics))


def insert_task(context: RequestContext) -> Result:
    """tasks.insert: add one task."""
    body = context.body()
    new = resources.new_task(body)
    _check_queue_name(context, body, messages.QUEUE_NAME_INVALID)
    try:
        added, refused = verbs.insert(context.queue, [new])
    except InvalidEtaError as error:
        raise ApiError(f"leaseTimestamp: {error}") from None
    if refused:
        explanation = task_errors.names_in_use(context.queue.name, added, refused)
        text = messages.NAME_TAKEN.format(name=new.name)
        raise ApiError(text, explanation=str(explanation))
    return Result(resources.task_json(added[0], context.queue.name))


def list_tasks(context: RequestContext) -> Result:
    """tasks.list: the first hundred tasks, leased or not, without their payloads."""
    name = context.queue.name
    tasks = context.queue.list_tasks(_LISTED_TASKS)
    items = [resources.task_json(task, name, payload=False) for task in tasks]
    return Result(resources.list_json(resources.LISTED_KIND, items))


def lease_tasks(context: RequestContext) -> Result:
    """tasks.lease: lease the first available tasks."""
    limits, parameters = context.emulator.limits, context.parameters
    has_tags = context.version != "v1beta1"
    group_by_tag = has_tags and parameters.boolean("groupByTag")
    tag = parameters.text("tag") if has_tags else None
    # The guide of 2012 prints lease_secs in its URI.
    lease_seconds = parameters.integer(
        "leaseSecs", minimum=0, maximum=limits.lease_seconds, alias="lease_secs"
    )
    max_tasks = parameters.integer("numTasks", minimum=1, maximum=limits.tasks_per_lease)
    if tag is not None and not group_by_tag:
        message = f"tag {quoted(tag)} is given without groupByTag: add groupByTag=true"
        raise ApiError.parameter(message, "tag")
    lease = verbs.lease(
        context.queue,
        lease_seconds,
        max_tasks,
        group_by_tag=group_by_tag,
        tag=tag,
        payload_bytes=limits.rest_lease_payload_bytes,
    )
    name = context.project.queue_id(context.queue.name)
    items = [resources.task_json(task, name) for task in lease.tasks]
    headers = {EMPTY_HEADER: "lease-rate"} if lease.rate_limited else {}
    return Result(resources.list_json(resources.LEASED_KIND, items), headers)


def get_task(context: RequestContext) -> Result:
    """tasks.get: one task, without a lease."""
    try:
        task = context.queue.get_task(context.task_name)
    except TombstonedTaskError as error:
        raise ApiError(str(error), status=404) from None
    return Result(resources.task_json(task, context.queue.name))


def update_task(context: RequestContext) -> Result:
    """tasks.update: change the lease that the body describes.

    The task is the one the body names, whatever the path contains, as on App Engine.
    """
    seconds = context.new_lease_seconds()
    body = context.body()
    _check_queue_name(context, body, messages.QUEUE_NAME_INVALID)
    task_name = resources.text_field(body, "id")
    if not task_name:
        raise ApiError(messages.ID_REQUIRED, reason="required")
    eta_usec = resources.integer_field(body, "leaseTimestamp")
    if eta_usec is None:
        raise ApiError(messages.LEASE_TIMESTAMP_REQUIRED, reason="required")
    task = verbs.modify_lease(context.queue, task_name, seconds, expected_eta_usec=eta_usec)
    return Result(resources.task_json(task, context.queue.name))


def patch_task(context: RequestContext) -> Result:
    """tasks.patch: change the current lease; only queueName is required in the body."""
    seconds = context.new_lease_seconds()
    body = context.body()
    if not resources.text_field(body, "queueName"):
        explanation = f'queueName is missing: set it to "{context.queue.name}"'
        raise ApiError(messages.QUEUE_NAME_INVALID, reason="required", explanation=explanation)
    _check_queue_name(context, body, messages.QUEUE_NAME_FIXED)
    if resources.text_field(body, "id") not in (None, "", context.task_name):
        raise ApiError(messages.TASK_ID_FIXED)
    eta_usec = resources.integer_field(body, "leaseTimestamp")
    task = verbs.modify_lease(context.queue, context.task_name, seconds, expected_eta_usec=eta_usec)
    return Result(resources.task_json(task, context.queue.name))


def delete_task(context: RequestContext) -> Result:
    """tasks.delete: delete one task, leased or not."""
    result = context.queue.delete_tasks(context.task_name)[0]
    if result is not DeleteResult.DELETED:
        why = not_deleted(result)
        explanation = f'task {quoted(context.task_name)} of queue "{context.queue.name}" {why}'
        raise ApiError(messages.TASK_NAME_INVALID, explanation=explanation)
    return Result()


def _check_queue_name(context: RequestContext, body: Json, message: str) -> None:
    name = resources.text_field(body, "queueName")
    if name is not None and name.rpartition("/")[2] != context.queue.name:
        explanation = f'queueName is {quoted(name)}, but the path says "{context.queue.name}"'
        raise ApiError(message, explanation=explanation)
