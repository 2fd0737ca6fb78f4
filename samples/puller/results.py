"""The app that the puller posts to: it prints what became of each task."""

from __future__ import annotations

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class Results(BaseHTTPRequestHandler):
    """Receives the output of programs."""

    def do_POST(self) -> None:
        """Print the task's name and the output of its program."""
        (name,) = parse_qs(urlsplit(self.path).query)["name"]
        output = self.rfile.read(int(self.headers["Content-Length"])).decode()
        print(f"{name}: {output}", flush=True)
        self.send_response(204)
        self.end_headers()


if __name__ == "__main__":
    port = int(os.environ.get("PORT", "8080"))
    with ThreadingHTTPServer(("127.0.0.1", port), Results) as server:
        print(f"listening for results on port {server.server_port}", flush=True)
        server.serve_forever()
