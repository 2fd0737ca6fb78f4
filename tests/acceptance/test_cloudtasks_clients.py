"""Clients of Cloud Tasks v2beta2, unmodified but for the endpoint."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import pytest
from cloudtasks_interface import code_of, grpc_client, rest_client
from google.api_core import exceptions
from google.auth import jwt
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.grpc import secure_authorized_channel
from google.auth.transport.requests import Request
from google.cloud import tasks_v2beta2
from google.cloud.tasks_v2beta2.services.cloud_tasks.transports import (
    CloudTasksGrpcAsyncIOTransport,
    CloudTasksGrpcTransport,
)
from google.oauth2 import service_account
from googleapiclient.discovery import build  # type: ignore[import-untyped]
from googleapiclient.errors import HttpError  # type: ignore[import-untyped]
from programs import completed, npm_packages, pip_install, program
from served import Served, serving

LOCATION = "projects/app/locations/us-central1"
QUEUE = f"{LOCATION}/queues/pull-queue"
QUEUE_YAML = "queue:\n- name: pull-queue\n  mode: pull\n"
NPM = Path(__file__).parent / "npm_cloud_tasks"
MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run a server."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "queue.yaml").write_text(QUEUE_YAML)
    with serving("--grpc-port", "0", "--no-lease-rate-limit", folder=folder) as served:
        yield served


ACL_YAML = """\
queue:
- name: pull-queue
  mode: pull
  acl:
  - user_email: worker@app.iam.gserviceaccount.com
"""
WORKER = "worker@app.iam.gserviceaccount.com"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run a server that enforces the acl."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "queue.yaml").write_text(ACL_YAML)
    options = ("--grpc-port", "0", "--auth", "acl", "--no-lease-rate-limit")
    with serving(*options, folder=folder) as served:
        yield served


@pytest.fixture(params=["grpc", "rest"])
def client(
    request: pytest.FixtureRequest, served: Served
) -> Iterator[tasks_v2beta2.CloudTasksClient]:
    """Yield Google's client for Python, over each of its transports."""
    if request.param == "grpc":
        with grpc_client(served.grpc_address) as client:
            yield client
    else:
        yield rest_client(served.url)


def test_python(client: tasks_v2beta2.CloudTasksClient) -> None:
    """Google's client for Python manages queues, and follows pages."""
    name = f"{LOCATION}/queues/made-{uuid.uuid4()}"
    queue = tasks_v2beta2.Queue(name=name, pull_target={}, task_ttl=timedelta(days=1))

    created = client.create_queue(parent=LOCATION, queue=queue)
    listed = client.list_queues(request={"parent": LOCATION, "page_size": 1})
    queues = [queue.name for queue in listed]
    queue.retry_config.max_attempts = 3
    updated = client.update_queue(queue=queue, update_mask={"paths": ["retry_config"]})
    client.pause_queue(name=name)
    with pytest.raises(exceptions.GoogleAPICallError) as paused:
        client.lease_tasks(parent=name, lease_duration=MINUTE)
    resumed = client.resume_queue(name=name)
    client.set_iam_policy({"resource": name, "policy": {"bindings": []}})
    held = client.test_iam_permissions(resource=name, permissions=["cloudtasks.tasks.lease"])
    client.delete_queue(name=name)

    assert created.task_ttl == timedelta(days=1)
    assert {name, QUEUE} <= set(queues)
    assert updated.retry_config.max_attempts == 3
    assert code_of(paused.value) == "FAILED_PRECONDITION"
    assert resumed.state is tasks_v2beta2.Queue.State.RUNNING
    assert list(held.permissions) == ["cloudtasks.tasks.lease"]
    assert client.get_location({"name": LOCATION}).location_id == "us-central1"


def test_python_asyncio(served: Served) -> None:
    """Google's client for asyncio makes many calls at a time."""

    async def live() -> tuple[list[bytes], int]:
        channel = grpc.aio.insecure_channel(served.grpc_address)
        transport = CloudTasksGrpcAsyncIOTransport(channel=channel)
        client = tasks_v2beta2.CloudTasksAsyncClient(transport=transport)
        messages = [tasks_v2beta2.PullMessage(payload=bytes([number])) for number in range(20)]
        tasks = [tasks_v2beta2.Task(pull_message=message) for message in messages]
        await asyncio.gather(*(client.create_task(parent=QUEUE, task=task) for task in tasks))
        lease = {"parent": QUEUE, "max_tasks": 20, "lease_duration": MINUTE, "response_view": 2}
        held = (await client.lease_tasks(request=lease)).tasks
        await asyncio.gather(
            *(
                client.acknowledge_task(name=task.name, schedule_time=task.schedule_time)
                for task in held
            )
        )
        left = [task async for task in await client.list_tasks(parent=QUEUE)]
        await channel.close()
        return [task.pull_message.payload for task in held], len(left)

    payloads, left = asyncio.run(live())

    assert sorted(payloads) == [bytes([number]) for number in range(20)]
    assert left == 0


