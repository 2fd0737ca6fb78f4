"""The app: whatever is posted to it becomes a task."""

from __future__ import annotations

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import picture_tasks


class App(BaseHTTPRequestHandler):
    """Answers requests."""

    def do_POST(self) -> None:
        """Add a task with what was sent as its payload."""
        name = picture_tasks.add(self.rfile.read(int(self.headers["Content-Length"])))
        answer = f"added {name}\n".encode()
        self.send_response(202)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


if __name__ == "__main__":
    with ThreadingHTTPServer(("", int(os.environ.get("PORT", "8080"))), App) as server:
        print(f"app listening on port {server.server_port}", flush=True)
        server.serve_forever()
