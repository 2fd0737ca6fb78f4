"""The console's pages without a browser: their HTML, headers and tokens."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from io import BytesIO
from pathlib import Path

import html5lib
import pytest
from console_client import ConsoleClient
from tables import each_row

from pullqueue import Emulator, HttpRequest, Limits, ManualClock, NewTask
from pullqueue.api.auth import ACCEPTED_SCOPES
from pullqueue.clock import FIRST_USEC, LAST_USEC, from_usec
from pullqueue.config.model import QueueSettings
from pullqueue.engine.events import Interface, Origin
from pullqueue.observe.models import Request
from pullqueue.observe.request_log import excerpt
from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.runtime.state import ServerState
from pullqueue.server.app import flask_app
from pullqueue.stores import open_store
from pullqueue.testing import run_tasks

CONFIG = """\
queue:
- {name: pull, mode: pull, retry_parameters: {task_retry_limit: 2}}
- {name: push, rate: 5/s}
"""
PAGES = (
    *("/", "/queues/pull", "/queues/pull?state=exhausted", "/queues/pull/purge", "/queues/nope"),
    "/queues/pull?state=leased&tag=%22%3E%3Ci%3E&search=%3Cb%3E&limit=25",
    *("/queues/push", "/queues/push?state=retrying", "/queues/push/tasks/sent"),
    *(f"/queues/pull/tasks/{name}" for name in ("a", "a?view=hex", "lost", "nope")),
    "/change/confirm?action=delete&task=pull/a",
    "/change/confirm?action=delete&task=pull/gone&task=pull/a",
    *("/failures", "/workers", "/tasks?search=a", "/tasks?state=leased", "/tasks?client=%3Ci%3E"),
    *("/activity", "/requests", "/requests/1", "/requests/clear", "/faults", "/clock"),
    *("/server", "/server/reset", "/server/snapshot", "/nowhere"),
)
QUEUES = "/taskqueue/v1beta2/projects/p/taskqueues"


def console_of(limits: Limits | None = None, clock: ManualClock | None = None) -> ConsoleClient:
    emulator = Emulator.from_text(CONFIG, clock=clock or ManualClock(), limits=limits)
    return ConsoleClient(ServerState(emulator))


class DeletingClock(ManualClock):
    """Deletes a queue when it is asked for the time for the nth time."""

    left = 0
    console: ConsoleClient
    queue_name: str

    def now_usec(self) -> int:
        self.left -= 1
        if self.left == 0:
            self.console.emulator.delete_queue(self.queue_name)
        return super().now_usec()


def test_a_queue_can_be_deleted_while_the_page_of_all_is_made() -> None:
    clock = DeletingClock()
    console = clock.console = console_of(clock=clock)
    for number in range(1, 100):
        clock.left, clock.queue_name = 0, f"made-{number}"
        console.emulator.create_queue(QueueSettings(name=clock.queue_name))
        clock.left = number
        assert "/queues/push" in console.page("/")
        if clock.left > 0:
            break

    assert number > 10


def filled_console() -> ConsoleClient:
    """Return a console whose pages all have something to show."""
    console = console_of()
    emulator = console.emulator
    queue = emulator.queue("pull")
    queue.add(b"lost", name="lost")
    queue.lease_tasks(0, 1)
    queue.lease_tasks(0, 1)
    queue.add('{"a": "<b>&"}', name="a", tag="<i>")
    queue.lease_tasks(60, 1)
    later = emulator.clock.now() + timedelta(hours=1)
    request = HttpRequest("/mail?<b>=<i>")
    emulator.queue("push").add(b"<b>", name="sent", eta=later, request=request)
    console.http.get(f"{QUEUES}/pull?x=<b>")
    return console


@pytest.fixture(scope="module")
def shown() -> ConsoleClient:
    """Return a filled console for tests that change nothing."""
    return filled_console()


@pytest.fixture
def console() -> ConsoleClient:
    return filled_console()


@each_row("page", PAGES)
def test_a_page_is_well_formed_and_guarded(shown: ConsoleClient, page: str) -> None:
    """A strict parser finds no error, and labels have their fields. No script, style or picture is
    from elsewhere or in the page; it is in no frame, and not kept.
    """
    answer = shown.get(page)

    assert answer.content_type == "text/html; charset=utf-8"
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    tree = parser.parse(answer.data)
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(set(ids)) == len(ids)
    labelled = {element.get("for") for element in tree.iter("label") if element.get("for")}
    assert labelled <= set(ids)
    assert "<b>" not in answer.text
    assert "<i>" not in answer.text
    # The script finds the control that had the focus, and rows that have changed, by their ids.
    parts = [each for each in tree.iter() if "data-live" in each.attrib]
    controls = [
        each
        for part in parts
        for each in part.iter()
        if each.tag in ("a", "button", "summary", "input") and each.get("type") != "hidden"
    ]
    held = [each for part in parts if "data-hold" in part.attrib for each in part.iter()]
    rows = [each for each in held if "data-row" in each.attrib]
    assert all(each.get("id") for each in (*controls, *rows))
    assert rows or page not in ("/activity", "/failures", "/requests", "/queues/pull")

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


@pytest.mark.parametrize("usec", [FIRST_USEC, LAST_USEC])
def test_pages_are_shown_at_the_first_and_at_the_last_time_there_is(usec: int) -> None:
    console = console_of(clock=ManualClock(from_usec(usec)))
    emulator = console.emulator
    emulator.queue("pull").add(name="lost")
    emulator.queue("pull").lease_tasks(0, 1)
    emulator.queue("pull").lease_tasks(0, 1)
    emulator.queue("push").add(name="sent")
    statuses: dict[str, int] = {}

    def send(_: PushRequest) -> PushResponse:
        for page in (*PAGES, "/failures?since=23:59"):
            statuses[page] = console.get(page).status_code
        return PushResponse(200)

    run_tasks(emulator, send=send)
    assert {page for page, status in statuses.items() if status >= 500} == set()
    assert len(statuses) == len(PAGES) + 1


def test_forms_need_the_token(console: ConsoleClient) -> None:
    """Without the token of this server's own pages a browser changes nothing."""
    before = console.emulator.export()
    forms = [
        rule.rule.replace("<queue>", "pull").replace("<task>", "a")
        for rule in flask_app().url_map.iter_rules()
        if rule.rule.startswith("/console") and "POST" in (rule.methods or ())
    ]

    assert len(forms) > 15
    for path in forms:
        for data in ({}, {"pullqueue_token": "guessed"}):
            answer = console.http.post(path, data=data, headers={"Origin": "http://localhost"})

            assert (answer.status_code, "it has no token" in answer.text) == (403, True), path
    assert console.emulator.export() == before


