"""Cloud Tasks over gRPC: what is below the messages, and that each method answers as over REST."""

from __future__ import annotations

import re
import socket
import threading
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from urllib.parse import quote

import grpc
import pytest
from cloudtasks_api import (
    LOCATION,
    MADE,
    PULL,
    PUSH,
    ApiRefused,
    Call,
    GrpcApi,
    RestApi,
    find_method,
)
from google.api_core.exceptions import ResourceExhausted, ServiceUnavailable
from tables import each_row
from werkzeug.test import Client

from pullqueue import Emulator, Limits, ManualClock, ServerAddressError
from pullqueue.cloudtasks import grpc_server
from pullqueue.cloudtasks.errors import CloudTasksError
from pullqueue.cloudtasks.grpc_server import compute_deadline_usec
from pullqueue.cloudtasks.messages import message_class
from pullqueue.cloudtasks.servicer import Servicer
from pullqueue.cloudtasks.versions import V2BETA2, VERSIONS, Version
from pullqueue.engine.interceptors import ConnectionCut, current_caller
from pullqueue.faults.declaration import Faults
from pullqueue.runtime.state import ServerState
from pullqueue.server.app import create_app
from pullqueue.server.lifecycle import Server

TASK = {"name": f"{PUSH}/tasks/one", "httpRequest": {"url": "https://api.example.com/work"}}
OVERRIDE = {"httpTarget": {"uriOverride": {"host": "api.example.com"}}}
LEASE = {"name": f"{PULL}/tasks/two", "scheduleTime": "2026-01-01T00:01:00Z"}
SHARED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ListLocations", {"name": "projects/app"}),
    ("GetLocation", {"name": LOCATION}),
    ("UpdateQueue", {"queue": {"name": PUSH, "retryConfig": {"maxAttempts": 2}, **OVERRIDE}}),
    ("BufferTask", {"queue": PUSH, "taskId": "buffered", "body": {"data": "d29yaw=="}}),
    ("GetQueue", {"name": PUSH}),
    ("GetQueue", {"name": f"{LOCATION}/queues/pus"}),
    ("SetIamPolicy", {"resource": PUSH, "policy": {"bindings": []}}),
    ("GetIamPolicy", {"resource": PUSH}),
    ("TestIamPermissions", {"resource": PUSH, "permissions": ["cloudtasks.tasks.get"]}),
    ("CreateTask", {"parent": PUSH, "task": TASK, "responseView": "FULL"}),
    ("CreateTask", {"parent": PUSH, "task": TASK}),
    ("RunTask", {"name": TASK["name"]}),
    ("GetTask", {"name": TASK["name"]}),
    ("ListTasks", {"parent": PUSH}),
    ("DeleteTask", {"name": TASK["name"]}),
    ("PauseQueue", {"name": PUSH}),
    ("ListQueues", {"parent": LOCATION, "filter": "state=PAUSED"}),
    ("ListQueues", {"parent": LOCATION, "filter": "x"}),
    ("ResumeQueue", {"name": PUSH}),
    ("PurgeQueue", {"name": PUSH}),
)
CALLS: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "v2beta2": (
        ("CreateQueue", {"parent": LOCATION, "queue": {"name": MADE, "pullTarget": {}}}),
        ("CreateTask", {"parent": PULL, "task": {"name": LEASE["name"], "pullMessage": {}}}),
        ("LeaseTasks", {"parent": PULL, "leaseDuration": "60s"}),
        ("RenewLease", LEASE | {"leaseDuration": "60s"}),
        ("CancelLease", LEASE),
        ("AcknowledgeTask", LEASE),
        (
            "UploadQueueYaml",
            {"appId": "app", "httpBody": {"data": b64encode(b"queue: []").decode()}},
        ),
    ),
    "v2": (
        ("CreateQueue", {"parent": LOCATION, "queue": {"name": MADE}}),
        ("BatchCreateTasks", {"parent": PUSH, "requests": [{"task": TASK}]}),
        ("BatchDeleteTasks", {"parent": PUSH, "names": ["x"]}),
    ),
}


