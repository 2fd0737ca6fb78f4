"""The services of a server on the wire: which are answered, how they fail, and their time."""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from errno import ENOSPC
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from io import BytesIO
from pathlib import Path
from resource import RLIMIT_FSIZE
from typing import Any

import pytest
import requests
from rlimits import limited
from served import free_port
from services_client import APP, Client, RefusedError, datastore_pb, memcache
from tables import each_row

from pullqueue import Emulator, ManualClock
from pullqueue.api.errors import ApiError
from pullqueue.clock import USEC_PER_SECOND
from pullqueue.push.addresses import PushAddresses
from pullqueue.resources.mails import MailQuery, get_mail, list_mails
from pullqueue.sdk.imports import remote_api
from pullqueue.server.lifecycle import Server
from pullqueue.services import SERVICES, parse_services
from pullqueue.services.hosting import Services

Serve = Callable[..., Server]
RpcError = remote_api.RpcError


def api(module: str) -> Any:
    return import_module(f"google.appengine.api.{module}")


def set_value(
    client: Client, value: bytes, seconds: int = 0, deadline: str = "", namespace: str = ""
) -> None:
    request = memcache.MemcacheSetRequest(name_space=namespace)
    request.item.add(key=b"a", value=value, expiration_time=seconds)
    client.call("memcache", "Set", request, memcache.MemcacheSetResponse(), deadline)


def value_of(client: Client) -> bytes | None:
    request = memcache.MemcacheGetRequest(key=[b"a"])
    response = client.call("memcache", "Get", request, memcache.MemcacheGetResponse())
    return next((item.value for item in response.item), None)


def namespaces(server: Server) -> set[str]:
    assert server.services is not None
    return set(server.services._stub("memcache")._the_cache)


def test_values_expire_by_the_servers_clock(client: Client, clock: ManualClock) -> None:
    """Also after all were deleted."""
    set_value(client, b"1", seconds=60)
    clock.advance(59)
    assert value_of(client) == b"1"
    clock.advance(1)
    assert value_of(client) is None

    client.call("memcache", "FlushAll", b"", memcache.MemcacheFlushResponse())
    set_value(client, b"1", seconds=60)
    clock.advance(60)
    assert value_of(client) is None


def test_values_that_nobody_reads_are_deleted_when_they_have_expired(
    serve: Serve, clock: ManualClock
) -> None:
    server = serve()
    client = Client(server.url)
    for number in range(50):
        set_value(client, b"1", seconds=60, namespace=f"of {number}")
    set_value(client, b"2")
    clock.advance(59)
    set_value(client, b"3", seconds=60, namespace="new")
    assert namespaces(server) == {"", "new", *(f"of {number}" for number in range(50))}

    clock.advance(1)
    value_of(client)

    assert namespaces(server) == {"", "new"}
    clock.return_to_usec(clock.now_usec() - 86400 * USEC_PER_SECOND)
    set_value(client, b"4", seconds=60, namespace="later")
    clock.advance(60)
    assert value_of(client) == b"2"
    assert namespaces(server) == {"", "new"}, "that of a time that is not there yet"


def test_services_that_are_not_named_are_those_of_the_upstream(
    serve: Serve, emulator: Emulator
) -> None:
    """Its datastore, and memcache here; tasks are added here when a transaction commits there."""
    upstream = serve()
    names = frozenset({"memcache"})
    with closing(Services(names, clock=emulator.clock)) as services:
        own = Emulator.from_text("queue: [{name: pull, mode: pull}]")
        address = upstream.url.removeprefix("http://")
        with Server(own, services=services, api_upstream=address) as server:
            client, other = Client(server.url), Client(upstream.url)
            set_value(client, b"1")
            transaction = client.begin()
            client.put("a", 1, transaction)
            names_added = client.add(transaction)
            client.commit(transaction)

            assert (value_of(client), value_of(other)) == (b"1", None)
            assert other.get("a") == 1
            assert [task.name for task in own.queue("pull").list_tasks()] == names_added
    assert emulator.queue("pull").list_tasks() == []


