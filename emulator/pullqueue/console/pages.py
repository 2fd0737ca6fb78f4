"""The console's pages."""

from __future__ import annotations

import json
import logging
import shlex
from base64 import b64decode
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from flask import Response, render_template, request, url_for
from werkzeug.exceptions import HTTPException

from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.console.actions import changes_of_form
from pullqueue.console.charts import RANGES, chart_of
from pullqueue.console.control import Control
from pullqueue.console.formatting import views_of
from pullqueue.console.forms import FormError, Notice, Notices
from pullqueue.control.fault_registry import ERRORS
from pullqueue.control.fault_schema import FIELDS, KINDS, WHEN
from pullqueue.control.state import TOKEN_FIELD
from pullqueue.engine.events import EventKind
from pullqueue.engine.interceptors import VERBS
from pullqueue.error_codes import codes_of
from pullqueue.errors import PullQueueError, UnknownTaskError
from pullqueue.tasks import count_tasks

_STATES = ("available", "leased", "scheduled", "exhausted")
_PAGE_SIZE = "100"
_PAGE_SIZES = ("25", "100", "500")
_TASK_QUERY = ("state", "tag", "search", "sort", "limit")
_TASK_COLUMNS = {
    "name": "Name",
    "": "Payload",
    "eta": "ETA",
    "tag": "Tag",
    "leases": "Leases",
    "size": "Size",
}
"""What tasks can be sorted by, and the heads of their columns."""
_QUEUE_COLUMNS = {
    "name": "Queue",
    "tasks": "Tasks",
    "available": "Available",
    "leased": "Leased",
    "scheduled": "Scheduled",
    "exhausted": "Exhausted",
    "oldest_age_seconds": "Oldest due",
    "leased_last_minute": "Leased in 1 min",
}
"""The same of queues."""
_TOTALS = ("tasks", "available", "leased", "scheduled", "exhausted")
_STALE_SECONDS = 600
"""A task that has been due for longer is marked."""
_CONFIRMED = 10
"""How many of the tasks to delete are listed in the question."""

_log = logging.getLogger("pullqueue.console")


class _Gone(NamedTuple):
    """What is known of a task that is not there any more."""

    text: str
    is_exhausted: bool = False
    task: Json | None = None
    """As it was at its end."""


