"""What all pages of the console have, and those that ask before something is deleted."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlencode

from flask import Response, render_template, request, url_for
from msgspec import UNSET

from pullqueue.api.requests import served
from pullqueue.clock import ManualClock, from_usec
from pullqueue.console.actions import changes_of_form
from pullqueue.console.addresses import MENU, QUEUE, SECTIONS, page
from pullqueue.console.forms import Notice, Notices
from pullqueue.errors import PullQueueError
from pullqueue.resources.models import EXHAUSTED, TaskResource
from pullqueue.resources.overview import get_summary
from pullqueue.resources.queues import get_queue, get_task, list_queues
from pullqueue.resources.task_lists import TaskFilter, TaskQuery, list_tasks
from pullqueue.runtime.projects import Projects
from pullqueue.runtime.state import TOKEN_FIELD, ServerState
from pullqueue.tasks import count_tasks
from pullqueue.text import counted

_MAX_LISTED = 10
"""Maximum number of tasks that are listed before they are deleted."""


class _Missing(NamedTuple):
    """A task that no longer exists."""

    name: str
    queue: str


class Questions:
    """One method for each page that asks for confirmation."""

    def __init__(self, state: ServerState, notices: Notices) -> None:
        self._state = state
        self._notices = notices

    @page(f"{QUEUE}/purge")
    def confirm_purge(self, queue: str) -> Response:
        """Ask before a queue is purged."""
        tasks = get_queue(self._state, queue).tasks
        return self._question(
            f"Purge {queue}?",
            f"This deletes {count_tasks(tasks)}: all of the queue, also those that are leased or "
            "running.",
            back=url_for("console.queue", queue=queue),
        )

    # More tasks can be selected than fit into an address, so they are sent as a form.
    @page("/change/confirm", verbs=("GET", "POST"))
    def confirm_change(self) -> Response:
        """Ask before a task, those that are selected, or all that match are deleted."""
        count = 0
        shown: list[TaskResource | _Missing] = []
        for queue, change in changes_of_form(self._state, "delete"):
            if change.tasks is not UNSET:
                names = change.tasks
                count += len(names)
                shown += [self._task_or_name(queue, name) for name in names[:_MAX_LISTED]]
                continue
            fields = TaskFilter.__struct_fields__
            chosen = {name: getattr(change, name) for name in fields}
            listed = list_tasks(self._state, queue, TaskQuery(state=change.state, **chosen))
            count += listed.total
            shown += listed.tasks
        what = shown[0].name if count == 1 else count_tasks(count)
        text = "Names of deleted tasks stay reserved for a while, as on App Engine."
        if request.values.get("state") == EXHAUSTED:
            text = "Exhausted tasks that are deleted cannot be requeued."
        return self._question(
            f"Delete {what}?",
            text,
            action=url_for("console.do_change"),
            back=request.values.get("back") or url_for("console.queues"),
            hidden=[
                (name, value)
                for name, value in request.values.items(multi=True)
                if name not in (TOKEN_FIELD, "back")
            ],
            tasks=shown[:_MAX_LISTED],
            more=max(0, count - _MAX_LISTED),
        )

    @page("/requests/clear")
    def confirm_clear(self) -> Response:
        """Ask before the record of the requests is deleted."""
        recorded = len(self._state.requests.latest())
        return self._question(
            f"Delete {counted(recorded, 'request')}?",
            "This deletes the record of all requests, whatever the filter is. "
            "Tasks are not changed.",
            back=url_for("console.requests"),
        )

    @page("/server/snapshot")
    def confirm_load(self) -> Response:
        """Ask for a snapshot, before it replaces what the queues contain."""
        return self._question(
            "Load a snapshot?",
            f"This deletes {self._tasks_text()}, names and history of all queues. "
            "They are replaced with those of the file.",
            back=url_for("console.server"),
            asks_for_file=True,
        )

    @page("/server/reset")
    def confirm_reset(self) -> Response:
        """Ask before everything is deleted."""
        return self._question(
            "Reset the emulator?",
            f"This deletes {self._tasks_text()}, names, history, requests and faults of all "
            "queues. The queues of queue.yaml, the clock, and the entities and blobs of the app "
            "are not changed.",
            back=url_for("console.server"),
            created=[queue.name for queue in self._state.emulator.queues if queue.is_runtime],
        )

    def _question(self, title: str, text: str, **values: Any) -> Response:  # noqa: ANN401
        """Return the page that asks for confirmation; the first word of its title is its button."""
        verb = title.partition(" ")[0]
        return self._page("confirm", title=title, text=text, verb=verb, **values)

    def _tasks_text(self) -> str:
        queues = list_queues(self._state)
        tasks, exhausted = (
            sum(getattr(queue, name) for queue in queues) for name in ("tasks", "exhausted")
        )
        return f"{count_tasks(tasks + exhausted)} ({exhausted} exhausted)"

    def _task_or_name(self, queue: str, name: str) -> TaskResource | _Missing:
        """Return a task, or only its name if it no longer exists."""
        with suppress(PullQueueError):
            task = get_task(self._state, queue, name)
            if (task.state == EXHAUSTED) is (request.values.get("state") == EXHAUSTED):
                return task
        return _Missing(name, queue)

    def _unfinished(self) -> str | None:
        """Return the time until which the clock delivers in several calls, if it is before that."""
        move = self._state.move
        if move is None or self._state.emulator.clock.now_usec() >= move.target_usec:
            return None
        return from_usec(move.target_usec).isoformat()

    def _page(
        self,
        template: str,
        /,
        *,
        status: int = 200,
        now_usec: int | None = None,
        **values: Any,  # noqa: ANN401 - for the template
    ) -> Response:
        emulator, file = self._state.emulator, self._state.config_file
        services, projects = self._state.services, served(Projects)
        now = from_usec(emulator.now_usec() if now_usec is None else now_usec).isoformat()
        notice = self._notices.take(request.args.get("notice"))
        # Forms return to this address, without the notice.
        kept = urlencode({name: text for name, text in request.args.items() if name != "notice"})
        # The page of an error may be shown because the store does not respond.
        if status == 200 and "summary" not in values:
            values["summary"] = get_summary(self._state)
        contents = {
            "cron": self._state.cron.states,
            "mails": self._state.mails,
            "entities": services and services.has_entities,
        }
        known = {
            "config": {"file": emulator.config.file, "problem": file.problem if file else None},
            "clock": {"now": now, "manual": isinstance(emulator.clock, ManualClock)},
            "menu": [name for name in MENU if contents.get(name, True)],
            "section": SECTIONS.get(template),
            "notice": notice,
            "form": notice or Notice(text=""),
            "here": f"{request.script_root}{request.path}?{kept}".rstrip("?"),
            "projects": list(projects.states),
            "project": self._state.project or projects.own_name,
            "token": self._state.token,
            "token_field": TOKEN_FIELD,
            "page": template,
            "unfinished": self._unfinished(),
            "address_commands": self._state.address_commands,
            "status": status,
        }
        html = render_template(f"console/{template}.html", **known | values)
        return Response(html, status, content_type="text/html; charset=utf-8")
