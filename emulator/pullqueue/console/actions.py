"""What the console's forms do. Each redirects to the page it was on, which shows the result."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from flask import request, url_for
from werkzeug.wrappers import Response

from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.console.control import Control
from pullqueue.console.formatting import instant
from pullqueue.console.forms import Form, FormError, Notice, Notices, back_to
from pullqueue.control.fault_schema import FIELDS, WHEN
from pullqueue.engine.validation import validated_tasks
from pullqueue.errors import PullQueueError
from pullqueue.limits import DAY_SECONDS, Limits
from pullqueue.tasks import NewTask, count_tasks, why_in_use

_UNITS = {"s": 1, "min": 60, "h": 3_600, "d": DAY_SECONDS}
_DONE = {"delete": "Deleted", "release": "Released", "requeue": "Requeued"}
_MOST_COPIES = 10_000
_BATCH = 100
_LEASE_SECONDS = 7 * DAY_SECONDS


class Actions:
    """One method for each form."""

    def __init__(self, control: Control, notices: Notices) -> None:
        self._control = control
        self._notices = notices

    def add(self, queue: str) -> Response:
        """Add a task, or many copies of it."""

        def add(form: Form) -> Notice:
            task, count = _task(form, self._control.limits)
            names: list[str] = []
            for start in range(0, count, _BATCH):
                body = {"tasks": [task] * min(_BATCH, count - start)}
                answer = self._control.ask("addTasks", body=body, queue=queue)
                for name, why in answer["refused"].items():
                    taken = why_in_use(existing=why == "exists")
                    raise FormError({"name": f"task {name} {taken}: choose another name"})
                names += [task["name"] for task in answer["tasks"]]
            if count > 1:
                return Notice(text=f"Added {count_tasks(count)}.")
            link = url_for("console.task", queue=queue, task=names[0])
            return Notice(text=f"Task {names[0]} was added.", link=link)

        return self._carry_out("add", add, page="queue", queue=queue)

    def lease(self, queue: str) -> Response:
        """Lease tasks, and show those that are leased."""

        def lease(form: Form) -> Notice:
            seconds = form.number("lease_seconds", float, least=0, most=_LEASE_SECONDS)
            order: Json = {
                "lease_seconds": 60 if seconds is None else seconds,
                "max_tasks": form.number("max_tasks", int, least=1, most=1_000) or 1,
            }
            form.check()
            if form.text("tag"):
                order |= {"tag": form.text("tag"), "group_by_tag": True}
            answer = self._control.ask("leaseTasks", body=order, queue=queue)
            tasks = answer["tasks"]
            if not tasks:
                limited = "too many lease calls in one second; try again"
                why = limited if answer["rate_limited"] else "none is available"
                return Notice(text=f"No task was leased: {why}.", is_error=answer["rate_limited"])
            are = "1 task is" if len(tasks) == 1 else f"{len(tasks)} tasks are"
            return Notice(text=f"{are} leased until {instant(tasks[0]['eta'])}.")

        return self._carry_out("lease", lease, page="queue", queue=queue)

    def release(self, queue: str, task: str) -> Response:
        """Release a task."""

        def release(_form: Form) -> Notice:
            self._control.ask("changeLease", body={"lease_seconds": 0}, queue=queue, task=task)
            return Notice(text=f"Task {task} was released.")

        return self._carry_out("release", release, page="task", queue=queue, task=task)

    def extend(self, queue: str, task: str) -> Response:
        """Change the end of a lease."""

        def extend(form: Form) -> Notice:
            seconds = form.number("lease_seconds", float, least=0, most=_LEASE_SECONDS)
            form.check()
            body = {"lease_seconds": 60 if seconds is None else seconds}
            changed = self._control.ask("changeLease", body=body, queue=queue, task=task)["task"]
            return Notice(text=f"The lease ends at {instant(changed['eta'])}.")

        return self._carry_out("extend", extend, page="task", queue=queue, task=task)

    def change(self) -> Response:
        """Delete, release or requeue the tasks that are selected, or all that match."""

        def change(form: Form) -> Notice:
            action = form.text("action")
            changed = 0
            failed: dict[str, str] = {}
            for queue, body in changes_of_form(self._control):
                answer = self._control.ask("changeTasks", body=body, queue=queue)
                changed += answer["changed"]
                failed |= answer["failed"]
            text = f"{_DONE.get(action, 'Changed')} {count_tasks(changed)}."
            if failed:
                name, why = next(iter(failed.items()))
                text += f" {count_tasks(len(failed))} could not be changed: {name}: {why}"
            return Notice(text=text, is_error=bool(failed))

        return self._carry_out("change", change, page="queues")

    def purge(self, queue: str) -> Response:
        """Delete all tasks of a queue."""

        def purge(_form: Form) -> Notice:
            deleted = self._control.ask("purgeQueue", queue=queue)["deleted"]
            return Notice(text=f"Deleted {count_tasks(deleted)}.")

        return self._carry_out("purge", purge, page="queue", queue=queue)

    def clear_requests(self) -> Response:
        """Delete the record of the requests."""

        def clear(_form: Form) -> Notice:
            deleted = self._control.ask("clearRequests")["deleted"]
            return Notice(text=f"Deleted {deleted} request{'' if deleted == 1 else 's'}.")

        return self._carry_out("clear", clear, page="requests")

    def set_fault(self) -> Response:
        """Set a fault."""

        def set_fault(form: Form) -> Notice:
            self._control.ask("setFault", body=_fault(form))
            return Notice(text="The fault is set.")

        return self._carry_out("fault", set_fault, page="faults")

    def remove_fault(self) -> Response:
        """Remove one fault, or all."""

        def remove(form: Form) -> Notice:
            number = form.text("number")
            if number == "all":
                self._control.ask("clearFaults")
                return Notice(text="All faults are removed.")
            self._control.ask("removeFault", number=number)
            return Notice(text=f"Fault {number} is removed.")

        return self._carry_out("remove", remove, page="faults")

    def move_clock(self) -> Response:
        """Move the clock by a time span, or to a time."""

        def move(form: Form) -> Notice:
            order: Json
            if text := form.text("move_to"):
                order = {"move_to": text if "+" in text or text.endswith("Z") else f"{text}Z"}
            else:
                count = form.number("count", float, least=0, most=1e9)
                form.check()
                order = {"advance": (count or 0) * _UNITS.get(form.text("unit"), 1)}
            now = self._control.ask("moveClock", body=order)["now"]
            return Notice(text=f"It is {instant(now)} now.")

        return self._carry_out("clock", move, page="clock")

    def reload(self) -> Response:
        """Reload queue.yaml."""

        def reload(_form: Form) -> Notice:
            changes = self._control.ask("reloadConfig")
            verbs = (("added", "added"), ("changed", "changed"), ("disabled", "removed"))
            parts = [f"{verb} {', '.join(changes[key])}" for verb, key in verbs if changes[key]]
            return Notice(text=f"queue.yaml is applied: {'; '.join(parts) or 'no change'}.")

        return self._carry_out("reload", reload, page="server", failed="Nothing was changed: ")

    def reset(self) -> Response:
        """Delete everything but configuration and clock."""

        def reset(_form: Form) -> Notice:
            self._control.ask("reset")
            return Notice(text="Everything is deleted.")

        return self._carry_out("reset", reset, page="server")

    def load_snapshot(self) -> Response:
        """Replace the contents of all queues with those of a file."""

        def load(form: Form) -> Notice:
            file = request.files.get("file")
            try:
                document = json.loads(file.read()) if file else None
            except (ValueError, RecursionError):
                raise ApiError("The file is not JSON: nothing was changed.") from None
            if not isinstance(document, dict):
                raise ApiError("the file is not a snapshot: choose one that was saved here")
            query = {"shift": "true" if form.text("shift") else "false"}
            tasks = self._control.ask("loadSnapshot", query, document)["tasks"]
            return Notice(text=f"Loaded {count_tasks(tasks)}.")

        return self._carry_out("snapshot", load, page="server")

    def _carry_out(
        self,
        name: str,
        action: Callable[[Form], Notice],
        *,
        page: str,
        failed: str = "",
        **values: str,
    ) -> Response:
        """Carry out a form and redirect to a page with the result, or with what is wrong."""
        form = Form(name)
        try:
            notice = action(form)
        except FormError as error:
            count = len(error.errors)
            text = next(iter(error.errors.values())) if count == 1 else f"{count} fields are wrong."
            notice = _refused(text, form, error.errors)
        except PullQueueError as error:
            notice = _refused(f"{failed}{error}", form, {})
        return back_to(
            url_for(f"console.{page}", _external=False, **values), self._notices.put(notice)
        )


def changes_of_form(control: Control) -> list[tuple[str, Json]]:
    """Return, for each queue, the change of its selected tasks, or of all that match a filter.

    Raises:
        FormError: nothing is selected.
    """
    form = request.form
    change: Json = {"action": form.get("action", "")}
    if form.get("all"):
        fields: Json = {name: form[name] for name in ("state", "tag", "search") if form.get(name)}
        fields = fields or {"all": True}
        names = [form["queue"]] if form.get("queue") else []
        if not names:
            queues = control.ask("listQueues")["queues"]
            names = [queue["name"] for queue in queues if queue["mode"] == "pull"]
        return [(queue, {**change, **fields}) for queue in names]
    selected: dict[str, list[str]] = defaultdict(list)
    for value in form.getlist("task"):
        queue, _, name = value.partition("/")
        selected[queue].append(name)
    if not selected:
        raise FormError({"": "No task is selected: select some, or all that match."})
    state = {"state": "exhausted"} if form.get("state") == "exhausted" else {}
    return [(queue, {**change, **state, "tasks": names}) for queue, names in selected.items()]


def _refused(text: str, form: Form, errors: object) -> Notice:
    values = {name: value for name, value in form.values.items() if name != "pullqueue_token"}
    found = errors if isinstance(errors, dict) else {}
    return Notice(text=text, is_error=True, form=form.name, values=values, errors=found)


def _task(form: Form, limits: Limits) -> tuple[Json, int]:
    """Return the task of a form, as it is added, and how many.

    Raises:
        FormError: fields are not valid.
    """
    file = request.files.get("file")
    # Forms send line ends as CR LF, whatever the page shows.
    payload = form.values.get("payload", "").replace("\r\n", "\n").encode()
    if file and file.filename:
        payload = file.read()
    elif form.text("format") == "base64":
        try:
            payload = b64decode(payload, validate=True)
        except ValueError:
            form.errors["payload"] = "not valid base64: use letters, digits, + and /, and = to pad"
    name, tag = form.text("name"), form.text("tag")
    count = form.number("count", int, least=1, most=_MOST_COPIES) or 1
    seconds = form.number("countdown", float, least=0, most=limits.eta_seconds_ahead)
    for what, new in (
        ("payload", NewTask(payload)),
        ("name", NewTask(name=name or None)),
        ("tag", NewTask(tag=tag or None)),
    ):
        form.attempt(what, partial(validated_tasks, [new], limits, lambda: 0))
    if name and count > 1:
        form.errors.setdefault("name", "only one task can have this name: remove it, or the count")
    if form.text("eta") and form.text("countdown"):
        form.errors.setdefault("eta", "enter either an ETA or a delay")
    task: Json = {"payload_base64": b64encode(payload).decode()}
    if form.text("eta"):
        try:
            time = datetime.fromisoformat(form.text("eta"))
            task["eta"] = (time if time.tzinfo else time.replace(tzinfo=UTC)).isoformat()
        except ValueError:
            form.errors["eta"] = "not a valid time: use one such as 2026-01-01T00:00:00"
    form.check()
    fields = {"name": name, "tag": tag, "countdown": seconds}
    return task | {name: value for name, value in fields.items() if value not in ("", None)}, count


def _fault(form: Form) -> Json:
    fault: Json = {}
    for name in ("kind", *FIELDS.get(form.text("kind"), ()), *WHEN):
        fault[name] = form.text(name)
    for name, least in (("times", 1), ("after", 0), ("every", 1), ("seed", 0)):
        fault[name] = form.number(name, int, least=least, most=10**9)
    for name, most in (("probability", 1), ("seconds", 1e9)):
        if name in fault:
            fault[name] = form.number(name, float, least=0, most=most)
    form.check()
    return {name: value for name, value in fault.items() if value not in ("", None)}
