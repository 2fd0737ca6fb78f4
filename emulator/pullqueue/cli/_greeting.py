"""What a server says when it is ready: its queues, and a line to try."""

from __future__ import annotations

import shlex

from pullqueue.api.tokens import DEFAULT_SCOPES
from pullqueue.config.model import QueueMode
from pullqueue.engine.queue import Queue
from pullqueue.server.lifecycle import Server

_TASK = '{"payloadBase64": "aGVsbG8="}'


def greeting(server: Server, *, acl: bool) -> str:
    """Give the queues of a running server, and a curl command that works when pasted."""
    emulator = server.emulator
    pull = [queue for queue in emulator.queues if queue.mode is QueueMode.PULL]
    if not pull:
        return f"{emulator.config.file} has no pull queue: set `mode: pull` to make one"
    names = "1 pull queue" if len(pull) == 1 else f"{len(pull)} pull queues"
    lines = [f"  {queue.name}{_notes(queue, acl=acl)}" for queue in pull]
    return "\n".join([f"{emulator.config.file}: {names}", *lines, *_attempt(server, pull, acl=acl)])


def _notes(queue: Queue, *, acl: bool) -> str:
    notes = []
    retry = queue.settings.retry_parameters
    if retry is not None and retry.task_retry_limit is not None:
        times = "time" if retry.task_retry_limit == 1 else "times"
        notes.append(f"each task can be leased {retry.task_retry_limit} {times}")
    if acl and not queue.settings.acl:
        notes.append("no acl: nobody may use it")
    return f" ({'; '.join(notes)})" if notes else ""


def _attempt(server: Server, pull: list[Queue], *, acl: bool) -> list[str]:
    """Give a command that adds a task, as one who may, if there is any."""
    queue, header = pull[0], ""
    if acl:
        writers = [(each, email) for each in pull for email in _writers(each)]
        if not writers:
            return []
        queue, email = writers[0]
        token = server.tokens.issue(email, frozenset(DEFAULT_SCOPES))
        header = f" -H {shlex.quote(f'Authorization: Bearer {token.text}')}"
    project = server.emulator.project or "my-app"
    url = f"{server.url}/taskqueue/v1beta2/projects/{project}/taskqueues/{queue.name}/tasks"
    return ["Add a task:", f"  curl{header} -d {shlex.quote(_TASK)} {shlex.quote(url)}"]


def _writers(queue: Queue) -> list[str]:
    return [entry.writer_email for entry in queue.settings.acl or () if entry.writer_email]
