"""`pullqueue exec`: programs on App Engine's SDK."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from executing import USE_QUEUE, Execute, on_sdk, python
from programs import completed

from pullqueue import Emulator
from pullqueue.server.lifecycle import Server
from pullqueue.services.hosting import Services

WRAPPED = """
import os, threading
from google.appengine.api import taskqueue, wrap_wsgi_app
from google.appengine.runtime import context

def work():
    os.environ.clear()
    queue = taskqueue.Queue("pull")
    queue.add(taskqueue.Task(payload=b"work", method="PULL"))
    print(len(queue.lease_tasks(60, 10)), flush=True)

for context.READ_FROM_OS_ENVIRON in (True, False):
    for legacy in (True, False):
        if not os.fork():
            wrap_wsgi_app(None, use_legacy_context_mode=legacy)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            os._exit(0)
        os.wait()
"""


TRANSACTIONS = """
from google.appengine.api import taskqueue
from google.appengine.ext import db

class Note(db.Model):
    pass

def add(count, fail=False):
    Note(key_name="note").put()
    tasks = [taskqueue.Task(**kinds[queue.name]) for _ in range(count)]
    queue.add(tasks, transactional=True)
    assert queue.fetch_statistics().tasks == before
    if fail:
        raise db.Rollback
    return [task.name for task in tasks]

kinds = {"pull": {"payload": b"work", "method": "PULL"}, "default": {"url": "/work"}}
names = {}
for queue in map(taskqueue.Queue, kinds):
    before = 0
    db.run_in_transaction(add, 2, fail=True)
    names[queue.name] = db.run_in_transaction(add, 2)
    before = queue.fetch_statistics().tasks
    print(queue.name, before, all(names[queue.name]))
    try:
        db.run_in_transaction_custom_retries(0, add, 6)
    except taskqueue.DatastoreError as error:
        print(error)
leased = taskqueue.Queue("pull").lease_tasks(60, 9)
print(sorted(names["pull"]) == sorted(task.name for task in leased))
"""


CLOUD_TASKS = """
from google.appengine.api import taskqueue
from google.appengine.ext import db, deferred

class Note(db.Model):
    pass

def add():
    Note(key_name="note").put()
    queue.add(taskqueue.Task(url="/c"), transactional=True)
    return queue.fetch_statistics().tasks