def test_the_last_release_exhausts_a_task(console: ConsoleClient) -> None:
    for text in ("Task a was released.", "Task a was released, and is exhausted: that was its"):
        assert text in console.send("/queues/pull/tasks/a/release")
        console.emulator.queue("pull").lease_tasks(60, 1)


def test_a_payload_of_a_megabyte_fits_into_the_form(console: ConsoleClient) -> None:
    """One byte more is refused by the engine, with its reason."""
    console.send("/queues/pull/add", payload="x" * 2**20, name="big")
    refused = console.send("/queues/pull/add", payload="x" * (2**20 + 1), name="bigger")

    assert len(console.emulator.queue("pull").get_task("big").payload) == 2**20
    assert "1048577 bytes" in refused


def test_the_address_has_size_and_offset_of_the_page(console: ConsoleClient) -> None:
    """After the last task, the last page is shown: those who delete all tasks of the last page stay
    at the end.
    """
    console.emulator.queue("pull").add_many([NewTask(name=f"n{place:02}") for place in range(60)])

    for path, span in (
        ("/queues/pull?offset=", "1\N{EN DASH}61 of 61"),
        ("/queues/pull?offset=5.0", "6\N{EN DASH}61 of 61"),
        ("/queues/pull?limit=25.0&offset=25", "26\N{EN DASH}50 of 61"),
        ("/queues/pull?limit=7", "1\N{EN DASH}7 of 61"),
        ("/queues/pull?limit=25&offset=75", "51\N{EN DASH}61 of 61"),
        ("/queues/pull?tag=none&offset=75", "No task matches"),
        ("/queues/pull?offset=-1", "offset is"),
        ("/queues/pull?offset=x", "offset is"),
        ("/queues/pull?limit=100001", "limit is"),
        ("/failures?offset=", "1\N{EN DASH}1 of 1"),
        ("/failures?offset=100", "1\N{EN DASH}1 of 1"),
    ):
        assert span in console.page(path), path