@pytest.mark.parametrize("transport", ["grpc", "rest"])
def test_node(request: pytest.FixtureRequest, tmp_path: Path, transport: str) -> None:
    """npm's client over each of its transports, over gRPC with a token in the metadata."""
    served: Served = request.getfixturevalue("guarded" if transport == "grpc" else "served")
    client = npm_packages(NPM, tmp_path) / "@google-cloud" / "tasks"
    command = [program("node", package="nodejs"), str(NPM / "lifecycle.js"), str(client), transport]
    if transport == "grpc":
        token = served.control(f"/token?email={WORKER}")["access_token"]
        run = completed([*command, served.grpc_address, token])
    else:
        run = completed([*command, urlsplit(served.url).netloc])
    assert run.returncode == 0, run.stderr
    reported = json.loads(run.stdout)

    assert reported["listed"] == reported["created"]
    assert reported["leased"] == ["one", "three"]
    assert (reported["stale"], reported["gone"]) == (
        grpc.StatusCode.FAILED_PRECONDITION.value[0],
        grpc.StatusCode.NOT_FOUND.value[0],
    )
    assert (reported["attempts"], reported["count"]) == (1, 2)
    assert reported["locations"] == ["us-central1"]


@pytest.fixture(params=["bundled", "discovered"])
def api(request: pytest.FixtureRequest, served: Served) -> Iterator[Any]:
    """Yield Google's API client, built from the document that it brings, or from the server's."""
    credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]
    options: dict[str, Any] = {"client_options": {"api_endpoint": served.url}}
    if request.param == "discovered":
        url = f"{served.url}/$discovery/rest?version={{apiVersion}}"
        options = {"discoveryServiceUrl": url, "static_discovery": False}
    with build("cloudtasks", "v2beta2", credentials=credentials, **options) as api:
        yield api


def test_the_api_client(api: Any) -> None:
    """google-api-python-client creates a queue, and its tasks until they are done."""
    queues = api.projects().locations().queues()
    tasks = queues.tasks()
    queue = f"{LOCATION}/queues/made-{uuid.uuid4()}"
    message = {"payload": base64.b64encode(b"one").decode(), "tag": "red"}
    body = {"task": {"pullMessage": message}, "responseView": "FULL"}

    queues.create(parent=LOCATION, body={"name": queue, "pullTarget": {}}).execute()
    patched = queues.patch(
        name=queue, updateMask="retryConfig", body={"retryConfig": {"maxAttempts": 3}}
    ).execute()
    created = tasks.create(parent=queue, body=body).execute()
    listed = tasks.list(parent=queue, pageSize=10, fields="tasks(name)").execute()
    lease = {"maxTasks": 10, "leaseDuration": "60s", "filter": "tag_function=oldest_tag()"}
    (held,) = tasks.lease(parent=queue, body=lease).execute()["tasks"]
    renewal = {"scheduleTime": held["scheduleTime"], "leaseDuration": "90s"}
    renewed = tasks.renewLease(name=held["name"], body=renewal).execute()
    with pytest.raises(HttpError) as stale:
        tasks.acknowledge(name=held["name"], body={"scheduleTime": held["scheduleTime"]}).execute()
    acknowledged = tasks.acknowledge(
        name=held["name"], body={"scheduleTime": renewed["scheduleTime"]}
    ).execute()
    upload = {"data": base64.b64encode(QUEUE_YAML.encode()).decode()}

    assert patched["retryConfig"] == {"maxAttempts": 3}
    assert created["pullMessage"] == message
    assert listed == {"tasks": [{"name": created["name"]}]}
    assert json.loads(stale.value.content)["error"]["status"] == "FAILED_PRECONDITION"
    assert acknowledged == tasks.lease(parent=queue, body=lease).execute() == {}
    assert api.api().queue().update(appId="app", body=upload).execute() == {}
    assert queues.delete(name=queue).execute() == {}


def test_a_batch_of_ruby(served: Served) -> None:
    """google-api-client, whose own classes of v2beta2 find their results by the Content-ID."""
    ruby = program("ruby", package="ruby")
    if subprocess.run(
        [ruby, "-r", "google/apis/cloudtasks_v2beta2", "-e", ""],
        stderr=subprocess.DEVNULL,
        check=False,
    ).returncode:
        pytest.skip("Google's client is missing: apt-get install ruby-google-api-client")
    batch = Path(__file__).parent / "ruby" / "cloud_tasks.rb"
    done = completed([ruby, batch, served.url], check=True)

    assert json.loads(done.stdout) == {"created": ["red", "blue"], "errors": [404]}


