"""Cloud Tasks v2beta2 over gRPC: what is below the messages."""

from __future__ import annotations

import socket
from base64 import b64encode

import grpc
import pytest
from cloudtasks_api import LOCATION, PULL, ApiRefused, GrpcApi, method_of

from pullqueue import Emulator, Limits, ServerAddressError
from pullqueue.cloudtasks.messages import message_class
from pullqueue.cloudtasks.versions import V2BETA2
from pullqueue.server.lifecycle import Server


@pytest.fixture
def api(server: Server) -> GrpcApi:
    """Return the gRPC interface."""
    return GrpcApi(server)


@pytest.mark.parametrize("method", V2BETA2.methods, ids=lambda method: method.name)
def test_a_malformed_message(api: GrpcApi, method: object) -> None:
    """It is an INVALID_ARGUMENT, not a fault of the server."""
    with pytest.raises(ApiRefused, match="INVALID_ARGUMENT: the request is not a valid"):
        api.send(method, b"\xff\xff\xff")  # type: ignore[arg-type]


def test_an_unknown_method(api: GrpcApi) -> None:
    """It is unimplemented."""
    with pytest.raises(grpc.RpcError) as failure:
        api.channel.unary_unary("/google.cloud.tasks.v2beta2.CloudTasks/Stop")(b"")

    assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("text", ["x" * 100_000, "é" * 100_000, "\n\0\x7f" * 1000])
def test_a_long_error_message(api: GrpcApi, text: str) -> None:
    """It is cut to what fits the metadata of a response."""
    with pytest.raises(ApiRefused, match="INVALID_ARGUMENT: name is"):
        api.call("GetQueue", {"name": text})
    with pytest.raises(ApiRefused, match="INVALID_ARGUMENT: page_token is"):
        api.call("ListQueues", {"parent": LOCATION, "pageToken": text})


def test_a_large_response(server: Server, emulator: Emulator) -> None:
    """A lease may be larger than the 4 MB that clients accept by default."""
    for _ in range(10):
        emulator.queue("pull").add(b"x" * 2**20)
    api = GrpcApi(server)
    request = {"parent": PULL, "maxTasks": 10, "leaseDuration": "0s", "responseView": "FULL"}
    with pytest.raises(ApiRefused, match=r"RESOURCE_EXHAUSTED: .*Received message larger"):
        api.call("LeaseTasks", request)
    options = [("grpc.max_receive_message_length", -1)]
    api.channel = grpc.insecure_channel(server.grpc_address, options=options)

    assert len(api.call("LeaseTasks", request)["tasks"]) == 10


@pytest.mark.parametrize("limits", [Limits(rest_body_bytes=1000)])
def test_a_large_request(api: GrpcApi, limits: Limits) -> None:
    """What is larger than a request over REST may be is refused."""
    with pytest.raises(ApiRefused, match="RESOURCE_EXHAUSTED"):
        api.call("GetQueue", {"name": "x" * 2000})


def test_a_port_in_use(emulator: Emulator) -> None:
    """One line says what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = Server(emulator, grpc_port=taken.getsockname()[1])
        with pytest.raises(ServerAddressError, match="pass another --grpc-port"), server:
            pass


def test_stopping(server: Server, api: GrpcApi) -> None:
    """A server stops while clients are connected, and can be started again."""
    api.call("GetQueue", {"name": PULL})
    server.stop()

    assert server.grpc_address == ""
    with pytest.raises(ApiRefused, match="UNAVAILABLE"):
        api.call("GetQueue", {"name": PULL})


def test_a_time_that_json_cannot_express(api: GrpcApi) -> None:
    """It is an INVALID_ARGUMENT with the name of its field."""
    method = method_of(V2BETA2, "CancelLease")
    message = message_class(method.version, method.request)(name=f"{PULL}/tasks/one")

    for seconds, nanos in ((0, 2 * 10**9), (10**12, 0)):
        message.schedule_time.seconds, message.schedule_time.nanos = seconds, nanos
        with pytest.raises(ApiRefused, match="INVALID_ARGUMENT: schedule_time is not a valid time"):
            api.send(method, message.SerializeToString())


def test_many_errors_of_a_queue_yaml(api: GrpcApi) -> None:
    """The message is cut to what fits the metadata of a response."""
    text = "queue:\n" + "- name: a b\n" * 200
    body = {"data": b64encode(text.encode()).decode()}

    with pytest.raises(ApiRefused, match=r"^INVALID_ARGUMENT: (?s:.*)\.\.\.$") as refused:
        api.call("UploadQueueYaml", {"appId": "app", "httpBody": body})
    assert 1000 < len(str(refused.value)) < 2000


def test_a_bug_of_the_emulator(
    api: GrpcApi, emulator: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    """It is INTERNAL without details, which are in the log."""

    def broken() -> None:
        raise ZeroDivisionError("secret detail")

    emulator.queue("pull").purge = broken  # type: ignore[method-assign,assignment]

    with pytest.raises(ApiRefused, match=r"^INTERNAL: the emulator failed: see its log$"):
        api.call("PurgeQueue", {"name": PULL})
    assert "PurgeQueue failed through a fault of the emulator" in caplog.text
    assert "ZeroDivisionError: secret detail" in caplog.text