def test_only_the_named_services_are_answered(serve: Serve) -> None:
    client = Client(serve(names=frozenset({"memcache"})).url)
    set_value(client, b"1")

    with pytest.raises(RefusedError, match='no service "datastore_v3", only "memcache", ') as no:
        client.begin()
    assert no.value.rpc_code == RpcError.CALL_NOT_FOUND
    assert "start it with --services all, or with --api-upstream HOST:PORT" in str(no.value)
    with pytest.raises(
        RefusedError, match=r'"channel", .*: start it with --api-upstream HOST:PORT'
    ):
        client.call("channel", "CreateChannel", b"", memcache.MemcacheGetResponse())
    with pytest.raises(RefusedError, match="since no datastore is there to commit it"):
        client.add(datastore_pb.Transaction(app=APP, handle=1))

    server = serve(names=frozenset({"blobstore"}))
    client = Client(server.url)
    asked = api("blobstore.blobstore_service_pb2").CreateUploadURLRequest(success_path="/done")
    with pytest.raises(RefusedError, match="blobstore needs datastore_v3: name it in --services"):
        client.call("blobstore", "CreateUploadURL", asked, memcache.MemcacheGetResponse())
    response = requests.get(f"{server.url}/_ah/blobs/key", timeout=60)
    text = "this server does not host blobstore with datastore_v3: name both in --services"
    assert (response.status_code, text in response.text) == (404, True)


@each_row(
    ("service", "method", "request_", "problem"),
    [
        ("memcache", "Nothing", b"", 'the service "memcache" has no call "Nothing"'),
        ("datastore_v3", "AddActions", b"", 'the service "datastore_v3" has no call "AddActions"'),
        ("mail", "GetSentMessages", b"", 'the service "mail" has no call'),
        ("memcache", "Get", b"\xff", 'the request of "Get" cannot be parsed'),
        ("memcache", "Get", b"\x0a", 'the request of "Get" cannot be parsed'),
        ("mail", "Send", b"", 'the request of "Send" lacks Sender, Subject'),
        ("datastore_v3", "Commit", b"\xff", 'the request of "Commit" cannot be parsed'),
    ],
)
def test_bad_calls_are_refused(
    client: Client, service: str, method: str, request_: bytes, problem: str
) -> None:
    with pytest.raises(RefusedError, match=problem):
        client.call(service, method, request_, memcache.MemcacheGetResponse())


def test_what_a_stub_raises_is_an_error_of_the_call(client: Client) -> None:
    """Google's stubs check little; the server goes on."""
    request = b"\x0a\x03\x0a\x01a"  # an image
    with pytest.raises(RefusedError, match="needs a Pillow older than 10") as disabled:
        client.call("images", "Histogram", request, memcache.MemcacheGetResponse())
    assert disabled.value.rpc_code == RpcError.FEATURE_DISABLED
    capability = import_module("google.appengine.api.capabilities.capability_service_pb2")
    asked = capability.IsEnabledRequest(package="a")
    with pytest.raises(RefusedError, match="Google's stub of capability_service failed: Val") as no:
        client.call("capability_service", "IsEnabled", asked, capability.IsEnabledResponse())
    assert no.value.rpc_code == RpcError.UNKNOWN
    set_value(client, b"1")


def test_a_call_waits_for_the_one_before_it_no_longer_than_its_deadline(serve: Serve) -> None:
    server = serve()
    client = Client(server.url)
    set_value(client, b"1")
    assert server.services is not None
    with server.services._locks["memcache"]:
        with pytest.raises(RefusedError, match=r"not answered within 0\.05 seconds") as late:
            set_value(client, b"2", deadline="0.05")
        client.begin()  # another service has a lock of its own

    assert late.value.rpc_code == RpcError.DEADLINE_EXCEEDED
    assert value_of(client) == b"1"


def test_calls_are_in_the_request_log(serve: Serve) -> None:
    server = serve()
    client = Client(server.url)
    client.put("a", 7)
    with pytest.raises(RefusedError):
        client.commit(datastore_pb.Transaction(app=APP, handle=1))

    refused, put = server.state.requests.latest()
    assert (put.method, put.status, put.interface) == ("datastore_v3.Put", 200, "SDK")
    assert b"int64Value: 7" in put.body.data
    assert (refused.method, refused.status) == ("datastore_v3.Commit", 400)
    assert b"not found" in refused.response.data


def test_a_reset_keeps_entities_and_files_unless_asked(serve: Serve, tmp_path: Path) -> None:
    server = serve(data=tmp_path)
    client = Client(server.url)
    client.put("a", 1)
    set_value(client, b"1")
    (tmp_path / "blobs").mkdir()

    server.state.reset()
    assert (client.get("a"), value_of(client)) == (1, b"1")
    assert (tmp_path / "blobs").exists()
    server.state.reset(services=True)
    assert (client.get("a"), value_of(client)) == (None, None)
    assert not (tmp_path / "blobs").exists()
    assert server.services is not None
    assert server.services.journal is not None
    assert list(server.services.journal.entities()) == []


