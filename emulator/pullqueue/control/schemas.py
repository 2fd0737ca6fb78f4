"""JSON Schemas of what goes into the control routes and comes out of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pullqueue.control.fault_registry import ERRORS
from pullqueue.control.fault_schema import KINDS
from pullqueue.engine.events import EventKind
from pullqueue.engine.interceptors import VERBS
from pullqueue.tasks import TaskState

Schema = Mapping[str, Any]

TEXT: Final[Schema] = {"type": "string"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
TRUTH: Final[Schema] = {"type": "boolean"}
SECONDS: Final[Schema] = {"type": "number"}
MOMENT: Final[Schema] = {"type": "string", "format": "date-time"}
ANYTHING: Final[Schema] = {"type": "object"}
SIGNED_64: Final = range(-(2**63), 2**63)
"""The numbers that every store can compare with."""
STATES: Final = [state.value for state in TaskState]


def orless(schema: Schema) -> Schema:
    """Give the schema of a value that may be null."""
    return {**schema, "type": [schema["type"], "null"]}


def listed(schema: Schema) -> Schema:
    """Give the schema of a list."""
    return {"type": "array", "items": schema}


def record(*, optional: tuple[str, ...] = (), **fields: Schema) -> Schema:
    """Give the schema of an object with just these fields, required but for the optional ones."""
    return {
        "type": "object",
        "properties": fields,
        "required": [name for name in fields if name not in optional],
        "additionalProperties": False,
    }


def component(name: str) -> Schema:
    """Refer to a schema of `COMPONENTS`."""
    return {"$ref": f"#/components/schemas/{name}"}


_BYTES = record(bytes=COUNT, truncated=TRUTH, text=orless(TEXT), base64=TEXT)
_QUEUE = record(
    name=TEXT,
    mode={"type": "string", "enum": ["pull", "push"]},
    disabled=TRUTH,
    tasks=COUNT,
    available=COUNT,
    leased=COUNT,
    scheduled=COUNT,
    exhausted=COUNT,
    oldest_eta=orless(MOMENT),
    oldest_age_seconds=orless(SECONDS),
    leased_last_minute=COUNT,
    leased_last_hour=COUNT,
    bytes_stored=COUNT,
    settings=ANYTHING,
)
_TASK = record(
    name=TEXT,
    queue=TEXT,
    tag=orless(TEXT),
    state={"type": "string", "enum": STATES},
    eta=MOMENT,
    eta_usec={"type": "integer"},
    enqueued=MOMENT,
    lease_seconds_left=orless(SECONDS),
    retry_count=COUNT,
    retry_limit=orless(COUNT),
    bytes_stored=COUNT,
    payload=component("Bytes"),
)
_EVENT = record(
    queue=TEXT,
    task=TEXT,
    kind={"type": "string", "enum": [kind.value for kind in EventKind]},
    moment=MOMENT,
    until=orless(MOMENT),
    retry_count=COUNT,
)
_REQUEST = record(
    number=COUNT,
    moment=MOMENT,
    verb=TEXT,
    path=TEXT,
    query=TEXT,
    client=TEXT,
    caller=orless(TEXT),
    status=COUNT,
    milliseconds=SECONDS,
    body=component("Bytes"),
    answer=component("Bytes"),
)
_FAULT_FIELDS: Mapping[str, Schema] = {
    "kind": {"type": "string", "enum": list(KINDS)},
    "call": {"type": "string", "enum": list(VERBS)},
    "error": {"type": "string", "enum": list(ERRORS)},
    "seconds": {**SECONDS, "minimum": 0, "description": "Of latency: by the manual clock."},
    "queue": {**TEXT, "description": "Only calls on this queue are counted and struck."},
    "times": {"type": "integer", "minimum": 1, "description": "So often at most."},
    "after": {**COUNT, "description": "Let so many calls through first."},
    "every": {"type": "integer", "minimum": 1, "description": "Only every second, third..."},
    "probability": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    "seed": {"type": "integer", "description": "Of the probability's sequence."},
}
_SAVED_TASK = record(
    name=TEXT,
    payload=TEXT,
    tag=orless(TEXT),
    eta_usec={"type": "integer"},
    sequence=COUNT,
    retry_count=COUNT,
    enqueued_usec={"type": "integer"},
)
_SAVED_QUEUE = record(
    tasks=listed(_SAVED_TASK),
    exhausted=listed(_SAVED_TASK),
    tombstones={"type": "object", "additionalProperties": {"type": "integer"}},
    leased=listed(
        {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
    ),
)
SNAPSHOT: Final[Schema] = record(
    format=TEXT,
    taken_usec={"type": "integer"},
    queues={"type": "object", "additionalProperties": _SAVED_QUEUE},
)
_ERROR_DETAIL = record(
    domain=TEXT,
    reason=TEXT,
    message=TEXT,
    locationType=TEXT,
    location=TEXT,
    debugInfo=TEXT,
    optional=("locationType", "location", "debugInfo"),
)
_ERROR = record(error=record(errors=listed(_ERROR_DETAIL), code=COUNT, message=TEXT))

COMPONENTS: Final[Mapping[str, Schema]] = {
    "Bytes": _BYTES,
    "Queue": _QUEUE,
    "Task": _TASK,
    "Event": _EVENT,
    "Request": _REQUEST,
    "Clock": record(now=MOMENT, manual=TRUTH, next_change=orless(MOMENT)),
    "Depth": record(moment=MOMENT, tasks=COUNT, available=COUNT, leased=COUNT),
    "Snapshot": SNAPSHOT,
    "Fault": {
        "type": "object",
        "properties": {**_FAULT_FIELDS, "number": COUNT, "calls": COUNT, "hits": COUNT},
        "required": ["kind", "number", "calls", "hits"],
        "additionalProperties": False,
    },
    "Error": _ERROR,
}
"""The schemas that several operations share."""

DELETED = record(deleted=COUNT)
QUEUES = record(queues=listed(component("Queue")))
TASKS = record(tasks=listed(component("Task")), next=orless(TEXT))
TASK = record(task=component("Task"))
EVENTS = record(events=listed(component("Event")))
REQUESTS = record(requests=listed(component("Request")), next=orless(COUNT))

NEW_TASK: Final[Schema] = {
    "type": "object",
    "properties": {
        "payload": {**TEXT, "description": "The work as text; stored as UTF-8."},
        "payload_base64": {**TEXT, "description": "The work as bytes, in base64."},
        "name": TEXT,
        "tag": TEXT,
        "eta": {**MOMENT, "description": "When it may be leased; at once where absent."},
        "countdown": {**SECONDS, "description": "The same, in seconds from now."},
    },
    "additionalProperties": False,
}
ADD: Final[Schema] = {
    "type": "object",
    "properties": {"tasks": {"type": "array", "items": NEW_TASK, "minItems": 1}},
    "required": ["tasks"],
    "additionalProperties": False,
}
LEASE: Final[Schema] = {
    "type": "object",
    "properties": {
        "lease_seconds": {**SECONDS, "default": 60},
        "max_tasks": {"type": "integer", "default": 1},
        "group_by_tag": {**TRUTH, "default": False},
        "tag": TEXT,
    },
    "additionalProperties": False,
}
CHANGE_LEASE: Final[Schema] = {
    "type": "object",
    "properties": {
        "lease_seconds": {**SECONDS, "description": "How long from now; 0 gives it back."},
        "eta_usec": {
            "type": "integer",
            "minimum": SIGNED_64.start,
            "maximum": SIGNED_64.stop - 1,
            "description": "The end of the lease that is meant.",
        },
    },
    "required": ["lease_seconds"],
    "additionalProperties": False,
}
NAMES: Final[Schema] = record(tasks=listed(TEXT))
MOVE_CLOCK: Final[Schema] = {
    "type": "object",
    "description": "How many seconds forward, or where to.",
    "properties": {"advance": SECONDS, "move_to": MOMENT},
}
NEW_FAULT: Final[Schema] = {
    "type": "object",
    "properties": _FAULT_FIELDS,
    "required": ["kind"],
    "additionalProperties": False,
}
