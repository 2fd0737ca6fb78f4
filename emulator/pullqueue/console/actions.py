"""What the console's forms do: each method takes a form and returns the text to show."""

from __future__ import annotations

import json
from base64 import b64decode
from collections import defaultdict
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from flask import request, url_for
from msgspec import Meta

from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.console.addresses import QUEUE, TASK, action
from pullqueue.console.formatting import instant
from pullqueue.console.forms import Form, FormError, Notice, Unfinished
from pullqueue.engine.validation import check_new_tasks
from pullqueue.errors import PullQueueError
from pullqueue.faults.declaration import KINDS, WHEN
from pullqueue.limits import Limits
from pullqueue.resources import service
from pullqueue.resources.clock import ClockMove, ClockStep, move_clock
from pullqueue.resources.cron import NewCronRun, run_cron_job
from pullqueue.resources.history import clear_requests
from pullqueue.resources.models import EXHAUSTED, ChangedTask, LeaseChange, LeaseRequest, NewTasks
from pullqueue.resources.operations import parse_body, parse_query
from pullqueue.resources.overview import get_summary
from pullqueue.resources.push import run_task
from pullqueue.resources.queues import (
    MAX_FAILED,
    Change,
    add_tasks,
    change_lease,
    change_tasks,
    lease_tasks,
    pause_queue,
    purge_queue,
    requeue_task,
    resume_queue,
)
from pullqueue.resources.snapshot_diff import compare_snapshots, read_snapshot
from pullqueue.resources.snapshots import Snapshot, SnapshotQuery, load_snapshot, save_snapshot
from pullqueue.resources.task_lists import TaskFilter
from pullqueue.runtime.fault_registry import NewFault
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Model
from pullqueue.tasks import NewTask, count_tasks, tasks_are, why_in_use
from pullqueue.text import SECONDS_PER_UNIT, counted, shorten

_DONE = {"delete": "Deleted", "release": "Released", "requeue": "Requeued"}
_CALL_SECONDS = 1.0
"""How long a call delivers: then the page shows how far it is, and *Stop* ends it."""
_BATCH = 100
_COMPARED = 20
"""Maximum number of tasks that are named in a line when a snapshot is compared."""


class _Numbers(Model):
    """Numbers of forms that are converted before they are passed to an operation."""

    count: Annotated[int, Meta(ge=1, le=10_000)] = 1
    countdown: float = 0
    by: float = 0


