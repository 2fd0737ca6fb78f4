"""What a deployment of queue.yaml would change."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from pullqueue.config.model import DEFAULT_QUEUE, QueueConfig, QueueMode, QueueSettings
from pullqueue.config.view import View
from pullqueue.lint.deployment import (
    BACKOFF_DECIMALS,
    FIELDS,
    RATE_DECIMALS,
    UNLIMITED,
    DeployedQueue,
    Field,
    Value,
)
from pullqueue.lint.loading import build_config
from pullqueue.text import is_number, quoted

Action = Literal["create", "change", "resume", "pause", "stop", "refuse"]

_NAME = re.compile(r"projects/([^/]+)/locations/[^/]+/queues/([A-Za-z0-9-]{1,500})")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)s")
_ROUTINGS = ("appEngineRoutingOverride", "appEngineHttpQueue.appEngineRoutingOverride")
_STATES = ("RUNNING", "PAUSED", "DISABLED")
_SAME = 1e-9
"""How much two numbers may differ, as gcloud compares them."""
_UNLISTED = (
    "the file does not name it: gcloud pauses it, whoever created it (before version 332, App "
    "Engine disabled it)"
)
_RUNS = (
    "not paused until the next deployment: gcloud pauses a new queue whose rate is 0 only if the "
    "file has its `mode: push`"
)


class DeployedError(ValueError):
    """a file does not contain the queues of Cloud Tasks"""


class Change(NamedTuple):
    """A setting that differs, in the terms of queue.yaml."""

    key: str
    before: str | None
    """None if the queue does not exist."""
    after: str


class QueuePlan(NamedTuple):
    """What happens to one queue."""

    name: str
    actions: tuple[Action, ...] = ()
    """Empty if nothing happens."""
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    line: int = 0
    """Where the file has the queue; 0 if it does not."""


class Plan(NamedTuple):
    """What a deployment would do."""

    queues: list[QueuePlan]

    @property
    def is_refused(self) -> bool:
        """True if the deployment breaks a queue."""
        return any("refuse" in queue.actions for queue in self.queues)

    @property
    def counts(self) -> dict[str, int]:
        """How many queues there are for each action, and without one (`unchanged`)."""
        names: tuple[Action, ...] = get_args(Action)
        counts = {str(name): sum(name in each.actions for each in self.queues) for name in names}
        return counts | {"unchanged": sum(not each.actions for each in self.queues)}

    @property
    def has_changes(self) -> bool:
        """True if the deployment does something."""
        return any(queue.actions for queue in self.queues)


def make_plan(view: View, deployed: Mapping[str, DeployedQueue]) -> Plan:
    """Compare a valid file with what is deployed.

    The rules are those of `gcloud app deploy queue.yaml`: it sends all fields, but neither a rate
    of 0 nor the removal of a target; it resumes the queues of the file that have a rate, and pauses
    all others except `default`. A new queue without a rate is paused only if the file has its mode.
    """
    config = build_config(view)
    resume = config.resume_paused_queues is not False
    has_mode = {queue.name: queue.get("mode") is not None for queue in view.queues}
    named = {each.name: each for each in config.queues}
    plans = [
        _named(each, deployed[name], resume=resume)
        if name in deployed
        else _created(each, has_mode=has_mode[name])
        for name, each in named.items()
    ]
    plans += [_unnamed(name, state) for name, state in deployed.items() if name not in named]
    return Plan(plans)


def _created(settings: QueueSettings, *, has_mode: bool) -> QueuePlan:
    after = DeployedQueue.of(settings)
    changes = [Change("mode", None, after.mode.value)]
    changes += [
        Change(field.key, None, after.shown(field))
        for field in FIELDS
        if after.values.get(field.key) is not None
    ]
    plan = QueuePlan(settings.name, ("create",), tuple(changes), line=settings.line)
    if not after.paused:
        return plan
    return plan._replace(actions=("create", "pause")) if has_mode else plan._replace(notes=(_RUNS,))


def _named(settings: QueueSettings, before: DeployedQueue, *, resume: bool) -> QueuePlan:
    after = DeployedQueue.of(settings)
    plan = QueuePlan(settings.name, line=settings.line)
    if before.mode is not after.mode:
        mode = Change("mode", before.mode.value, after.mode.value)
        note = "adds of the old kind fail from then on: use a new name"
        return plan._replace(actions=("refuse",), changes=(mode,), notes=(note,))
    changes = [change for field in FIELDS if (change := _change(field, before, after))]
    notes = _notes(before, after, resume=resume)
    found: list[Action] = ["change"] if changes else []
    if after.paused and not before.paused:
        found.append("pause")
    elif before.paused and not after.paused and resume:
        found.append("resume")
    return plan._replace(actions=tuple(found), changes=tuple(changes), notes=notes)


def _change(field: Field, before: DeployedQueue, after: DeployedQueue) -> Change | None:
    old, new = before.values.get(field.key, field.default), after.values.get(field.key)
    not_sent = new is None or (field.key == "rate" and not new)
    if not_sent or _is_same(field, old, new):
        return None
    return Change(field.key, before.shown(field), after.shown(field))


def _is_same(field: Field, old: Value, new: Value) -> bool:
    """Return whether values are equal after gcloud's rounding; a server may list more digits."""
    if isinstance(old, int | float) and isinstance(new, int | float):
        digits = BACKOFF_DECIMALS if field.kind == "duration" else RATE_DECIMALS
        return math.isclose(round(old, digits), round(new, digits), rel_tol=_SAME)
    return old == new


