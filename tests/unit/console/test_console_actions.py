"""What the console's forms do and report, without a browser."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from urllib.parse import urlencode

import pytest
from console_client import ConsoleClient
from push_app import push_app, until

from pullqueue import Emulator, HttpRequest, Limits, ManualClock, NewTask, TransientError
from pullqueue.engine.events import Interface, Origin
from pullqueue.faults.declaration import KINDS, OPTIONS, build_schema
from pullqueue.push.addresses import PushAddresses
from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.runtime.config_file import ConfigFile
from pullqueue.runtime.state import ServerState
from pullqueue.server.lifecycle import Server
from pullqueue.tasks import TaskState

CONFIG = """\
queue:
- {name: pull, mode: pull}
- {name: again, mode: pull, retry_parameters: {task_retry_limit: 1}}
- {name: once, mode: pull, retry_parameters: {task_retry_limit: 1}}
"""


@pytest.fixture
def console(clock: ManualClock) -> ConsoleClient:
    """Return the console of a server on which one lease a second is permitted."""
    limits = Limits(leases_per_second=1, tasks_in_memory=250)
    return ConsoleClient(ServerState(Emulator.from_text(CONFIG, clock=clock, limits=limits)))


def test_each_form_of_a_task_does_what_it_says(console: ConsoleClient) -> None:
    queue, steps = console.emulator.queue("pull"), "/queues/pull/tasks/mine"
    added = {"payload": '{"order": 17}\r\nsecond line', "name": "mine", "tag": "orders"}

    assert "Task mine was added." in console.send("/queues/pull/add", **added)
    task = queue.get_task("mine")
    assert (task.payload, task.tag) == (b'{"order": 17}\nsecond line', "orders")
    page = console.send("/queues/pull/lease", lease_seconds="90")
    assert "1 task is leased until 2026-01-01 00:01:30." in page
    page = console.send(f"{steps}/extend", lease_seconds="600")
    assert "The lease ends at 2026-01-01 00:10:00." in page
    page = console.send(f"{steps}/release")
    assert "Task mine was released." in page
    assert 'id="extend"' not in page
    assert "Deleted 1 task." in console.send("/change", action="delete", task="pull/mine")
    assert queue.list_tasks() == []


def test_what_is_refused_comes_back_filled_in(console: ConsoleClient) -> None:
    """Each error is beside its field, and nothing typed is lost."""
    back, payload = "/console/queues/pull", "long work to type"
    fields = {"payload": payload, "format": "base64", "name": "a b", "countdown": "soon"}

    page = console.send("/queues/pull/add", back=back, count="0", **fields)

    assert "4 fields are wrong." in page
    for field in ("payload", "name", "countdown", "count"):
        assert f'id="{field}-wrong"' in page, field
    assert 'value="a b"' in page
    assert f"{payload}</textarea>" in page
    page = console.send("/queues/pull/add", payload='{"a": 1,}', format="json")
    assert re.search(r"not valid JSON \(.*correct it, or choose text", page)
    assert console.emulator.queue("pull").list_tasks() == []
    console.emulator.queue("pull").add(name="taken")
    page = console.send("/queues/pull/add", back=back, name="taken")
    assert 'id="name-wrong">task taken exists: choose another name' in page


def test_copies_are_added_as_long_as_they_fit(console: ConsoleClient) -> None:
    """The payload is the file, byte for byte. The page says how many were added before; if none
    was, only why.
    """
    queue, add = console.emulator.queue("pull"), "/queues/pull/add"
    file = (BytesIO(b"\r\n\xff"), "bytes")
    assert "Added 150 tasks." in console.send(add, file=file, count="150")
    assert [task.payload for task in queue.list_tasks(200)] == [b"\r\n\xff"] * 150
    queue.purge()

    page = console.send(add, count="1000")
    assert "Only 200 of 1000 tasks were added: 200 tasks are stored, and adding 100" in page
    assert queue.fetch_statistics().tasks == 200
    assert ">200 tasks are stored, and adding 100" in console.send(add, count="1000")


def test_tasks_are_filtered_and_sorted(console: ConsoleClient) -> None:
    """By state, tag and text, in any order and in pages."""
    queue = console.emulator.queue("pull")
    queue.add_many([NewTask(f"work {n}", name=f"{n}", tag=f"t{n % 2}") for n in range(8)])
    queue.add(b"other", name="other", tag="t0")
    queue.lease_tasks(60, 1)

    query = "state=available&tag=t0&search=WORK&sort=name&order=desc&limit=2&offset=1"
    page = console.page(f"/queues/pull?{query}")

    assert re.findall('<tr id="row-(.*?)"', page) == ["4", "2"]


def test_the_filter_of_the_page_says_which_tasks_an_action_is_for(console: ConsoleClient) -> None:
    queue = console.emulator.queue("once")
    queue.add_many([NewTask(name=f"n{n}", tag=f"t{n % 2}") for n in range(6)])
    queue.lease_tasks(60, 2)
    fields = {"queue": "once", "all": "1"}

    assert "Released 2 tasks." in console.send(
        "/change", action="release", state="leased", **fields
    )
    assert "Requeued 1 task." in console.send(
        "/change", action="requeue", state="exhausted", tag="t1", **fields
    )
    assert "Deleted 2 tasks." in console.send("/change", action="delete", tag="t0", **fields)
    assert "Deleted 1 task." in console.send("/change", action="delete", search="N5", **fields)
    assert {task.name for task in queue.list_tasks()} == {"n1", "n3"}
    assert [task.name for task in queue.exhausted] == ["n0"]
    nothing = console.send("/change", action="delete")
    assert "No task is selected: select some, or all that match." in nothing


def test_queues_are_filtered_and_sorted(console: ConsoleClient) -> None:
    """By a part of the name, and by each column."""
    for query, queues in (
        ("", "pull again once"),
        ("?search=AGA", "again"),
        ("?sort=name&order=desc", "pull once again"),
    ):
        page = console.page(f"/{query}")

        assert re.findall('<a id="queue-(.*?)"', page) == queues.split()
        assert ("Tasks with “AGA”" in page) is ("AGA" in query)


def test_a_text_that_no_queue_has_in_its_name_is_one_of_tasks(console: ConsoleClient) -> None:
    """Other pages lead to the tasks with it, and from there to the only one of this name."""
    console.emulator.queue("pull").add(name="task-again", payload="again & again")

    assert 'id="find" href="/console/tasks?search=again"' in console.page("/?search=again")
    for text in ("task-again", "again & again", "nowhere"):
        found = console.get(f"/?{urlencode({'search': text})}")
        assert found.location == f"/console/tasks?{urlencode({'search': text})}"
    assert 'id="find"' not in console.page("/")


def test_tiles_say_which_tasks_they_count(console: ConsoleClient, clock: ManualClock) -> None:
    """Paused tasks are among the available ones, exhausted ones not among the tasks; the age of the
    oldest one that is due is shown from its first second on.
    """
    assert "Oldest due \N{EN DASH}" in console.text("/")
    queues = [console.emulator.queue(name) for name in ("pull", "again", "once")]
    for queue in queues:
        queue.add_many([NewTask()] * 2)
    assert "Oldest due 0 s" in console.text("/")
    queues[0].pause()
    assert "Tasks 6 Available 6, 2 paused Leased 0 Scheduled 0 Exhausted 0" in console.text("/")
    assert "Tasks 2 Available 2, all paused" in console.text("/queues/pull")
    assert "Tasks 2 Available 2 Leased" in console.text("/queues/once")
    queues[2].lease_tasks(0.001, 2)
    clock.advance(1)

    assert "Exhausted, not in tasks 2" in console.text("/")


def test_where_push_tasks_are_sent(clock: ManualClock) -> None:
    emulator = Emulator.from_text("queue: [{name: push, rate: 5/s}]", clock=clock)
    all_addresses = ["http://a", "b=http://b", "c=http://c", "d=http://d"]
    for count, shown in (
        (1, "http://a"),
        (3, "http://a, b at http://b, c at http://c"),
        (4, "http://c and 1 more"),
    ):
        addresses = PushAddresses(all_addresses[:count])

        assert shown in ConsoleClient(ServerState(emulator, push_to=addresses)).text("/workers")


def test_the_latest_exhausted_tasks_are_links(console: ConsoleClient, clock: ManualClock) -> None:
    queue = console.emulator.queue("once")
    for latest in (["t0"], ["t1", "t0"], ["t2", "t1", "t0"], ["t3", "t2", "t1"]):
        queue.add(name=latest[0])
        queue.lease_tasks(1, 1)
        clock.advance(2)

        links = re.findall(r'id="exhausted-once-(t\d)" href="/console(.*?)"', console.page("/"))
        assert re.search(r"\. +Latest exhausted: t", console.text("/"))
        assert [name for name, _ in links] == latest
        assert "Requeue" in console.page(links[0][1])


def test_done_is_what_workers_have_finished(console: ConsoleClient) -> None:
    """Neither what they have only leased, nor what operators have deleted."""
    pull, again = (console.emulator.queue(name) for name in ("pull", "again"))
    for queue in (pull, again):
        queue.add_many([NewTask(name=f"work-{number}") for number in range(3)])
        leased = queue.lease_tasks(60, 2)
    again.delete_tasks(leased[0])
    console.send("/change", action="delete", task=["pull/work-0", "pull/work-2"])

    page = console.page("/?sort=done&order=desc")

    assert re.findall('<a id="queue-(.*?)"', page) == ["again", "pull", "once"]
    assert re.findall('"Done in 1 min" class="number">(.*?)<', page) == ["1", "0", "0"]


def test_the_clock_is_moved(console: ConsoleClient) -> None:
    """By a time span with its unit; the page says when something changes next."""
    assert "It is 2026-01-01 02:00:00 now." in console.send("/clock", by="2", unit="h")
    later = console.emulator.clock.now() + timedelta(seconds=30)
    console.emulator.queue("pull").add(eta=later)
    assert "Something changes in 30 s" in console.page("/clock")
    assert "is not a valid time" in console.send("/clock", move_to="tomorrow")
    assert "It is 2026-01-01 06:00:00 now." in console.send("/clock", move_to="2026-01-01T06:00")


def test_a_delivery_that_takes_long_can_be_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without a script, by a button."""
    monkeypatch.setattr("pullqueue.console.actions._CALL_SECONDS", 0.01)
    emulator = Emulator.from_text("queue: [{name: push, rate: 5/s}]", clock=ManualClock())
    emulator.queue("push").add(request=HttpRequest("/slow"))
    with push_app() as app, Server(emulator, push_to=PushAddresses([app.url])) as server:
        console = ConsoleClient(server.state)
        page = console.send("/clock", by="2", unit="h", deliver="true")
        assert "The delivery until 2026-01-01 02:00:00 is not finished." in page
        assert '<progress max="7200.0" value="0.0"' in page
        assert "is not finished. <button" not in page
        page = console.page("/queues/push")
        assert "The delivery until 2026-01-01 02:00:00 is not finished. <button" in page
        [target] = re.findall('name="move_to" value="(.*?)"><input type="hidden" name="del', page)
        app.released.set()
        until(lambda: not emulator.queue("push").list_tasks())
        monkeypatch.undo()
        page = console.send("/clock", move_to=target, deliver="true")

    assert "It is 2026-01-01 02:00:00 now." in page
    assert "push: 1 task delivered" in page
    assert "is not finished" not in console.page("/")