class Actions:
    """One method for each form."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._limits = state.emulator.limits

    @action(f"{QUEUE}/add")
    def add(self, form: Form, queue: str) -> Notice | str:
        """Add a task, or many copies of it."""
        task, count = _task(form, self._limits)
        for start in range(0, count, _BATCH):
            body = parse_body({"tasks": [task] * min(_BATCH, count - start)}, NewTasks)
            try:
                answer = add_tasks(self._state, queue, body)
            except PullQueueError as error:
                if not start:
                    raise
                raise ApiError(
                    f"Only {start} of {count_tasks(count)} were added: {error}"
                ) from None
            for name, why in answer.refused.items():
                problem = why_in_use(existing=why == "exists")
                raise FormError({"name": f"task {name} {problem}: choose another name"})
        if count > 1:
            return f"Added {count_tasks(count)}."
        name = answer.tasks[0].name
        link = url_for("console.task", queue=queue, task=name)
        return Notice(text=f"Task {name} was added.", link=link)

    @action(f"{QUEUE}/lease")
    def lease(self, form: Form, queue: str) -> Notice | str:
        """Lease tasks."""
        body = parse_body(form.given("lease_seconds", "max_tasks", "tag"), LeaseRequest)
        answer = lease_tasks(self._state, queue, body)
        tasks = answer.tasks
        if tasks:
            return f"{tasks_are(len(tasks))} leased until {instant(tasks[0].eta)}."
        if answer.rate_limited:
            text = "No task was leased: too many lease calls in one second; try again."
            return Notice(text=text, is_error=True)
        return "No task was leased: none is available."

    @action(f"{TASK}/release")
    def release(self, _form: Form, queue: str, task: str) -> str:
        """Release a task."""
        changed = change_lease(self._state, queue, task, LeaseChange(lease_seconds=0))
        if changed.state == EXHAUSTED:
            return f"Task {task} was released, and is exhausted: that was its last lease."
        return f"Task {task} was released."

    @action(f"{TASK}/requeue")
    def requeue(self, form: Form, queue: str, task: str) -> str:
        """Add an exhausted task again, as the form has it."""
        errors: dict[str, str] = {}
        changes: Json = {}
        file = request.files.get("file")
        if "payload" in form.values or (file and file.filename):
            changes["payload_base64"] = _payload(form, errors)
        if form.text("url"):
            changes["request"] = form.given("url", "method", "target")
            changes["request"]["headers"] = _headers(form, errors)
        if errors:
            raise FormError(errors)
        requeue_task(self._state, queue, task, parse_body(changes, ChangedTask))
        return f"Task {task} was requeued."

    @action(f"{TASK}/run")
    def run(self, _form: Form, queue: str, task: str) -> Notice:
        """Start an attempt of a push task."""
        started = run_task(self._state, queue, task).started
        text = f"An attempt of task {task} was started."
        if not started:
            text = f"An attempt of task {task} is running already."
        return Notice(text=text, link=url_for("console.task", queue=queue, task=task))

    @action(f"{TASK}/extend")
    def extend(self, form: Form, queue: str, task: str) -> str:
        """Change the end of a lease."""
        body = parse_body(form.given("lease_seconds"), LeaseChange)
        changed = change_lease(self._state, queue, task, body)
        return f"The lease ends at {instant(changed.eta)}."

    @action("/change")
    def change(self, form: Form) -> Notice:
        """Delete, release or requeue the tasks that are selected, or all that match."""
        changed = 0
        failed: dict[str, str] = {}
        errors: list[PullQueueError] = []
        for queue, body in changes_of_form(self._state, form.text("action")):
            try:
                answer = change_tasks(self._state, queue, body)
            except PullQueueError as error:
                errors.append(error)
                continue
            changed += answer.changed
            failed |= answer.failed
        if errors and not changed:
            raise errors[0]
        text = f"{_DONE[form.text('action')]} {count_tasks(changed)}."
        if errors:
            text += f" Others could not be changed: {errors[0]}."
        if failed:
            name, why = next(iter(failed.items()))
            count = count_tasks(len(failed))
            least = "At least " if len(failed) >= MAX_FAILED else ""
            text += f" {least}{count} could not be changed, such as {name}: {why}"
        return Notice(text=text, is_error=bool(failed or errors))

    @action(f"{QUEUE}/pause")
    def pause(self, _form: Form, queue: str) -> str:
        """Pause a queue."""
        pause_queue(self._state, queue)
        return f"Queue {queue} is paused."

    @action(f"{QUEUE}/resume")
    def resume(self, _form: Form, queue: str) -> str:
        """Resume a queue."""
        resume_queue(self._state, queue)
        return f"Queue {queue} is resumed."

    @action(f"{QUEUE}/purge")
    def purge(self, _form: Form, queue: str) -> str:
        """Delete all tasks of a queue."""
        return f"Deleted {count_tasks(purge_queue(self._state, queue))}."

    @action("/requests/clear")
    def clear_requests(self, _form: Form) -> str:
        """Delete the record of the requests."""
        deleted = clear_requests(self._state)
        return f"Deleted {counted(deleted, 'request')}."

    @action("/faults")
    def set_fault(self, form: Form) -> str:
        """Set a fault."""
        kind = KINDS.get(form.text("kind"))
        body = form.given("kind", *(kind.options if kind else ()), *WHEN)
        if "queues" in body:
            body["queues"] = body["queues"].split()
        service.set_fault(self._state, parse_body(body, NewFault))
        return "The fault is set."

    @action("/faults/remove")
    def remove_fault(self, form: Form) -> str:
        """Remove one fault, or all."""
        number = form.text("number")
        if number == "all":
            service.clear_faults(self._state)
            return "All faults are removed."
        service.remove_fault(self._state, number)
        return f"Fault {number} is removed."

    @action("/clock")
    def move_clock(self, form: Form) -> Notice:
        """Move the clock forward by a time span, or to a time."""
        body = ClockMove(deliver=bool(form.text("deliver")), seconds=_CALL_SECONDS)
        if target := form.text("move_to"):
            body.move_to = _in_utc(target)
        else:
            by = parse_query(form.given("by"), _Numbers).by
            body.advance = by * SECONDS_PER_UNIT.get(form.text("unit"), 1)
        moved = move_clock(self._state, body)
        details = [_step_text(step) for step in moved.steps] or ["No task was affected."]
        text = f"It is {instant(moved.now)} now."
        if moved.reached:
            return Notice(text=text, details=details)
        start, now, end = map(datetime.fromisoformat, (moved.start, moved.now, moved.target))
        move = Unfinished(
            target=moved.target,
            passed=(now - start).total_seconds(),
            span=(end - start).total_seconds(),
        )
        text += f" The delivery until {instant(moved.target)} is not finished."
        return Notice(text=text, details=details, move=move)

    @action("/cron")
    def run_cron(self, form: Form) -> str:
        """Run a cron job now."""
        job = form.text("job")
        started = run_cron_job(self._state, NewCronRun(job=job)).started
        return f"Job {job} is started." if started else f"Job {job} is running already."

    @action("/server/reload")
    def reload(self, _form: Form) -> str:
        """Reload queue.yaml."""
        try:
            changes = service.reload_config(self._state)
        except PullQueueError as error:
            raise ApiError(f"Nothing was changed: {error}") from None
        return f"queue.yaml is applied: {changes}."

    @action("/server/reset")
    def reset(self, form: Form) -> str:
        """Delete everything but queue.yaml and clock."""
        service.reset(self._state, service.ResetRequest(keep_queues=bool(form.text("keep_queues"))))
        return "Everything is deleted."

    @action("/server/snapshot")
    def load_snapshot(self, form: Form) -> str:
        """Replace the contents of all queues with those of a file."""
        query = SnapshotQuery(shift=bool(form.text("shift")))
        try:
            snapshot = parse_body(request.files["file"].read(), Snapshot)
            loaded = load_snapshot(self._state, query, snapshot)
        except PullQueueError as error:
            raise ApiError(f"The file was not loaded, nothing was changed: {error}") from None
        warning = f" Warning: {loaded.warning}." if loaded.warning else ""
        exhausted = f" and {loaded.exhausted} exhausted" if loaded.exhausted else ""
        return f"Loaded {count_tasks(loaded.tasks)}{exhausted}.{warning}"

    @action("/server/snapshot/compare")
    def compare_snapshot(self, _form: Form) -> Notice:
        """Compare the snapshot of a file with the running server."""
        file = request.files["file"]
        name = shorten(file.filename or "")
        before = read_snapshot(file.read(), name)
        now = read_snapshot(msgspec.json.encode(save_snapshot(self._state)), "")
        lines = [
            f"{each.queue}: {count_tasks(len(each.tasks))} {each.change}: {each.names(_COMPARED)}"
            for each in compare_snapshots(before, now)
        ]
        text = f"What differs from {name}:"
        return Notice(text=text if lines else f"No task differs from {name}.", details=lines)


def _step_text(step: ClockStep) -> str:
    parts = [
        (step.expired, f"{counted(step.expired, 'lease')} expired"),
        (step.due, f"{step.due} became due"),
        (step.delivered, f"{count_tasks(step.delivered)} delivered"),
        (step.failed, f"{counted(step.failed, 'attempt')} failed"),
        (step.exhausted, f"{count_tasks(step.exhausted)} exhausted"),
        (step.sending, f"{tasks_are(step.sending)} sent now"),
    ]
    shown = ", ".join(text for count, text in parts if count)
    return f"{step.queue}: {'; '.join(filter(None, [shown, step.text]))}"


def changes_of_form(state: ServerState, action: str) -> list[tuple[str, Change]]:
    """Return, for each queue, the change of its selected tasks, or of all that match a filter.

    Raises:
        FormError: nothing is selected.
    """
    form = request.values
    change: Json = {"action": action}
    if form.get("all"):
        fields: Json = {
            name: form[name] for name in ("state", *TaskFilter.__struct_fields__) if form.get(name)
        }
        if action == "release":
            fields.setdefault("state", "leased")
        queues = [form["queue"]] if form.get("queue") else get_summary(state).exhausted
        body = parse_body(change | (fields or {"all": True}), Change)
        return [(queue, body) for queue in queues]
    selected: dict[str, list[str]] = defaultdict(list)
    for value in form.getlist("task"):
        queue, _, name = value.partition("/")
        selected[queue].append(name)
    if not selected:
        raise FormError({"": "No task is selected: select some, or all that match."})
    if form.get("state") == "exhausted":
        change["state"] = "exhausted"
    return [
        (queue, parse_body(change | {"tasks": names}, Change)) for queue, names in selected.items()
    ]


def _in_utc(text: str) -> str:
    """Return a time, in UTC if it has no time zone; other text unchanged."""
    with suppress(ValueError):
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).isoformat()
    return text


def _task(form: Form, limits: Limits) -> tuple[Json, int]:
    """Return the task of a form, as `addTasks` takes it, and the number of copies.

    Raises:
        FormError: fields are not valid.
    """
    errors: dict[str, str] = {}
    payload, headers = _payload(form, errors), _headers(form, errors)
    for field in ("count", "countdown"):
        try:
            parse_query(form.given(field), _Numbers)
        except ApiError as error:
            errors[field] = str(error)
    try:
        check_new_tasks([NewTask(name=form.text("name") or None)], limits, lambda: 0)
    except PullQueueError as error:
        errors["name"] = str(error)
    eta = form.text("eta")
    if eta and form.text("countdown"):
        errors["eta"] = "enter either an ETA or a delay"
    if errors:
        raise FormError(errors)
    task = form.given("name", "tag", "countdown")
    task["payload_base64"] = payload
    if form.text("url"):
        task["request"] = form.given("url", "method", "target") | {"headers": headers}
    if eta:
        task["eta"] = _in_utc(eta)
    return task, parse_query(form.given("count"), _Numbers).count


def _payload(form: Form, errors: dict[str, str]) -> bytes:
    """Return the payload of a form: the file, or the text; add its error if it is not valid."""
    file = request.files.get("file")
    if file and file.filename:
        content: bytes = file.read()
        return content
    # Browsers send line ends as CR LF.
    payload = form.values.get("payload", "").replace("\r\n", "\n").encode()
    if form.text("format") == "json":
        try:
            json.loads(payload)
        except (ValueError, RecursionError) as error:
            errors["payload"] = f"not valid JSON ({error}): correct it, or choose text"
    elif form.text("format") == "base64":
        try:
            return b64decode(payload, validate=True)
        except ValueError:
            errors["payload"] = "not valid base64: use letters, digits, + and /, and = to pad"
    return payload


def _headers(form: Form, errors: dict[str, str]) -> list[tuple[str, str]]:
    """Return the headers of a form, one on each line; add the error of one that is not valid."""
    headers = []
    for line in form.text("headers").splitlines():
        name, colon, value = line.partition(":")
        if not colon:
            errors["headers"] = f'"{line}" is not a header: write a name, a colon and a value'
        headers.append((name.strip(), value.strip()))
    return headers
