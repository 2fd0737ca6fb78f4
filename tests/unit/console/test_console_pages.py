"""The console's pages without a browser: their HTML, headers and tokens."""

from __future__ import annotations

import io
import json
import re
from datetime import timedelta
from html import unescape
from pathlib import Path

import html5lib
import pytest
from werkzeug.test import Client

from pullqueue import Emulator, HttpRequest, Limits, ManualClock, NewTask
from pullqueue.api.auth import ACCEPTED_SCOPES
from pullqueue.control.state import ServerState
from pullqueue.engine.events import Interface, Origin
from pullqueue.server.app import create_app
from pullqueue.stores import open_store

CONFIG = """\
queue:
- {name: pull, mode: pull, retry_parameters: {task_retry_limit: 2}}
- {name: push, rate: 5/s}
"""


PAGES = (
    "/",
    "/queues/pull",
    "/queues/pull?state=exhausted",
    "/queues/pull?state=leased&tag=%22%3E%3Ci%3E&search=%3Cb%3E&limit=25",
    "/queues/push",
    "/queues/push?state=retrying",
    "/queues/push/tasks/sent",
    "/queues/pull/purge",
    "/queues/pull/tasks/a",
    "/queues/pull/tasks/a?view=hex",
    "/change/confirm?action=delete&task=pull/a",
    "/change/confirm?action=delete&task=pull/gone&task=pull/a",
    "/queues/pull/tasks/lost",
    "/exhausted",
    "/requests",
    "/requests/1",
    "/requests/clear",
    "/faults",
    "/clock",
    "/server",
    "/server/reset",
    "/server/snapshot",
    "/nowhere",
    "/queues/nope",
    "/queues/pull/tasks/nope",
)


BROWSER = {"Origin": "http://localhost"}


@pytest.fixture
def state() -> ServerState:
    """Return a state whose pages all have something to show."""
    emulator = Emulator.from_text(CONFIG, clock=ManualClock())
    queue = emulator.queue("pull")
    queue.add(b"lost", name="lost")
    queue.lease_tasks(0, 1)
    queue.lease_tasks(0, 1)
    queue.add('{"a": "<b>&"}', name="a", tag="<i>")
    queue.lease_tasks(60, 1)
    later = emulator.clock.now() + timedelta(hours=1)
    request = HttpRequest("/mail?<b>=<i>")
    emulator.queue("push").add(b"<b>", name="sent", eta=later, request=request)
    return ServerState(emulator)


@pytest.fixture
def client(state: ServerState) -> Client:
    """Return a client of the application."""
    client = Client(create_app(state.emulator, state=state))
    client.get("/taskqueue/v1beta2/projects/p/taskqueues/pull?x=<b>")
    return client


@pytest.mark.parametrize("page", PAGES)
def test_the_html_is_well_formed(client: Client, page: str) -> None:
    """A strict parser finds no error; ids are unique and labels have their fields."""
    answer = client.get(f"/console{page}")

    assert answer.content_type == "text/html; charset=utf-8"
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    tree = parser.parse(answer.data)
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(set(ids)) == len(ids)
    labelled = {element.get("for") for element in tree.iter("label") if element.get("for")}
    assert labelled <= set(ids)
    assert "<b>" not in answer.text
    assert "<i>" not in answer.text


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_guarded(client: Client, page: str) -> None:
    """No script, style or picture from elsewhere or in the page; no frame; nothing is kept."""
    answer = client.get(f"/console{page}")

    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert not re.search(r"""(?:src|href|action)=["'](?:https?:)?//""", answer.text)
    assert not re.search(r"""\s(?:style|on[a-z]+)=["']""", answer.text)
    assert "<style" not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/queues/pull/add",
        "/queues/pull/lease",
        "/change",
        "/change/confirm",
        "/queues/pull/purge",
        "/queues/pull/tasks/a/extend",
        "/queues/pull/tasks/a/release",
        "/queues/push/tasks/sent/run",
        "/queues/pull/pause",
        "/queues/pull/resume",
        "/requests/clear",
        "/faults",
        "/faults/remove",
        "/clock",
        "/server/reload",
        "/server/reset",
        "/server/snapshot",
    ],
)
def test_forms_need_the_token(client: Client, state: ServerState, path: str) -> None:
    """Without the token of this server's own pages a browser changes nothing."""
    before = state.emulator.export()

    for data in ({}, {"pullqueue_token": "guessed"}):
        answer = client.post(f"/console{path}", data=data, headers=BROWSER)

        assert answer.status_code == 403
        assert "it has no token" in answer.text
    assert state.emulator.export() == before