def test_the_file_is_reloaded(tmp_path: Path) -> None:
    """What has changed is said; of a file that is not valid each page says why."""
    file = tmp_path / "queue.yaml"
    file.write_text(CONFIG)
    emulator = Emulator.from_text(CONFIG, clock=ManualClock())
    console = ConsoleClient(ServerState(emulator, config_file=ConfigFile(file)))
    file.write_text(f"{CONFIG}- {{name: new, mode: pull}}\n")

    assert "queue.yaml is applied: added new." in console.send("/server/reload")
    file.write_text("queue:\n- name: a b\n")
    assert "Nothing was changed" in console.send("/server/reload")
    assert "QY201" in console.page("/")


def test_a_file_that_is_not_a_snapshot_changes_nothing(console: ConsoleClient) -> None:
    """A reset deletes the tasks."""
    console.emulator.queue("pull").add()

    refused = console.send("/server/snapshot", file=(BytesIO(b"{}"), "file"))
    assert "nothing was changed: the body is not valid: Object missing required field" in refused
    assert len(console.emulator.queue("pull").list_tasks()) == 1
    assert "Everything is deleted." in console.send("/server/reset")
    assert console.emulator.queue("pull").list_tasks() == []


def test_a_snapshot_is_compared_with_the_running_server(console: ConsoleClient) -> None:
    """As `pullqueue snapshot diff` does."""
    queue = console.emulator.queue("pull")
    queue.add(name="gone")
    saved = console.http.get("/_emulator/snapshot").data

    def compare(data: bytes) -> str:
        return console.send("/server/snapshot/compare", file=(BytesIO(data), "s.json"))

    same = compare(saved)
    queue.delete_tasks("gone")
    queue.add_many([NewTask(name=f"n{number}") for number in range(21)])
    differs = compare(saved)

    assert "No task differs from s.json." in same
    assert "What differs from s.json:" in differs
    assert "<li>pull: 21 tasks added: n0, n1, " in differs
    assert ", n19 and 1 more</li>" in differs
    assert "<li>pull: 1 task gone: gone</li>" in differs
    assert "s.json is not a snapshot (" in compare(b"{}")