queue = taskqueue.Queue("default")
queue.add(taskqueue.Task(url="/a", name="a"))
queue.add([taskqueue.Task(url="/b"), taskqueue.Task(url="/b")])
deferred.defer(sorted, [2, 1])
before = db.run_in_transaction_options(db.create_transaction_options(xg=True), add)
queue.delete_tasks_by_name("a")
print(before, queue.fetch_statistics().tasks)
cloudtask = getattr(taskqueue.taskqueue, "cloudtask", None)  # since 3.1.0
print(not cloudtask or sorted(version for version, _ in cloudtask._CLIENTS) == ["v2", "v2beta3"])
"""


def test_a_thread_outside_any_request(execute: Execute) -> None:
    """An app uses its queues anywhere, with no line changed, where variables hold its context too.

    It may import the module that is changed for it before any other of the SDK's.
    """
    program = f"from google.appengine.runtime import default_api_stub\n{USE_QUEUE}"
    status, output, errors = execute(*python(program), READ_GAE_CONTEXT_FROM_OS_ENVIRON="false")

    assert (status, output) == (0, "['mine']\n"), errors


def test_threads_of_a_wrapped_app_find_the_server_in_all_modes(execute: Execute) -> None:
    """Though since Python 3.13 they have no environment."""
    status, output, errors = execute("--no-lease-rate-limit", *on_sdk(WRAPPED))

    assert (status, output) == (0, "1\n" * 4), errors
    assert [line for line in errors.splitlines() if not line.startswith("pullqueue")] == []


def test_an_app_that_imports_no_sdk(execute: Execute) -> None:
    program = "import sys; print('google.appengine' in sys.modules, len(sys.meta_path))"
    plain = completed([sys.executable, "-c", program], check=True)

    _, output, _ = execute(*python(program))

    count = int(plain.stdout.split()[1])
    assert output.split() == ["False", str(count + 1)]


def test_an_interpreter_without_the_sdk(execute: Execute) -> None:
    program = (
        "import sys\nsys.path = [p for p in sys.path if 'packages' not in p]\n"
        "sys.modules.pop('google', None)\nfrom google.appengine.api import taskqueue\n"
    )

    status, _, errors = execute(*python(program))

    assert status == 1
    assert errors.endswith(
        f"pullqueue: {sys.executable} has no App Engine SDK: install it there with "
        "pip install appengine-python-standard\n"
    )


def test_a_sitecustomize_of_the_users(execute: Execute, app_folder: Path) -> None:
    (app_folder / "sitecustomize.py").write_text("print('mine')\n")
    program = "import sitecustomize, sys; print(sitecustomize.__file__); print(sys.path[1])"

    _, output, _ = execute(*python(program), PYTHONPATH=str(app_folder))

    assert output.splitlines() == ["mine", str(app_folder / "sitecustomize.py"), str(app_folder)]


@pytest.fixture
def upstream() -> Iterator[str]:
    """Yield the address of a server that has a datastore."""
    emulator = Emulator.from_text("queue: []", project="app")
    with (
        closing(Services(clock=emulator.clock)) as services,
        Server(emulator, services=services) as server,
    ):
        yield server.url.removeprefix("http://")


def test_tasks_are_added_when_their_transaction_commits(execute: Execute, upstream: str) -> None:
    status, output, errors = execute(
        *("--api-upstream", upstream, *on_sdk(TRANSACTIONS)), APPLICATION_ID="app"
    )

    assert status == 0, errors
    pull, refused, push, refused_push, leased = output.splitlines()
    assert (pull, push, leased) == ("pull 2 True", "default 2 True", "True")
    for refusal in (refused, refused_push):
        assert refusal.endswith("Too many messages, maximum allowed 5")


def test_the_switch_to_cloud_tasks(execute: Execute, upstream: str) -> None:
    status, reported, errors = execute(
        *("--api-upstream", upstream, *on_sdk(CLOUD_TASKS)),
        APPLICATION_ID="app",
        APPENGINE_USE_CLOUDTASK_PUSH_QUEUE="True",
    )

    assert status == 0, errors
    assert reported == "4 4\nTrue\n"


VERIFIES = """
import json, os, threading, urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from google.auth import exceptions
from google.auth.transport.requests import Request
from google.oauth2 import id_token

tokens = []

class App(BaseHTTPRequestHandler):
    def do_POST(self):
        tokens.append(self.headers["Authorization"].removeprefix("Bearer "))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

app = HTTPServer(("127.0.0.1", 0), App)
url = f"http://127.0.0.1:{app.server_port}/work"
token = {"serviceAccountEmail": "a@example.com"}
body = {"task": {"httpRequest": {"url": url, "oidcToken": token}}}
address = os.environ["CLOUD_TASKS_EMULATOR_HOST"]
parent = "projects/p/locations/us-central1/queues/push"
urllib.request.urlopen(urllib.request.Request(
    f"http://{address}/v2/{parent}/tasks", json.dumps(body).encode(),
    {"Content-Type": "application/json"}))
app.handle_request()

claims = id_token.verify_oauth2_token(tokens[0], Request(), url)
print(claims["email"], claims["iss"])
print(id_token.verify_token(tokens[0], Request(), audience=url)["email"])
own = f"http://{address}/oauth2/v1/certs"
print(id_token.verify_token(tokens[0], Request(), url, own)["iss"])
try:
    id_token.verify_token(tokens[0], Request(), url, certs_url=f"http://{address}/health")
except (ValueError, exceptions.GoogleAuthError) as error:
    print("other certificates:", type(error).__name__)
head, claims, signature = tokens[0].split(".")
for token, audience in ((tokens[0], "https://other"), (f"{head}.{claims}.{signature[::-1]}", url)):
    try:
        id_token.verify_oauth2_token(token, Request(), audience)
    except ValueError as error:
        print(type(error).__name__)
"""


def test_code_that_verifies_tokens_runs_unchanged(execute: Execute, app_folder: Path) -> None:
    (app_folder / "queue.yaml").write_text("queue: [{name: push, rate: 5/s}]\n")

    status, output, errors = execute(*on_sdk(VERIFIES))

    assert status == 0, errors
    first, second, issuer, other, *refused = output.splitlines()
    assert first == "a@example.com https://accounts.google.com"
    assert second == "a@example.com"
    assert issuer.startswith("http://127.0.0.1:")
    assert other.startswith("other certificates: ")
    assert len(refused) == 2
