"""The console's pages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar
from urllib.parse import quote

from flask import Response, redirect, request, url_for
from msgspec import to_builtins
from msgspec.structs import asdict, replace
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as WerkzeugResponse

from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError
from pullqueue.config.model import QueueMode
from pullqueue.console.addresses import QUEUE, TASK, page
from pullqueue.console.charts import CHART, RANGES, build_chart, build_overlay
from pullqueue.console.downloads import curl, download, seed_line
from pullqueue.console.figures import QUEUE_COLUMNS, select_figures, sort_key
from pullqueue.console.formatting import build_views, fold_payload
from pullqueue.console.questions import Questions
from pullqueue.engine.events import EventKind, Interface
from pullqueue.errors import PullQueueError
from pullqueue.faults import declaration
from pullqueue.observe import RECORDED
from pullqueue.observe.models import Failure, Request
from pullqueue.resources.activity import ActivityQuery, list_activity, list_workers
from pullqueue.resources.clock import get_clock
from pullqueue.resources.cron import list_cron_jobs
from pullqueue.resources.entities import EntityQuery, list_entities, list_kinds
from pullqueue.resources.failures import FailureQuery, list_failures
from pullqueue.resources.history import (
    HistoryQuery,
    RequestQuery,
    TaskHistory,
    get_history,
    get_request,
    get_throughput,
    list_requests,
)
from pullqueue.resources.mails import MailQuery, get_mail, list_mails
from pullqueue.resources.models import EXHAUSTED, TaskResource, Tasks
from pullqueue.resources.operations import parse_query
from pullqueue.resources.overview import build_summary, get_server
from pullqueue.resources.push import get_delivery
from pullqueue.resources.queue_resource import build_resource
from pullqueue.resources.queues import (
    collect_statistics,
    get_queue,
    get_task,
    list_shown_queues,
    list_tags,
)
from pullqueue.resources.service import build_config, list_faults
from pullqueue.resources.task_lists import (
    ExhaustedQuery,
    ListQuery,
    TaskQuery,
    list_all_tasks,
    list_exhausted,
    list_tasks,
)
from pullqueue.text import shorten

_PAGE_SIZE = "100"
_TASK_QUERY = ("state", "tag", "search", "pattern", "sort", "limit")
_FAILURES_QUERY = ("queue", "tag", "search", "status", "pattern", "since", "until")
_REQUESTS_QUERY = (
    *("queue", "task", "client", "interface", "status", "since", "failure", "fault", "search"),
)
_STATES = {
    QueueMode.PULL: ("available", "leased", "scheduled", EXHAUSTED),
    QueueMode.PUSH: ("available", "running", "retrying", "scheduled", EXHAUSTED),
}
"""The states of tasks by which a queue's tasks can be filtered."""
_ERROR_CHARACTERS = 200
_LATEST = 3
"""Exhausted tasks of a queue that the page of all queues names."""

_log = logging.getLogger("pullqueue.console")

_Q = TypeVar("_Q", bound=ListQuery)