def _notes(before: DeployedQueue, after: DeployedQueue, *, resume: bool) -> tuple[str, ...]:
    notes = []
    target = before.values.get("target")
    if target and not after.values.get("target"):
        notes.append(f"keeps the target {target}: a deployment does not remove it")
    if before.paused and not after.paused and not resume:
        notes.append("stays paused: resume_paused_queues is false")
    return tuple(notes)


def _unnamed(name: str, state: DeployedQueue) -> QueuePlan:
    if name == DEFAULT_QUEUE:
        return QueuePlan(name, notes=("the file does not name it: default stays as it is",))
    if state.paused:
        return QueuePlan(name, notes=("the file does not name it: it is paused already",))
    return QueuePlan(name, ("stop",), notes=(_UNLISTED,))


def deployed_queues(config: QueueConfig) -> dict[str, DeployedQueue]:
    """Return the states that a deployment of an earlier file has led to."""
    return {each.name: DeployedQueue.of(each) for each in config.queues}


def read_deployed(data: bytes, *, file: str) -> dict[str, DeployedQueue]:
    """Read what `gcloud tasks queues list --format=json` prints.

    Raises:
        DeployedError: it is something else.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        document = document.get("queues", [] if document == {} else None)
    if not isinstance(document, list):
        raise DeployedError(
            f"{file}: not a JSON array of queues: write it with "
            "`gcloud beta tasks queues list --location=LOCATION --format=json`"
        )
    places: dict[str, None] = {}
    states: dict[str, DeployedQueue] = {}
    for index, item in enumerate(document):
        where = f"{file}: [{index}]"
        place, name, state = _deployed(item, where)
        if name in states and place in places:
            raise DeployedError(f'{where}.name: queue "{name}" is in the list twice')
        states[name], places[place] = state, None
        if len(places) > 1:
            raise DeployedError(
                f"{file} has queues of {' and '.join(places)}: a queue.yaml is for one of them, so "
                "list that one, with --project and --location"
            )
    return states


def _deployed(item: Any, where: str) -> tuple[str, str, DeployedQueue]:  # noqa: ANN401 - JSON
    """Return the project and location of a queue, its name and its state."""
    name = item.get("name") if isinstance(item, dict) else None
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise DeployedError(
            f"{where}.name must be projects/PROJECT/locations/LOCATION/queues/NAME, "
            f"but is {quoted(name)}"
        )
    values: dict[str, Value] = {}
    for field in FIELDS:
        path = field.message or "rateLimits.maxBurstSize"
        if field.kind == "target":
            values[field.key] = _target(item, match[1], where)
        elif (value := _at(item, path, where)) is not None:
            values[field.key] = _number(field, value, f"{where}.{path}")
    if values.get("task_retry_limit") == 0:
        values["task_retry_limit"] = UNLIMITED
    state = item.get("state", _STATES[0])
    if state not in _STATES:
        allowed = f"{', '.join(_STATES[:-1])} or {_STATES[-1]}"
        raise DeployedError(f"{where}.state must be {allowed}, but is {quoted(state)}")
    is_pull = item.get("type") == "PULL" or "pullTarget" in item
    mode = QueueMode.PULL if is_pull else QueueMode.PUSH
    place = match[0].partition("/queues/")[0]
    return place, match[2], DeployedQueue(mode, state != _STATES[0], values)


def _at(item: Any, path: str, where: str) -> Any:  # noqa: ANN401 - JSON
    for part in path.split("."):
        if item is None:
            return None
        if not isinstance(item, dict):
            raise DeployedError(f"{where} must be an object, but is {quoted(item)}")
        item, where = item.get(part), f"{where}.{part}"
    return item


def _number(field: Field, value: object, where: str) -> float:
    if field.kind == "duration":
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise DeployedError(f'{where} must be seconds such as "3600s", but is {quoted(value)}')
        return float(match[1])
    if not is_number(value) or not math.isfinite(value):
        raise DeployedError(f"{where} must be a number, but is {quoted(value)}")
    return value


def _target(item: Any, project: str, where: str) -> str | None:  # noqa: ANN401 - JSON
    """Return the target of a queue; its host may be all that is known of it."""
    override = next(filter(None, (_at(item, path, where) for path in _ROUTINGS)), None)
    if not isinstance(override, dict):
        return None
    parts = [override.get("version"), override.get("service")]
    if not any(parts):
        host = str(override.get("host", ""))
        parts = [host.partition(f".{project}.")[0]] if f".{project}." in host else []
    return ".".join(str(part) for part in parts if part) or None