def test_the_oldest_task_is_due_now(client: Client, state: ServerState) -> None:
    """Its age is shown, and differs from that of no task."""
    assert re.search("Oldest due</dt><dd>\N{EN DASH}", client.get("/console/").text)
    state.emulator.queue("pull").add()

    assert re.search(r"Oldest due</dt><dd[^>]*>0 s", client.get("/console/").text)


def test_release_after_the_last_lease(client: Client, state: ServerState) -> None:
    """The page says that the task is exhausted; after an earlier lease it is just released."""
    for text in ("Task a was released.", "Task a was released, and is exhausted: that was its"):
        answer = client.post(
            "/console/queues/pull/tasks/a/release",
            data={"pullqueue_token": state.token},
            headers=BROWSER,
        )

        assert text in client.get(answer.headers["Location"]).text
        state.emulator.queue("pull").lease_tasks(60, 1)


def test_a_large_payload(client: Client, state: ServerState) -> None:
    """A megabyte fits into the form, one byte more is refused by the engine, with its reason."""
    form = {"pullqueue_token": state.token, "payload": "x" * 2**20, "name": "big"}
    added = client.post("/console/queues/pull/add", data=form, headers=BROWSER)
    refused = client.post(
        "/console/queues/pull/add",
        data={**form, "payload": "x" * (2**20 + 1), "name": "bigger"},
        headers=BROWSER,
    )

    assert added.status_code == 303
    assert refused.status_code == 303
    assert "1048577 bytes" in client.get(refused.headers["Location"]).text


def test_a_page_of_any_size(client: Client, state: ServerState) -> None:
    """`limit` is what the address says; one that is not possible is refused."""
    for place in range(5):
        state.emulator.queue("pull").add_many([NewTask(name=f"n{place}-{n}") for n in range(50)])

    assert client.get("/console/queues/pull?limit=200").text.count('<th scope="row">') == 200
    assert client.get("/console/queues/pull?limit=100001").status_code == 400


def test_the_filter_keeps_the_order(client: Client) -> None:
    """A tag as the filter, and no filter, keep the order and the size of the page."""
    page = client.get("/console/queues/pull?sort=name&limit=25&state=leased").text

    assert (
        'href="/console/queues/pull?limit=25&amp;state=leased&amp;sort=name&amp;tag=%3Ci%3E"'
        in page
    )
    assert 'href="/console/queues/pull?limit=25&amp;sort=name">Clear' in page


def test_a_filter_keeps_the_order(client: Client) -> None:
    """The form of the overview and the numbers of a queue keep the order."""
    overview = client.get("/console/?sort=tasks&order=desc").text
    queue = client.get("/console/queues/pull?sort=name&order=desc&tag=t").text

    assert '<input type="hidden" name="sort" value="tasks">' in overview
    assert '<input type="hidden" name="order" value="desc">' in overview
    assert "sort=name&amp;order=desc&amp;state=available#tasks-title" in queue


def test_a_large_snapshot(client: Client, state: ServerState) -> None:
    """A file larger than other requests may be is loaded nevertheless."""
    for place in range(17):
        state.emulator.queue("pull").add(bytes(2**20 - 100), name=f"n{place}")
    saved = client.get("/_emulator/snapshot").data
    state.emulator.reset()

    answer = client.post(
        "/console/server/snapshot",
        data={"pullqueue_token": state.token, "file": (io.BytesIO(saved), "s.json")},
        headers=BROWSER,
    )

    answer.request.input_stream.close()  # the test client's own temporary file
    assert len(saved) > state.emulator.limits.rest_body_bytes
    assert answer.status_code == 303
    assert state.emulator.queue("pull").fetch_statistics().tasks == 18


