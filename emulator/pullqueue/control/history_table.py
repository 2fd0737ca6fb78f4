"""The operations on what is remembered."""

from __future__ import annotations

from typing import Final

from pullqueue.control import history, queues
from pullqueue.control.operations import LIMIT, Operation, Parameter
from pullqueue.control.schemas import (
    COUNT,
    DELETED,
    EVENTS,
    REQUESTS,
    TASKS,
    component,
    listed,
    record,
)

_QUEUE = "/queues/{queue}"
_TASK = f"{_QUEUE}/tasks/{{task}}"

RECORDS: Final = (
    Operation(
        id="getHistory",
        verb="GET",
        path=f"{_TASK}/history",
        summary="Give what happened to the task of a name, from its beginning",
        handle=history.get_history,
        answer=EVENTS,
    ),
    Operation(
        id="listQueueEvents",
        verb="GET",
        path=f"{_QUEUE}/events",
        summary="List what happened in a queue, the latest first",
        handle=history.list_queue_events,
        parameters=(LIMIT,),
        answer=EVENTS,
    ),
    Operation(
        id="listQueueExhausted",
        verb="GET",
        path=f"{_QUEUE}/exhausted",
        summary="List the tasks of a queue that used up their leases, the latest first",
        handle=queues.list_exhausted,
        parameters=(LIMIT,),
        answer=TASKS,
    ),
    Operation(
        id="listEvents",
        verb="GET",
        path="/events",
        summary="List what happened in all queues, the latest first",
        handle=history.list_events,
        parameters=(LIMIT,),
        answer=EVENTS,
    ),
    Operation(
        id="listExhausted",
        verb="GET",
        path="/exhausted",
        summary="List the tasks of all queues that used up their leases, the latest first",
        handle=queues.list_exhausted,
        parameters=(LIMIT,),
        answer=TASKS,
    ),
    Operation(
        id="listRequests",
        verb="GET",
        path="/requests",
        summary="List the latest requests to the API and what they were answered, newest first",
        handle=history.list_requests,
        parameters=(
            LIMIT,
            Parameter(name="before", description="`next` of the page before.", schema=COUNT),
        ),
        answer=REQUESTS,
    ),
    Operation(
        id="forgetRequests",
        verb="DELETE",
        path="/requests",
        summary="Forget the requests",
        handle=history.forget_requests,
        answer=DELETED,
    ),
    Operation(
        id="getRequest",
        verb="GET",
        path="/requests/{number}",
        summary="Give one of the latest requests",
        handle=history.get_request,
        answer=record(request=component("Request")),
    ),
    Operation(
        id="listDepths",
        verb="GET",
        path="/depths",
        summary="Tell how deep the queues were over the last hour, the present last",
        handle=history.list_depths,
        answer=record(
            depths={"type": "object", "additionalProperties": listed(component("Depth"))}
        ),
    ),
)
"""The operations on what is remembered."""