def test_a_lease_takes_what_the_form_says_or_shows_why_it_took_none(
    console: ConsoleClient, clock: ManualClock
) -> None:
    """There is none, or too many leases were requested."""
    assert "No task was leased: none is available." in console.send("/queues/pull/lease")
    queue = console.emulator.queue("pull")
    queue.add_many([NewTask(tag=tag) for tag in (None, "t", "t", "t")])
    assert "too many lease calls in one second" in console.send("/queues/pull/lease")
    clock.advance(1)

    page = console.send("/queues/pull/lease", max_tasks="2", tag="t")

    assert "2 tasks are leased until 2026-01-01 00:01:01." in page
    leased = queue.list_tasks(state=TaskState.LEASED)
    assert [task.tag for task in leased] == ["t", "t"]


def test_a_task_has_the_time_of_its_form(console: ConsoleClient) -> None:
    """A time without a time zone is in UTC, as the console shows times. With one that is not valid
    nothing is added.
    """
    queue = console.emulator.queue("pull")
    wrong = 'eta is "soon", which is not a valid time: use one such as 2026-01-01T'
    assert wrong in console.send("/queues/pull/add", eta="soon")
    both = {"eta": "2026-01-01T01:00", "countdown": "5"}
    assert "enter either an ETA or a delay" in console.send("/queues/pull/add", **both)
    assert queue.list_tasks() == []

    console.send("/queues/pull/add", eta="2026-01-01T06:00")
    console.send("/queues/pull/add", eta="2026-01-01T01:00:00-05:00")
    console.send("/queues/pull/add", countdown="21600")
    assert [task.eta for task in queue.list_tasks()] == [datetime(2026, 1, 1, 6, tzinfo=UTC)] * 3