def test_a_request_tells_its_caller_and_hides_credentials(state: ServerState) -> None:
    """Whose token it was made with is shown, the token itself is not."""
    token = state.tokens.issue("worker@example.com", ACCEPTED_SCOPES).text
    state.acl = True
    client = Client(create_app(state.emulator, state=state))
    client.get(f"/taskqueue/v1beta2/projects/a/taskqueues/pull?access_token={token}")
    client.post("/token", data={"assertion": "secret"})

    called, granted = (client.get(f"/console/requests/{number}").text for number in (1, 2))

    assert "<dt>As</dt><dd>worker@example.com</dd>" in called
    assert "?access_token=(hidden)" in called
    assert token not in called
    assert "<dt>As</dt>" not in granted
    assert granted.count("(not recorded: it may contain credentials, or was dropped") == 2


def test_payload_views(client: Client, state: ServerState) -> None:
    """JSON, text and hexadecimal, the best first; bytes only as hexadecimal."""
    state.emulator.queue("pull").add(b'{"a":1}', name="json")
    state.emulator.queue("pull").add(b"\xff\x00A", name="bytes")

    for address, shown in (
        ("json", "{\n  &#34;a&#34;: 1\n}"),
        ("json?view=text", "{&#34;a&#34;:1}"),
        ("json?view=hex", "00000000  7b"),
        ("bytes", "00000000  ff0041"),
    ):
        text = client.get(f"/console/queues/pull/tasks/{address}").text

        assert f'<pre class="payload" tabindex="0">{shown}' in text


def test_long_json_is_folded(client: Client, state: ServerState) -> None:
    """Below the second level its lists and objects are closed; bytes can be copied as base64."""
    rows = [{"id": n, "<b>": [n]} for n in range(30)]
    state.emulator.queue("pull").add(json.dumps({"rows": rows}), name="long")
    state.emulator.queue("pull").add(b"\xff\x00", name="bytes")

    page = client.get("/console/queues/pull/tasks/long").text

    assert page.count("<details") == 2 + 2 * 30
    assert page.count("<details open>") == 2
    assert '<summary>&#34;rows&#34;: […] <span class="quiet">30</span>' in page
    assert "<div>&#34;id&#34;: 29</div>" in page
    assert 'data-copy="/wA="' in client.get("/console/queues/pull/tasks/bytes").text


def test_the_server(client: Client) -> None:
    """Its page says what runs where, and how it was started."""
    page = " ".join(re.sub("<[^>]+>", " ", client.get("/console/server").text).split())

    for text in (
        "gRPC off: start with --grpc-port",
        "Store memory",
        "Push tasks go to nowhere: start with --push-to",
        "Authorization none",
        "Clock manual Running for",
    ):
        assert text in page


def test_requests_are_filtered(client: Client, state: ServerState) -> None:
    """By queue, status and text; the method of an API is one of the texts."""
    path = "/taskqueue/v1beta2/projects/p/taskqueues"
    client.post(f"{path}/pull/tasks", json={"payloadBase64": "YQ=="})
    client.get(f"{path}/nope")
    client.get("/v2beta2/projects/p/locations/l/queues/pull")
    for query, numbers in (
        ("queue=pull", ["4", "2", "1"]),
        ("queue=nope", ["3"]),
        ("status=failed", ["3"]),
        ("status=2xx", ["4", "2", "1"]),
        ("search=payloadbase64", ["2"]),
        ("search=projects.locations.queues.get", ["4"]),
    ):
        text = client.get(f"/console/requests?{query}").text

        assert re.findall(r'id="request-(\d+)"', text) == numbers, query


def test_who_did_it(client: Client) -> None:
    """The history of a task names interface and client, and links to the request, which links to
    the task; the list of requests says what each led to.
    """
    path = "/taskqueue/v1beta2/projects/p/taskqueues/pull/tasks"
    agent = {"User-Agent": "shop/1.0"}
    client.post(path, json={"id": "b", "payloadBase64": "YQ=="}, headers=agent)
    client.post(path, json={"id": "b", "payloadBase64": "YQ=="}, headers=agent)
    client.post(f"{path}/lease?leaseSecs=9&numTasks=5", headers=agent)

    history = client.get("/console/queues/pull/tasks/b").text
    listed = client.get("/console/requests?task=b&queue=pull&interface=REST").text

    assert '<span class="quiet origin" title="shop/1.0">REST, shop/1.0</span>' in history
    assert 'href="/console/requests/2">request 2</a>' in history
    assert 'href="/console/requests/4">request 4</a>' in history
    assert 'href="/console/queues/pull/tasks/b">b</a>' in client.get("/console/requests/2").text
    assert re.findall(r'id="request-(\d+)"', listed) == ["4", "2"]
    everything = client.get("/console/requests").text
    assert "Task name already taken: b" in everything
    assert 'href="/console/queues/pull/tasks/b">b</a>' in listed
    assert client.get("/console/requests?interface=SDK").text.count("<tr>") == 0


