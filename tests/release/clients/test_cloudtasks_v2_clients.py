"""Clients of Cloud Tasks v2, unmodified but for the endpoint: from new tasks to their handlers.

Those of Google for Python are run by the contract suite and by the documentation.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import grpc
import pytest
from google.auth.transport.requests import Request
from google.oauth2 import id_token
from programs import completed, go_program, npm_packages, pip_install, program
from push_app import PushApp, Received, push_app, until
from served import Served, serving

from pullqueue.sdk.environment import variables_for

QUEUE_YAML = """
queue:
- name: resize
  rate: 5/s
- name: aio-v2
  rate: 5/s
  retry_parameters: {min_backoff_seconds: 0.1}
- name: aio-v2beta3
  rate: 5/s
  retry_parameters: {min_backoff_seconds: 0.1}
"""
LOCATION = "projects/app/locations/us-central1"
NPM = Path(__file__).parent / "npm_cloud_tasks"
WORKER = "worker@app.iam.gserviceaccount.com"
EMULATED = "emulated-service-acct@email.com"
"""Whom firebase-admin names where it has no credentials."""


FUNCTIONS = "https://us-central1-app.cloudfunctions.net"
API = "https://api.example.com"
"""What the tasks call; the server sends it to the app."""


class TaskHandlers(PushApp):
    """Refuses each task whose name ends in `-retried` once."""

    served: Served

    def handle(self, received: Received) -> int:
        is_first = received.path not in self.paths()
        status = super().handle(received)
        return 503 if is_first and received.path.endswith("-retried") else status

    def check(self, path: str, body: bytes, email: str, *, attempts: int = 1) -> None:
        """Check that a path got a body, in so many attempts, with the token of a sender."""
        handled = [received for received in self.received if received.path == path]
        assert [received.body for received in handled] == [body] * attempts
        for received in handled:
            token = received.headers["Authorization"].removeprefix("Bearer ")
            # The Host is that of the task's URL, which is the audience unless a task has another.
            audience = f"https://{received.headers['Host']}{path}"
            certs = f"{self.served.url}/oauth2/v3/certs"
            assert id_token.verify_token(token, Request(), audience, certs)["email"] == email


@pytest.fixture(scope="module")
def handlers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskHandlers]:
    """Run the app, and a server that sends it tasks."""
    folder, handlers = tmp_path_factory.mktemp("served"), TaskHandlers()
    (folder / "queue.yaml").write_text(QUEUE_YAML)
    with push_app(handlers):
        to_app = [f"--push-to={url}={handlers.url}" for url in (FUNCTIONS, API)]
        with serving("--grpc-port", "0", *to_app, folder=folder) as handlers.served:
            yield handlers


def reported(handlers: TaskHandlers, *command: str) -> Any:
    """Run a program with the address of the server, and return the JSON that it prints."""
    address = urlsplit(handlers.served.url).netloc
    run = completed(command, env={**os.environ, **variables_for(address), "NO_GCE_CHECK": "true"})
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def listed(handlers: TaskHandlers, queue: str) -> list[str]:
    with urlopen(f"{handlers.served.url}/v2/{LOCATION}/queues/{queue}/tasks") as response:  # noqa: S310
        tasks = json.load(response).get("tasks", [])
    return [task["name"].rpartition("/")[2] for task in tasks]


def check_life(handlers: TaskHandlers, queue: str, found: Any) -> None:
    """Check what became of the tasks that a client created in its queue."""
    printed = found.pop("printed")
    assert found == {"url": f"{API}/{queue}-run", "again": found["again"], "listed": True}
    assert found["again"] in (grpc.StatusCode.ALREADY_EXISTS.value[0], 409)
    if printed is not None:
        assert "Requested entity already exists" in printed
        assert f'task "{queue}-run" of queue "{queue}" exists' in printed.replace('\\"', '"')
    until(lambda: listed(handlers, queue) == [f"{queue}-purged"])
    handlers.check(f"/{queue}-run", b"work", WORKER)
    handlers.check(f"/{queue}-retried", b"work", WORKER, attempts=2)
    urlopen(f"{handlers.served.url}/v2/{LOCATION}/queues/{queue}:purge", b"").close()  # noqa: S310
    assert listed(handlers, queue) == []


def check_firebase(handlers: TaskHandlers, body: bytes) -> None:
    """Check that a function got its task, and that no other is left."""
    until(lambda: handlers.paths().count("/resize") and listed(handlers, "resize") == [])
    handlers.check("/resize", body, EMULATED)
    handlers.received.clear()


def test_firebase_admin_adds_and_deletes_tasks_of_a_function(
    handlers: TaskHandlers, tmp_path: Path
) -> None:
    packages = npm_packages(NPM, tmp_path)
    node = program("node", package="nodejs")
    found = reported(handlers, node, str(NPM / "firebase.js"), str(packages))

    assert found == {"again": "functions/task-already-exists", "missing": "functions/not-found"}
    check_firebase(handlers, b'{"data":{"image":"cat.png"}}')


FIREBASE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import firebase_admin
from firebase_admin import exceptions, functions

firebase_admin.initialize_app(options={"projectId": "app"})
queue = functions.task_queue("resize")
later = functions.TaskOptions(task_id="bird", schedule_delay_seconds=3600)
reported = [bool(queue.enqueue({"image": "cat.png"})), queue.enqueue({"image": "dog.png"}, later)]
try:
    queue.enqueue({}, later)
except exceptions.FirebaseError as error:
    reported.append(error.code)
queue.delete("bird")
print(json.dumps(reported))
"""


