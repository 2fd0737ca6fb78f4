"""What firebase-admin sends to the emulator that CLOUD_TASKS_EMULATOR_HOST names.

These are two methods of v2 without the version in their paths. A task has no URL unless its app set
one, and the response to a new task has a form of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pullqueue.cloudtasks.versions import V2

if TYPE_CHECKING:
    from pullqueue.cloudtasks.messages import Message

METHODS: Final = tuple(
    method for method in V2.methods if method.name in ("CreateTask", "DeleteTask")
)


def set_url(request: Message, parts: dict[str, str]) -> None:
    """Set the URL of a new task that has none to that of its function in production."""
    task = getattr(request, "task", None)
    if task is not None and task.HasField("http_request") and not task.http_request.url:
        task.http_request.url = (
            f"https://{parts['location']}-{parts['project']}.cloudfunctions.net/{parts['queue']}"
        )


def response(body: dict[str, Any]) -> dict[str, Any]:
    """Return the response with a new task as Firebase's emulator sends it; others as they are."""
    return {"task": body | {"name": f"/{body.get('name')}"}} if body else body