def test_a_page_links_to_those_before_and_after(console: ConsoleClient) -> None:
    """Those of tasks as those of requests."""
    console.emulator.queue("pull").add_many([NewTask() for _ in range(60)])
    for _ in range(59):
        console.state.requests.record(Request(verb="GET", path="/x", status=200, milliseconds=0))

    pages = (
        console.page(f"/queues/pull?{query}")
        for query in ("limit=25", "limit=25&offset=25", "limit=25&offset=50")
    )
    offsets = [dict(re.findall(r'rel="(\w+)" href=".*?offset=(\d+)', page)) for page in pages]

    assert offsets == [{"next": "25"}, {"prev": "0", "next": "50"}, {"prev": "25"}]
    assert "before=11" in console.page("/requests")
    older = re.findall(r'id="request-(\d+)"', console.page("/requests?before=11"))
    assert older == [str(number) for number in range(10, 0, -1)]


def test_a_filter_keeps_the_order(shown: ConsoleClient) -> None:
    """A tag as the filter, the numbers of a queue, and no filter keep order and size of a page."""
    tags = shown.get("/queues/pull?sort=name&limit=25&state=leased").text
    numbers = shown.get("/queues/pull?sort=name&order=desc&tag=t").text
    overview = shown.get("/?sort=tasks&order=desc").text

    address = "/console/queues/pull?limit=25&amp;"
    assert f'href="{address}state=leased&amp;sort=name&amp;tag=%3Ci%3E"' in tags
    assert f'href="{address}sort=name">Clear' in tags
    assert "sort=name&amp;order=desc&amp;state=available#tasks-title" in numbers
    assert '<input type="hidden" name="sort" value="tasks">' in overview
    assert '<input type="hidden" name="order" value="desc">' in overview


def test_a_snapshot_larger_than_other_requests_is_loaded() -> None:
    console = console_of(Limits(rest_body_bytes=2000))
    console.emulator.queue("pull").add(b"x" * 2000)
    saved = console.http.get("/_emulator/snapshot").data
    console.emulator.reset()

    assert len(saved) > 2000
    assert "Loaded 1 task." in console.send("/server/snapshot", file=(BytesIO(saved), "s.json"))


def test_a_request_names_its_caller_and_hides_credentials() -> None:
    """The owner of its token is shown, the token itself is not."""
    state = console_of().state
    state.acl = True
    console = ConsoleClient(state)
    token = state.tokens.issue("worker@example.com", ACCEPTED_SCOPES).text
    console.http.get(f"{QUEUES}/pull?access_token={token}")
    console.http.post("/token", data={"assertion": "secret"})

    called, granted = (console.page(f"/requests/{number}") for number in (1, 2))

    assert "<dt>As</dt><dd>worker@example.com</dd>" in called
    assert "?access_token=(hidden)" in called
    assert token not in called
    assert "<dt>As</dt>" not in granted
    assert granted.count("(not recorded: it may contain credentials, or was dropped") == 2


def test_a_payload_is_shown_as_json_text_or_hexadecimal(console: ConsoleClient) -> None:
    """The best first; bytes only as hexadecimal; half a pair of surrogates as it was sent."""
    console.emulator.queue("pull").add(b'{"a":1}', name="json")
    console.emulator.queue("pull").add(r'{"a": "\ud800"}', name="half")
    console.emulator.queue("pull").add(b"\xff\x00A", name="bytes")

    for address, begin in (
        ("json", '{\n  "a": 1\n}'),
        ("json?view=text", '{"a":1}'),
        ("json?view=hex", "00000000  7b"),
        ("bytes", "00000000  ff0041"),
        ("half", '{\n  "a": "\\ud800"\n}'),
    ):
        page = console.page(f"/queues/pull/tasks/{address}")

        assert f'<pre class="payload" tabindex="0">{begin}' in page