def test_the_app_is_where_push_tasks_are_sent(serve: Serve) -> None:
    port = free_port()
    addresses = [f"http://localhost:{port}", f"worker=http://localhost:{port + 1}"]
    client = Client(serve(push_to=PushAddresses(addresses)).url)
    modules = api("modules.modules_service_pb2")

    names = client.call(
        "modules", "GetModules", modules.GetModulesRequest(), modules.GetModulesResponse()
    )
    host = client.call(
        "modules",
        "GetHostname",
        modules.GetHostnameRequest(module="worker"),
        modules.GetHostnameResponse(),
    )
    assert list(names.module) == ["default", "worker"]
    assert host.hostname == f"localhost:{port + 1}"


@pytest.mark.parametrize(
    ("page", "expected"),
    [("/mine?a=1", "/mine%3Fa%3D1"), ("", "/"), ("http://a:80/b", "http%3A//a%3A80/b")],
)
def test_login_and_logout_are_pages_of_the_app(client: Client, page: str, expected: str) -> None:
    """On the host that the browser knows: the URL has none."""
    users = api("user_service_pb2")
    for kind in ("login", "logout"):
        make = f"Create{kind.capitalize()}URL"
        request = getattr(users, f"{make}Request")(destination_url=page)
        url = client.call("user", make, request, getattr(users, f"{make}Response")())

        assert getattr(url, f"{kind}_url") == f"/_ah/{kind}?continue={expected}"


def upload_url(client: Client, **fields: Any) -> str:
    blobs = api("blobstore.blobstore_service_pb2")
    request = blobs.CreateUploadURLRequest(success_path="/done", **fields)
    url = client.call("blobstore", "CreateUploadURL", request, blobs.CreateUploadURLResponse()).url
    assert url.startswith("http://localhost:8080/_ah/upload/")
    return str(url.removeprefix("http://localhost:8080"))


def fetched(client: Client, key: str) -> bytes:
    blobs = api("blobstore.blobstore_service_pb2")
    asked = blobs.FetchDataRequest(blob_key=key, start_index=0, end_index=3)
    return bytes(client.call("blobstore", "FetchData", asked, blobs.FetchDataResponse()).data)


def delete_blob(client: Client, key: str) -> None:
    blobs = api("blobstore.blobstore_service_pb2")
    deletion = blobs.DeleteBlobRequest(blob_key=[key])
    client.call("blobstore", "DeleteBlob", deletion, blobs.FetchDataResponse())


# Google's stub leaves the file that it reads to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_blobs_are_in_the_folder_of_data(serve: Serve, tmp_path: Path) -> None:
    """Their stub keeps what it knows of them in the datastore of the server, under its app; both
    outlive it.
    """
    with ExitStack() as first:
        server = serve(first, data=tmp_path)
        files = {"photo": ("a.png", b"picture", "image/png")}
        url = server.url + upload_url(Client(server.url))
        form = requests.post(url, files=files, timeout=60).json()
    server = serve(data=tmp_path)
    client = Client(server.url)
    (key,) = re.findall('blob-key="(.*?)"', form["body"])
    (file,) = (tmp_path / "blobs").iterdir()

    assert (form["path"], file.read_bytes()) == ("/done", b"picture")
    assert fetched(client, key) == b"pict"
    part = requests.get(f"{server.url}/_ah/blobs/{key}", headers={"Range": "bytes=-3"}, timeout=60)
    assert (part.status_code, part.content) == (206, b"ure")
    assert part.headers["Content-Disposition"] == "attachment"
    assert part.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    delete_blob(client, key)

    assert not file.exists()
    assert requests.get(f"{server.url}/_ah/blobs/{key}", timeout=60).status_code == 404
    with pytest.raises(RefusedError) as refused:
        fetched(client, key)
    errors = api("blobstore.blobstore_service_pb2").BlobstoreServiceError
    assert refused.value.code == errors.BLOB_NOT_FOUND


def test_no_part_of_a_blob_is_left(serve: Serve, tmp_path: Path) -> None:
    """Neither of an upload that failed, nor, from the next start on, of one that was killed."""
    folder = tmp_path / "blobs"
    folder.mkdir()
    (folder / "killed.part").write_bytes(b"pict")
    (folder / "whole").write_bytes(b"picture")

    class Full(BytesIO):
        def read(self, *_: Any) -> bytes:
            if self.tell():
                raise OSError(ENOSPC, "no space left")
            return super().read(4)

    server = serve(data=tmp_path)
    assert server.services is not None
    storage = server.services._stub("blobstore").storage
    with pytest.raises(OSError, match="no space left"):
        storage.StoreBlob("key", Full(b"picture"))

    assert [file.name for file in folder.iterdir()] == ["whole"]


