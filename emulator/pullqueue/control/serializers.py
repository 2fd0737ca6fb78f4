"""Queues, tasks, events and requests as the control routes write them.

Moments are ISO 8601 in UTC, and where a caller may have to give them back exactly, also whole
microseconds since the epoch.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import asdict
from datetime import datetime

from pullqueue.api.encoding import Json
from pullqueue.clock import USEC_PER_SECOND, from_usec
from pullqueue.config.model import QueueMode
from pullqueue.control.request_log import LoggedRequest
from pullqueue.engine.events import Event
from pullqueue.engine.queue import Queue
from pullqueue.errors import PullQueueError
from pullqueue.tasks import Task, TaskState

PREVIEW_BYTES = 256


def queue_json(queue: Queue, *, now_usec: int) -> Json:
    """Give a queue with its numbers and settings."""
    numbers = queue.fetch_statistics()
    oldest = numbers.oldest_eta
    return {
        "name": queue.name,
        "mode": queue.mode.value,
        "disabled": queue.disabled,
        "tasks": numbers.tasks,
        "available": numbers.available,
        "leased": numbers.leased,
        "scheduled": numbers.scheduled,
        "exhausted": len(queue.exhausted) if queue.mode is QueueMode.PULL else 0,
        "oldest_eta": moment(oldest),
        "oldest_age_seconds": None
        if oldest is None
        else max(0.0, (from_usec(now_usec) - oldest).total_seconds()),
        "leased_last_minute": numbers.leased_last_minute,
        "leased_last_hour": numbers.leased_last_hour,
        "bytes_stored": numbers.bytes_stored,
        "settings": _settings_json(queue),
    }


def task_json(task: Task, queue: Queue, *, now_usec: int, payload_bytes: int | None = None) -> Json:
    """Give a task as it stands now, with the first `payload_bytes` of its payload; None: all."""
    state = task.state_at(now_usec)
    left = (task.eta_usec - now_usec) / USEC_PER_SECOND
    return {
        "name": task.name,
        "queue": task.queue_name,
        "tag": task.tag,
        "state": state.value,
        "eta": moment(task.eta),
        "eta_usec": task.eta_usec,
        "enqueued": moment(task.enqueued),
        "lease_seconds_left": left if state is TaskState.LEASED else None,
        "retry_count": task.retry_count,
        "retry_limit": queue.retry_limit.leases,
        "bytes_stored": task.stored_bytes,
        "payload": bytes_json(task.payload, payload_bytes),
    }


def event_json(event: Event, queue_name: str) -> Json:
    """Give one step in the life of a task."""
    return {
        "queue": queue_name,
        "task": event.task_name,
        "kind": event.kind.value,
        "moment": moment(event.moment),
        "until": moment(event.until),
        "retry_count": event.retry_count,
    }


def request_json(logged: LoggedRequest) -> Json:
    """Give one request and its answer."""
    return {
        "number": logged.number,
        "moment": moment(from_usec(logged.usec)),
        "verb": logged.verb,
        "path": logged.path,
        "query": logged.query,
        "client": logged.client,
        "caller": logged.caller,
        "status": logged.status,
        "milliseconds": round(logged.seconds * 1000, 3),
        "body": bytes_json(logged.body, None, total=logged.body_bytes),
        "answer": bytes_json(logged.answer, None, total=logged.answer_bytes),
    }


def bytes_json(data: bytes, limit: int | None, *, total: int | None = None) -> Json:
    """Give bytes, or the first of them: as text where they are UTF-8, and as base64."""
    size = len(data) if total is None else total
    shown = data if limit is None else data[:limit]
    truncated = len(shown) < size
    return {
        "bytes": size,
        "truncated": truncated,
        "text": _text(shown, truncated=truncated),
        "base64": b64encode(shown).decode(),
    }


def moment(value: datetime | None) -> str | None:
    """Give a moment as text."""
    return None if value is None else value.isoformat()


def moment_of(text: str, field: str, refusal: type[PullQueueError]) -> datetime:
    """Give the moment that a caller wrote into a field.

    Raises:
        PullQueueError: `refusal`, since the text is no moment, or one without its time zone.
    """
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        given = None
    if given is None or given.utcoffset() is None:
        what = "no moment" if given is None else "a moment without its time zone"
        raise refusal(f"{field} is {text!r:.60}, {what}: give one such as 2026-01-01T00:00:00Z")
    return given


def _text(data: bytes, *, truncated: bool) -> str | None:
    # The cut may have gone through a character of up to four bytes.
    for end in range(len(data), len(data) - (4 if truncated else 1), -1):
        try:
            return data[: max(end, 0)].decode()
        except UnicodeDecodeError:
            continue
    return None


def _settings_json(queue: Queue) -> Json:
    settings = asdict(queue.settings)
    for place in ("name", "mode", "line", "column"):
        del settings[place]
    return {name: value for name, value in settings.items() if value is not None}
