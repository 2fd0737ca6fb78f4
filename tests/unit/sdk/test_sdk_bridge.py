"""The route by which App Engine's runtimes reach the task queue service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import requests
from odd_servers import always_answering

from pullqueue import Emulator, ServerAddressError
from pullqueue.sdk import connect, transactions
from pullqueue.sdk.imports import messages, remote_api, taskqueue
from pullqueue.server.lifecycle import Server
from pullqueue.testing import Faults

RpcError = remote_api.RpcError


@pytest.fixture
def server(emulator: Emulator) -> Iterator[Server]:
    with Server(emulator) as server:
        yield server


def post(server: Server, body: bytes | Iterator[bytes], *, deadline: str = "60") -> bytes:
    headers = {"X-Google-RPC-Service-Deadline": deadline}
    response = requests.post(f"{server.url}/rpc_http", body, headers=headers, timeout=60)
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "application/octet-stream"
    return response.content


def call(
    server: Server, method: str, message: Any, *, service: str = "taskqueue", deadline: str = "60"
) -> Any:
    data = message if isinstance(message, bytes) else message.SerializeToString()
    wire = remote_api.Request(
        service_name=service, method=method, request=data, request_id="any ticket"
    )
    return remote_api.Response.FromString(post(server, wire.SerializeToString(), deadline=deadline))


def add_request(**fields: Any) -> Any:
    defaults = {"queue_name": b"pull", "task_name": b"", "eta_usec": 0, "mode": 1, "body": b"work"}
    return messages.TaskQueueBulkAddRequest(
        add_request=[messages.TaskQueueAddRequest(**(defaults | fields))]
    )


@pytest.mark.parametrize(
    ("deadline", "late"),
    [("5", True), ("5.5", False), ("nan", False), ("inf", False), ("?", False)],
)
def test_a_call_that_takes_longer_than_its_deadline_fails(
    emulator: Emulator, server: Server, deadline: str, *, late: bool
) -> None:
    """Without a number that is a minute."""
    request = messages.TaskQueueFetchQueueStatsRequest(queue_name=[b"pull"])
    with Faults(emulator) as faults:
        faults.latency("fetch_statistics", 5.5)
        answer = call(server, "FetchQueueStats", request, deadline=deadline)

    assert (answer.rpc_error.code == RpcError.DEADLINE_EXCEEDED) == late
    assert answer.HasField("response") != late


def test_calls_are_in_the_request_log(server: Server) -> None:
    call(server, "BulkAdd", add_request(task_name=b"mine"))
    call(server, "BulkAdd", add_request(queue_name=b"nowhere"))

    refused, added = server.state.requests.latest()
    assert (added.interface, added.method, added.queue) == ("SDK", "taskqueue.BulkAdd", "pull")
    assert (added.verb, added.status, added.client) == ("POST", 200, "127.0.0.1")
    assert b'task_name: "mine"' in added.body.data
    assert b"taskresult" in added.response.data
    assert (refused.queue, refused.status) == ("nowhere", 404)
    assert b'queue "nowhere" is not in' in refused.response.data


@pytest.mark.usefixtures("stub")
def test_calls_in_process_are_in_the_request_log(server: Server) -> None:
    queue = taskqueue.Queue("pull")
    queue.add(taskqueue.Task(payload="work", method="PULL"))
    queue.lease_tasks(60, 10)
    queue.fetch_statistics()
    with pytest.raises(taskqueue.UnknownQueueError):
        taskqueue.Queue("nowhere").purge()

    added, leased, *others = reversed(server.state.requests.latest())
    assert [(each.verb, each.method, each.queue, each.status) for each in (added, *others)] == [
        ("CALL", "taskqueue.BulkAdd", "pull", 200),
        ("CALL", "taskqueue.FetchQueueStats", "pull", 200),
        ("CALL", "taskqueue.PurgeQueue", "nowhere", 404),
    ]
    (task,) = server.emulator.queue("pull").list_tasks()
    events = server.emulator.queue("pull").history(task)
    assert added.tasks == leased.tasks == [task.name]
    assert [event.origin and event.origin[::2] for event in events] == [
        ("SDK", added.number),
        ("SDK", leased.number),
    ]


@pytest.mark.parametrize(
    ("method", "message", "code", "detail"),
    [
        # The SDK's client takes details of call errors for a format.
        ("100%", b"", RpcError.CALL_NOT_FOUND, 'the task queue service has no call "100%%"'),
        ("FetchQueues", b"", RpcError.CALL_NOT_FOUND, 'service has no call "FetchQueues"'),
        ("BulkAdd", b"\xff", RpcError.PARSE_ERROR, '"BulkAdd" cannot be parsed as its protocol'),
        ("PurgeQueue", b"", RpcError.PARSE_ERROR, '"PurgeQueue" lacks queue_name'),
        ("", b"\xff\xff", RpcError.PARSE_ERROR, ""),  # a body that is not a call
    ],
)
def test_unknown_methods_and_unreadable_calls_are_distinguished(
    server: Server, method: str, message: bytes, code: int, detail: str
) -> None:
    if method:
        answer = call(server, method, message)
    else:
        answer = remote_api.Response.FromString(post(server, message))

    assert answer.rpc_error.code == code
    assert detail in answer.rpc_error.detail


@pytest.mark.slow
def test_a_call_may_be_as_large_as_the_sdk_permits(server: Server, emulator: Emulator) -> None:
    one = add_request(body=b"x" * 2**20).add_request[0]
    largest = messages.TaskQueueBulkAddRequest(add_request=[one] * 31)
    too_large = messages.TaskQueueBulkAddRequest(add_request=[one] * 32)

    assert not call(server, "BulkAdd", largest).HasField("rpc_error")
    assert call(server, "BulkAdd", too_large).rpc_error.code == RpcError.REQUEST_TOO_LARGE
    assert emulator.queue("pull").fetch_statistics().tasks == 31


@pytest.mark.parametrize("body", [b"x" * (34 * 2**20), [b"x" * 2**20] * 34], ids=["one", "chunks"])
def test_a_body_that_no_call_can_have_is_refused(server: Server, body: bytes | list[bytes]) -> None:
    answer = post(server, body if isinstance(body, bytes) else iter(body))

    code = remote_api.Response.FromString(answer).rpc_error.code
    assert code == RpcError.REQUEST_TOO_LARGE


def test_transactions_are_refused(server: Server) -> None:
    """There is no datastore beside the server, so no task can wait for a commit."""
    request = add_request()
    request.add_request[0].transaction.handle = 1
    request.add_request[0].transaction.app = "app"

    answer = call(server, "BulkAdd", request)

    assert answer.application_error.code == messages.TaskQueueServiceError.DATASTORE_BAD_REQUEST
    assert "no datastore is there to commit it" in answer.application_error.detail


@pytest.mark.parametrize(
    ("argument", "variable", "named"),
    [
        ("http://h:1", "", 'the address is "http://h:1"'),
        ("", "h", 'PULLQUEUE_EMULATOR_HOST is "h"'),
    ],
)
def test_an_invalid_address_is_refused_where_it_is_given(
    monkeypatch: pytest.MonkeyPatch, argument: str, variable: str, named: str
) -> None:
    monkeypatch.setenv("PULLQUEUE_EMULATOR_HOST", variable)

    with pytest.raises(ServerAddressError, match=f"^{named}, which is not a valid address: use HO"):
        connect(argument)


SUCCEEDED = remote_api.Response(response=b"").SerializeToString()


@contextmanager
def server_beside(
    reply: bytes, emulator: Emulator, seen: list[bytes] | None = None
) -> Iterator[Server]:
    """Serve the emulator beside other bundled services, which answer every call with a reply."""
    with (
        always_answering(reply, seen=seen) as upstream,
        Server(emulator, api_upstream=upstream) as server,
    ):
        yield server


class TestTransactions:
    """The datastore is another process; here it answers every call with the same bytes."""

    def add(self, server: Server, count: int = 1, *, handle: int = 7, **fields: Any) -> Any:
        adds = [add_request(**fields).add_request[0] for _ in range(count)]
        for each in adds:
            each.transaction.handle, each.transaction.app = handle, "app"
        return call(server, "BulkAdd", messages.TaskQueueBulkAddRequest(add_request=adds))

    def end(self, server: Server, method: str = "Commit", handle: int = 7) -> None:
        transaction = type(messages.TaskQueueAddRequest().transaction)(handle=handle, app="app")
        wire = remote_api.Request(
            service_name="datastore_v3", method=method, request=transaction.SerializeToString()
        )
        post(server, wire.SerializeToString())

    @pytest.mark.parametrize(
        ("method", "reply", "stored"),
        [
            ("Commit", SUCCEEDED, 2),
            ("Rollback", SUCCEEDED, 0),
            ("Commit", remote_api.Response().SerializeToString(), 0),
            ("Commit", b"\xff", 0),
        ],
    )
    def test_tasks_are_added_once_the_commit_has_succeeded(
        self, emulator: Emulator, method: str, reply: bytes, stored: int
    ) -> None:
        with server_beside(reply, emulator) as server:
            answer = self.add(server, 2)
            assert emulator.queue("pull").list_tasks() == []
            self.end(server, handle=8)
            assert emulator.queue("pull").list_tasks() == []
            self.end(server, method)
            self.end(server)

        added = messages.TaskQueueBulkAddResponse.FromString(answer.response)
        names = [result.chosen_task_name.decode() for result in added.taskresult]
        assert len(set(names)) == 2
        assert [task.name for task in emulator.queue("pull").list_tasks()] == names[:stored]

    def test_what_could_not_be_added_is_refused_at_once(self, emulator: Emulator) -> None:
        codes = messages.TaskQueueServiceError
        with server_beside(SUCCEEDED, emulator) as server:
            unknown = self.add(server, queue_name=b"nowhere")
            push = self.add(server, queue_name=b"push")
            tag = self.add(server, tag=b"x" * 501)
            first = self.add(server, 5)
            sixth = self.add(server)
            self.end(server)
            later = self.add(server)

        assert unknown.application_error.code == codes.UNKNOWN_QUEUE
        assert push.application_error.code == codes.INVALID_QUEUE_MODE
        assert tag.application_error.code == codes.INVALID_TAG
        assert sixth.application_error.code == codes.DATASTORE_BAD_REQUEST
        assert sixth.application_error.detail == "Too many messages, maximum allowed 5"
        assert first.response
        assert later.response
        assert len(emulator.queue("pull").list_tasks()) == 5

    def test_what_is_open_too_long_or_cannot_be_stored_is_dropped(
        self, emulator: Emulator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Of too many the oldest; a task that is not added is logged, as the app has committed."""
        monkeypatch.setattr(transactions, "_MAX_TRANSACTIONS", 2)
        with server_beside(SUCCEEDED, emulator) as server:
            for handle in (1, 2, 3, 4):
                self.add(server, handle=handle)
            for handle in (1, 2, 3):
                self.end(server, handle=handle)
            assert len(emulator.queue("pull").list_tasks()) == 1
            assert caplog.text == ""

            emulator.reconfigure(replace(emulator.config, total_storage_limit_bytes=0))
            self.end(server, handle=4)

        assert "of a committed transaction is not added" in caplog.text


