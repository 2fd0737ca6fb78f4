"""Operations on what is remembered: events, requests, depths."""

from __future__ import annotations

import heapq

from pullqueue.api.errors import ApiError
from pullqueue.clock import from_usec
from pullqueue.control.operations import Answer, Call
from pullqueue.control.queues import pull_queues
from pullqueue.control.serializers import event_json, moment, request_json
from pullqueue.engine.events import Event


def list_events(call: Call) -> Answer:
    """What happened in all queues, the latest first."""
    return _events_answer(call, {queue.name: queue.events() for queue in pull_queues(call)})


def list_queue_events(call: Call) -> Answer:
    """What happened in one queue, the latest first."""
    return _events_answer(call, {call.queue.name: call.queue.events()})


def get_history(call: Call) -> Answer:
    """The life of one task, or of the task that had the name, from its beginning."""
    events = call.queue.history(call.values["task"])
    return Answer(body={"events": [event_json(event, call.queue.name) for event in events]})


def list_requests(call: Call) -> Answer:
    """The latest requests to the API, newest first."""
    log = call.state.requests
    requests = log.latest(call.values["limit"] + 1, before=call.values.get("before"))
    shown = requests[: call.values["limit"]]
    more = len(requests) > len(shown)
    return Answer(
        body={
            "requests": [request_json(logged) for logged in shown],
            "next": shown[-1].number if more else None,
        }
    )


def get_request(call: Call) -> Answer:
    """One request."""
    text = call.values["number"]
    logged = call.state.requests.get(int(text)) if text.isdecimal() and len(text) < 19 else None
    if logged is None:
        message = f"request {text!r:.30} is not remembered: only the latest are"
        raise ApiError(message, status=404, reason="notFound")
    return Answer(body={"request": request_json(logged)})


def forget_requests(call: Call) -> Answer:
    """Forget the requests."""
    return Answer(body={"deleted": call.state.requests.clear()})


def list_depths(call: Call) -> Answer:
    """How deep the queues were over the last hour."""
    call.state.depths.sample()
    depths = {
        name: [
            {
                "moment": moment(from_usec(depth.usec)),
                "tasks": depth.tasks,
                "available": depth.available,
                "leased": depth.leased,
            }
            for depth in series
        ]
        for name, series in call.state.depths.read().items()
    }
    return Answer(body={"depths": depths})


def _events_answer(call: Call, by_queue: dict[str, list[Event]]) -> Answer:
    latest = heapq.nlargest(
        call.values["limit"],
        (
            (event.usec, place, name, event)
            for name, events in by_queue.items()
            for place, event in enumerate(events)
        ),
    )
    return Answer(body={"events": [event_json(event, name) for _, _, name, event in latest]})