def test_firebase_for_python_reads_the_id_of_a_new_task(
    handlers: TaskHandlers, tmp_path: Path
) -> None:
    # What it needs for Firestore and Storage is not wanted here.
    pip_install("--target", str(tmp_path), "--no-deps", "firebase-admin==7.7.0")
    command = [sys.executable, "-W", "ignore", "-c", FIREBASE, str(tmp_path)]

    assert reported(handlers, *command) == [True, "bird", "ALREADY_EXISTS"]
    check_firebase(handlers, b'{"image": "cat.png"}')


@pytest.mark.parametrize("transport", ["grpc", "rest"])
def test_the_client_of_npm_works_over_each_transport(
    handlers: TaskHandlers, tmp_path: Path, transport: str
) -> None:
    client = npm_packages(NPM, tmp_path) / "@google-cloud" / "tasks"
    served, node = handlers.served, program("node", package="nodejs")
    address = served.grpc_address if transport == "grpc" else urlsplit(served.url).netloc
    script = str(NPM / "life_v2.js")
    found = reported(handlers, node, script, str(client), transport, address)

    check_life(handlers, f"node-{transport}", found)
    library = str(client.parents[1] / "google-auth-library")
    request = next(each for each in handlers.received if each.path == f"/node-{transport}-run")
    token = request.headers["Authorization"].removeprefix("Bearer ")
    url = f"{API}{request.path}"
    verified = reported(handlers, node, str(NPM / "verify.js"), library, token, served.url, url)
    assert verified == WORKER


def test_the_client_for_go_works(handlers: TaskHandlers, tmp_path: Path) -> None:
    source = Path(__file__).parent / "go_cloud_tasks"
    built = go_program(
        *(source, tmp_path, "cloud.google.com/go/cloudtasks/apiv2"),
        debian="golang-google-cloud-dev",
    )

    found = reported(handlers, str(built), handlers.served.grpc_address)
    check_life(handlers, "go-grpc", found)


AIO = """
import asyncio, base64, json, sys, time
sys.path.insert(0, sys.argv[1])
import aiohttp
from gcloud.aio.taskqueue import PushQueue

async def life(queue):
    async with aiohttp.ClientSession() as session:
        tasks = PushQueue("app", queue, session=session, api_root=sys.argv[2] or None)

        async def create(name, **fields):
            request = {
                "url": f"https://api.example.com/{name}",
                "body": base64.b64encode(b"work").decode(),
                "oidcToken": {"serviceAccountEmail": "worker@app.iam.gserviceaccount.com"},
            }
            task = {"name": tasks.task_name(name), "httpRequest": request, **fields}
            return (await tasks.create(task))["name"]

        hour = time.strftime("%FT%TZ", time.gmtime(time.time() + 3600))
        later = {"scheduleTime": hour}
        await create(f"{queue}-retried")
        run = await create(f"{queue}-run", **later)
        deleted = await create(f"{queue}-deleted", **later)
        try:
            await create(f"{queue}-run", **later)
        except aiohttp.ClientResponseError as error:
            again = error.status
        url = (await tasks.get(run))["httpRequest"]["url"]
        await tasks.delete(deleted)
        purged = await create(f"{queue}-purged", **later)
        await tasks.run(run)
        listed = [task["name"] for task in (await tasks.list())["tasks"]]
        found = {"url": url, "again": again, "listed": purged in listed, "printed": None}
        print(json.dumps(found))

asyncio.run(life(sys.argv[3]))
"""