class Pages:
    """One method for each page."""

    def __init__(self, control: Control, notices: Notices) -> None:
        self._control = control
        self._notices = notices

    def queues(self) -> Response:
        """All queues."""
        queues = self._control.ask("listQueues")["queues"]
        depths = self._control.ask("listDepths")["depths"]
        chosen = _chosen("search", "sort", "order")
        key = chosen["sort"] if chosen["sort"] in _QUEUE_COLUMNS else ""
        found = [queue for queue in queues if chosen["search"].lower() in queue["name"].lower()]
        if key:
            found.sort(
                key=lambda queue: (queue[key] is not None, queue[key]),
                reverse=chosen["order"] == "desc",
            )
        return self._page(
            "queues",
            queues=found,
            totals={name: sum(queue[name] for queue in queues) for name in _TOTALS},
            oldest=max((queue["oldest_age_seconds"] or 0 for queue in queues), default=0) or None,
            stale_seconds=_STALE_SECONDS,
            columns=_QUEUE_COLUMNS,
            charts={name: chart_of(series, "60") for name, series in depths.items()},
            chosen=chosen,
            query={name: text for name, text in chosen.items() if text},
        )

    def queue(self, queue: str) -> Response:
        """One queue and its tasks."""
        shown = self._control.ask("getQueue", queue=queue)["queue"]
        chosen = _chosen("state", "tag", "search", "sort", "order", "range")
        chosen["limit"] = request.args.get("limit") or _PAGE_SIZE
        query = {name: text for name, text in chosen.items() if text}
        listed: Json = {"tasks": [], "total": 0}
        depths = None
        start = _start()
        if shown["mode"] == "pull":
            asked = {name: query[name] for name in _TASK_QUERY if name in query}
            asked |= {"offset": str(start)}
            if chosen["order"]:
                asked["descending"] = "true" if chosen["order"] == "desc" else "false"
            listed = self._control.ask("listTasks", asked, queue=queue)
            depths = self._control.ask("listDepths")["depths"].get(queue)
        return self._page(
            "queue",
            queue=shown,
            chart=chart_of(depths, chosen["range"]) if depths else None,
            ranges=RANGES,
            columns=_TASK_COLUMNS,
            tasks=listed["tasks"],
            paging=_paging(start, listed, int(chosen["limit"])),
            stale_seconds=_STALE_SECONDS,
            chosen=chosen,
            query=query,
            states=_STATES,
            page_sizes=sorted({*_PAGE_SIZES, chosen["limit"]}, key=int),
        )

    def task(self, queue: str, task: str) -> Response:
        """One task and its history; if it is gone, what is recorded of it."""
        events = self._control.ask("getHistory", queue=queue, task=task)["events"]
        found: Json | None = None
        gone: _Gone | None = None
        try:
            found = self._control.ask("getTask", queue=queue, task=task)["task"]
        except PullQueueError as error:
            gone = self._gone(queue, task, events, error)
        shown = gone.task if gone else found
        views = views_of(shown["payload"]) if shown else {}
        view = request.args.get("view", "")
        return self._page(
            "task",
            queue=self._control.ask("getQueue", queue=queue)["queue"],
            name=task,
            task=found,
            shown=shown,
            gone=gone,
            stored=_api_path(queue, task),
            events=events,
            views=views,
            view=view if view in views else next(iter(views), ""),
        )

    def payload(self, queue: str, task: str) -> Response:
        """A task's payload as a file, which no browser shows as a page."""
        found = self._control.ask("getTask", queue=queue, task=task)["task"]
        return _download(b64decode(found["payload"]["base64"]), quote(task))

    def exhausted(self) -> Response:
        """The tasks that used up their leases."""
        chosen = _chosen("queue", "tag", "search")
        query = {name: text for name, text in chosen.items() if text}
        start = _start()
        listed = self._control.ask("listExhausted", {**query, "offset": str(start)})
        return self._page(
            "exhausted",
            tasks=listed["tasks"],
            paging=_paging(start, listed, int(_PAGE_SIZE)),
            queues=self._pull_queues(),
            chosen=chosen,
            query=query,
        )

    def download_exhausted(self) -> Response:
        """The exhausted tasks that match, as lines that `pullqueue seed` reads."""
        chosen = _chosen("queue", "tag", "search")
        query = {name: text for name, text in chosen.items() if text}
        lines: list[str] = []
        while True:
            page = {**query, "payload": "full", "limit": "1000", "offset": str(len(lines))}
            tasks = self._control.ask("listExhausted", page)["tasks"]
            lines += map(_seed_line, tasks)
            if len(tasks) < 1_000:
                break
        return _download("".join(lines).encode(), "exhausted.jsonl")

    def requests(self) -> Response:
        """The latest requests to the API."""
        before = request.args.get("before", "")
        chosen = _chosen("queue", "status", "search")
        query = {name: text for name, text in chosen.items() if text}
        asked = {"limit": "50", **query, **({"before": before} if before else {})}
        listed = self._control.ask("listRequests", asked)
        return self._page(
            "requests",
            requests=listed["requests"],
            following=listed["next"],
            is_first=not before,
            queues=sorted({*self._pull_queues(), *filter(None, [chosen["queue"]])}),
            statuses=("failed", "2xx", "4xx", "5xx"),
            chosen=chosen,
            query=query,
        )

    def request(self, number: str) -> Response:
        """One request, what was sent and what was answered."""
        found = self._control.ask("getRequest", number=number)["request"]
        shown = {part: next(iter(views_of(found[part]).values())) for part in ("body", "answer")}
        return self._page("request", logged=found, shown=shown, curl=_curl(found))

    def faults(self) -> Response:
        """The faults that are set, and a form for another."""
        return self._page(
            "faults",
            faults=self._control.ask("listFaults")["faults"],
            kinds=KINDS,
            fields=FIELDS,
            when=WHEN,
            calls=VERBS,
            errors_of_calls=list(ERRORS),
            queues=self._pull_queues(),
        )

    def clock(self) -> Response:
        """The clock."""
        return self._page("clock")

    def server(self) -> Response:
        """Configuration, limits, snapshots."""
        return self._page("server", version=self._control.ask("getVersion"))

    def confirm_purge(self, queue: str) -> Response:
        """Ask before a queue is purged."""
        tasks = self._control.ask("getQueue", queue=queue)["queue"]["tasks"]
        return self._page(
            "confirm",
            title=f"Purge {queue}?",
            text=f"This deletes {count_tasks(tasks)}: all of the queue, leased ones included.",
            verb="Purge",
            action=url_for("console.do_purge", queue=queue),
            back=url_for("console.queue", queue=queue),
        )

    def confirm_delete(self, queue: str, task: str) -> Response:
        """Ask before a task is deleted."""
        found = self._control.ask("getTask", queue=queue, task=task)["task"]
        return self._page(
            "confirm",
            title=f"Delete {task}?",
            text="Its name stays reserved for a while, as on App Engine.",
            verb="Delete",
            action=url_for("console.do_change"),
            back=request.args.get("back") or url_for("console.queue", queue=queue),
            hidden=[("action", "delete"), ("task", f"{queue}/{task}")],
            tasks=[found],
        )

    def confirm_change(self) -> Response:
        """Ask before the selected tasks, or all that match, are deleted."""
        changes = changes_of_form(self._control)
        count, shown = 0, []
        for queue, change in changes:
            names = change.get("tasks")
            fields: dict[str, str] = {
                name: change[name] for name in ("state", "tag", "search") if name in change
            }
            if names is None:
                listed = self._control.ask("listTasks", {**fields, "offset": "0"}, queue=queue)
                count += listed["total"]
                shown += listed["tasks"]
            else:
                count += len(names)
                shown += [{"name": name, "queue": queue} for name in names]
        return self._page(
            "confirm",
            title=f"Delete {count_tasks(count)}?",
            text="Their names stay reserved for a while, as on App Engine.",
            verb="Delete",
            action=url_for("console.do_change"),
            back=request.form.get("back") or url_for("console.queues"),
            hidden=[
                (name, value)
                for name, value in request.form.items(multi=True)
                if name not in (TOKEN_FIELD, "back")
            ],
            tasks=shown[:_CONFIRMED],
            more=max(0, count - _CONFIRMED),
        )

    def confirm_reset(self) -> Response:
        """Ask before everything is deleted."""
        return self._page(
            "confirm",
            title="Reset the emulator?",
            text="Tasks, names, history, requests and faults of all queues are deleted. "
            "Configuration and clock are not changed.",
            verb="Reset",
            action=url_for("console.do_reset"),
            back=url_for("console.server"),
        )

    def missing(self, path: str) -> Response:
        """Say that there is no such page."""
        return self._page("refusal", text=f"there is no page {path!r:.100}", status=404)

    def refusal(self, error: Exception) -> Response | HTTPException:
        """Say why something cannot be shown."""
        if isinstance(error, HTTPException) and (error.code or 500) < 400:
            return error
        status = 500
        text = "the console has a bug; the server's log has the details"
        if isinstance(error, HTTPException):
            status, text = error.code or 500, error.description or error.name
        elif isinstance(error, FormError):
            status, text = 400, str(error)
        elif isinstance(error, ApiError):
            status, text = error.status, str(error)
        elif isinstance(error, PullQueueError):
            status, text = codes_of(error).http_status, str(error)
        else:
            _log.error("a page failed because of a bug in the console", exc_info=error)
        surroundings = self._control.surroundings()
        return self._rendered("refusal", text=text, status=status, **surroundings)

    def _gone(self, queue: str, name: str, events: list[Json], error: PullQueueError) -> _Gone:
        """Say what became of a task; a name that nothing is known of is refused."""
        kind = events[-1]["kind"] if events else None
        exhausted: Json | None = None
        if kind in (None, EventKind.EXHAUSTED.value):
            listed = self._control.ask(
                "listQueueExhausted",
                {"search": name, "payload": "full", "limit": "1000"},
                queue=queue,
            )
            exhausted = next((task for task in listed["tasks"] if task["name"] == name), None)
        if kind is None and exhausted is None and isinstance(error, UnknownTaskError):
            raise error
        if kind == EventKind.EXHAUSTED.value or exhausted:
            leases = (exhausted or events[-1])["retry_count"]
            many = "1 lease" if leases == 1 else f"{leases} leases"
            return _Gone(
                f"Task {name} is exhausted after {many}.", is_exhausted=True, task=exhausted
            )
        if kind == EventKind.DELETED.value:
            return _Gone(f"Task {name} was deleted.")
        return _Gone(f"{error}.")

    def _pull_queues(self) -> list[str]:
        queues = self._control.ask("listQueues")["queues"]
        return [queue["name"] for queue in queues if queue["mode"] == "pull"]

    def _page(self, template: str, /, *, status: int = 200, **values: Any) -> Response:  # noqa: ANN401 - for the template
        config, clock = self._control.ask("getConfig"), self._control.ask("getClock")
        return self._rendered(template, status=status, config=config, clock=clock, **values)

    def _rendered(self, template: str, /, *, status: int, **values: Any) -> Response:  # noqa: ANN401 - for the template
        notice = self._notices.take(request.args.get("notice"))
        html = render_template(
            f"console/{template}.html",
            notice=notice,
            form=notice or Notice(text=""),
            here=_here(),
            token=self._control.token,
            token_field=TOKEN_FIELD,
            page=template,
            status=status,
            **values,
        )
        return Response(html, status, content_type="text/html; charset=utf-8")