@pytest.mark.parametrize("version", VERSIONS.values(), ids=list(VERSIONS))
def test_every_method_answers_as_over_rest(clock: ManualClock, version: Version) -> None:
    calls = [*SHARED, *CALLS.get(version.name, CALLS["v2"]), ("DeleteQueue", {"name": MADE})]
    assert {name for name, _ in calls} == {method.name for method in version.methods}
    mixin = "google.cloud.location.Locations"
    of_mixin = {method.name for method in version.methods if method.service == mixin}
    assert of_mixin == {"ListLocations", "GetLocation"}
    text = "queue:\n- name: pull\n  mode: pull\n- name: push\n  rate: 1/s\n"
    over_rest = RestApi(Client(create_app(Emulator.from_text(text, clock=clock))), version=version)
    with Server(Emulator.from_text(text, clock=clock)) as server:
        over_grpc = GrpcApi(server, version=version)
        results = [(result(over_grpc, *call), result(over_rest, *call)) for call in calls]
        over_grpc.channel.close()
    assert all(one == other for one, other in results), results
    refusals = [one for one, _ in results if isinstance(one, tuple)]
    assert len(refusals) == (4 if version is V2BETA2 else 3), refusals


def result(call: Call, name: str, fields: dict[str, Any]) -> dict[str, Any] | tuple[str, Any]:
    """Return the response, without the name of an operation, or code and details of the error."""
    try:
        response = call(name, **fields)
    except ApiRefused as refused:
        return str(refused), refused.details
    if name.startswith("Batch"):
        assert response.pop("name").startswith(f"{LOCATION}/operations/")
    return response


@pytest.mark.parametrize("name", ["GetQueue", "UploadQueueYaml"])
def test_a_malformed_message_is_an_invalid_argument_and_an_unknown_method_unimplemented(
    grpc_api: GrpcApi, name: str
) -> None:
    with pytest.raises(ApiRefused, match="INVALID_ARGUMENT: the request is not a valid"):
        grpc_api.send(find_method(V2BETA2, name), b"\xff\xff\xff")
    unknown = find_method(V2BETA2, name)._replace(name="Stop")
    with pytest.raises(ApiRefused, match="UNIMPLEMENTED: "):
        grpc_api.send(unknown, b"")


@pytest.mark.parametrize("text", ["x" * 100_000, "é" * 100_000, "\n\0\x7f" * 1000])
def test_the_message_of_an_error_is_cut_whatever_characters_it_has(
    grpc_api: GrpcApi, text: str
) -> None:
    with pytest.raises(
        ApiRefused, match=r"INVALID_ARGUMENT: Queue name must be formatted: .*name is"
    ):
        grpc_api("GetQueue", name=f"projects/{text}")


@pytest.mark.parametrize(("name", "count"), [("a b", 200), ("é" * 40, 5)], ids=["ASCII", "others"])
def test_many_errors_of_a_queue_yaml_are_cut_to_what_fits(
    grpc_api: GrpcApi, name: str, count: int
) -> None:
    """The metadata of a response, where é has six bytes."""
    text = "queue:\n" + f"- name: {name}\n" * count
    body = {"data": b64encode(text.encode()).decode()}

    with pytest.raises(ApiRefused, match=r"^INVALID_ARGUMENT: (?s:.*)\.\.\.$") as refused:
        grpc_api("UploadQueueYaml", appId="app", httpBody=body)
    assert 800 < len(str(refused.value)) < 2000


def test_a_response_may_be_larger_than_clients_accept_by_default(
    server: Server, emulator: Emulator
) -> None:
    for _ in range(5):
        emulator.queue("pull").add(b"x" * 2**20)
    api = GrpcApi(server)
    request = {"parent": PULL, "maxTasks": 5, "leaseDuration": "0s", "responseView": "FULL"}
    with pytest.raises(ApiRefused, match=r"RESOURCE_EXHAUSTED: .*Received message larger"):
        api("LeaseTasks", **request)
    options = [("grpc.max_receive_message_length", -1)]
    api.channel = grpc.insecure_channel(server.grpc_address, options=options)

    assert len(api("LeaseTasks", **request)["tasks"]) == 5


@pytest.mark.parametrize("limits", [Limits(rest_body_bytes=1000)])
def test_a_request_that_is_too_large_is_refused(grpc_api: GrpcApi) -> None:
    with pytest.raises(ApiRefused, match="RESOURCE_EXHAUSTED"):
        grpc_api("GetQueue", name="x" * 2000)