def test_a_later_snapshot_is_loaded_with_a_warning(console: ConsoleClient) -> None:
    """Unless its times were shifted."""
    saved = b'{"format": "pullqueue-snapshot/1", "taken_usec": 2000000000000000, "queues": {}}'
    forms = ({"file": (BytesIO(saved), "s.json"), **shift} for shift in ({}, {"shift": "true"}))

    loaded, shifted = (console.send("/server/snapshot", **form) for form in forms)

    assert "Loaded 0 tasks. Warning: the snapshot was taken at 2033-05-18T03:33:20+00:00" in loaded
    assert "Loaded 0 tasks.</p>" in shifted


def exhaust(console: ConsoleClient, *names: str) -> None:
    """Add a task to each queue and exhaust it."""
    for name in names:
        console.emulator.queue(name).add(name=f"of-{name}")
        console.emulator.queue(name).lease_tasks(0, 1)


@pytest.mark.parametrize(
    "fields", [{"all": "1"}, {"task": ["again/of-again", "once/of-once"]}], ids=["all", "selected"]
)
def test_requeuing_goes_on_after_a_queue_that_was_removed(
    console: ConsoleClient, fields: dict[str, str | list[str]]
) -> None:
    """Tasks of other queues are requeued, and the page says both."""
    exhaust(console, "again", "once")
    console.emulator.reconfigure(Emulator.from_text(CONFIG.replace("again", "other")).config)
    form = {"action": "requeue", "state": "exhausted", **fields}

    page = console.send("/change", **form)

    assert (
        'Requeued 1 task. Others could not be changed: queue "again" is disabled, since it' in page
    )
    assert [task.name for task in console.emulator.queue("once").list_tasks()] == ["of-once"]
    assert '>queue "again" is disabled, since it' in console.send("/change", **form)


