"""Ending workers through every client: of a server, whose connections it keeps, or in process."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
import requests
from functions import in_turn
from google.api_core.exceptions import ServiceUnavailable

from pullqueue import Emulator, Queue
from pullqueue.sdk import install
from pullqueue.sdk.imports import taskqueue
from pullqueue.server.lifecycle import Server
from pullqueue.testing import (
    Crash,
    CrashTestError,
    assert_available,
    assert_empty,
    drain,
    drain_async,
)

pytestmark = pytest.mark.slow

PATH = "/taskqueue/v1beta2/projects/p/taskqueues/work/tasks"
LEASE = f"{PATH}/lease?leaseSecs=60&numTasks=1"

Request = Callable[[str, str], bytes]
"""Takes method and path, and returns the body of the response."""


class Client(NamedTuple):
    lease: Callable[[], Iterable[Any]]
    delete: Callable[[Any], object]


def over_rest(request: Request) -> Client:
    return Client(
        lambda: [task["id"] for task in json.loads(request("POST", LEASE)).get("items", ())],
        lambda task: request("DELETE", f"{PATH}/{task}"),
    )


AsyncRequest = Callable[[str, str], Coroutine[Any, Any, bytes]]


@asynccontextmanager
async def on_aiohttp(url: str) -> AsyncIterator[AsyncRequest]:
    import aiohttp

    async with aiohttp.ClientSession(url) as session:

        async def request(method: str, path: str) -> bytes:
            async with session.request(method, path) as response:
                return await response.read()

        yield request


@asynccontextmanager
async def on_httpx(url: str) -> AsyncIterator[AsyncRequest]:
    import httpx

    async with httpx.AsyncClient(base_url=url, timeout=30) as session:

        async def request(method: str, path: str) -> bytes:
            return (await session.request(method, path)).content

        yield request


@asynccontextmanager
async def in_threads(url: str) -> AsyncIterator[AsyncRequest]:
    """Yield one with requests, whose calls are made in threads, which it waits for."""
    with requests.Session() as session, ThreadPoolExecutor() as pool:

        async def request(method: str, path: str) -> bytes:
            call = pool.submit(session.request, method, url + path, timeout=30)
            try:
                return (await asyncio.wrap_future(call)).content
            finally:  # also if cancelled: a lease on its way would take the next task
                wait([call])

        yield request


@pytest.fixture
def server(emulator: Emulator) -> Iterator[Server]:
    with Server(emulator) as running:
        yield running


def with_http_client(server: Server) -> Iterator[Client]:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)

    def request(method: str, path: str) -> bytes:
        connection.request(method, path)
        return connection.getresponse().read()

    yield over_rest(request)
    connection.close()


def with_httplib2(server: Server) -> Iterator[Client]:
    import httplib2

    client = httplib2.Http(timeout=30)
    yield over_rest(lambda method, path: client.request(server.url + path, method)[1])
    client.close()


def with_requests(server: Server) -> Iterator[Client]:
    with requests.Session() as session:
        yield over_rest(lambda m, path: session.request(m, server.url + path, timeout=30).content)


def with_httpx(server: Server) -> Iterator[Client]:
    import httpx

    with httpx.Client(timeout=30) as client:
        yield over_rest(lambda method, path: client.request(method, server.url + path).content)


def with_aiohttp(server: Server) -> Iterator[Client]:
    """Yield one on aiohttp, in an event loop that only runs during its calls."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        request = runner.run(stack.enter_async_context(on_aiohttp(server.url)))
        yield over_rest(lambda method, path: runner.run(request(method, path)))
        runner.run(stack.aclose())


def with_grpc(server: Server) -> Iterator[Client]:
    from google.cloud import tasks_v2beta2
    from google.cloud.tasks_v2beta2.services.cloud_tasks import transports

    with grpc.insecure_channel(server.start_grpc()) as channel:
        transport = transports.CloudTasksGrpcTransport(channel=channel)
        client = tasks_v2beta2.CloudTasksClient(transport=transport)
        lease = {
            "parent": "projects/p/locations/us-central1/queues/work",
            "lease_duration": {"seconds": 60},
        }
        yield Client(
            lambda: client.lease_tasks(lease).tasks,
            lambda task: client.acknowledge_task(name=task.name, schedule_time=task.schedule_time),
        )


