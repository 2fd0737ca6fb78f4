"""Clients of Cloud Tasks v2beta2, unmodified but for the endpoint.

Those of Google for Python are run by the contract suite and by the documentation.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import pytest
from programs import completed, npm_packages, pip_install, program
from served import Served, serving

QUEUE_YAML = "queue:\n- name: pull-queue\n  mode: pull\n"
NPM = Path(__file__).parent / "npm_cloud_tasks"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "queue.yaml").write_text(QUEUE_YAML)
    with serving("--grpc-port", "0", "--no-lease-rate-limit", folder=folder) as served:
        yield served


@pytest.mark.parametrize("transport", ["grpc", "rest"])
def test_the_client_of_npm_works_over_each_transport(
    served: Served, tmp_path: Path, transport: str
) -> None:
    client = npm_packages(NPM, tmp_path) / "@google-cloud" / "tasks"
    script = (program("node", package="nodejs"), str(NPM / "lifecycle.js"), str(client))
    address = served.grpc_address if transport == "grpc" else urlsplit(served.url).netloc
    run = completed([*script, transport, address])
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


AIO_PACKAGES = (
    *("gcloud-aio-taskqueue==2.0.0", "gcloud-aio-auth==2.2.0"),
    *("backoff==1.11.1", "chardet", "setuptools<81"),
)
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


def test_gcloud_aio_works_though_its_root_is_a_constant(served: Served, tmp_path: Path) -> None:
    # It pins ancient versions of what signs tokens, which none of this needs.
    pip_install("--target", str(tmp_path), "--no-deps", *AIO_PACKAGES)
    run = completed([sys.executable, "-W", "ignore", "-c", AIO_WORKER, str(tmp_path), served.url])
    assert run.returncode == 0, run.stderr
    one, two, held, acknowledged, full, count, deleted, empty = json.loads(run.stdout)

    assert [one["pullMessage"]["tag"], "tag" in two["pullMessage"]] == ["a=b", False]
    assert [task["name"] for task in held] == [one["name"]]
    assert (acknowledged, deleted, empty) == ({}, {}, {})
    assert base64.b64decode(full["payload"]) == b"two"
    assert count == 1
