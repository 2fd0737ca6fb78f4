"""What pages offer to copy or download: a curl command, a payload, a file of seeds."""

from __future__ import annotations

import shlex
from urllib.parse import quote

import msgspec
from flask import Response, request

from pullqueue.api.encoding import Json
from pullqueue.console.formatting import build_views
from pullqueue.engine.events import Interface
from pullqueue.observe.models import Request
from pullqueue.resources.models import TaskResource


def curl(logged: Request) -> str:
    """Return the curl command that repeats a request; empty if the request is not known in full."""
    body = logged.body
    is_rest = logged.interface in (Interface.REST, Interface.CLOUD_TASKS_REST)
    if not is_rest or ("json" not in build_views(body) and body.size):
        return ""
    # curl expands brackets and braces, and the recorded path is decoded.
    path, query = quote(logged.path), quote(logged.query, safe="%=&+,:/@")
    address = f"{request.host_url.rstrip('/')}{path}{'?' if query else ''}{query}"
    method = {"GET": (), "HEAD": ("-I",)}.get(logged.verb, ("-X", logged.verb))
    parts = ["curl", *method, address]
    if body.size:
        parts += ["-H", "Content-Type: application/json", "-d", body.text or ""]
    return shlex.join(parts)


def download(data: bytes, name: str) -> Response:
    """Return data as a file, which browsers do not show as a page."""
    response = Response(data, content_type="application/octet-stream")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def seed_line(task: TaskResource) -> bytes:
    """Return an exhausted task as a line that `pullqueue seed` reads."""
    line: Json = {"queue": task.queue, "payload": task.payload.text, "tag": task.tag}
    if task.payload.text is None:
        line["payload_base64"] = task.payload.data
    if task.push is not None:
        line["request"] = task.push.request
    given = {name: value for name, value in line.items() if value is not None}
    return msgspec.json.encode(given) + b"\n"
