"""queue.yaml as queues of Cloud Tasks: a gcloud script, Terraform, or JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pullqueue.config.model import QueueSettings
from pullqueue.config.view import Entry, QueueNode, View
from pullqueue.limits import QUEUE_NAME_CHARACTERS
from pullqueue.lint import deployment
from pullqueue.lint.loading import build_config
from pullqueue.lint.rules.rates import find_clamped, find_rates
from pullqueue.lint.rules.values import find_zeros
from pullqueue.text import decimal, to_snake_case

PROJECT = "PROJECT_ID"
LOCATION = "LOCATION_ID"
"""What JSON has where neither is given; the API of Cloud Tasks refuses both names."""

_PAUSED = "the queue is paused instead; set a rate before you resume it"


class Place(NamedTuple):
    """Where the queues are; an empty name is not known."""

    project: str = ""
    location: str = ""


class Remark(NamedTuple):
    """What is to be known about a line of the file."""

    line: int
    column: int
    message: str
    is_loss: bool
    """True if something of the file is not carried over."""


class Conversion(NamedTuple):
    """The text that was written, and what is to be known about it."""

    text: str
    remarks: list[Remark]


def convert_view(view: View, *, to: str, place: Place) -> Conversion:
    """Convert a valid queue.yaml to `gcloud`, `terraform` or `json`."""
    queues = [
        queue
        for queue in build_config(view).queues
        if not queue.is_pull and len(queue.name) <= QUEUE_NAME_CHARACTERS
    ]
    remarks = [
        Remark(*view.source.position(entry.key_place.start), message, is_loss=is_loss)
        for entry, message, is_loss in _find_entries(view)
    ]
    return Conversion(WRITERS[to](queues, place), sorted(remarks))


def _find_entries(view: View) -> Iterator[tuple[Entry, str, bool]]:
    """Yield the keys to remark on, the remark, and whether something is lost."""
    for entry in view.top.some(*deployment.LOST):
        if entry.key.text != "resume_paused_queues" or entry.text == "True":
            yield _describe_loss(entry)
    for queue in view.queues:
        yield from _check_pull(queue) if queue.mode == "pull" else _check_push(queue)
    for entry, default in find_zeros(view):
        yield entry, f"`{entry.key.text}` is 0, which is deployed as {default}", False
    for entry, per_second in find_rates(view):
        if round(per_second, deployment.RATE_DECIMALS) == 0:
            yield entry, f"`rate` is {entry.shown}, which Cloud Tasks cannot have: {_PAUSED}", False


def _describe_loss(entry: Entry) -> tuple[Entry, str, bool]:
    return entry, f"`{entry.key.text}` is {deployment.LOST[entry.key.text][0]}", True


def _check_pull(queue: QueueNode) -> Iterator[tuple[Entry, str, bool]]:
    for entry in queue.some(*deployment.LOST):
        loss = entry, f"{queue.title} is {deployment.LOST['mode'][0]}", True
        yield loss if entry.key.text == "mode" else _describe_loss(entry)


def _check_push(queue: QueueNode) -> Iterator[tuple[Entry, str, bool]]:
    name = queue.get("name")
    if name and name.text and (length := len(name.text)) > QUEUE_NAME_CHARACTERS:
        permitted = f"Cloud Tasks permits {QUEUE_NAME_CHARACTERS}"
        yield name, f"queue name has {length} characters; {permitted}: left out", True
    for entry in queue.some(*deployment.LOST.keys() - {"mode"}):
        if entry.key.text == "acl":
            yield entry, "`acl` has no effect on a push queue: left out", False
        elif entry.key.text != "bucket_size" or entry.integer:
            yield _describe_loss(entry)
    if clamped := find_clamped(queue):
        entry, deployed, limit = clamped
        yield entry, f"`{entry.key.text}` is deployed as {deployed}, the {limit}", False


def to_json(queues: list[QueueSettings], place: Place) -> str:
    """Return queues as `gcloud tasks queues list --format=json` prints them."""
    return json.dumps([_build_message(queue, place) for queue in queues], indent=2) + "\n"


def _build_message(queue: QueueSettings, place: Place) -> dict[str, Any]:
    parent = f"projects/{place.project or PROJECT}/locations/{place.location or LOCATION}"
    message: dict[str, Any] = {"name": f"{parent}/queues/{queue.name}"}
    for field, value in _list_values(queue):
        *parents, name = field.message.split(".")
        holder = message
        for part in parents:
            holder = holder.setdefault(part, {})
        if field.kind == "target":
            holder[name] = routing(str(value))
        else:
            holder[name] = _format_seconds(value) if field.kind == "duration" else value
    message["state"] = "PAUSED" if deployment.DeployedQueue.of(queue).paused else "RUNNING"
    return message


def _list_values(queue: QueueSettings) -> Iterator[tuple[deployment.Field, deployment.Value]]:
    state = deployment.DeployedQueue.of(queue)
    for field in deployment.FIELDS:
        value = state.values[field.key]
        if field.message and value is not None and not (field.key == "rate" and state.paused):
            yield field, value


def routing(target: str) -> dict[str, str]:
    """Return a `target` as service and version."""
    version, _, service = target.rpartition(".")
    return {"service": service} | ({"version": version} if version else {})


def _format_number(value: deployment.Value) -> str:
    return decimal(float(value or 0))


def _format_seconds(value: deployment.Value) -> str:
    return f"{_format_number(value)}s"


_SCRIPT = """\
#!/bin/sh
# Creates the queues of queue.yaml in Cloud Tasks, or updates those that exist.
set -eu