class Pages(Questions):
    """One method for each page, those that ask included."""

    @page("/", in_menu=True)
    def queues(self) -> Response | WerkzeugResponse:
        """Return the page of all queues; of a text that no queue has in its name, that of tasks."""
        # Each queue is looked up once: it can be deleted meanwhile.
        statistics = collect_statistics(self._state)
        queues = [build_resource(self._state, *each) for each in statistics]
        flows = {queue.name: queue.flow(since_usec=0) for queue, _ in statistics}
        now_usec = self._state.emulator.now_usec()
        chosen = _chosen("search", "sort", "order", "range")
        text, key = chosen.get("search", "").lower(), chosen.get("sort", "")
        found = [queue for queue in queues if text in queue.name.lower()]
        if text and not found:
            return redirect(url_for("console.found", search=chosen["search"]))
        if key in QUEUE_COLUMNS:
            found.sort(
                key=lambda queue: sort_key(queue, key), reverse=chosen.get("order") == "desc"
            )
        charts = {
            queue.name: build_chart(
                flows[queue.name], now_usec, "60", kinds=CHART[queue.mode], is_small=True
            )
            for queue in queues
        }
        return self._page(
            "queues",
            summary=build_summary(self._state, statistics),
            figures=select_figures(queues),
            found=found,
            columns=QUEUE_COLUMNS,
            latest_exhausted={
                queue.name: [task.name for task in queue.exhausted[: -_LATEST - 1 : -1]]
                for queue, numbers in statistics
                if numbers.exhausted
            },
            charts=charts,
            legend={queue.mode.value: charts[queue.name] for queue in queues},
            overlay=build_overlay(flows, now_usec, chosen.get("range", "")),
            ranges=RANGES,
            chosen=chosen,
        )

    @page(QUEUE, section="queues")
    def queue(self, queue: str) -> Response:
        """Return the page of a queue and its tasks."""
        shown = get_queue(self._state, queue)
        chosen = {"limit": _PAGE_SIZE, **_chosen(*_TASK_QUERY, "order", "range")}
        asked = _chosen(*_TASK_QUERY) | {"limit": chosen["limit"]}
        asked["descending"] = "true" if chosen.get("order") == "desc" else "false"
        emulator = self._state.emulator
        flow = emulator.queue(queue).flow(since_usec=0)
        if shown.mode is QueueMode.PUSH:
            special: Json = {"delivery": get_delivery(self._state, queue)}
        else:
            special = {
                "rates": asdict(get_throughput(self._state, queue)),
                "tags": list_tags(self._state, queue),
            }
        return self._page(
            "queue",
            queue=shown,
            figures=select_figures([shown]),
            states=_STATES[shown.mode],
            chart=build_chart(
                flow, emulator.now_usec(), chosen.get("range", ""), kinds=CHART[shown.mode]
            ),
            ranges=RANGES,
            chosen=chosen,
            **special,
            **self._tasks(asked, TaskQuery, partial(list_tasks, self._state, queue)),
        )

    @page(TASK, section="queues")
    def task(self, queue: str, task: str) -> Response:
        """Return the page of a task and its history, which also exists after it is deleted."""
        found = get_history(self._state, queue, task, HistoryQuery())
        views = build_views(found.task.payload) if found.task else {}
        view = request.args.get("view", "")
        shown = get_queue(self._state, queue)
        attempts = []
        if shown.mode is QueueMode.PUSH:
            sent = RequestQuery(queue=queue, task=task, interface=Interface.PUSH)
            attempts = list_requests(self._state, sent).requests
        return self._page(
            "task",
            queue=shown,
            name=task,
            shown=found.task,
            problem=found.problem,
            events=found.events,
            last_response=found.last_response,
            attempts=attempts,
            latest_before=_latest_before(found, attempts),
            views=views,
            folded=fold_payload(found.task.payload) if found.task else None,
            view=view if view in views else next(iter(views), ""),
        )

    @page(f"{TASK}/payload")
    def payload(self, queue: str, task: str) -> Response:
        """Return a task's payload as a file, which browsers do not show as a page."""
        found = get_task(self._state, queue, task)
        return download(found.payload.data, quote(task))

    @page("/failures", in_menu=True)
    def failures(self) -> Response:
        """Return the page of failed tasks: why they failed, and those that are exhausted."""
        chosen = _chosen(*_FAILURES_QUERY)
        failures = list_failures(self._state, parse_query(chosen, FailureQuery))
        return self._page(
            "failures",
            queues=self._queue_names(),
            failures=failures,
            chosen=chosen,
            **self._tasks(
                {"limit": _PAGE_SIZE, **chosen},
                ExhaustedQuery,
                partial(list_exhausted, self._state),
            ),
        )

    @page("/exhausted.jsonl")
    def download_exhausted(self) -> Response:
        """Return the exhausted tasks that match, as a file for `pullqueue seed`."""
        chosen = _chosen(*_FAILURES_QUERY)
        query = {**chosen, "payload": "full", "limit": "100000"}  # 1,000 per queue are kept
        tasks = list_exhausted(self._state, parse_query(query, ExhaustedQuery)).tasks
        return download(b"".join(map(seed_line, tasks)), "exhausted.jsonl")

    @page("/tasks", section="queues")
    def found(self) -> Response | WerkzeugResponse:
        """Return the page of tasks of all queues with a text, or in a state, or of a client.

        If only one task is found, and the text is its name, redirect to its page.
        """
        chosen = _chosen("search", "state", "client")
        tasks: list[TaskResource] = []
        total = 0
        if chosen:
            stored = list_all_tasks(self._state, parse_query(chosen, TaskQuery))
            tasks, total = stored.tasks, stored.total
        if chosen.keys() == {"search"}:
            exhausted = list_exhausted(self._state, ExhaustedQuery(search=chosen["search"]))
            tasks = [*tasks, *exhausted.tasks]
            total += exhausted.total
        if total == 1 and tasks[0].name == chosen.get("search"):
            return redirect(url_for("console.task", queue=tasks[0].queue, task=tasks[0].name))
        about = RequestQuery(task=chosen.get("search", ""), limit=1)
        has_requests = about.task and list_requests(self._state, about).requests
        return self._page(
            "found", tasks=tasks, total=total, chosen=chosen, has_requests=has_requests
        )

    @page("/workers", in_menu=True)
    def workers(self) -> Response:
        """Return the page of the clients and their leases."""
        return self._page("workers", workers=list_workers(self._state))

    @page("/activity", in_menu=True)
    def activity(self) -> Response:
        """Return the page of what happened: actions of operators, and failures."""
        chosen = _chosen("since")
        activity = list_activity(self._state, parse_query(chosen, ActivityQuery))
        links = list(map(_address_of, activity.failures))
        return self._page("activity", activity=activity, links=links, chosen=chosen)

    @page("/requests", in_menu=True)
    def requests(self) -> Response:
        """Return the page of the latest requests to the APIs."""
        chosen = _chosen(*_REQUESTS_QUERY)
        query = parse_query({"limit": "50", **chosen, **_chosen("before")}, RequestQuery)
        listed = list_requests(self._state, query)
        return self._page(
            "requests",
            requests=listed.requests,
            following=listed.next,
            is_first="before" not in request.args,
            interfaces=[each.value for each in RECORDED],
            queues=self._queue_names(),
            chosen=chosen,
        )

    @page("/requests/<number>", section="requests")
    def request(self, number: str) -> Response:
        """Return the page of a request and its response."""
        found = get_request(self._state, number)
        shown = {
            part: next(iter(build_views(getattr(found, part)).items()))
            for part in ("body", "response")
        }
        return self._page(
            "request", logged=found, shown=shown, curl=curl(found), queues=self._queue_names()
        )

    @page("/faults", in_menu=True)
    def faults(self) -> Response:
        """Return the page of the faults that are set, with the form for another."""
        return self._page(
            "faults",
            faults=to_builtins(list_faults(self._state)),
            kinds=declaration.KINDS.values(),
            options={name: declaration.build_schema(name) for name in declaration.OPTIONS},
            calls=(*declaration.CALLS, *declaration.METHODS),
            when=declaration.WHEN,
            options_text=declaration.options_text,
            queues=self._queue_names(),
        )

    @page("/clock", in_menu=True)
    def clock(self) -> Response:
        """Return the page of the clock."""
        return self._page("clock", clock=get_clock(self._state))

    @page("/cron", in_menu=True)
    def cron(self) -> Response:
        """Return the page of the cron jobs."""
        return self._page("cron", jobs=to_builtins(list_cron_jobs(self._state)))

    @page("/mails", in_menu=True)
    def mails(self) -> Response:
        """Return the page of the mails that apps have sent."""
        return self._page("mails", mails=to_builtins(list_mails(self._state, MailQuery())))

    @page("/entities", in_menu=True)
    def entities(self) -> Response:
        """Return the page of the kinds of entities, and of the entities of one."""
        chosen = _chosen("kind", "app", "namespace")
        listed = None
        if "kind" in chosen:
            listed = list_entities(self._state, parse_query(chosen, EntityQuery))
        return self._page("entities", kinds=list_kinds(self._state), listed=listed)

    @page("/mails/<number>", section="mails")
    def mail(self, number: str) -> Response:
        """Return the page of one mail."""
        return self._page("mail", mail=to_builtins(get_mail(self._state, number)))

    @page("/server", in_menu=True)
    def server(self) -> Response:
        """Return the page of configuration, limits and snapshots."""
        config = build_config(self._state, queues=[])  # they are not shown
        return self._page("server", config=config, server=get_server(self._state))

    @page("/<path:path>")
    def missing(self, path: str) -> Response:
        """Return the page for an address that does not exist."""
        return self._page("error", text=f'there is no page "{path:.100}"', status=404)

    def error(self, error: Exception) -> Response | HTTPException:
        """Return the page of an error; a redirect stays as it is."""
        if isinstance(error, HTTPException) and (error.code or 500) < 400:
            return error
        status = 500
        line = shorten(f"{type(error).__name__}: {error}", limit=_ERROR_CHARACTERS)
        text = f"{request.path} failed: {line}. The log of the server has the traceback"
        if isinstance(error, HTTPException):
            status, text = error.code or 500, error.description or error.name
        elif isinstance(error, PullQueueError):
            status, text = ApiError.of(error).status, str(error)
        else:
            _log.error("%s failed because of a bug", request.path, exc_info=error)
        now_usec = self._state.emulator.clock.now_usec()  # the store may not respond
        return self._page("error", text=text, status=status, now_usec=now_usec)

    def _tasks(
        self, chosen: dict[str, str], model: type[_Q], list_page: Callable[[_Q], Tasks]
    ) -> Json:
        """Return a page of tasks and its position, which is at most the last page."""
        query = parse_query(chosen | {"offset": request.args.get("offset") or "0"}, model)
        listed = list_page(query)
        start, size = query.offset, query.limit
        if start and not listed.tasks:
            start = max(0, listed.total - 1) // size * size
            listed = list_page(replace(query, offset=start))
        end = start + len(listed.tasks)
        paging = {
            "first": start + 1,
            "last": end,
            "total": listed.total,
            "previous": max(0, start - size) if start else None,
            "next": end if end < listed.total else None,
        }
        return {"tasks": listed.tasks, "paging": paging}

    def _queue_names(self) -> list[str]:
        return [queue.name for queue in list_shown_queues(self._state)]


def _address_of(failure: Failure) -> str:
    """Return the address of what is left of a failure: requests, or exhausted tasks."""
    if not failure.recorded:
        return ""
    if failure.number is not None:
        return url_for("console.requests", failure=failure.number)
    until = None
    with suppress(OverflowError):  # it is the last minute that there is
        until = (datetime.fromisoformat(failure.last) + timedelta(minutes=1)).isoformat()
    return url_for("console.failures", queue=failure.queue, since=failure.first, until=until)


def _latest_before(history: TaskHistory, attempts: Sequence[Request]) -> int | None:
    """Return the number of the latest attempt from before a task was requeued, if there is one.

    Attempts are the latest first. From one to the next their count decreases, unless it has begun
    again between them.
    """
    added = max((each.time for each in history.events if each.kind is EventKind.ADDED), default="")
    left = (history.task or history.events[-1]).retry_count
    for each in attempts:
        count = int(each.method.removeprefix("attempt "))
        if count > left or each.time < added:
            return each.number
        left = count - 1
    return None


def _chosen(*names: str) -> dict[str, str]:
    return {name: text for name in names if (text := request.args.get(name))}
