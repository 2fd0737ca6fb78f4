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


def test_python_lists_queues_and_locations(client: tasks_v2beta2.CloudTasksClient) -> None:
    """Pages are followed by the client."""
    queues = list(client.list_queues(request={"parent": LOCATION, "page_size": 1}))
    locations = client.list_locations({"name": "projects/app"}).locations

    assert [queue.name.rpartition("/")[2] for queue in queues] == ["default", "pull-queue"]
    assert [location.name for location in locations] == [LOCATION]
    assert client.get_location({"name": LOCATION}).location_id == "us-central1"


def test_python_on_queues(client: tasks_v2beta2.CloudTasksClient) -> None:
    """Create, update, pause, resume, policies, delete."""
    name = f"{LOCATION}/queues/made-{uuid.uuid4()}"
    queue = tasks_v2beta2.Queue(name=name, pull_target={}, task_ttl=timedelta(days=1))

    created = client.create_queue(parent=LOCATION, queue=queue)
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
    assert updated.retry_config.max_attempts == 3
    assert code_of(paused.value) == "FAILED_PRECONDITION"
    assert resumed.state is tasks_v2beta2.Queue.State.RUNNING
    assert list(held.permissions) == ["cloudtasks.tasks.lease"]


def test_python_uploads_a_queue_yaml(served: Served) -> None:
    """Google's client does it over gRPC alone."""
    with grpc_client(served.grpc_address) as client:
        body = {"data": QUEUE_YAML.encode(), "content_type": "text/yaml"}
        client.upload_queue_yaml({"app_id": "app", "http_body": body})
        with pytest.raises(exceptions.InvalidArgument, match="this does not look like a queue"):
            client.upload_queue_yaml({"app_id": "app", "http_body": {"data": b"?"}})


def test_python_asyncio(served: Served) -> None:
    """Google's client for asyncio: a hundred tasks at a time."""

    async def live() -> tuple[list[bytes], int]:
        channel = grpc.aio.insecure_channel(served.grpc_address)
        transport = CloudTasksGrpcAsyncIOTransport(channel=channel)
        client = tasks_v2beta2.CloudTasksAsyncClient(transport=transport)
        await asyncio.gather(
            *(
                client.create_task(
                    request={
                        "parent": QUEUE,
                        "task": {"pull_message": {"payload": str(number).encode()}},
                    }
                )
                for number in range(100)
            )
        )
        lease = {"parent": QUEUE, "max_tasks": 100, "lease_duration": MINUTE, "response_view": 2}
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

    assert sorted(map(int, payloads)) == list(range(100))
    assert left == 0


def node(
    served: Served, folder: Path, *token: str, transport: str = "grpc"
) -> subprocess.CompletedProcess[str]:
    """Run a program on npm's client."""
    client = npm_packages(NPM, folder) / "@google-cloud" / "tasks"
    address = served.grpc_address if transport == "grpc" else urlsplit(served.url).netloc
    command = [program("node", package="nodejs"), str(NPM / "lifecycle.js"), str(client)]
    return completed([*command, transport, address, *token])


@pytest.mark.parametrize("transport", ["grpc", "rest"])
def test_node(served: Served, tmp_path: Path, transport: str) -> None:
    """npm's client over each of its transports."""
    run = node(served, tmp_path, transport=transport)
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


def bundled(served: Served) -> Any:
    """Build Google's API client from the document that it brings."""
    return build(
        "cloudtasks",
        "v2beta2",
        client_options={"api_endpoint": served.url},
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
    )


def discovered(served: Served) -> Any:
    """Build Google's API client from the server's document."""
    url = f"{served.url}/$discovery/rest?version={{apiVersion}}"
    return build(
        "cloudtasks",
        "v2beta2",
        discoveryServiceUrl=url,
        static_discovery=False,
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
    )


@pytest.fixture(params=[bundled, discovered])
def api(request: pytest.FixtureRequest, served: Served) -> Iterator[Any]:
    """Yield Google's API client, built in each of its ways."""
    with request.param(served) as api:
        yield api


def test_the_api_client(api: Any) -> None:
    """google-api-python-client."""
    queues = api.projects().locations().queues()
    tasks = queues.tasks()
    message = {"payload": base64.b64encode(b"one").decode(), "tag": "red"}
    body = {"task": {"pullMessage": message}, "responseView": "FULL"}

    created = tasks.create(parent=QUEUE, body=body).execute()
    listed = tasks.list(parent=QUEUE, pageSize=10, fields="tasks(name)").execute()
    lease = {"maxTasks": 10, "leaseDuration": "60s", "filter": "tag_function=oldest_tag()"}
    (held,) = tasks.lease(parent=QUEUE, body=lease).execute()["tasks"]
    renewal = {"scheduleTime": held["scheduleTime"], "leaseDuration": "90s"}
    renewed = tasks.renewLease(name=held["name"], body=renewal).execute()
    with pytest.raises(HttpError) as stale:
        tasks.acknowledge(name=held["name"], body={"scheduleTime": held["scheduleTime"]}).execute()
    acknowledged = tasks.acknowledge(
        name=held["name"], body={"scheduleTime": renewed["scheduleTime"]}
    ).execute()

    assert created["pullMessage"] == message
    assert listed == {"tasks": [{"name": created["name"]}]}
    assert json.loads(stale.value.content)["error"]["status"] == "FAILED_PRECONDITION"
    assert acknowledged == {}
    assert tasks.lease(parent=QUEUE, body=lease).execute() == {}
    listed = queues.list(parent=LOCATION, readMask="stats").execute()
    assert len(listed["queues"]) == 2