@pytest.mark.parametrize("version", ["v2", "v2beta3"])
def test_gcloud_aio_works_with_each_version(
    handlers: TaskHandlers, tmp_path: Path, version: str
) -> None:
    """A third party's client; by the variable that `exec` sets it uses v2beta3."""
    packages = ("gcloud-aio-taskqueue==7.1.0", "gcloud-aio-auth==5.6.0")
    pip_install("--target", str(tmp_path), "--no-deps", *packages, "tenacity", "chardet")
    url = f"{handlers.served.url}/v2" if version == "v2" else ""
    command = [sys.executable, "-W", "ignore", "-c", AIO, str(tmp_path), url, f"aio-{version}"]

    check_life(handlers, f"aio-{version}", reported(handlers, *command))


FASTAPI = """
import sys
sys.path.insert(0, sys.argv[1])
import json
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit
from fastapi import APIRouter, FastAPI, Header
from fastapi.testclient import TestClient
from fastapi_gcp_tasks import DelayedRouteBuilder
from fastapi_gcp_tasks.hooks import oidc_delayed_hook
from fastapi_gcp_tasks.utils import emulator_client, queue_path
from google.auth.transport.requests import Request
from google.cloud import tasks_v2
from google.oauth2 import id_token
from pydantic import BaseModel
from pullqueue.testing import emulation, run_tasks

class Mail(BaseModel):
    to: str

with emulation(queues=["pull"], start=datetime.now(UTC), server=True) as emulated:
    token = tasks_v2.OidcToken(service_account_email="worker@app.iam.gserviceaccount.com")
    routes = APIRouter(route_class=DelayedRouteBuilder(
        client=emulator_client(host=emulated.server.grpc_address),
        queue_path=queue_path(project="app", location="us-central1", queue="mail"),
        callback_base_url="https://api.example.com",
        pre_create_hook=oidc_delayed_hook(token),
    ))
    sent = []

    @routes.post("/send/{kind}")
    def send(kind: str, mail: Mail, authorization: str = Header("")):
        claims = id_token.verify_token(
            authorization.removeprefix("Bearer "),
            Request(),
            f"https://api.example.com/send/{kind}",
            f"{emulated.server.url}/oauth2/v3/certs",
        )
        sent.append((kind, mail.to, claims["email"]))
        if len(sent) == 1:
            raise RuntimeError("not yet")

    app = FastAPI()
    app.include_router(routes)
    send.delay(kind="now", mail=Mail(to="ada"))
    send.options(countdown=1800, task_id="later").delay(kind="later", mail=Mail(to="grace"))
    client = TestClient(app)

    def deliver(request):
        path, headers = urlsplit(request.url).path, request.headers
        return client.request(request.method, path, headers=headers, content=request.body)

    attempts = run_tasks(emulated.emulator, send=deliver, until="empty", errors="retry")
    print(json.dumps([[attempt.status for attempt in attempts], sent]))
"""


def test_routes_of_fastapi_gcp_tasks_run_and_are_retried(tmp_path: Path) -> None:
    packages = ("fastapi-gcp-tasks==0.3.4", "google-cloud-scheduler==2.21.0")
    pip_install("--target", str(tmp_path), "--no-deps", *packages)
    run = completed([sys.executable, "-W", "ignore", "-c", FASTAPI, str(tmp_path)])

    assert run.returncode == 0, run.stderr
    now, later = ["now", "ada", WORKER], ["later", "grace", WORKER]
    assert json.loads(run.stdout) == [[500, 200, 200], [now, now, later]]