def test_long_json_is_folded(console: ConsoleClient) -> None:
    """Below the second level its lists and objects are closed; bytes can be copied as base64."""
    rows = [{"id": n, "<b>": [n]} for n in range(30)]
    console.emulator.queue("pull").add(json.dumps({"rows": rows}), name="long")
    console.emulator.queue("pull").add(b"\xff\x00", name="bytes")

    page = console.page("/queues/pull/tasks/long")

    assert page.count("<details") == 2 + 2 * 30
    assert page.count("<details open>") == 2
    assert '<summary>"rows": […] <span class="quiet">30</span>' in page
    assert '<div>"id": 29</div>' in page
    assert 'data-copy="/wA="' in console.page("/queues/pull/tasks/bytes")


def test_the_page_of_the_server_says_what_runs_where(shown: ConsoleClient) -> None:
    """And how it was started."""
    page = shown.text("/server")

    for text in (
        "gRPC off: start with --grpc-port",
        "Store memory",
        "Push tasks go to nowhere: start with --push-to",
        "Authorization none",
        "Clock manual Running for",
    ):
        assert text in page


def test_the_history_of_a_task_names_who_did_it(console: ConsoleClient) -> None:
    """With interface and client, and links to the request, which links to the task; the list of
    requests says what each led to, and is filtered.
    """
    path = f"{QUEUES}/pull/tasks"
    agent = {"User-Agent": "shop/1.0"}
    console.http.post(path, json={"id": "b", "payloadBase64": "YQ=="}, headers=agent)
    console.http.post(path, json={"id": "b", "payloadBase64": "YQ=="}, headers=agent)
    console.http.post(f"{path}/lease?leaseSecs=9&numTasks=5", headers=agent)

    history, link = (
        console.page("/queues/pull/tasks/b"),
        'href="/console/queues/pull/tasks/b">b</a>',
    )

    assert '<span class="quiet origin" title="shop/1.0">REST, shop/1.0</span>' in history
    assert 'href="/console/requests/2">request 2</a>' in history
    assert 'href="/console/requests/4">request 4</a>' in history
    assert link in console.page("/requests/2")
    assert "Task name already taken: b" in console.page("/requests")
    for query, numbers in (
        ("task=b&queue=pull&interface=REST", ["4", "3", "2"]),
        ("status=failed&search=tasks.insert", ["3"]),
        ("interface=SDK", []),
    ):
        listed = console.page(f"/requests?{query}")
        assert re.findall(r'id="request-(\d+)"', listed) == numbers
        assert (link in listed) is bool(numbers)


def test_a_request_about_no_queue_has_no_link(console: ConsoleClient) -> None:
    """Neither to the page of a queue that does not exist, nor to its requests; others have both."""
    for name in ("nope", "push"):
        console.http.get(f"{QUEUES}/{name}")

    listed = console.page("/requests")
    for number, name, linked in ((1, "pull", True), (2, "nope", False), (3, "push", True)):
        page = console.page(f"/requests/{number}")

        assert f'<td data-label="Queue">{name}</td>' in listed or linked
        assert (f'href="/console/requests?queue={name}"' in listed) is linked
        assert f">{name}<" in page
        assert (f'href="/console/queues/{name}"' in page) is linked


def test_what_is_deleted_is_said_before(shown: ConsoleClient) -> None:
    """How many requests and tasks; a task has its state, or is only named if it has changed."""
    for path, title, text in (
        ("/requests/clear", "Delete 1 request?", "the record of all requests, whatever the"),
        ("/server/snapshot", "Load a snapshot?", "This deletes 3 tasks (1 exhausted), names"),
        ("/server/reset", "Reset the emulator?", "This deletes 3 tasks (1 exhausted), names"),
        ("/server/reset", "Reset the emulator?", "and blobs of the app are not changed."),
        ("/queues/pull/purge", "Purge pull?", "This deletes 1 task: all of the queue"),
        ("/change/confirm?task=pull/a", "Delete a?", '<span class="state leased">leased</span>'),
        ("/change/confirm?task=pull/lost", "Delete lost?", '<span class="quiet">of pull</span>'),
    ):
        page = shown.page(path)

        assert f'<h1 id="dialog-title">{title}</h1>' in page
        assert text in page, path
    assert "<code>pullqueue reset --services</code> deletes these" in shown.page("/server")