def test_a_request_about_no_queue_has_no_link(client: Client) -> None:
    """Neither to the page of a queue that does not exist, nor to its requests; others have both."""
    path = "/taskqueue/v1beta2/projects/p/taskqueues"
    for name in ("nope", "push"):
        client.get(f"{path}/{name}")

    listed = client.get("/console/requests").text
    for number, name, linked in ((1, "pull", True), (2, "nope", False), (3, "push", True)):
        page = client.get(f"/console/requests/{number}").text

        assert f'<td data-label="Queue">{name}</td>' in listed or linked
        assert (f'href="/console/requests?queue={name}"' in listed) is linked
        assert f">{name}<" in page
        assert (f'href="/console/queues/{name}"' in page) is linked


def test_only_calls_of_apps_are_requests(client: Client, state: ServerState) -> None:
    """The address in a browser, its icon, the console and control routes are not listed."""
    for path in ("/", "/favicon.ico", "/console/", "/_emulator/queues"):
        client.get(path)
    client.get("/_emulators")
    client.post("/rpc_http", data=b"")

    paths = [logged.path.split()[0] for logged in reversed(state.requests.latest())]
    assert paths[1:] == ["/_emulators", "/rpc_http"]


def test_what_goes_is_said_before(client: Client, state: ServerState) -> None:
    """How many requests, and how many tasks of all queues, which a snapshot replaces."""
    client.get("/nowhere")

    for page, title, text in (
        ("/requests/clear", "Delete 2 requests?", "the record of all requests, whatever the"),
        ("/server/snapshot", "Load a snapshot?", "This deletes 3 tasks (1 exhausted), names"),
        ("/server/reset", "Reset the emulator?", "This deletes 3 tasks (1 exhausted), names"),
        ("/queues/pull/purge", "Purge pull?", "This deletes 1 task: all of the queue"),
    ):
        answer = client.get(f"/console{page}").text

        assert f'<h1 id="dialog-title">{title}</h1>' in answer
        assert text in answer


def test_curl_is_offered_where_it_works(client: Client, state: ServerState) -> None:
    """Not for calls of the SDK or gRPC, nor for bodies that are not JSON or not all recorded."""
    path = "/taskqueue/v1beta2/projects/p/taskqueues/pull/tasks"
    client.post(path, json={"payloadBase64": "YQ=="})
    client.post(path, json={"payloadBase64": "A" * 5000})
    client.post("/batch", data=b"--b--", content_type="multipart/mixed; boundary=b")
    for interface in (Interface.SDK, Interface.CLOUD_TASKS_GRPC):
        state.requests.record(
            origin=Origin(interface),
            verb="POST",
            path="/x",
            status=200,
            seconds=0,
            body=b"{}",
            response=b"{}",
        )

    shown = [client.get(f"/console/requests/{number}").text for number in range(1, 7)]

    assert ["Copy as curl" in text for text in shown] == [True, True, False, False, False, False]
    assert f"curl -X POST http://localhost{path} -H" in shown[1]


def test_curl_sends_what_was_sent(client: Client, state: ServerState) -> None:
    """The path and the query are encoded again, and neither curl nor the shell expands them."""
    for verb, path, query, command in (
        (
            "GET",
            "/a b{c}[1-9]/%2F'",
            "x=%20[1]&y=$HOME",
            "'{url}/a%20b%7Bc%7D%5B1-9%5D/%252F%27?x=%20%5B1%5D&y=%24HOME'",
        ),
        ("HEAD", "/x", "", "-I {url}/x"),
        ("PATCH", "/x", "", "-X PATCH {url}/x"),
    ):
        state.requests.record(
            verb=verb, path=path, query=query, status=200, seconds=0, body=b"", response=b""
        )
        number = state.requests.latest()[0].number
        page = unescape(client.get(f"/console/requests/{number}").text)

        assert f'data-copy="curl {command.format(url="http://localhost")}"' in page


