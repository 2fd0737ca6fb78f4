"""The console's pages."""

from __future__ import annotations

import logging
from base64 import b64decode
from typing import Any, NamedTuple
from urllib.parse import quote

from flask import Response, render_template, request, url_for
from werkzeug.exceptions import HTTPException

from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.console.charts import chart_of
from pullqueue.console.control import Control
from pullqueue.console.formatting import views_of
from pullqueue.console.notices import Notices
from pullqueue.control.fault_registry import ERRORS
from pullqueue.control.fault_schema import KINDS, WHEN
from pullqueue.control.state import TOKEN_FIELD
from pullqueue.engine.events import EventKind
from pullqueue.engine.interceptors import VERBS
from pullqueue.error_codes import codes_of
from pullqueue.errors import PullQueueError, UnknownTaskError
from pullqueue.tasks import count_tasks

_STATES = ("available", "leased", "scheduled")
_PAGE_SIZES = ("25", "100", "500")
_FILTERS = ("state", "tag", "search", "limit")

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
        depths = self._control.ask("listDepths")["depths"]
        return self._page(
            "queues",
            queues=self._control.ask("listQueues")["queues"],
            charts={name: chart_of(series) for name, series in depths.items()},
        )

    def queue(self, queue: str) -> Response:
        """One queue and its tasks."""
        name, shown = queue, self._control.ask("getQueue", queue=queue)["queue"]
        chosen = {field: request.args.get(field, "") for field in _FILTERS}
        chosen["limit"] = chosen["limit"] or "100"
        query = {field: text for field, text in chosen.items() if text}
        after = request.args.get("after")
        pull = shown["mode"] == "pull"
        listed: Json = {"tasks": [], "next": None}
        if pull and chosen["state"] == "exhausted":
            listed = self._control.ask("listQueueExhausted", {"limit": query["limit"]}, queue=name)
        elif pull:
            page = {**query, "after": after} if after else query
            listed = self._control.ask("listTasks", page, queue=name)
        depths = self._control.ask("listDepths")["depths"].get(name)
        return self._page(
            "queue",
            queue=shown,
            chart=chart_of(depths) if depths else None,
            tasks=listed["tasks"],
            following=listed["next"],
            is_first=not after,
            chosen=chosen,
            query=query,
            states=(*_STATES, "exhausted"),
            page_sizes=sorted({*_PAGE_SIZES, chosen["limit"]}, key=int),
        )

    def task(self, queue: str, task: str) -> Response:
        """One task and its life; where it is gone, what is remembered of it."""
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
            events=events,
            views=views,
            view=view if view in views else next(iter(views), ""),
        )

    def payload(self, queue: str, task: str) -> Response:
        """A task's payload as a file, which no browser takes for a page."""
        found = self._control.ask("getTask", queue=queue, task=task)["task"]
        response = Response(
            b64decode(found["payload"]["base64"]), content_type="application/octet-stream"
        )
        response.headers["Content-Disposition"] = f'attachment; filename="{quote(task)}"'
        return response

    def exhausted(self) -> Response:
        """The tasks that used up their leases."""
        return self._page("exhausted", tasks=self._control.ask("listExhausted")["tasks"])

    def requests(self) -> Response:
        """The latest requests to the API."""
        before = request.args.get("before", "")
        query = {"limit": "50", **({"before": before} if before else {})}
        listed = self._control.ask("listRequests", query)
        return self._page(
            "requests",
            requests=listed["requests"],
            following=listed["next"],
            is_first=not before,
        )

    def request(self, number: str) -> Response:
        """One request, what was sent and what was answered."""
        found = self._control.ask("getRequest", number=number)["request"]
        shown = {part: next(iter(views_of(found[part]).values())) for part in ("body", "answer")}
        return self._page("request", logged=found, shown=shown)

    def faults(self) -> Response:
        """The faults that are set, and a form for another."""
        queues = self._control.ask("listQueues")["queues"]
        return self._page(
            "faults",
            faults=self._control.ask("listFaults")["faults"],
            kinds=KINDS,
            when=WHEN,
            calls=VERBS,
            errors=list(ERRORS),
            queues=[queue["name"] for queue in queues if queue["mode"] == "pull"],
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
        return self._confirm(
            title=f"Purge {queue}?",
            text=f"This deletes {count_tasks(tasks)}: all of the queue, leased ones included.",
            verb="Purge",
            action=url_for("console.do_purge", queue=queue),
            back=url_for("console.queue", queue=queue),
        )

    def confirm_delete(self, queue: str, task: str) -> Response:
        """Ask before a task is deleted."""
        self._control.ask("getTask", queue=queue, task=task)
        return self._confirm(
            title=f"Delete {task}?",
            text=f"The task leaves {queue}. Its name stays taken for a while.",
            verb="Delete",
            action=url_for("console.do_delete", queue=queue, task=task),
            back=url_for("console.task", queue=queue, task=task),
        )

    def confirm_reset(self) -> Response:
        """Ask before everything is forgotten."""
        return self._confirm(
            title="Reset the emulator?",
            text="Tasks, names, records, requests and faults of all queues are forgotten. "
            "Configuration and clock stay.",
            verb="Reset",
            action=url_for("console.do_reset"),
            back=url_for("console.server"),
        )

    def missing(self, path: str) -> Response:
        """Tell that there is no such page."""
        return self._page("refusal", text=f"there is no page {path!r:.100}", status=404)

    def refusal(self, error: Exception) -> Response | HTTPException:
        """Tell why something cannot be shown."""
        if isinstance(error, HTTPException) and (error.code or 500) < 400:
            return error
        status = 500
        text = "the console has a fault; the server's log tells which"
        if isinstance(error, HTTPException):
            status, text = error.code or 500, error.description or error.name
        elif isinstance(error, ApiError):
            status, text = error.status, str(error)
        elif isinstance(error, PullQueueError):
            status, text = codes_of(error).http_status, str(error)
        else:
            _log.error("a page failed through a fault of the console", exc_info=error)
        surroundings = self._control.surroundings()
        return self._rendered("refusal", text=text, status=status, **surroundings)

    def _gone(self, queue: str, name: str, events: list[Json], error: PullQueueError) -> _Gone:
        """Tell what became of a task; a name that nothing is known of is refused."""
        kind = events[-1]["kind"] if events else None
        exhausted: Json | None = None
        if kind in (None, EventKind.EXHAUSTED.value):
            listed = self._control.ask("listQueueExhausted", {"limit": "1000"}, queue=queue)
            exhausted = next((task for task in listed["tasks"] if task["name"] == name), None)
        if kind is None and exhausted is None and isinstance(error, UnknownTaskError):
            raise error
        if kind == EventKind.EXHAUSTED.value or exhausted:
            leases = (exhausted or events[-1])["retry_count"]
            many = "1 lease" if leases == 1 else f"{leases} leases"
            return _Gone(
                f"Task {name} was given up after {many}.", is_exhausted=True, task=exhausted
            )
        if kind == EventKind.DELETED.value:
            return _Gone(f"Task {name} was deleted.")
        return _Gone(f"{error}.")

    def _confirm(self, *, title: str, text: str, verb: str, action: str, back: str) -> Response:
        return self._page("confirm", title=title, text=text, verb=verb, action=action, back=back)

    def _page(self, template: str, /, *, status: int = 200, **values: Any) -> Response:  # noqa: ANN401 - for the template
        config, clock = self._control.ask("getConfig"), self._control.ask("getClock")
        return self._rendered(template, status=status, config=config, clock=clock, **values)

    def _rendered(self, template: str, /, *, status: int, **values: Any) -> Response:  # noqa: ANN401 - for the template
        notice = self._notices.take(request.args.get("notice"))
        html = render_template(
            f"console/{template}.html",
            notice=notice,
            form=notice.form if notice else {},
            token=self._control.token,
            token_field=TOKEN_FIELD,
            page=template,
            status=status,
            **values,
        )
        return Response(html, status, content_type="text/html; charset=utf-8")
