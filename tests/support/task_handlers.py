"""An app with the handlers of HTTP tasks, which verify ID tokens with google-auth."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flask import Flask, request
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import Request
from google.oauth2 import id_token
from jwt import PyJWTError
from served import Served, serving
from werkzeug.serving import WSGIRequestHandler, make_server

FUNCTIONS = "https://us-central1-app.cloudfunctions.net"
API = "https://api.example.com"
"""What the tasks call; the server sends it to the app."""


class TaskHandlers:
    """Records what the handlers got: by path, the status and who sent it."""

    def __init__(self) -> None:
        self.served: Served
        self.handled: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        self.bodies: dict[str, Any] = {}
        self.app = Flask(__name__)
        self.app.add_url_rule("/<path:path>", view_func=self._handle, methods=["POST"])

    def _handle(self, path: str) -> tuple[str, int]:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        # The Host is that of the task's URL, which is the audience unless a task has another.
        audience, certs = f"https://{request.host}/{path}", f"{self.served.url}/oauth2/v3/certs"
        try:
            claims = id_token.verify_token(token, Request(), audience, certs)
            status, email = 204, str(claims["email"])
        except (ValueError, GoogleAuthError, PyJWTError) as error:
            status, email = 401, str(error)
        if path.endswith("-retried") and not self.handled[path]:
            status = 503
        self.bodies[path] = request.get_json(silent=True) or request.get_data()
        self.handled[path].append((status, email))
        return "", status


class _Quiet(WSGIRequestHandler):
    def log(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def task_handlers(queue_yaml: str, folder: Path, *arguments: str) -> Iterator[TaskHandlers]:
    """Run the app, and a server that sends it tasks."""
    (folder / "queue.yaml").write_text(queue_yaml)
    handlers = TaskHandlers()
    app = make_server("127.0.0.1", 0, handlers.app, threaded=True, request_handler=_Quiet)
    threading.Thread(target=app.serve_forever, args=(0.01,), daemon=True).start()
    address = f"http://127.0.0.1:{app.server_port}"
    origins = [f"{origin}={address}" for origin in (FUNCTIONS, API)]
    options = [part for origin in origins for part in ("--push-to", origin)]
    try:
        with serving("--grpc-port", "0", *options, *arguments, folder=folder) as served:
            handlers.served = served
            yield handlers
    finally:
        app.shutdown()
        app.server_close()