def test_a_page_after_the_last_task(client: Client, state: ServerState) -> None:
    """The last page is shown: those who delete all tasks of the last page stay at the end."""
    state.emulator.queue("pull").add_many([NewTask(name=f"n{place:02}") for place in range(60)])
    for path, span in (
        ("/queues/pull?limit=25&offset=75", "51\N{EN DASH}61 of 61"),
        ("/queues/pull?tag=none&offset=75", "No task matches"),
        ("/exhausted?offset=100", "1\N{EN DASH}1 of 1"),
    ):
        assert span in client.get(f"/console{path}").text
    for offset in ("-1", "x"):
        assert client.get(f"/console/queues/pull?offset={offset}").status_code == 400


def test_numbers_of_pages(client: Client, state: ServerState) -> None:
    """An empty offset is 0, and whole numbers may have a fraction, as in the API."""
    state.emulator.queue("pull").add_many([NewTask(name=f"n{place:02}") for place in range(60)])
    for path, span in (
        ("/queues/pull?offset=", "1\N{EN DASH}61 of 61"),
        ("/queues/pull?offset=5.0", "6\N{EN DASH}61 of 61"),
        ("/queues/pull?limit=25.0&offset=25", "26\N{EN DASH}50 of 61"),
        ("/queues/pull?limit=25.0&offset=75", "51\N{EN DASH}61 of 61"),
        ("/exhausted?offset=", "1\N{EN DASH}1 of 1"),
    ):
        assert span in client.get(f"/console{path}").text


def test_release_of_all_is_of_the_leased(client: Client, state: ServerState) -> None:
    """Tasks that nobody has leased are not failures; of many failures the number is a minimum."""
    queue = state.emulator.queue("pull")
    queue.add_many([NewTask(name=f"n{place:02}") for place in range(100)])
    queue.add_many([NewTask(name="m")])
    form = {"pullqueue_token": state.token, "action": "release"}
    names = [f"pull/{task.name}" for task in queue.list_tasks(200) if task.name != "a"]

    for data, text in (
        ({"all": "1", "queue": "pull"}, "Released 1 task.</p>"),
        (
            {"task": names},
            "Released 0 tasks. At least 100 tasks could not be changed, such as n00: ",
        ),
        ({"task": "pull/m"}, "Released 0 tasks. 1 task could not be changed, such as m: "),
    ):
        answer = client.post("/console/change", data=form | data, headers=BROWSER)

        assert text in client.get(answer.headers["Location"]).text


def test_a_refusal_has_no_token(state: ServerState) -> None:
    """A page of another name that is made to resolve to this server cannot read it."""
    state.host_names = frozenset()
    client = Client(create_app(state.emulator, state=state))

    for host, status in (("evil.example", 403), ("localhost", 200)):
        answer = client.get("/console/queues/pull", headers={"Host": host})

        assert answer.status_code == status
        assert (state.token in answer.text) is (status == 200)


def test_payloads_are_downloads(client: Client) -> None:
    """They come as files of bytes, which no browser runs."""
    answer = client.get("/console/queues/pull/tasks/a/payload")

    assert answer.data == b'{"a": "<b>&"}'
    assert answer.content_type == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="a"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_an_exhausted_task(client: Client, state: ServerState) -> None:
    """Its page says that it was exhausted, as a warning, and shows what it was at its end."""
    queue = state.emulator.queue("pull")
    queue.add(b"x" * 300, name="heavy", tag="stone")
    for _ in range(2):
        queue.lease_tasks(0, 10)

    page = client.get("/console/queues/pull/tasks/lost").text
    heavy = client.get("/console/queues/pull/tasks/heavy").text

    assert '<p class="notice error">Task lost is exhausted after 2 leases.</p>' in page
    assert "<dd>2 of 2</dd>" in "".join(page.split("\n"))
    assert '<pre class="payload" tabindex="0">lost</pre>' in page
    assert ">stone</a>" in heavy
    for text in (page, heavy):
        assert "/change/confirm?" not in text
    assert client.get("/console/queues/pull/tasks/heavy/payload").data == b"x" * 300