def _chosen(*names: str) -> dict[str, str]:
    """Return parameters of the page; "" where they are missing."""
    return {name: request.args.get(name, "") for name in names}


def _start() -> int:
    text = request.args.get("offset", "0")
    if not (text.isdecimal() and len(text) < 10):
        raise ApiError.parameter(f"offset is {text!r:.60}: use a number from 0", "offset")
    return int(text)


def _paging(start: int, listed: Json, size: int) -> dict[str, int | None]:
    """Return the numbers of the first and last task shown, of all, and where pages begin."""
    end = start + len(listed["tasks"])
    return {
        "first": start + 1,
        "last": end,
        "total": listed["total"],
        "previous": max(0, start - size) if start else None,
        "next": end if end < listed["total"] else None,
    }


def _here() -> str:
    """Return the address of this page, without the notice, for forms to come back to."""
    kept = {name: value for name, value in request.args.items() if name != "notice"}
    return f"{request.path}?{urlencode(kept)}" if kept else request.path


def _api_path(queue: str, task: str) -> str:
    return f"{request.host_url}_emulator/queues/{quote(queue)}/tasks/{quote(task)}"


def _curl(logged: Json) -> str:
    """Return a command that sends a request again; empty where curl cannot, or not all is known."""
    body = logged["body"]
    if logged["interface"] != "REST" or ("json" not in views_of(body) and body["bytes"]):
        return ""
    query = f"?{logged['query']}" if logged["query"] else ""
    parts = ["curl", "-X", logged["verb"], f"{request.host_url.rstrip('/')}{logged['path']}{query}"]
    if body["bytes"]:
        parts += ["-H", "Content-Type: application/json", "-d", body["text"]]
    return shlex.join(parts)


def _download(data: bytes, name: str) -> Response:
    response = Response(data, content_type="application/octet-stream")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _seed_line(task: Json) -> str:
    """Return an exhausted task as a line of a file for `pullqueue seed`."""
    line = {"queue": task["queue"], "payload_base64": task["payload"]["base64"]}
    if task["payload"]["text"] is not None:
        line = {"queue": task["queue"], "payload": task["payload"]["text"]}
    if task["tag"] is not None:
        line["tag"] = task["tag"]
    return f"{json.dumps(line)}\n"