def with_responses(server: Server) -> Iterator[Client]:
    """Yield one on requests, which are answered in process."""
    from pytest_pullqueue.intercepting import requests_of_test

    with requests_of_test(server.emulator, acl=False), requests.Session() as session:
        root = "https://www.googleapis.com"
        yield over_rest(lambda m, path: session.request(m, root + path, timeout=30).content)


def with_sdk(server: Server) -> Iterator[Client]:
    """Yield the SDK's, whose calls do not leave the process."""
    with install(server.emulator):
        queue = taskqueue.Queue("work")
        yield Client(lambda: queue.lease_tasks(60, 1), queue.delete_tasks)


@pytest.fixture(
    params=[
        with_http_client,
        with_httplib2,
        with_requests,
        with_httpx,
        with_aiohttp,
        with_grpc,
        with_responses,
        with_sdk,
    ]
)
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Client]:
    yield from request.param(server)


def test_a_client_can_be_used_again_after_drain(
    emulator: Emulator, queue: Queue, client: Client
) -> None:
    for _ in range(2):
        queue.add()

    def work() -> None:
        while True:
            with suppress(Exception):
                for task in client.lease():
                    client.delete(task)

    assert drain(emulator, work) == 1
    assert_empty(queue)
    queue.add()
    assert list(client.lease())


def test_a_client_can_be_used_again_after_crashes(
    crash: Callable[..., object], queue: Queue, client: Client
) -> None:
    """A killed worker does nothing more, whatever it catches."""
    saved = []

    def work() -> None:
        for task in client.lease():
            with suppress(Exception):
                client.delete(task)
            saved.append(1)

    with pytest.raises(CrashTestError) as caught:
        crash(work, setup=in_turn(saved.clear, queue.add), check=lambda: bool(saved))

    (failure,) = caught.value.failures
    assert (failure.crash, failure.call_number) == (Crash.AFTER, 2)
    files = re.findall(r"\(([^ ]+):\d+ in ", failure.calls[-1])
    assert files == [str(Path(__file__).relative_to(Path.cwd()))], "not that of a library"
    queue.add()
    assert list(client.lease())


@pytest.mark.parametrize("connected", [with_requests, with_grpc])
def test_a_client_cannot_lease_from_the_server_of_a_later_test(
    emulator: Emulator, queue: Queue, connected: Callable[[Server], Iterator[Client]]
) -> None:
    with Server(emulator) as first:
        clients = connected(first)
        client = next(clients)
        client.lease()
    with Server(emulator) as second:
        second.start_grpc()
        queue.add()
        with pytest.raises((requests.ConnectionError, ServiceUnavailable)):
            client.lease()
        list(clients)

    assert_available(queue, 1)


@pytest.mark.parametrize("connected", [on_aiohttp, on_httpx, in_threads])
def test_drain_async_stops_coroutines_that_share_a_client(
    emulator: Emulator,
    queue: Queue,
    server: Server,
    connected: Callable[[str], AbstractAsyncContextManager[AsyncRequest]],
) -> None:
    for _ in range(5):
        queue.add()

    async def lease(request: AsyncRequest) -> list[Any]:
        return list(json.loads(await request("POST", LEASE)).get("items", ()))

    async def work(request: AsyncRequest) -> None:
        while True:
            for task in await lease(request):
                await request("DELETE", f"{PATH}/{task['id']}")

    async def test() -> None:
        async with connected(server.url) as request:
            await drain_async(emulator, lambda: asyncio.gather(work(request), work(request)))
            assert_empty(queue)
            queue.add()
            listed = json.loads(await request("GET", PATH))
            assert listed["items"]  # a lease that was on its way may have leased it

    asyncio.run(test())


def test_each_thread_of_a_worker_is_ended_at_its_own_calls(
    emulator: Emulator, queue: Queue, server: Server
) -> None:
    for _ in range(5):
        queue.add()

    def in_process() -> None:
        while True:
            queue.delete_tasks(queue.lease_tasks(60, 1))

    def over_rest() -> None:
        client = next(with_requests(server))
        while True:
            for task in client.lease():
                client.delete(task)

    def work() -> None:
        threads = [threading.Thread(target=target) for target in (in_process, over_rest) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert drain(emulator, work) == 1
    assert_empty(queue)