def test_the_api_client_on_queues(api: Any) -> None:
    """Create, patch, pause, resume, policies, upload, delete."""
    queues = api.projects().locations().queues()
    name = f"{LOCATION}/queues/made-{uuid.uuid4()}"
    bindings = [{"role": "roles/cloudtasks.admin", "members": ["user:worker@example.com"]}]

    created = queues.create(parent=LOCATION, body={"name": name, "pullTarget": {}}).execute()
    patched = queues.patch(
        name=name, updateMask="retryConfig", body={"retryConfig": {"maxAttempts": 3}}
    ).execute()
    states = [
        queues.pause(name=name, body={}).execute()["state"],
        queues.resume(name=name, body={}).execute()["state"],
        queues.purge(name=name, body={}).execute()["state"],
    ]
    queues.setIamPolicy(resource=name, body={"policy": {"bindings": bindings}}).execute()
    policy = queues.getIamPolicy(resource=name, body={}).execute()
    held = queues.testIamPermissions(resource=name, body={"permissions": ["x.y"]}).execute()
    upload = {"data": base64.b64encode(QUEUE_YAML.encode()).decode()}
    uploaded = api.api().queue().update(appId="app", body=upload).execute()

    assert created["taskTtl"] == "2678400s"
    assert patched["retryConfig"] == {"maxAttempts": 3}
    assert states == ["PAUSED", "RUNNING", "RUNNING"]
    assert policy["bindings"] == bindings
    assert held == {"permissions": ["x.y"]}
    assert uploaded == {}
    assert queues.delete(name=name).execute() == {}


def test_a_batch_of_the_api_client(served: Served) -> None:
    """Calls in a batch are answered one by one, at the path of the server's document."""
    answers: dict[str, tuple[Any, Any]] = {}
    with discovered(served) as api:
        tasks = api.projects().locations().queues().tasks()
        batch = api.new_batch_http_request(
            callback=lambda identifier, answer, error: answers.update({identifier: (answer, error)})
        )
        batch.add(tasks.create(parent=QUEUE, body={"task": {"name": f"{QUEUE}/tasks/batched"}}))
        batch.add(tasks.get(name=f"{QUEUE}/tasks/missing"))
        batch.add(tasks.delete(name=f"{QUEUE}/tasks/batched"))
        batch.execute()

    assert answers["1"][0]["name"] == f"{QUEUE}/tasks/batched"
    assert json.loads(answers["2"][1].content)["error"]["status"] == "NOT_FOUND"
    assert answers["3"] == ({}, None)


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


def curl(*arguments: str) -> dict[str, Any]:
    """Run curl and return the JSON of the answer."""
    run = completed([program("curl", package="curl"), "-sS", *arguments], check=True)
    return dict(json.loads(run.stdout))


def test_curl(served: Served) -> None:
    """A shell, with curl's default of calling every body a form."""
    queue = f"{served.url}/v2beta2/{QUEUE}"

    created = curl("-d", '{"task": {"pullMessage": {"payload": "b25l"}}}', f"{queue}/tasks")
    lease = '{"leaseDuration": "60s", "responseView": "FULL"}'
    (held,) = curl("-d", lease, f"{queue}/tasks:lease")["tasks"]
    body = json.dumps({"scheduleTime": held["scheduleTime"]})
    acknowledged = curl("-d", body, f"{served.url}/v2beta2/{held['name']}:acknowledge")

    assert held["name"] == created["name"]
    assert held["pullMessage"]["payload"] == "b25l"
    assert acknowledged == {}
    assert curl("-X", "POST", f"{queue}:purge")["state"] == "RUNNING"


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


def key_file(guarded: Served, folder: Path, email: str) -> str:
    """Write the key of a service account and return its path."""
    path = folder / "key.json"
    command = ["credentials", email, "--url", guarded.url, "--output", str(path)]
    subprocess.run([sys.executable, "-m", "pullqueue", *command], check=True, capture_output=True)
    return str(path)


@pytest.mark.parametrize("transport", ["rest", "grpc"])
@pytest.mark.parametrize("email", [WORKER, "other@app.iam.gserviceaccount.com"])
def test_the_key_of_a_service_account(
    guarded: Served, tmp_path: Path, transport: str, email: str
) -> None:
    """Google's client signs a token with it, and never asks for one."""
    path = key_file(guarded, tmp_path, email)
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

    if email == WORKER:
        assert client.get_queue(name=QUEUE).name == QUEUE
    else:
        with pytest.raises(exceptions.GoogleAPICallError) as refused:
            client.get_queue(name=QUEUE)
        assert code_of(refused.value) == "PERMISSION_DENIED"
    client.transport.close()


def token_of(guarded: Served, email: str) -> str:
    """Return a token."""
    return str(curl(f"{guarded.url}/_emulator/token?email={email}")["access_token"])


def test_node_with_a_token(guarded: Served, tmp_path: Path) -> None:
    """In the metadata of each call."""
    with_token = node(guarded, tmp_path, token_of(guarded, WORKER))
    without = node(guarded, tmp_path)

    assert with_token.returncode == 0, with_token.stderr
    assert "UNAUTHENTICATED" in without.stderr


def test_curl_with_a_token(guarded: Served) -> None:
    """In a header; without one the error says so."""
    queue = f"{guarded.url}/v2beta2/{QUEUE}"
    header = ("-H", f"Authorization: Bearer {token_of(guarded, WORKER)}")

    assert curl(*header, queue)["name"] == QUEUE
    assert curl(queue)["error"]["status"] == "UNAUTHENTICATED"