class TestOtherServices:
    def test_a_call_without_upstream_says_what_can_be_done(
        self, server: Server, caplog: pytest.LogCaptureFixture
    ) -> None:
        """And what this server is; each service is logged once.

        A flush of the log succeeds, which Go's package makes at the end of every request.
        """
        answer = call(server, "Get", b"", service="memcache")
        call(server, "Set", b"", service="memcache")
        call(server, "RunQuery", b"", service="datastore_v3")
        flushed = call(server, "Flush", b"", service="logservice")

        assert [each.split(",")[0] for each in caplog.messages] == [
            'pullqueue has no service "memcache"',
            'pullqueue has no service "datastore_v3"',
        ]
        assert answer.rpc_error.code == RpcError.CALL_NOT_FOUND
        assert 'pullqueue has no service "memcache"' in answer.rpc_error.detail
        assert "--api-upstream HOST:PORT" in answer.rpc_error.detail
        assert (flushed.response, flushed.HasField("rpc_error")) == (b"", False)
        assert server.state.requests.latest()[0].path == "/rpc_http logservice.Flush"

    def test_calls_to_other_services_are_passed_on_unchanged(self, emulator: Emulator) -> None:
        reply = remote_api.Response(response=b"from memcache").SerializeToString()
        seen: list[bytes] = []
        with server_beside(reply, emulator, seen) as server:
            other = call(server, "Get", b"key", service="memcache")
            own = call(server, "BulkAdd", add_request())

        assert other.response == b"from memcache"
        assert [remote_api.Request.FromString(body).request for body in seen] == [b"key"]
        assert own.response

    @pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense:port", "status"])
    def test_an_upstream_that_fails_is_named(self, emulator: Emulator, address: str) -> None:
        with always_answering(b"", 503) as failing:
            upstream = failing if address == "status" else address
            with Server(emulator, api_upstream=upstream) as server:
                answer = call(server, "Get", b"", service="memcache")

        assert answer.rpc_error.code == RpcError.UNKNOWN
        assert f"the upstream {upstream} did not respond" in answer.rpc_error.detail
