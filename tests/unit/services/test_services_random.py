"""Random calls of every service: the server answers each, and can still do its work."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from random_messages import RandomMessages
from services_client import Client, messages
from stores import LONG
from urllib3 import PoolManager

from pullqueue.sdk.imports import remote_api
from pullqueue.sdk.stub import CALLS
from pullqueue.server.lifecycle import Server
from pullqueue.services.hosting import Services
from pullqueue.services.stubs import find_messages, make_stub

pytestmark = pytest.mark.slow

COUNT = 50_000 if LONG else 200


def calls(services: Services) -> list[tuple[str, str, type[Any]]]:
    found = [
        ("taskqueue", method, getattr(messages, f"TaskQueue{method}Request")) for method in CALLS
    ]
    for service in services.names - {"images"}:  # it needs an old Pillow
        for name in dir(make_stub(service, services)):
            method = name.removeprefix("_Dynamic_")
            classes = find_messages(service, method) if method != name else None
            if classes is not None:
                found.append((service, method, classes[0]))
    return sorted(found, key=lambda call: call[:2])


@pytest.mark.parametrize("folder", [None, "data"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_random_calls_are_answered_and_leave_no_traceback(
    folder: str | None,
    serve: Callable[..., Server],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    server = serve(data=folder and tmp_path / folder)
    services = server.services
    assert services is not None
    known = calls(services)
    make, statuses = RandomMessages(seed=53), Counter[int]()
    send: Callable[..., Any] = PoolManager(retries=False).request
    for _ in range(COUNT):
        service, method, request = make.random.choice(known)
        data = make.fill(request()).SerializePartialToString()
        if make.random.random() < 0.3:
            data = make.mutate(data)
        call = remote_api.Request(
            service_name=service, method=method, request=data, request_id="ticket"
        )
        wire = call.SerializeToString()
        if make.random.random() < 0.1:
            wire = make.mutate(wire)
        answer = send("POST", f"{server.url}/rpc_http", body=wire)
        statuses[answer.status] += 1
        assert remote_api.Response.FromString(answer.data).IsInitialized()

    assert statuses == {200: COUNT}
    assert [record for record in caplog.records if record.exc_info] == []
    client = Client(server.url)
    client.put("a", 7)
    assert client.get("a") == 7
    assert client.put().path.element[0].id > 0
