"""What the console's forms do. Each leads to a page that says what became of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from flask import redirect, request, url_for
from werkzeug.wrappers import Response

from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.console.control import Control
from pullqueue.console.formatting import instant
from pullqueue.console.notices import Notice, Notices
from pullqueue.control.fault_schema import FIELDS, WHEN
from pullqueue.errors import PullQueueError
from pullqueue.tasks import count_tasks, why_in_use

_UNITS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
_WHOLE = ("times", "after", "every", "seed")
_BROKEN = ("probability", "seconds")

_Number = TypeVar("_Number", int, float)


class Actions:
    """One method for each form."""

    def __init__(self, control: Control, notices: Notices) -> None:
        self._control = control
        self._notices = notices

    def add(self, queue: str) -> Response:
        """Add a task; what cannot be added comes back with the form filled in."""
        form = request.form.to_dict()
        try:
            answer = self._control.ask("addTasks", body={"tasks": [_task(form)]}, queue=queue)
            if answer["refused"]:
                name, why = next(iter(answer["refused"].items()))
                taken = why_in_use(existing=why == "exists")
                raise ApiError(f"task {name!r} {taken}: choose another name")
        except PullQueueError as error:
            return self._to(str(error), "queue", is_error=True, form=form, queue=queue)
        name = answer["tasks"][0]["name"]
        return self._to(f"Task {name} was added.", "queue", queue=queue)

    def lease(self, queue: str) -> Response:
        """Lease tasks and show those that are leased."""
        form = request.form
        order: Json = {
            "lease_seconds": _number(form.get("lease_seconds"), "how long", float),
            "max_tasks": _number(form.get("max_tasks"), "how many", int),
        }
        if form.get("tag"):
            order |= {"tag": form["tag"], "group_by_tag": True}
        answer = self._control.ask("leaseTasks", body=order, queue=queue)
        tasks = answer["tasks"]
        if not tasks:
            why = "leases are asked for too often" if answer["rate_limited"] else "nothing to lease"
            return self._to(f"No task was leased: {why}.", "queue", queue=queue)
        many = "1 task is" if len(tasks) == 1 else f"{len(tasks)} tasks are"
        text = f"{many} leased until {instant(tasks[0]['eta'])}."
        return self._to(text, "queue", queue=queue, state="leased")

    def release(self, queue: str) -> Response:
        """Give a task back."""
        task = request.form.get("task", "")
        self._control.ask("changeLease", body={"lease_seconds": 0}, queue=queue, task=task)
        back = request.form.get("back", "queue")
        if back == "task":
            return self._to("The task was given back.", "task", queue=queue, task=task)
        return self._to(f"Task {task} was given back.", "queue", queue=queue)

    def extend(self, queue: str, task: str) -> Response:
        """Let a lease end at another moment."""
        seconds = _number(request.form.get("lease_seconds"), "how long", float)
        body = {"lease_seconds": seconds}
        changed = self._control.ask("changeLease", body=body, queue=queue, task=task)["task"]
        text = f"The lease ends at {instant(changed['eta'])}."
        return self._to(text, "task", queue=queue, task=task)

    def delete(self, queue: str, task: str) -> Response:
        """Delete a task."""
        self._control.ask("deleteTask", queue=queue, task=task)
        return self._to(f"Task {task} was deleted.", "queue", queue=queue)

    def purge(self, queue: str) -> Response:
        """Delete all tasks of a queue."""
        deleted = self._control.ask("purgeQueue", queue=queue)["deleted"]
        return self._to(f"Deleted {count_tasks(deleted)}.", "queue", queue=queue)

    def forget_requests(self) -> Response:
        """Forget the requests."""
        deleted = self._control.ask("forgetRequests")["deleted"]
        were = "1 request was" if deleted == 1 else f"{deleted} requests were"
        return self._to(f"{were} forgotten.", "requests")

    def set_fault(self) -> Response:
        """Set a fault; what makes no sense comes back with the form filled in."""
        form = request.form.to_dict()
        try:
            self._control.ask("setFault", body=_fault(form))
        except PullQueueError as error:
            return self._to(str(error), "faults", is_error=True, form=form)
        return self._to("The fault is set.", "faults")

    def remove_fault(self) -> Response:
        """Take one fault away, or all."""
        number = request.form.get("number", "")
        if number == "all":
            self._control.ask("clearFaults")
            return self._to("All faults are taken away.", "faults")
        self._control.ask("removeFault", number=number)
        return self._to(f"Fault {number} is taken away.", "faults")

    def move_clock(self) -> Response:
        """Move the clock by a span, or to a moment."""
        form = request.form
        try:
            order: Json
            if form.get("move_to"):
                text = form["move_to"]
                order = {"move_to": text if "+" in text or text.endswith("Z") else f"{text}Z"}
            else:
                count = _number(form.get("count"), "how far", float)
                order = {"advance": count * _UNITS.get(form.get("unit", "s"), 1)}
            now = self._control.ask("moveClock", body=order)["now"]
        except PullQueueError as error:
            return self._to(str(error), "clock", is_error=True)
        return self._to(f"It is {instant(now)} now.", "clock")

    def reload(self) -> Response:
        """Read queue.yaml anew."""
        try:
            changes = self._control.ask("reloadConfig")
        except PullQueueError as error:
            return self._to(f"Nothing was changed: {error}", "server", is_error=True)
        parts = [
            f"{verb} {', '.join(names)}"
            for verb, names in (
                ("added", changes["added"]),
                ("changed", changes["changed"]),
                ("disabled", changes["removed"]),
            )
            if names
        ]
        return self._to(f"queue.yaml is applied: {'; '.join(parts) or 'no change'}.", "server")

    def reset(self) -> Response:
        """Forget everything but configuration and clock."""
        self._control.ask("reset")
        return self._to("Everything is forgotten.", "server")

    def load_snapshot(self) -> Response:
        """Hold what a file has instead of what is there."""
        file = request.files.get("file")
        try:
            document = json.loads(file.read()) if file else None
            if not isinstance(document, dict):
                raise ApiError("the file is no snapshot: choose one that was saved here")
            query = {"shift": "true" if request.form.get("shift") else "false"}
            tasks = self._control.ask("loadSnapshot", query, document)["tasks"]
        except PullQueueError as error:
            return self._to(str(error), "server", is_error=True)
        except (ValueError, RecursionError):
            return self._to("The file is no JSON: nothing was changed.", "server", is_error=True)
        return self._to(f"Loaded {count_tasks(tasks)}.", "server")

    def _to(
        self,
        text: str,
        page: str,
        *,
        is_error: bool = False,
        form: Mapping[str, str] = MappingProxyType({}),
        **values: str,
    ) -> Response:
        """Redirect to a page that shows a text once, with the form that was refused."""
        key = self._notices.put(Notice(text, is_error, form))
        values["notice"] = key
        return redirect(url_for(f"console.{page}", _external=False, **values), 303)


def _task(form: dict[str, str]) -> Json:
    task: Json = {}
    field = "payload_base64" if form.get("format") == "base64" else "payload"
    # Forms send line ends as CR LF, whatever the page shows.
    task[field] = form.get("payload", "").replace("\r\n", "\n")
    for name in ("name", "tag"):
        if form.get(name):
            task[name] = form[name]
    if form.get("countdown"):
        task["countdown"] = _number(form["countdown"], "the delay", float)
    return task


def _fault(form: dict[str, str]) -> Json:
    fault: Json = {}
    for name in ("kind", *FIELDS.get(form.get("kind", ""), ()), *WHEN):
        text = form.get(name, "").strip()
        if text:
            fault[name] = text
            if name in _WHOLE:
                fault[name] = _number(text, name, int)
            elif name in _BROKEN:
                fault[name] = _number(text, name, float)
    return fault


def _number(text: str | None, what: str, kind: Callable[[str], _Number]) -> _Number:
    try:
        return kind(text or "")
    except ValueError:
        raise ApiError(f"{what} is {text!r:.60}: give a number") from None