def test_curl_is_offered_where_it_works(console: ConsoleClient) -> None:
    """Not for calls of the SDK or gRPC, nor for bodies that are not JSON or not all recorded."""
    path = f"{QUEUES}/pull/tasks"
    console.http.post(path, json={"payloadBase64": "YQ=="})
    console.http.post(path, json={"payloadBase64": "A" * 5000})
    console.http.post("/batch", data=b"--b--", content_type="multipart/mixed; boundary=b")
    for interface in (Interface.SDK, Interface.CLOUD_TASKS_GRPC):
        call = Request(verb="POST", path="/x", status=200, milliseconds=0, body=excerpt(b"{}"))
        console.state.requests.record(call, origin=Origin(interface))

    pages = [console.page(f"/requests/{number}") for number in range(1, 7)]

    assert ["Copy as curl" in page for page in pages] == [True, True, False, False, False, False]
    assert f"curl -X POST http://localhost{path} -H" in pages[1]


def test_curl_sends_what_was_sent() -> None:
    """The path and the query are encoded again, and neither curl nor the shell expands them."""
    console = console_of()
    url = "'http://localhost/a%20b%7Bc%7D%5B1-9%5D/%252F%27?x=%20%5B1%5D&y=%24HOME'"
    for number, (verb, path, query, command) in enumerate(
        (
            ("GET", "/a b{c}[1-9]/%2F'", "x=%20[1]&y=$HOME", url),
            ("HEAD", "/x", "", "-I http://localhost/x"),
            ("PATCH", "/x", "", "-X PATCH http://localhost/x"),
        ),
        1,
    ):
        request = Request(verb=verb, path=path, query=query, status=200, milliseconds=0)
        console.state.requests.record(request)

        assert f'data-copy="curl {command}"' in console.page(f"/requests/{number}")


def test_release_of_all_is_of_the_leased(console: ConsoleClient) -> None:
    """Tasks that nobody has leased are not failures; of many failures the number is a minimum."""
    names = [f"n{place:02}" for place in range(100)]
    console.emulator.queue("pull").add_many([NewTask(name=name) for name in names])
    many = [f"pull/{name}" for name in names]

    for fields, text in (
        ({"all": "1", "queue": "pull"}, "Released 1 task.</p>"),
        ({"task": many}, "Released 0 tasks. At least 100 tasks could not be changed, such as n00:"),
        ({"task": "pull/n01"}, "Released 0 tasks. 1 task could not be changed, such as n01: "),
    ):
        assert text in console.send("/change", action="release", **fields)


def test_downloads_are_bytes_that_no_browser_runs(shown: ConsoleClient) -> None:
    for page, content, name in (
        ("/queues/pull/tasks/a/payload", b'{"a": "<b>&"}', "a"),
        ("/exhausted.jsonl", b'{"queue":"pull","payload":', "exhausted.jsonl"),
    ):
        answer = shown.get(page)

        assert answer.data.startswith(content)
        assert answer.content_type == "application/octet-stream"
        assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}"'
        assert answer.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")


def test_the_page_of_an_exhausted_task_shows_its_end(console: ConsoleClient) -> None:
    """As a warning, with what the task was at its end."""
    queue = console.emulator.queue("pull")
    queue.add(b"x" * 300, name="heavy", tag="stone")
    for _ in range(2):
        queue.lease_tasks(0, 10)

    page = console.page("/queues/pull/tasks/lost")
    heavy = console.page("/queues/pull/tasks/heavy")

    assert '<p class="notice error">Task lost is exhausted after 2 leases.</p>' in page
    assert "<dd>2 of 2</dd>" in "".join(page.split("\n"))
    assert '<pre class="payload" tabindex="0">lost</pre>' in page
    assert ">stone</a>" in heavy
    for text, name in ((page, "lost"), (heavy, "heavy")):
        assert f"confirm?action=delete&task=pull/{name}&state=exhausted" in text
    assert console.get("/queues/pull/tasks/heavy/payload").data == b"x" * 300