def test_an_upload_that_cannot_be_stored_stores_none_of_its_files(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve(data=tmp_path)
    url = server.url + upload_url(Client(server.url))
    files = [("a", ("a", b"1")), ("b", ("b", b"2" * 5000))]
    with limited(RLIMIT_FSIZE, 4999):
        answer = requests.post(url, files=files, timeout=60)

    assert answer.status_code == 507
    assert "the upload cannot be stored: " in answer.json()["error"]["message"]
    assert list((tmp_path / "blobs").iterdir()) == []
    assert requests.post(url, files=files, timeout=60).status_code == 200


def test_the_key_of_a_blob_names_no_other_file(serve: Serve, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("mine")
    client = Client(serve(data=tmp_path / "data").url)

    delete_blob(client, f"x{other}")
    delete_blob(client, "x../../../other.txt")

    assert other.exists()


def test_an_upload_without_a_valid_url_is_refused(serve: Serve) -> None:
    server = serve()
    client = Client(server.url)
    entity = base64.urlsafe_b64encode(client.put("a").SerializeToString()).decode().rstrip("=")
    storage = upload_url(client, gs_bucket_name="bucket")
    for path, status, problem in (
        ("/_ah/upload/nonsense", 404, "get a new one by blobstore.create_upload_url"),
        (f"/_ah/upload/{entity}", 404, "get a new one by blobstore.create_upload_url"),
        (storage, 501, "call blobstore.create_upload_url without gs_bucket_name"),
    ):
        answer = requests.post(server.url + path, files={"a": ("a", b"1")}, timeout=60)
        assert answer.status_code == status
        assert problem in answer.json()["error"]["message"]


def test_mails_are_kept_until_a_reset(serve: Serve, clock: ManualClock) -> None:
    """With what they say, but not with their files; the server's clock tells when."""
    server = serve()
    messages = api("mail_service_pb2")
    mail = messages.MailMessage(
        Sender="a@example.com", To=["b@example.com"], Bcc=["c@example.com"], Subject="Hé",
        TextBody="text", HtmlBody="<p>html", ReplyTo="r@example.com",
    )  # fmt: skip
    mail.Attachment.add(FileName="a.txt", Data=b"123")
    admins = messages.MailMessage(Sender="a@example.com", Subject="All", TextBody="")
    for method, message in (("Send", mail), ("SendToAdmins", admins)):
        Client(server.url).call("mail", method, message, api("api_base_pb2").VoidProto())

    second, first = list_mails(server.state, MailQuery())
    shown = get_mail(server.state, "1")

    assert (first.number, first.time, first.subject) == (1, clock.now().isoformat(), "Hé")
    assert (second.number, second.to, second.subject) == (2, [], "All")
    assert (shown.to, shown.bcc, shown.reply_to) == (
        ["b@example.com"], ["c@example.com"], "r@example.com",
    )  # fmt: skip
    assert (shown.text, shown.html) == ("text", "<p>html")
    assert [(each.name, each.bytes) for each in shown.attachments] == [("a.txt", 3)]
    server.state.reset()
    assert len(list_mails(server.state, MailQuery(limit=1))) == 1
    server.state.reset(services=True)
    assert list_mails(server.state, MailQuery()) == []
    with pytest.raises(ApiError, match='mail "1" is not kept'):
        get_mail(server.state, "1")


def fetch(client: Client, url: str) -> Any:
    messages = api("urlfetch_service_pb2")
    request = messages.URLFetchRequest(Method=messages.URLFetchRequest.GET, Url=url, Deadline=10)
    return client.call("urlfetch", "Fetch", request, messages.URLFetchResponse(), deadline="10")


@contextmanager
def serving_in_thread(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_what_is_fetched_can_fetch(serve: Serve) -> None:
    """No call waits for another; a server that speaks no TLS is an error of the call."""
    client = Client(serve(names=parse_services("all")).url)

    class Fetching(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = fetch(client, f"{url}/inner").Content if self.path == "/" else b"inner"
            self.send_response(201)
            self.end_headers()
            self.wfile.write(body)

    with serving_in_thread(Fetching) as url:
        fetched = fetch(client, f"{url}/")
        with pytest.raises(RefusedError) as refused:
            fetch(client, url.replace("http:", "https:"))

    assert (fetched.StatusCode, fetched.Content) == (201, b"inner")
    errors = api("urlfetch_service_pb2").URLFetchServiceError
    assert refused.value.code == errors.SSL_CERTIFICATE_ERROR


def test_services_are_named_and_others_refused() -> None:
    assert parse_services("memcache, user") == {"memcache", "user"}
    assert parse_services("none") == frozenset()
    assert parse_services("all") == {*SERVICES}
    with pytest.raises(ValueError, match=r'service "datastore" does not exist: .*"datastore_v3"'):
        parse_services("datastore")
    with pytest.raises(ValueError, match='service "" does not exist: use one of all, none, app_id'):
        parse_services("memcache,")
