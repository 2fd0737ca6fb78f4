"""`pullqueue exec` with push tasks and cron jobs that are due before the app listens."""

from __future__ import annotations

import sys
from pathlib import Path

from executing import Execute, forked_exec
from forking import forked
from programs import running
from push_app import Control, until
from served import free_port

APP = """
import os, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer

class App(BaseHTTPRequestHandler):
    def do_GET(self):
        with open("received", "a") as file:
            print(self.path, file=file)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET

while not os.path.exists("listen"):
    time.sleep(0.05)
HTTPServer(("localhost", int(sys.argv[1])), App).serve_forever()
"""
"""An app that listens at a port once there is a file."""


def test_what_is_due_before_the_app_listens_waits_for_it(execute: Execute) -> None:
    """Neither a task without a second attempt, kept from before, nor a cron job fails."""
    Path("queue.yaml").write_text(
        "queue:\n- name: push\n  rate: 5/s\n  retry_parameters: {task_retry_limit: 0}\n"
    )
    Path("cron.yaml").write_text("cron:\n- url: /job\n  schedule: every 1 minutes\n")
    Path("app.py").write_text(APP)
    port = free_port()
    address = f"http://localhost:{port}"
    app = (sys.executable, "app.py", str(port))
    add = (forked("pullqueue"), "tasks", "add", "push", "--request", "POST /work")
    assert execute("--data", "data", "--", *add)[0] == 0
    options = ("--data", "data", "--push-to", address, "--cron", "cron.yaml", "--clock", "manual")

    with running(*forked_exec(), *options, "--", *app) as exec_:
        assert exec_.stderr is not None  # it may log before it prints its address
        listening = next(line for line in exec_.stderr if "pullqueue listening on" in line)
        control = Control(listening.split()[-1])
        control.call("POST", "/clock", {"advance": 300})
        waits = f"the server waits for the app to listen at {address}"
        assert waits in control.queue("push")["progress"]["text"]
        assert [task["push"]["attempts"] for task in control.tasks("push")] == [0]
        assert control.call("GET", "/cron")["jobs"][0]["last"] is None

        Path("listen").touch()

        until(lambda: Path("received").exists() and len(Path("received").read_text().split()) > 1)
        assert sorted(Path("received").read_text().split()) == ["/job", "/work"]
        until(lambda: control.queue("push")["tasks"] == 0)
        assert control.queue("push")["exhausted"] == 0
        assert control.queue("push")["kept"] is None