{places}

apply() {{
  queue=projects/$PROJECT/locations/$LOCATION/queues/$1
  shift
  if gcloud tasks queues describe "$queue" --project="$PROJECT" >/dev/null 2>&1; then
    verb=update
  else
    verb=create
  fi
  gcloud tasks queues "$verb" "$queue" --project="$PROJECT" "$@"
}}

# Cloud Tasks cannot have a rate of 0: the queue is paused instead. Set a rate before you resume it.
pause() {{
  gcloud tasks queues pause "projects/$PROJECT/locations/$LOCATION/queues/$1" \\
    --project="$PROJECT" --quiet
}}
"""


def to_gcloud(queues: list[QueueSettings], place: Place) -> str:
    """Return a shell script that creates or updates each queue with `gcloud tasks queues`."""
    places = "\n".join(
        f"{name}={shlex.quote(value)}"
        if value
        else f': "${{{name}:?is not set: set it, or pass {option} to pullqueue convert}}"'
        for name, option, value in (
            ("PROJECT", "--project", place.project),
            ("LOCATION", "--location", place.location),
        )
    )
    return _SCRIPT.format(places=places) + "".join(map(_write_commands, queues))


def _write_commands(queue: QueueSettings) -> str:
    name = shlex.quote(queue.name)
    words = [f"apply {name}"]
    for field, value in _list_values(queue):
        words.append(shlex.quote(f"{field.flag}={_write_argument(field, value)}"))
    pause = f"pause {name}\n" if deployment.DeployedQueue.of(queue).paused else ""
    return "\n" + " \\\n  ".join(words) + "\n" + pause


def _write_argument(field: deployment.Field, value: deployment.Value) -> str:
    if field.kind == "target":
        return ",".join(f"{key}:{part}" for key, part in routing(str(value)).items())
    return _format_seconds(value) if field.kind == "duration" else _format_number(value)


def to_terraform(queues: list[QueueSettings], place: Place) -> str:
    """Return a `google_cloud_tasks_queue` resource for each queue."""
    variables = "".join(
        f'variable "{name}" {{\n  type        = string\n  description = {hcl_string(text)}\n}}\n\n'
        for name, text, value in (
            ("project", "The id of the Google Cloud project.", place.project),
            ("location", "The region of the queues.", place.location),
        )
        if not value
    )
    return variables + "\n".join(_write_resource(queue, place) for queue in queues)


def _write_resource(queue: QueueSettings, place: Place) -> str:
    label = queue.name if queue.name[0].isalpha() else f"queue_{queue.name}"
    attributes = {
        "name": hcl_string(queue.name),
        "project": hcl_string(place.project) if place.project else "var.project",
        "location": hcl_string(place.location) if place.location else "var.location",
    }
    if deployment.DeployedQueue.of(queue).paused:
        attributes["desired_state"] = (
            f"{hcl_string('PAUSED')} # needs hashicorp/google 7.2 or newer"
        )
    blocks: dict[str, dict[str, str]] = {}
    for field, value in _list_values(queue):
        block, _, name = to_snake_case(field.message).partition(".")
        if field.kind == "target":
            parts = routing(str(value)).items()
            blocks[block] = {key: hcl_string(part) for key, part in parts}
        else:
            is_text = field.kind == "duration"
            text = hcl_string(_format_seconds(value)) if is_text else _format_number(value)
            blocks.setdefault(block, {})[name] = text
    lines = [f'resource "google_cloud_tasks_queue" {hcl_string(label)} {{']
    lines += _write_assignments(attributes, "  ")
    for block, values in blocks.items():
        lines += ["", f"  {block} {{", *_write_assignments(values, "    "), "  }"]
    return "\n".join([*lines, "}"]) + "\n"


def _write_assignments(values: Mapping[str, str], indent: str) -> list[str]:
    width = max(map(len, values))
    return [f"{indent}{name:<{width}} = {text}" for name, text in values.items()]


def hcl_string(text: str) -> str:
    """Return a text as a string of HCL that is not a template, whatever it contains."""
    quoted = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    return quoted.replace("${", "$${").replace("%{", "%%{")


WRITERS: dict[str, Callable[[list[QueueSettings], Place], str]] = {
    "gcloud": to_gcloud,
    "terraform": to_terraform,
    "json": to_json,
}
"""What a queue.yaml can be converted to."""