def test_a_deleted_task(client: Client, state: ServerState) -> None:
    """A deleted task is not reported as exhausted, nor one whose name was exhausted before."""
    queue = state.emulator.queue("pull")
    queue.delete_tasks("a")
    queue.free_names()
    queue.add(name="lost")
    queue.delete_tasks("lost")
    queue.add(name="all")
    queue.purge()

    for name, text in (
        ("a", "Task a was deleted."),
        ("lost", "Task lost was deleted."),
        ("all", "was deleted by a purge."),
    ):
        page = client.get(f"/console/queues/pull/tasks/{name}").text

        assert '<p class="notice">' in page
        assert text in page
        assert 'class="payload"' not in page


@pytest.mark.parametrize(("events", "exhausted"), [(0, 1000), (100, 0)])
def test_an_exhausted_task_of_which_little_is_known(events: int, exhausted: int) -> None:
    """If its history or the task itself is deleted, the page shows the rest."""
    limits = Limits(events_kept=events, exhausted_kept=exhausted)
    emulator = Emulator.from_text(CONFIG, clock=ManualClock(), limits=limits)
    emulator.queue("pull").add(b"lost", name="lost", tag="t")
    for _ in range(2):
        emulator.queue("pull").lease_tasks(0, 1)
    emulator.queue("pull").free_names()

    answer = Client(create_app(emulator, state=ServerState(emulator))).get(
        "/console/queues/pull/tasks/lost"
    )

    assert answer.status_code == 200
    assert "Task lost is exhausted after 2 leases." in answer.text
    assert ('<pre class="payload"' in answer.text) is bool(exhausted)


def test_a_deleted_task_without_history() -> None:
    """Once its events are dropped, its page is the refusal that an unknown task has."""
    emulator = Emulator.from_text(CONFIG, clock=ManualClock(), limits=Limits(events_kept=2))
    for name in ("first", "second"):
        emulator.queue("pull").add(name=name)
        emulator.queue("pull").delete_tasks(name)
    client = Client(create_app(emulator, state=ServerState(emulator)))

    for name, status, text in (
        ("first", 400, "was deleted, or exhausted after its last lease"),
        ("second", 200, "Task second was deleted."),
        ("nope", 404, "has no task"),
    ):
        answer = client.get(f"/console/queues/pull/tasks/{name}")

        assert (answer.status_code, text in answer.text) == (status, True), name


def test_a_fault_of_the_console(
    client: Client, state: ServerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a page with status 500, and tells nothing of its inside."""

    def broken(**_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(state.faults, "list", broken)

    answer = client.get("/console/")

    assert answer.status_code == 500
    assert "the console has a bug" in answer.text
    assert "secret" not in answer.text


def test_the_root_leads_to_the_console(client: Client) -> None:
    """Who opens the server's address gets to see something."""
    assert client.get("/").headers["Location"] == "/console/"
    assert client.get("/console").status_code == 200


def test_the_folder_of_the_queues_leads_to_them(client: Client) -> None:
    """Who cuts a queue's name off its address gets the overview."""
    assert client.get("/console/queues").headers["Location"] == "/console/"


def test_half_a_pair_of_surrogates(state: ServerState, client: Client) -> None:
    """JSON may name half a character; it is shown as it was sent."""
    state.emulator.queue("pull").add(r'{"a": "\ud800"}', name="half")

    answer = client.get("/console/queues/pull/tasks/half")

    assert answer.status_code == 200
    assert r"\ud800" in answer.text


@pytest.mark.parametrize("page", ["/", "/server", "/queues/pull"])
def test_a_store_that_is_away(tmp_path: Path, page: str) -> None:
    """The page that says so needs nothing of the store."""
    store = open_store(f"sqlite:///{tmp_path}/tasks")
    emulator = Emulator.from_text(CONFIG, clock=ManualClock(), store=store)
    client = Client(create_app(emulator, state=ServerState(emulator)))
    emulator.close()

    answer = client.get(f"/console{page}")

    assert answer.status_code == 500
    assert "the store&#39;s file" in answer.text
    assert "2026-01-01 00:00:00" in answer.text
