"""Operations on push queues: how they are delivered, and running a task now."""

from __future__ import annotations

from typing import Annotated

from pullqueue.api.errors import ApiError
from pullqueue.engine.events import Interface
from pullqueue.errors import InvalidTaskError
from pullqueue.observe.models import Request
from pullqueue.resources.history import RequestQuery, list_requests
from pullqueue.resources.operations import operation
from pullqueue.resources.queues import find_current_task
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Count, Model, about

_LATEST = 20


class Addresses(Model):
    """Where push tasks are sent."""

    push_to: Annotated[
        list[str],
        about(
            "Each `[TARGET=]URL`, as in `--push-to`, such as http://localhost:8080 or "
            "worker=http://localhost:8081; none: push tasks are kept."
        ),
    ]
    keep_others: Annotated[bool, about("Keep the addresses of the targets that are not named.")] = (
        False
    )


class Started(Model):
    """Whether an attempt was started; if not, one is running already."""

    started: bool


class QueueDelivery(Model):
    """How fast the tasks of a push queue are sent, and what the attempts led to."""

    rate: Annotated[float, about("Maximum tasks per second, from queue.yaml or the default.")]
    enforced_rate: Annotated[
        float | None,
        about("Current rate, lower while the app is overloaded; null: nothing is sent."),
    ]
    bucket_size: Count
    max_concurrent_requests: Count
    latest: Annotated[list[Request], about("The latest 20 attempts, newest first.")]


@operation("GET", "/queues/{queue}/delivery", key="delivery")
def get_delivery(state: ServerState, queue: str) -> QueueDelivery:
    """Return how a push queue is delivered, and its latest attempts."""
    found = state.emulator.queue(queue)
    if not found.is_push:
        raise found.wrong_mode("workers lease its tasks")
    settings, delivery = found.settings, state.delivery
    attempts = RequestQuery(limit=_LATEST, queue=queue, interface=Interface.PUSH)
    return QueueDelivery(
        rate=settings.effective_rate,
        enforced_rate=None if delivery is None else delivery.dispatcher.enforced_rate(found),
        bucket_size=settings.effective_bucket_size,
        max_concurrent_requests=settings.effective_concurrent_requests,
        latest=list_requests(state, attempts).requests,
    )


@operation("POST", "/queues/{queue}/tasks/{task}/run")
def run_task(state: ServerState, queue: str, task: str) -> Started:
    """Start an attempt of a push task now, past its eta, the queue's rate and a pause."""
    found = find_current_task(state, queue, task)
    try:
        started = state.run_now(found)
    except InvalidTaskError as error:  # nothing in the request is wrong
        raise ApiError(str(error), rpc_code="FAILED_PRECONDITION") from None
    if started:
        state.activity.record(f"ran task {task} of queue {queue}")
    return Started(started)


@operation("POST", "/push_to", key="push_to")
def set_push_to(state: ServerState, body: Addresses) -> list[str]:
    """Send push tasks to other addresses from now on; attempts under way go on."""
    try:
        state.deliver_to(body.push_to, keep_others=body.keep_others)
    except ValueError as error:
        raise ApiError(str(error)) from None
    state.activity.record(f"set the addresses of push tasks: {state.push_to or 'none'}")
    return list(state.push_to)
