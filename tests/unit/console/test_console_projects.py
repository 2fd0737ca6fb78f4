"""Projects in the console: a menu of them, and pages whose links keep the project."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from console_client import ConsoleClient

from pullqueue import Emulator, ManualClock
from pullqueue.runtime.state import ServerState

FILE = "queue:\n- {name: pull, mode: pull}\n- {name: push, rate: 5/s}\n"
PAGES = (
    *("/", "/queues/pull", "/queues/push", "/queues/pull/purge", "/queues/pull/tasks/one"),
    *("/queues/push/tasks/two", "/failures", "/tasks?search=o", "/workers", "/activity"),
    *("/requests", "/requests/1", "/requests/clear", "/faults", "/clock", "/server"),
    *("/server/reset", "/server/snapshot", "/nowhere", "/queues/none"),
)
BELOW = "/projects/test-7/console"


@pytest.fixture
def console(clock: ManualClock) -> ConsoleClient:
    """The console of a server with two projects."""
    console = ConsoleClient(ServerState(Emulator.from_text(FILE, clock=clock)))
    made = {"name": "test-7", "clock": "manual", "queue_yaml": FILE}
    assert console.http.post("/_emulator/projects", json=made).status_code == 200
    return console


def added(console: ConsoleClient) -> ConsoleClient:
    """Add tasks to the second project, and a request to its log."""
    post = console.http.post
    post("/_emulator/queues/pull/tasks?project=test-7", json={"tasks": [{"name": "one"}]})
    task = {"name": "two", "request": {"url": "/x"}}
    post("/_emulator/queues/push/tasks?project=test-7", json={"tasks": [task]})
    path = "/taskqueue/v1beta2/projects/test-7/taskqueues/pull/tasks"
    assert post(path, json={"payloadBase64": "aA=="}).status_code == 200
    return console


def test_the_links_of_a_page_keep_the_project(console: ConsoleClient) -> None:
    """But the menu's; forms, too, and the pages that they return to."""
    added(console)
    for page in PAGES:
        text = console.http.get(BELOW + page).text

        found = re.findall(r'(?:href|action|formaction|src)="([^"#?][^"]*)"', text)
        found += re.findall(r'name="back" value="([^"]*)"', text)
        leading = {each for each in found if urlsplit(each).path.startswith("/")}
        elsewhere = {each for each in leading if not each.startswith("/projects/test-7/")}
        assert elsewhere == {"/console/"}, page
        assert "<option selected>test-7</option>" in text
        assert "<option>my-app</option>" in text
        assert "· test-7 ·" in text


def test_a_page_shows_its_project(console: ConsoleClient) -> None:
    added(console)

    assert "one" in console.http.get(f"{BELOW}/queues/pull").text
    assert console.http.get("/console/queues/pull/tasks/one").status_code == 404
    command = "pullqueue tasks add pull hello --project test-7"
    console.http.post("/_emulator/queues/pull/purge?project=test-7")
    assert command in console.http.get(f"{BELOW}/queues/pull").text
    assert "pullqueue tasks add pull hello" in console.http.get("/console/queues/pull").text
    assert "pullqueue reset --services --project test-7" in console.http.get(f"{BELOW}/server").text


def test_a_form_changes_its_project_and_returns_to_its_page(console: ConsoleClient) -> None:
    form = {"pullqueue_token": console.state.token, "payload": "x", "name": "new"}
    form["back"] = f"{BELOW}/queues/pull"
    headers = {"Origin": "http://localhost"}
    sent = console.http.post(f"{BELOW}/queues/pull/add", data=form, headers=headers)

    assert sent.headers["Location"].startswith(f"{BELOW}/queues/pull?notice=")
    page = console.http.get(sent.headers["Location"]).text
    assert f'href="{BELOW}/queues/pull/tasks/new"' in page
    assert console.emulator.queue("pull").list_tasks() == []

    form |= {"back": "https://elsewhere.example/console/", "name": "other"}
    sent = console.http.post(f"{BELOW}/queues/pull/add", data=form, headers=headers)
    assert sent.headers["Location"].startswith(f"{BELOW}/?notice=")


def test_the_menu_leads_to_a_project(console: ConsoleClient) -> None:
    for address, leads_to in (
        ("/console/?project=test-7", "/projects/test-7/console/"),
        ("/console/?project=my-app", "/console/"),
        ("/projects/test-7/console/?project=my-app", "/console/"),
        ("/console/requests?project=test-7&status=503", f"{BELOW}/requests?status=503"),
    ):
        reply = console.http.get(address)

        assert (reply.status_code, reply.headers["Location"]) == (302, leads_to)


def test_a_page_of_an_unknown_project_has_links_to_the_own_one(console: ConsoleClient) -> None:
    """Its sentence names the project that is meant."""
    for address in ("/console/?project=test-8", "/projects/test-8/console/clock"):
        reply = console.http.get(address)

        assert reply.status_code == 404
        assert "there is no project &#34;test-8&#34;: did you mean &#34;test-7&#34;?" in reply.text
        assert 'href="/console/clock"' in reply.text


def test_a_server_with_one_project_has_no_menu(clock: ManualClock) -> None:
    console = ConsoleClient(ServerState(Emulator.from_text(FILE, clock=clock)))

    assert 'name="project"' not in console.page("/")
    assert "<title>Queues · pullqueue</title>" in console.page("/")


def test_control_routes_are_below_a_project_as_well(console: ConsoleClient) -> None:
    """As the links of its pages name them."""
    added(console)

    assert console.http.get("/projects/test-7/_emulator/queues/pull").text.count('"tasks": 2') == 1
    assert '"two"' in console.http.get("/projects/test-7/_emulator/snapshot").text
    unknown = console.http.get("/projects/none/_emulator/queues")
    assert (unknown.status_code, "there is no project" in unknown.text) == (404, True)


def test_firebase_finds_the_queues_of_a_project(console: ConsoleClient) -> None:
    """Its path begins with the project, without a version."""
    path = "/projects/test-7/locations/us-central1/queues/push/tasks"
    body = {"task": {"httpRequest": {"url": "http://localhost/x", "body": ""}}}

    assert console.http.post(path, json=body).status_code == 200
    assert console.emulator.queue("push").list_tasks() == []


def test_the_clock_that_a_form_moves_is_that_of_the_project(console: ConsoleClient) -> None:
    token, headers = {"pullqueue_token": console.state.token}, {"Origin": "http://localhost"}
    fields = {**token, "by": "60", "back": f"{BELOW}/clock"}
    before = console.emulator.now_usec()
    console.http.post(f"{BELOW}/clock", data=fields, headers=headers)

    assert console.emulator.now_usec() == before
    clock = console.http.get("/_emulator/clock?project=test-7").text
    assert '"now": "2026-01-01T00:01:00+00:00"' in clock