def test_a_removed_queue_without_exhausted_tasks_is_not_reported(console: ConsoleClient) -> None:
    """All tasks are requeued."""
    exhaust(console, "once")
    console.emulator.reconfigure(Emulator.from_text(CONFIG.replace("again", "other")).config)

    page = console.send("/change", action="requeue", state="exhausted", all="1")

    assert "Requeued 1 task.</p>" in page


def test_an_exhausted_task_is_deleted(console: ConsoleClient) -> None:
    """Another task that has its name by now stays."""
    exhaust(console, "once")
    queue = console.emulator.queue("once")
    queue.free_names()
    queue.add(name="of-once")

    page = console.send("/change", action="delete", state="exhausted", task="once/of-once")

    assert "Deleted 1 task." in page
    assert (len(queue.exhausted), len(queue.list_tasks())) == (0, 1)


def test_a_form_leads_back_to_its_page_or_the_overview(console: ConsoleClient) -> None:
    """Never to a page of another site."""
    for back, page in (
        ("/console/queues/pull?tag=t", "/console/queues/pull?tag=t&notice="),
        ("https://evil.example/console/faults", "/console/faults?notice="),
        ("//evil.example/", "/console/?notice="),
        ("/_emulator/health", "/console/?notice="),
        ("", "/console/?notice="),
    ):
        form = {"pullqueue_token": console.state.token, "back": back}
        sent = console.http.post("/console/queues/pull/pause", data=form)

        assert sent.headers["Location"].startswith(page), back


def test_the_form_of_faults_has_every_option(console: ConsoleClient) -> None:
    """The form has what is declared: each kind with its options, and those of all kinds."""
    page = console.page("/faults")

    assert [name for name in OPTIONS if f'name="{name}"' not in page] == []
    for name in OPTIONS:
        assert build_schema(name)["description"].partition(". Default")[0].rstrip(".") in page, name
    for kind in KINDS.values():
        assert f'value="{kind.name}" data-fields="{" ".join(kind.options)}"' in page
    assert '">latency: Move the clock forward' in page


def test_a_fault_can_be_for_several_queues(console: ConsoleClient) -> None:
    """They stay selected if another field is wrong."""
    fields: dict[str, str | list[str]] = {"back": "/console/faults", "kind": "fail", "call": "add"}
    fields["queues"] = ["again", "once"]
    refused = console.send("/faults", times="0", **fields)
    page = console.send("/faults", **fields)

    assert 'id="times-wrong">times is not valid: Expected `int` >= 1' in refused
    assert re.findall("<option selected>(.*?)</option>", refused) == ["add", "again", "once"]
    assert "error=TransientError, queues=again,once" in page
    with pytest.raises(TransientError):
        console.emulator.queue("once").add()
    console.emulator.queue("pull").add()


def test_faults_are_removed_by_number_or_all_at_once(console: ConsoleClient) -> None:
    """Each page links to them, and to exhausted tasks."""
    exhaust(console, "once")
    for _ in range(3):
        console.send("/faults", kind="fail", call="add", error="TransientError")

    assert "Fault 1 is removed." in console.send("/faults/remove", number="1")
    page = console.page("/requests")
    assert 'href="/console/faults">2 active faults</a>' in page
    assert 'href="/console/failures">1 exhausted task</a>' in page
    assert "All faults are removed." in console.send("/faults/remove", number="all")
    assert console.state.faults.list() == []


def test_binary_payloads_are_saved_as_base64(console: ConsoleClient) -> None:
    """The file for `pullqueue seed` has it as base64, others whole as text; the latest first."""
    queue = console.emulator.queue("once")
    for payload in (b"\xff", b"text" * 100):
        queue.add(payload)
    queue.lease_tasks(0, 2)

    lines = console.page("/exhausted.jsonl").splitlines()

    assert [json.loads(line) for line in lines] == [
        {"queue": "once", "payload": "text" * 100},
        {"queue": "once", "payload_base64": "/w=="},
    ]