AIO_PACKAGES = ("gcloud-aio-taskqueue==2.0.0", "gcloud-aio-auth==2.2.0", "backoff==1.11.1")
AIO_NEEDS = ("aiohttp>=3.9,<4", "chardet", "setuptools<81")
AIO_WORKER = """
import asyncio, base64, json, site, sys
folder, url = sys.argv[1:]
site.addsitedir(folder)
sys.path.insert(0, folder)
import aiohttp
from gcloud.aio.taskqueue import PullQueue

class Token:
    async def get(self):
        return "any"

async def live():
    PullQueue.base_api_root = f"{url}/v2beta2"
    async with aiohttp.ClientSession() as session:
        queue = PullQueue("app", "pull-queue", session=session, token=Token())
        reported = [await queue.insert(base64.b64encode(b"one").decode(), tag="a=b")]
        reported.append(await queue.insert(base64.b64encode(b"two").decode()))
        held = (await queue.lease(num_tasks=2, task_filter="tag=a=b"))["tasks"]
        reported.append(held)
        renewed = await queue.renew(held[0])
        reported.append(await queue.ack(renewed))
        (other,) = (await queue.lease())["tasks"]
        await queue.cancel(other)
        reported.append((await queue.get(other["name"], full=True))["pullMessage"])
        reported.append(len((await queue.list())["tasks"]))
        reported.append(await queue.delete(other["name"]))
        reported.append(await queue.lease())
    print(json.dumps(reported))

asyncio.run(live())
"""


def test_gcloud_aio(served: Served, tmp_path: Path) -> None:
    """A third party's client, whose API root is a constant, in a folder of its own."""
    target = ("--target", str(tmp_path))
    # It pins ancient versions of what signs tokens, which none of this needs.
    pip_install(*target, "--no-deps", *AIO_PACKAGES)
    pip_install(*target, *AIO_NEEDS)
    run = completed([sys.executable, "-W", "ignore", "-c", AIO_WORKER, str(tmp_path), served.url])
    assert run.returncode == 0, run.stderr
    one, two, held, acknowledged, full, count, deleted, empty = json.loads(run.stdout)

    assert [one["pullMessage"]["tag"], "tag" in two["pullMessage"]] == ["a=b", False]
    assert [task["name"] for task in held] == [one["name"]]
    assert (acknowledged, deleted, empty) == ({}, {}, {})
    assert base64.b64decode(full["payload"]) == b"two"
    assert count == 1


def test_curl(served: Served) -> None:
    """A shell, with curl's default of sending every body as a form."""
    queue = f"{served.url}/v2beta2/{QUEUE}"

    def curl(body: str, url: str) -> dict[str, Any]:
        command = [program("curl", package="curl"), "-sS", "-d", body, url]
        return dict(json.loads(completed(command, check=True).stdout))

    created = curl('{"task": {"pullMessage": {"payload": "b25l"}}}', f"{queue}/tasks")
    lease = '{"leaseDuration": "60s", "responseView": "FULL"}'
    (held,) = curl(lease, f"{queue}/tasks:lease")["tasks"]
    body = json.dumps({"scheduleTime": held["scheduleTime"]})

    assert held["name"] == created["name"]
    assert held["pullMessage"]["payload"] == "b25l"
    assert curl(body, f"{served.url}/v2beta2/{held['name']}:acknowledge") == {}


@pytest.mark.parametrize("transport", ["rest", "grpc"])
def test_the_key_of_a_service_account(guarded: Served, tmp_path: Path, transport: str) -> None:
    """Google's client signs a token with it, and never asks for one."""
    path = str(tmp_path / "key.json")
    command = ["credentials", WORKER, "--url", guarded.url, "--output", path]
    completed([sys.executable, "-m", "pullqueue", *command], check=True)
    if transport == "rest":
        key = service_account.Credentials.from_service_account_file(path)  # type: ignore[no-untyped-call]
        client = rest_client(guarded.url, key)
    else:
        # Its own channels are encrypted, so that it must be given one.
        key = jwt.Credentials.from_service_account_file(  # type: ignore[no-untyped-call]
            path, audience="https://cloudtasks.googleapis.com/"
        )
        channel = secure_authorized_channel(  # type: ignore[no-untyped-call]
            key, Request(), guarded.grpc_address, ssl_credentials=grpc.local_channel_credentials()
        )
        client = tasks_v2beta2.CloudTasksClient(transport=CloudTasksGrpcTransport(channel=channel))

    assert client.get_queue(name=QUEUE).name == QUEUE
    client.transport.close()