def test_grpc_on_the_port_for_rest_is_explained_in_the_log(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"{server.host}:{server.port}"
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary("/google.cloud.tasks.v2.CloudTasks/GetQueue")(b"", timeout=30)

    assert "gRPC on the port for REST: pass it the address of `pullqueue serve" in caplog.text
    caplog.clear()
    server.start_grpc()
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary("/google.cloud.tasks.v2.CloudTasks/GetQueue")(b"", timeout=30)

    assert f"pass it the address {server.grpc_address}" in caplog.text


def test_a_port_in_use_is_reported_with_what_to_do(emulator: Emulator, server: Server) -> None:
    """By another program, or another server."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for address in (f"127.0.0.1:{taken.getsockname()[1]}", server.start_grpc()):
            other, port = Server(emulator), int(address.rpartition(":")[2])
            advice = "stop the process using the port, or pass another --grpc-port"
            with pytest.raises(ServerAddressError, match=f"cannot listen on {address}: {advice}"):
                other.start_grpc(port)
    elsewhere = Server(emulator, host="2001:db8::1")
    with pytest.raises(ServerAddressError, match=r"cannot listen on \[2001:db8::1\]:0: stop"):
        elsewhere.start_grpc()


def test_twenty_calls_are_answered_at_once(grpc_api: GrpcApi, emulator: Emulator) -> None:
    barrier = threading.Barrier(20)
    purge = partial(barrier.wait, 20)
    emulator.queue("pull").purge = purge  # type: ignore[method-assign]

    with ThreadPoolExecutor(20) as callers:
        answers = list(callers.map(lambda _: grpc_api("PurgeQueue", name=PULL), range(20)))

    assert [answer["name"] for answer in answers] == [PULL] * 20


def test_a_call_is_answered_while_the_server_stops(
    server: Server, grpc_api: GrpcApi, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released = threading.Event(), threading.Event()

    def purge() -> None:
        begun.set()
        released.wait(60)

    monkeypatch.setattr(grpc_server, "_GRACE_SECONDS", 60)
    emulator.queue("pull").purge = purge  # type: ignore[method-assign,assignment]
    with ThreadPoolExecutor(1) as caller:
        answer = caller.submit(grpc_api, "PurgeQueue", name=PULL)
        assert begun.wait(60)
        threading.Timer(0.2, released.set).start()
        server.stop()

        assert answer.result()["name"] == PULL


@each_row(("size", "is_json"), [(4096, True), (4097, False)])
def test_a_message_of_4_kib_is_logged_as_json(
    server: Server, grpc_api: GrpcApi, size: int, *, is_json: bool
) -> None:
    """A longer one as it is."""
    method = find_method(V2BETA2, "GetQueue")
    data = message_class("v2beta2", method.request)(name="x" * (size - 3)).SerializeToString()
    assert len(data) == size

    with pytest.raises(ApiRefused, match="PERMISSION_DENIED"):
        grpc_api.send(method, data)

    assert server.state.requests.latest()[0].body.data.startswith(b'{"name"') == is_json


def test_a_server_stops_while_clients_are_connected(server: Server, grpc_api: GrpcApi) -> None:
    grpc_api("GetQueue", name=PULL)
    [request] = server.state.requests.latest()
    assert 0 < request.milliseconds < 60_000
    assert any(each.name.startswith("pullqueue-grpc") for each in threading.enumerate())
    server.stop()

    assert server.grpc_address == ""
    with pytest.raises(ApiRefused, match="UNAVAILABLE"):
        grpc_api("GetQueue", name=PULL)


@pytest.mark.parametrize(
    ("seconds", "nanos"), [(0, 10**9), (0, -1), (253_402_300_800, 0), (-62_135_596_801, 0)]
)
def test_a_time_that_json_cannot_express_is_refused_with_its_field(
    grpc_api: GrpcApi, seconds: int, nanos: int
) -> None:
    method = find_method(V2BETA2, "CancelLease")
    message = message_class(method.version, method.request)(name=f"{PULL}/tasks/one")
    message.schedule_time.seconds, message.schedule_time.nanos = seconds, nanos

    rule = "schedule_time is not a valid time: it must be in the years 1 to 9999"
    with pytest.raises(ApiRefused, match=f"INVALID_ARGUMENT: {rule}"):
        grpc_api.send(method, message.SerializeToString())


def test_a_connection_that_is_cut_is_unavailable(emulator: Emulator, grpc_api: GrpcApi) -> None:
    """As where `crash_test` ends a worker of a server."""

    def cut() -> None:
        caller = current_caller()
        assert caller is not None
        assert caller.origin.client.startswith("grpc-python/")
        raise ConnectionCut(str(caller.port))

    emulator.queue("pull").purge = cut  # type: ignore[method-assign,assignment]
    with pytest.raises(ApiRefused, match=r"^UNAVAILABLE: the connection from port \d+ was cut$"):
        grpc_api("PurgeQueue", name=PULL)


def test_a_bug_of_the_emulator_is_internal_with_its_details_in_the_log(
    grpc_api: GrpcApi, emulator: Emulator, caplog: pytest.LogCaptureFixture
) -> None:

    def broken() -> None:
        raise ZeroDivisionError("secret detail")

    emulator.queue("pull").purge = broken  # type: ignore[method-assign,assignment]

    with pytest.raises(ApiRefused, match=r"^INTERNAL: the emulator failed: see its log$"):
        grpc_api("PurgeQueue", name=PULL)
    assert "PurgeQueue failed because of a bug in the emulator" in caplog.messages
    assert "ZeroDivisionError: secret detail" in caplog.text


def test_an_error_that_apps_do_not_expect_is_logged_once_with_its_advice(
    grpc_api: GrpcApi, caplog: pytest.LogCaptureFixture
) -> None:
    """An app adds each task once by its name, and creates its queues whenever it starts."""
    queue = {"name": f"{LOCATION}/queues/made", "pull_target": {}}
    grpc_api("CreateQueue", parent=LOCATION, queue=queue)
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        *[("GetQueue", {"name": f"{LOCATION}/queues/pus"})] * 3,
        ("CreateQueue", {"parent": LOCATION, "queue": queue}),
        ("GetTask", {"name": f"{PULL}/tasks/none"}),
        ("ListQueues", {"parent": "projects/app"}),
    )
    for method, fields in calls:
        with pytest.raises(ApiRefused):
            grpc_api(method, **fields)

    assert {record.name for record in caplog.records} == {"pullqueue.server"}
    advised, without = caplog.messages
    assert advised.startswith("GetQueue refused, NOT_FOUND: Queue does not exist. If you just ")
    assert advised.endswith('(queue "pus" is not in queue.yaml: did you mean "push"?)')
    assert without.startswith('ListQueues refused, INVALID_ARGUMENT: parent is "projects/app": use')
    assert without.endswith(" with letters, digits and hyphens")


def test_a_thousand_errors_are_known_to_be_logged(
    emulator: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that were seen last."""
    service, method = Servicer(ServerState(emulator)), find_method(V2BETA2, "GetQueue")
    for number in (*range(1000), 0, 1000, 1, 0):
        request = message_class("v2beta2", method.request)(name=f"projects/{number}")
        with pytest.raises(CloudTasksError):
            service.call(method, request, caller=None)

    names = re.findall(r'name is "projects/(\d+)"', caplog.text)
    assert names == [*map(str, range(1001)), "1"]


def test_a_latency_beyond_the_deadline_is_deadline_exceeded(
    grpc_api: GrpcApi, emulator: Emulator, clock: ManualClock
) -> None:
    """The caller, who waits 60 seconds here, learns that it took too long."""
    Faults(emulator).latency("lease_tasks", 600)
    before = clock.now_usec()

    with pytest.raises(ApiRefused, match="DEADLINE_EXCEEDED"):
        grpc_api("LeaseTasks", parent=PULL, leaseDuration="60s")
    assert 15 < (clock.now_usec() - before) / 1e6 < 61  # less what a slow machine took


@pytest.mark.parametrize(
    ("error", "recorded"),
    [
        (ResourceExhausted("Bandwidth exhausted"), "RESOURCE_EXHAUSTED: Bandwidth exhausted"),  # type: ignore[no-untyped-call]
        (ServiceUnavailable("Try later."), "UNAVAILABLE: Try later."),  # type: ignore[no-untyped-call]
        # A text may have 1200 bytes, and is cut between characters.
        *(
            (ServiceUnavailable(text), f"UNAVAILABLE: {shown}")  # type: ignore[no-untyped-call]
            for text, shown in (
                ("é" * 600, "é" * 600),
                ("x" * 1201, f"{'x' * 1200}..."),
                (f"x{'é' * 600}", f"x{'é' * 599}..."),
            )
        ),
    ],
)
def test_a_fault_answers_with_the_text_of_its_error(
    grpc_api: GrpcApi, emulator: Emulator, error: Exception, recorded: str
) -> None:
    """As recorded in production, where no class alone tells the text."""
    Faults(emulator).fail("add", error)

    with pytest.raises(ApiRefused) as refused:
        grpc_api("CreateTask", parent=PUSH, task=TASK)
    assert str(refused.value) == recorded


@each_row(
    ("remaining", "deadline"),
    [
        (9.999105, 10),
        (59.95, 60),
        (12.4999, 12.5),
        (1.2493, 1.3),
        (0.2493, 0.25),
        (1e12, 1e9),
        (None, 1e9),
    ],
)
def test_what_a_call_took_on_its_way_is_not_taken_from_its_deadline(
    remaining: float | None, deadline: float
) -> None:
    assert compute_deadline_usec(remaining) == deadline * 1e6


def answer_of(
    grpc_api: GrpcApi, method: str, named: str, *, routing: str | None, timeout: float | None = 30
) -> str:
    """Return the status, text and advice of a call on what is named, with a routing header."""
    called = find_method(VERSIONS["v2beta3" if method == "BufferTask" else "v2beta2"], method)
    request = message_class(called.version, called.request)(**{called.field: named})
    metadata = () if routing is None else (("x-goog-request-params", routing),)
    try:
        grpc_api.send(called, request.SerializeToString(), metadata=metadata, timeout=timeout)
    except ApiRefused as refusal:
        return str(refusal)
    return "OK"


@pytest.mark.parametrize(("timeout", "far"), [(None, False), (29, False), (30, False), (31, True)])
def test_a_deadline_is_at_most_30_seconds_ahead(
    grpc_api: GrpcApi, timeout: float | None, *, far: bool
) -> None:
    """As recorded; whoever sets none is answered."""
    answer = answer_of(grpc_api, "GetQueue", PULL, routing=f"name={PULL}", timeout=timeout)

    text = (
        r"INVALID_ARGUMENT: The request deadline is 2025-12-31T16:00:3[01]\S*-08:00\. The deadline "
        r"cannot be more than 30s in the future\. \(the call has a deadline of 31 seconds: pass a "
        r"timeout of 30 seconds or less\)"
    )
    assert re.fullmatch(text if far else "OK", answer), answer


def not_routed(field: str, wanted: str) -> str:
    """Return how a call on a queue is refused that is not routed by a field."""
    return (
        'INVALID_ARGUMENT: "x-goog-request-params" header is either missing or misformatted. '
        f'"x-goog-request-params" must contain "{wanted}=projects/[projectname]/locations/'
        f"[location]/queues/[name]\" (send x-goog-request-params with {field}, as Google's clients "
        "do)"
    )


@each_row(
    ("routing", "found"),
    [
        (f"name={quote(PULL, '')}", True),
        (f"name={PULL}", True),
        (f"other=x&name={PULL}", True),
        (f"parent={PULL}", False),
        ("name=", False),
        (PULL, False),
        ("", False),
        (None, False),
    ],
)
def test_a_call_names_its_resource_in_the_metadata(
    grpc_api: GrpcApi, routing: str | None, *, found: bool
) -> None:
    """By which production routes it; libraries were released that forgot it."""
    answer = answer_of(grpc_api, "GetQueue", PULL, routing=routing)

    assert answer == ("OK" if found else not_routed("name", "name"))


def test_a_call_below_a_queue_is_routed_by_its_parent(grpc_api: GrpcApi) -> None:
    answer = answer_of(grpc_api, "ListTasks", PULL, routing=f"name={PULL}")

    assert answer == not_routed("parent", "parent")


@each_row(("method", "named"), [("GetLocation", LOCATION), ("UploadQueueYaml", "app")])
def test_a_call_of_another_service_or_without_a_resource_is_not_routed(
    grpc_api: GrpcApi, method: str, named: str
) -> None:
    assert "x-goog-request-params" not in answer_of(grpc_api, method, named, routing=None)


@pytest.mark.parametrize(
    ("routing", "is_routed"),
    [(None, False), (f"parent={PUSH}", False), (f"name={PUSH}", True), (f"queue={PUSH}", True)],
)
def test_a_buffered_task_is_routed_by_name_or_queue(
    grpc_api: GrpcApi, routing: str | None, *, is_routed: bool
) -> None:
    """Production's text wants `name`, though the field is `queue`; what is routed has no URL."""
    answer = answer_of(grpc_api, "BufferTask", PUSH, routing=routing)

    no_url = (
        'FAILED_PRECONDITION: queue "push" has no URL for its tasks: set '
        "http_target.uri_override.host, by CreateQueue or UpdateQueue"
    )
    assert answer == (no_url if is_routed else not_routed("queue", "name"))