def test_a_deleted_task_is_not_reported_as_exhausted(console: ConsoleClient) -> None:
    """Nor one whose name was exhausted before."""
    queue = console.emulator.queue("pull")
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
        page = console.page(f"/queues/pull/tasks/{name}")

        assert '<p class="notice">' in page
        assert text in page
        assert 'class="payload"' not in page


@pytest.mark.parametrize(("events", "exhausted"), [(0, 1000), (100, 0)])
def test_an_exhausted_task_of_which_little_is_known_is_shown(events: int, exhausted: int) -> None:
    """If its history or the task itself is deleted, the page shows the rest."""
    console = console_of(Limits(events_kept=events, exhausted_kept=exhausted))
    queue = console.emulator.queue("pull")
    queue.add(b"lost", name="lost", tag="t")
    for _ in range(2):
        queue.lease_tasks(0, 1)
    queue.free_names()

    page = console.page("/queues/pull/tasks/lost")

    assert "Task lost is exhausted after 2 leases." in page
    assert ('<pre class="payload"' in page) is bool(exhausted)


def test_a_fault_of_the_console_is_a_page_with_status_500(
    console: ConsoleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(console.state.faults, "list", broken)

    answer = console.get("/")

    assert answer.status_code == 500
    assert "/console/ failed: RuntimeError: broken. The log of the server has the traceback" in (
        answer.text
    )
    assert "Traceback" not in answer.text


def test_shorter_addresses_lead_to_the_console(shown: ConsoleClient) -> None:
    """Who opens the server's address, or cuts a queue's name off, gets the overview."""
    for path in ("/", "/console", "/console/queues"):
        assert '<a id="queue-pull"' in shown.http.get(path, follow_redirects=True).text


def test_a_store_that_is_away_is_a_page_with_status_503(tmp_path: Path) -> None:
    """The page that says so needs nothing of the store."""
    store = open_store(f"sqlite:///{tmp_path}/tasks")
    emulator = Emulator.from_text(CONFIG, clock=ManualClock(), store=store)
    console = ConsoleClient(ServerState(emulator))
    emulator.close()

    for page in ("/", "/server", "/queues/pull"):
        answer = console.get(page)

        assert answer.status_code == 503
        assert "the store is closed" in answer.text
        assert "2026-01-01 00:00:00" in answer.text


def test_a_task_is_found_in_any_queue(console: ConsoleClient) -> None:
    """By a part of its name or payload, which is marked, exhausted ones as well; by its whole name
    its page is opened.
    """
    assert 'id="task-push-sent"' in console.page("/tasks?search=SEN")
    assert 'id="task-pull-lost"' in console.page("/tasks?search=los")
    assert console.get("/tasks?search=lost").location == "/console/queues/pull/tasks/lost"
    assert "<mark><b></mark>" in console.page("/tasks?search=%3CB%3E")
    assert "No task has “nowhere”" in console.page("/tasks?search=nowhere")
    assert "Requests about" not in console.page("/tasks?search=los")
    console.http.post(f"{QUEUES}/pull/tasks", json={"payloadBase64": "YQ==", "id": "gone"})
    console.emulator.queue("pull").purge()
    assert 'href="/console/requests?task=gone"' in console.page("/tasks?search=gone")


def test_the_tasks_of_a_worker_are_a_click_away(console: ConsoleClient) -> None:
    """The page says of each which client has it, and until when."""
    url = f"{QUEUES}/pull/tasks/lease?numTasks=1&leaseSecs=3600"
    console.emulator.queue("pull").add(name="p")
    console.http.post(url, headers={"User-Agent": "packer/1"})
    [address] = re.findall(r'id="leased-1" href="/console([^"]+)"', console.page("/workers"))
    page = console.page(address)

    assert re.findall('id="task-pull-([^"]+)"', page) == ["p"]
    assert "1 h left" in page
    assert 'title="packer/1"' in page
    assert "No task matches" in console.page("/tasks?client=other")
    assert 'id="figure-leased" href="/console/tasks?state=leased"' in console.page("/")
    assert 'id="task-pull-a"' in console.page("/tasks?state=leased")
    mark = "no call since its leases expired"
    assert mark not in console.page("/workers")
    console.send("/clock", by="1", unit="h")
    assert mark in console.page("/workers")
