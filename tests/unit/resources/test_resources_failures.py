"""Tasks that failed, grouped and filtered by the status and the reason of their last attempt."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from control_client import ControlClient
from tables import each_row

from pullqueue import (
    AttemptRecord,
    Emulator,
    HttpRequest,
    Limits,
    ManualClock,
    NewTask,
    TombstonedTaskError,
)
from pullqueue.engine.attempts import finish_attempt, start_attempt
from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.server.lifecycle import Server
from pullqueue.testing import run_tasks


def answer(request: PushRequest) -> int:
    return int(request.url.rpartition("/")[2])


def latest(group: dict[str, Any]) -> str:
    """Return the name of the task of a group that failed last."""
    return str(group["examples"][0]["task"])


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    emulator = Emulator.from_text(
        "queue:\n"
        "- {name: mail, rate: 5/s, retry_parameters: {task_retry_limit: 0}}\n"
        "- {name: again, rate: 5/s}\n"
        "- {name: pull, mode: pull, retry_parameters: {task_retry_limit: 1}}\n",
        clock=clock,
    )
    urls = ["/500", "/500", "/404", "/503"]
    emulator.queue("mail").add_many(
        [NewTask(name=f"t{place}", request=HttpRequest(url)) for place, url in enumerate(urls)]
    )
    emulator.queue("again").add(name="later", request=HttpRequest("/500"))
    emulator.queue("pull").add(name="leased")
    emulator.queue("pull").lease_tasks(0, 1)
    run_tasks(emulator, send=answer)
    return emulator


def test_failures_are_grouped_by_queue_status_and_reason(control: ControlClient) -> None:
    groups = control.get("/failures").body["failures"]
    of_mail = control.get("/failures?queue=mail").body["failures"]
    retrying = control.get("/failures?state=retrying").body["failures"]

    found = [(each["queue"], each["state"], each["status"], each["tasks"]) for each in groups]
    assert found[0] == ("mail", "exhausted", 500, 2)
    assert sorted(map(str, found[1:])) == [
        "('again', 'retrying', 500, 1)",
        "('mail', 'exhausted', 404, 1)",
        "('mail', 'exhausted', 503, 1)",
        "('pull', 'exhausted', None, 1)",
    ]
    assert len(of_mail) == 3
    assert [(each["queue"], latest(each)) for each in retrying] == [("again", "later")]


def test_failed_tasks_that_are_due_again_are_counted(
    control: ControlClient, emulator: Emulator, clock: ManualClock
) -> None:
    """In their state, as in lists: they wait for the rate, and have failed, too."""
    clock.advance(3600)
    emulator.queue("again").add(name="new", request=HttpRequest("/500"))
    assert emulator.queue("again").fetch_statistics().available == 2
    groups = control.get("/failures?state=available").body["failures"]
    retrying = control.get("/failures?state=retrying").body["failures"]

    assert [(latest(each), each["tasks"]) for each in groups] == [("later", 1)]
    assert (groups[0]["state"], retrying) == ("available", [])


def test_a_failed_task_is_found_behind_all_that_were_never_sent(
    control: ControlClient, emulator: Emulator, clock: ManualClock
) -> None:
    queue = emulator.queue("again")
    emulator.reset()
    for _ in range(201):
        queue.add_many([NewTask()] * 100)
    clock.advance(3600)
    queue.add(name="new", request=HttpRequest("/500"))
    task = start_attempt(queue, queue.get_task("new"), lease_seconds=60, attempts=AttemptRecord())
    record = AttemptRecord(1, status=500, ended_usec=queue.now_usec())
    finish_attempt(queue, task, attempts=record, backoff_seconds=0)
    groups = control.get("/failures?queue=again").body["failures"]

    assert [(latest(each), each["tasks"]) for each in groups] == [("new", 1)]


def test_failures_before_a_time_are_left_out(
    control: ControlClient, emulator: Emulator, clock: ManualClock
) -> None:
    clock.advance(3600)
    emulator.queue("mail").add(name="new", request=HttpRequest("/500"))
    run_tasks(emulator, send=answer, follow=False)
    groups = control.get("/failures?queue=mail&since=00:30").body["failures"]

    assert [(latest(each), each["tasks"]) for each in groups] == [("new", 1)]


def test_exhausted_tasks_are_found_by_what_failed(control: ControlClient) -> None:
    for query, names in (
        ("status=500", {"t0", "t1"}),
        ("status=404", {"t2"}),
        ("status=0", set()),
        ("reason=anything", set()),
    ):
        found = control.get(f"/exhausted?{query}").body["tasks"]
        assert {task["name"] for task in found} == names, query


def test_a_search_lists_the_task_of_this_name_first(
    control: ControlClient, emulator: Emulator
) -> None:
    """Else it is missing where more tasks match than are listed."""
    emulator.queue("again").add_many([NewTask(name=f"n{n}") for n in range(10, 20)])
    emulator.queue("pull").add_many([NewTask(name=f"n1{n}") for n in range(5)])
    emulator.queue("pull").add(name="n1", eta=emulator.clock.now() + timedelta(minutes=1))
    for n in range(5):
        emulator.queue("pull").add(name=f"x{n}", payload=b"t2 or n1")
    [first, second] = control.get("/tasks?search=n1&limit=2").body["tasks"]
    one = control.get("/queues/pull/tasks?search=n1&limit=1").body
    exhausted = control.get("/exhausted?search=t2").body["tasks"]

    assert ((first["queue"], first["name"]), second["name"]) == (("pull", "n1"), "n10")
    assert ([task["name"] for task in one["tasks"]], one["total"]) == (["n1"], 11)
    assert [task["name"] for task in exhausted] == ["t2"]


@pytest.mark.parametrize(
    ("search", "match"),
    [
        ("NEEDLE", ("payload", "…" + "x" * 39 + " ", "needle", " ü" + "y" * 38 + "…")),
        ("start", ("payload", "", "start", " " + "x" * 39 + "…")),
        ("Yend", ("payload", "…" + "y" * 40, "yend", "")),
        ("Ü", ("payload", "…" + "x" * 32 + " needle ", "ü", "y" * 40 + "…")),
        ("by/url", ("URL", "/", "by/url", "")),
        ("status 5", ("reason", "", "status 5", "00")),
        ("ask", None),
    ],
)
def test_a_search_shows_what_it_has_found(
    control: ControlClient, emulator: Emulator, search: str, match: tuple[str, ...] | None
) -> None:
    """With what is around it; nothing is needed if the name has it."""
    payload = f"start {'x' * 300} needle ü{'y' * 300}yend"
    queue = emulator.queue("mail")
    queue.add(payload, name="task", request=HttpRequest("/by/url"))
    run_tasks(
        emulator, queues=["mail"], send=lambda _: PushResponse(500, b"status 500"), follow=False
    )
    queue.requeue(["task"]) if search in ("ask", "Ü") else None
    path = "/tasks" if search in ("ask", "Ü") else "/exhausted"
    [found] = control.get(f"{path}?search={quote(search)}").body["tasks"]

    names = ("field", "before", "text", "after")
    assert found["match"] == (match and dict(zip(names, match, strict=True)))


def test_tasks_of_all_queues_are_listed_in_pages(
    control: ControlClient, emulator: Emulator
) -> None:
    emulator.queue("pull").add_many([NewTask(name=f"p{n}") for n in range(3)])
    pages = [control.get(f"/tasks?limit=2&offset={offset}").body for offset in (0, 2, 4)]

    names = [[task["name"] for task in page["tasks"]] for page in pages]
    assert names == [["later", "p0"], ["p1", "p2"], []]
    assert {page["total"] for page in pages} == {4}


@pytest.fixture
def many(emulator: Emulator) -> Emulator:
    """Return an emulator with 12 more failed tasks, whose reasons are of two patterns."""
    mail = emulator.queue("mail")
    mail.add_many([NewTask(name=f"p{n}", request=HttpRequest("/503")) for n in range(12)])

    def broken(request: PushRequest) -> PushResponse:
        number = int(request.headers["X-AppEngine-TaskName"][1:])
        text = f"ValueError: image {number}.jpg of user{number}@example.com is CMYK"
        return PushResponse(500, b"timeout after 3 s" if number > 9 else text.encode())

    run_tasks(emulator, queues=["mail"], send=broken, follow=False)
    return emulator


@each_row(
    ("query", "found"),
    [
        ("", [(10, "ValueError: image … of … is CMYK"), (2, "timeout after … s")]),
        ("&search=7.jpg", [(1, "ValueError: image … of … is CMYK")]),
        ("&search=P11", [(1, "timeout after … s")]),
        ("&reason=after", [(2, "timeout after … s")]),
        ("&reason=image%20…%20of", [(10, "ValueError: image … of … is CMYK")]),
        ("&pattern=timeout%20after%20…%20s", [(2, "timeout after … s")]),
        ("&pattern=timeout", []),
        ("&reason=after&pattern=ValueError", []),
        ("&status=501", []),
        ("&tag=none", []),
    ],
)
def test_reasons_that_differ_in_numbers_are_one_group(
    control: ControlClient, many: Emulator, query: str, found: list[tuple[int, str]]
) -> None:
    path = f"/failures?queue=mail&limit=9{query.replace('…', quote('…'))}"
    body = control.get(path).body

    groups = [each for each in body["failures"] if each["pattern"] != "no reason"]
    assert [(each["tasks"], each["pattern"]) for each in groups] == found
    own = {each["pattern"]: each["reason"] for each in groups if each["tasks"] <= 2}
    assert set(own.items()) <= {
        ("timeout after … s", "timeout after 3 s"),
        (
            "ValueError: image … of … is CMYK",
            "ValueError: image 7.jpg of user7@example.com is CMYK",
        ),
    }
    assert {each["reason"] for each in groups if each["tasks"] > 2} <= {None}
    assert body["is_complete"] is True


def test_groups_that_are_left_out_are_counted(control: ControlClient, many: Emulator) -> None:
    all_groups = control.get("/failures").body
    [first] = control.get("/failures?limit=1").body["failures"]
    total = control.get("/failures?limit=1").body["total"]

    assert total == all_groups["total"] == len(all_groups["failures"]) == 7
    assert first == all_groups["failures"][0]
    assert (first["tasks"], len(first["examples"])) == (10, 5)


def test_a_group_is_requeued_by_its_pattern(control: ControlClient, many: Emulator) -> None:
    """No task of another group is, not even one whose reason contains the pattern."""
    queue = many.queue("mail")
    queue.add(name="longer", request=HttpRequest("/500"))
    run_tasks(
        many,
        queues=["mail"],
        send=lambda _: PushResponse(500, b"no timeout after 3 s"),
        follow=False,
    )
    change = {"action": "requeue", "pattern": "timeout after … s", "status": 500}
    changed = control.post("/queues/mail/change", change).body["changed"]

    assert changed == 2
    assert {task.name for task in queue.list_tasks()} == {"p10", "p11"}


@pytest.mark.parametrize("tasks", [4_999, 5_000, 5_001])
def test_the_response_says_whether_all_failed_tasks_are_grouped(tasks: int) -> None:
    emulator = Emulator.from_text(
        "queue: [{name: pull, mode: pull, retry_parameters: {task_retry_limit: 1}}]",
        clock=ManualClock(),
        limits=Limits(exhausted_kept=10_000),
    )
    queue = emulator.queue("pull")
    for start in range(0, tasks, 100):
        queue.add_many([NewTask()] * min(100, tasks - start))
    while queue.lease_tasks(0, 1000):
        pass
    body = ControlClient(Server(emulator)).get("/failures").body

    assert body["is_complete"] is (tasks <= 5_000)
    assert [each["tasks"] for each in body["failures"]] == [min(tasks, 5_000)]
    assert body["failures"][0]["pattern"] == "its last lease ended"


OF_PULL, OF_MAIL = "/queues/pull/tasks/leased/requeue", "/queues/mail/tasks/t2/requeue"


@pytest.mark.parametrize(
    ("path", "changes", "payload", "request_", "others"),
    [
        (OF_PULL, {}, b"", None, ""),
        (OF_PULL, {"payload": "other ü"}, "other ü".encode(), None, "payload"),
        (OF_PULL, {"payload_base64": "/w=="}, b"\xff", None, "payload"),
        (OF_MAIL, {}, b"", HttpRequest("/404"), ""),
        (OF_MAIL, {"payload": "", "request": {"url": "/404"}}, b"", HttpRequest("/404"), ""),
        (OF_MAIL, {"request": {"url": "/200"}}, b"", HttpRequest("/200"), "url"),
        (
            OF_MAIL,
            {"payload": "x", "request": {"method": "PUT", "headers": [["X-A", "1"]]}},
            b"x",
            HttpRequest("/404", "PUT", (("X-A", "1"),)),
            "payload, method, headers",
        ),
        (OF_MAIL, {"request": {"target": "v2"}}, b"", HttpRequest("/404", target="v2"), "target"),
    ],
)
def test_an_exhausted_task_is_requeued_with_changes(
    control: ControlClient,
    emulator: Emulator,
    *,
    path: str,
    changes: dict[str, object],
    payload: bytes,
    request_: HttpRequest | None,
    others: str,
) -> None:
    """What is not named stays as it is; attempts and leases are counted from 0."""
    shown = control.post(path, changes).body["task"]
    text = control.get("/activity").body["actions"][0]["text"]

    queue = emulator.queue(shown["queue"])
    task = queue.get_task(shown["name"])
    assert (task.payload, task.request, task.retry_count) == (payload, request_, 0)
    assert task.name not in {each.name for each in queue.exhausted}
    changed = f" with another {others}" if others else ""
    assert text == f"requeued task {task.name} of queue {queue.name}{changed}"


@each_row(
    ("path", "changes", "message"),
    [
        (OF_PULL, {"request": {"url": "/x"}}, 'task "leased" of queue "pull" is a pull task'),
        (OF_PULL, {"payload": "a", "payload_base64": "YQ=="}, "the task has both payload and"),
        (OF_PULL, {"payload": "x" * 2**20 + "x"}, "payload has 1048577 bytes"),
        (OF_MAIL, {"request": {"url": "http://a.example.com/"}}, "url"),
        (OF_MAIL, {"request": {"method": "BREW"}}, "method"),
        (OF_MAIL, {"request": {"headers": [["a b", "1"]]}}, "header"),
        (OF_MAIL, {"payload": "x" * 102_400}, "102"),
        (OF_MAIL, {"name": "other"}, "name"),
        ("/queues/again/tasks/later/requeue", {}, 'task "later" of queue "again" is not exhausted'),
        ("/queues/mail/tasks/nope/requeue", {}, 'has no task "nope"'),
    ],
)
def test_a_change_that_is_not_valid_changes_nothing(
    control: ControlClient, emulator: Emulator, path: str, changes: dict[str, object], message: str
) -> None:
    """The name stays reserved, too."""
    before = [task for queue in emulator.queues for task in queue.exhausted]
    refused = control.post(path, changes)

    assert refused.status in (400, 404)
    assert message in refused.body["error"]["message"]
    assert [task for queue in emulator.queues for task in queue.exhausted] == before
    with pytest.raises(TombstonedTaskError):
        emulator.queue("mail").add(name="t2")


def test_a_task_that_lost_its_payload_is_requeued_with_another(
    control: ControlClient, emulator: Emulator
) -> None:
    queue = emulator.queue("mail")
    queue.add(b"work", name="lost")
    run_tasks(emulator, queues=["mail"], send=lambda _: 500, follow=False)
    queue.purge()
    refused = control.post("/queues/mail/tasks/lost/requeue", {"request": {"method": "PUT"}})
    shown = control.post("/queues/mail/tasks/lost/requeue", {"payload": "again"}).body["task"]

    assert (refused.status, "payload was deleted" in refused.body["error"]["message"]) == (
        400,
        True,
    )
    assert shown["payload"]["text"] == "again"