def test_exhausted_tasks_are_filtered(console: ConsoleClient) -> None:
    """By queue, tag and text, on the page as in the file."""
    for queue, payload, name, tag in (
        ("once", "one", "a", "t1"),
        ("once", "two", "b", "t2"),
        ("again", "one", "c", "t1"),
    ):
        console.emulator.queue(queue).add(payload, name=name, tag=tag)
    for queue in ("once", "again"):
        console.emulator.queue(queue).lease_tasks(0, 2)

    for query, name in (("queue=again", "c"), ("tag=t2", "b"), ("search=ONE&queue=once", "a")):
        page = console.page(f"/failures?{query}")

        assert re.findall(r'id="task-\w+-(\w+)"', page) == [name]
        assert len(console.page(f"/exhausted.jsonl?{query}").splitlines()) == 1


def test_a_queue_is_paused_and_resumed(console: ConsoleClient) -> None:
    """Its tasks are then not due, and each page has a button that resumes it."""
    console.emulator.queue("pull").add(name="a")
    page = console.send("/queues/pull/pause", back="/console/queues/pull")

    assert "Queue pull is paused." in page
    assert '<span class="state paused">paused</span>' in page
    assert re.search(r'class="warning"><dt>Available</dt><dd><a [^>]*>1, all paused</a>', page)
    assert ">due " not in page
    assert 'action="/console/queues/pull/resume"' in console.page("/faults")
    assert "Queue pull is resumed." in console.send("/queues/pull/resume")
    assert "is paused" not in console.page("/faults")
    assert "paused queue pull console" in console.text("/activity")


def test_a_step_of_the_clock_says_what_it_did_to_each_queue(console: ConsoleClient) -> None:
    """The buttons for it are on each page."""
    for name in ("pull", "once"):
        console.emulator.queue(name).add_many([NewTask(), NewTask()])
        console.emulator.queue(name).lease_tasks(50, 2)
    later = console.emulator.clock.now() + timedelta(seconds=30)
    console.emulator.queue("pull").add(eta=later)

    page = console.page("/queues/pull")
    assert 'value="60">1 min</button>' in page
    assert "to the next change, in 30 s</button>" in page
    page = console.send("/clock", by="60", unit="s", back="/console/queues/pull")
    assert "<li>pull: 2 leases expired, 1 became due</li>" in page
    assert "<li>once: 2 leases expired, 2 tasks exhausted</li>" in page
    assert "No task was affected." in console.send("/clock", by="1", unit="s")


def test_a_failure_links_to_its_requests_or_tasks(console: ConsoleClient) -> None:
    """To these and no others; where none is left, there is no link."""

    def fail(reason: bytes) -> None:
        console.state.requests.record_sent(
            PushRequest("POST", "/", {}, b"", None, "push", "a", 1, 600),
            PushResponse(503, reason),
            method="attempt 1",
            seconds=0,
            origin=Origin(Interface.PUSH, "http://app"),
        )

    queue, clock = console.emulator.queue("once"), console.emulator.clock
    assert isinstance(clock, ManualClock)
    for reason, tasks, seconds in ((b"<b>down</b>", 2, 600), (b"full", 1, 60), (b"full", 2, 600)):
        fail(reason)
        queue.add_many([NewTask()] * tasks)
        queue.lease_tasks(1, 9)
        clock.advance(seconds)
    fail(b"full")

    page = console.page("/activity?since=00:00")
    later = console.text("/activity?since=2026-01-01T00:21:01Z")

    links = re.findall(r'href="/console([^"]+)">(\d+) (\w+) .*? (\S+)</a>', page)
    assert [(count, what, end) for _, count, what, end in links] == [
        ("3", "attempts", "(full)"),
        ("3", "tasks", "exhausted"),
        ("2", "tasks", "exhausted"),
        ("1", "attempt", "(<b>down</b>)"),
    ]
    for path, count, _, _ in links:
        assert len(re.findall('<tr id="row-', console.page(path))) == int(count)
    assert "Nothing failed since 2026-01-01T00:21:01Z." in later
    console.state.requests.clear()
    queue.remove_exhausted([task.name for task in queue.exhausted])
    assert not re.search('<a id="failed-', console.page("/activity"))
