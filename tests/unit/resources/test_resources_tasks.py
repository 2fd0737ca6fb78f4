"""Control routes on queues and tasks. The client holds every answer against the document."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import quote

from control_client import ControlClient
from tables import each_row

from pullqueue import Emulator, ManualClock, NewTask
from pullqueue.engine.attempts import finish_attempt, start_attempt
from pullqueue.server.lifecycle import Server
from pullqueue.tasks import AttemptRecord

TASKS = "/queues/pull/tasks"
LIMITED = "/queues/limited"


def names(reply: object) -> list[str]:
    return [task["name"] for task in reply.body["tasks"]]  # type: ignore[attr-defined]


def test_queues_are_listed_with_their_numbers(control: ControlClient, emulator: Emulator) -> None:
    """All queues are listed, push queues as what they are."""
    emulator.queue("pull").add(b"work", tag="a")
    emulator.queue("pull").lease_tasks(60, 1)

    queues = {queue["name"]: queue for queue in control.get("/queues").body["queues"]}

    assert {name: queue["mode"] for name, queue in queues.items()} == {
        "pull": "pull",
        "limited": "pull",
        "push": "push",
    }
    assert queues["pull"]["leased"] == queues["pull"]["leased_last_minute"] == 1
    assert queues["limited"]["settings"]["retry_parameters"]["task_retry_limit"] == 1
    assert control.get("/queues/pull").body["queue"] == queues["pull"]
    assert control.get("/queues/pul").message.startswith('queue "pul" is not in')


def test_an_error_says_what_became_of_a_task(
    control: ControlClient, server: Server, emulator: Emulator
) -> None:
    """Whether it succeeded or is exhausted, and how to add it again."""
    for name, status in (("done", 200), ("lost", 500)):
        task = emulator.queue("push").add(name=name)
        attempts = AttemptRecord(1, status=status)
        started = start_attempt(emulator.queue("push"), task, lease_seconds=9, attempts=attempts)
        finish_attempt(emulator.queue("push"), started, attempts=attempts, backoff_seconds=None)

    done, lost = (control.post(f"/queues/push/tasks/{name}/run") for name in ("done", "lost"))

    assert done.message == 'task "done" of queue "push" succeeded and was deleted'
    assert control.get("/queues/push/tasks/done/history").body["problem"] == done.message
    assert lost.message == (
        'task "lost" of queue "push" is exhausted: add it again with `pullqueue tasks requeue '
        f"push lost --url {server.url}`"
    )


def test_the_history_has_the_deadline_of_a_running_attempt(
    control: ControlClient, emulator: Emulator
) -> None:
    queue = emulator.queue("push")
    started = start_attempt(queue, queue.add(name="a"), lease_seconds=15, attempts=AttemptRecord())
    path = "/queues/push/tasks/a/history"

    running = control.get(path).body["events"][-1]
    finish_attempt(queue, started, attempts=AttemptRecord(1, status=500), backoff_seconds=0)

    assert running["until"] == "2026-01-01T00:10:00+00:00"
    assert control.get(path).body["events"][1]["until"] is None


def test_tasks_are_added_with_every_field(control: ControlClient, emulator: Emulator) -> None:
    """Text, bytes, tags, names, an eta and a countdown; a taken name fails alone."""
    added = control.post(
        TASKS,
        {
            "tasks": [
                {"payload": "käse", "name": "a", "tag": "t"},
                {"payload_base64": b64encode(b"\xff").decode()},
                {"name": "later", "eta": "2026-01-01T00:01:00Z"},
                {"name": "soon", "countdown": 0.5},
            ]
        },
    )
    again = control.post(TASKS, {"tasks": [{"name": "a"}, {"name": "b"}]})

    assert added.status == 200
    assert added.body["tasks"][0]["payload"]["text"] == "käse"
    assert added.body["tasks"][1]["payload"]["text"] is None
    assert [task["state"] for task in added.body["tasks"]] == [
        "available",
        "available",
        "scheduled",
        "scheduled",
    ]
    assert names(again) == ["b"]
    assert again.body["refused"] == {"a": "exists"}
    assert emulator.queue("pull").get_task("a").payload == "käse".encode()


@each_row(
    ("task", "message"),
    [
        ({"payload": "a", "payload_base64": "YQ=="}, "task 1 has both payload and payload_base64"),
        (
            {"eta": "2026-01-01T00:00:00Z", "countdown": 5},
            "task 1 has both eta and countdown: send one of them",
        ),
        (
            {"payload_base64": "?"},
            "tasks[1].payload_base64 is not valid: Invalid base64 encoded string",
        ),
        ({"eta": "tomorrow"}, 'eta is "tomorrow", which is not a valid time: use one such as'),
        ({"eta": "2026-01-01"}, 'eta is "2026-01-01", which has no time zone: use one such as'),
        ({"countdown": 1e300}, "countdown: 1e+300 is not a valid duration"),
        (
            {"countdown": 3e11},
            "eta is 301767225600000000: use microseconds since 1970, in the years 1 to 9999",
        ),
        ({"name": "a b"}, 'task name is "a b": use letters'),
        ({"size": 1}, "tasks[1] is not valid: Object contains unknown field `size`"),
        ({"tag": 17}, "tasks[1].tag is not valid: Expected `str`, got `int`"),
    ],
)
def test_a_task_that_cannot_be_added_is_refused_with_the_reason(
    control: ControlClient, task: object, message: str
) -> None:
    """Nothing is stored."""
    reply = control.post(TASKS, {"tasks": [{}, task]})

    assert reply.status == 400
    assert reply.message.startswith(message)
    assert control.get("/queues/pull").body["queue"]["tasks"] == 0


def test_tasks_are_filtered_sorted_and_paged(control: ControlClient, emulator: Emulator) -> None:
    queue = emulator.queue("pull")
    for name, payload, tag in (("b", "xxx", "t"), ("c", "x", None), ("a", "xx", "t")):
        queue.add(payload, name=name, tag=tag)
    queue.lease_tasks(0, 1)

    def check(query: str, listed: str, total: int) -> None:
        reply = control.get(f"{TASKS}?{query}")
        assert (" ".join(names(reply)), reply.body["total"]) == (listed, total), query

    for query, listed, total in (
        ("", "b c a", 3),
        ("limit=2", "b c", 3),
        ("offset=1&limit=1", "c", 3),
        ("offset=3", "", 3),
        ("descending=true", "a c b", 3),
        ("sort=name", "a b c", 3),
        ("sort=size&descending=true&limit=2", "b a", 3),
        ("sort=tag&offset=1", "b a", 3),
        ("tag=t&offset=1", "a", 2),
        ("sort=leases&descending=true", "b c a", 3),
        ("search=C", "c", 1),
        ("search=XX&limit=1", "b", 2),
        ("search=nothing", "", 0),
    ):
        check(query, listed, total)
    queue.lease_tasks(60, 1)
    check("state=leased", "b", 1)
    check("state=available&tag=t", "a", 1)
    check("sort=added&state=scheduled", "", 0)


@each_row(
    ("path", "message"),
    [
        (f"{TASKS}?limit=0", "limit is not valid: Expected `int` >= 1"),
        (f"{TASKS}?limit=many", "limit is not valid: Expected `int`, got `str`"),
        (f"{TASKS}?offset={10**30}", "offset is"),
        (
            f"{TASKS}?state=gone",
            "state is not valid: Invalid enum value 'gone' (use one of available, exhausted,",
        ),
        (
            "/requests?interface=FTP",
            "interface is not valid: Invalid enum value 'FTP' (use one of REST, Cloud Tasks REST,",
        ),
        (f"{TASKS}?page=2", 'there is no parameter "page": this route takes client, descending'),
        ("/health?verbose=1", 'there is no parameter "verbose": this route takes none'),
        ("/token", 'the parameter "email" is missing'),
    ],
)
def test_invalid_parameters_are_refused_by_name(
    control: ControlClient, path: str, message: str
) -> None:
    """With their place in the answer."""
    reply = control.get(path)

    assert reply.status == 400
    assert reply.message.startswith(message)
    assert f"{reply.body['error']['errors'][0]['location']}" in message


def test_payloads_in_lists_are_cut(control: ControlClient, emulator: Emulator) -> None:
    """A list shows 256 bytes of each, at a character's end."""
    emulator.queue("pull").add("ä" * 200, name="long")

    cut = control.get(TASKS).body["tasks"][0]["payload"]
    whole = control.get(f"{TASKS}/long").body["task"]["payload"]

    assert (cut["bytes"], cut["truncated"], cut["text"]) == (400, True, "ä" * 128)
    assert (whole["bytes"], whole["truncated"], whole["text"]) == (400, False, "ä" * 200)


def test_the_end_of_a_lease_can_be_moved(control: ControlClient, clock: ManualClock) -> None:
    control.post(TASKS, {"tasks": [{}, {"name": "a", "tag": "t"}]})
    leased = control.post("/queues/pull/lease", {"lease_seconds": 10, "tag": "t"})
    control.post(f"{TASKS}/a/lease", {"lease_seconds": 30})
    clock.advance(5)
    left = control.get(f"{TASKS}/a").body["task"]["lease_seconds_left"]
    order = {"lease_seconds": 0, "eta_usec": leased.body["tasks"][0]["eta_usec"]}

    stale = control.post(f"{TASKS}/a/lease", order)
    too_large = control.post(f"{TASKS}/a/lease", {**order, "eta_usec": 2**63})

    assert names(leased) == ["a"]
    assert left == 25.0
    assert stale.message.startswith('task "a" of queue "pull" is not leased by the caller')
    assert (too_large.status, "eta_usec" in too_large.message) == (400, True)


@each_row(
    ("limits", "state"),
    [
        ("{task_retry_limit: 1}", "exhausted"),
        ("{task_retry_limit: 2}", "available"),
        ("{task_retry_limit: 1, task_age_limit: 1h}", "available"),
    ],
)
def test_a_release_returns_the_state_after_it(limits: str, state: str) -> None:
    """A task is exhausted when its leases are used up and it has reached the age limit."""
    text = f"queue:\n- {{name: q, mode: pull, retry_parameters: {limits}}}\n"
    emulator = Emulator.from_text(text, clock=ManualClock(), profile="sdk")
    with Server(emulator) as server:
        control = ControlClient(server)
        control.post("/queues/q/tasks", {"tasks": [{"name": "a"}]})
        control.post("/queues/q/lease", {"lease_seconds": 60})
        released = control.post("/queues/q/tasks/a/lease", {"lease_seconds": 0})

    assert released.body["task"]["state"] == state
    assert len(emulator.queue("q").exhausted) == (state == "exhausted")


def test_tags_are_counted(control: ControlClient, emulator: Emulator) -> None:
    """The most frequent first; untagged tasks are left out."""
    for tag in ("b", "a", "c", "c", None, None):
        emulator.queue("pull").add(tag=tag)

    counts = control.get("/queues/pull/tags").body["tags"]

    assert list(counts.items()) == [("c", 2), ("a", 1), ("b", 1)]


def test_the_delivery_of_a_push_queue_has_its_rates(control: ControlClient) -> None:
    """A push queue has rates, those by default included; a pull queue has no delivery."""
    assert control.get("/queues/push/delivery").body["delivery"] == {
        "rate": 5.0,
        "enforced_rate": None,
        "bucket_size": 5,
        "max_concurrent_requests": 1000,
        "latest": [],
    }
    assert control.get("/queues/pull/delivery").status == 400


def test_a_search_finds_text_beyond_ascii(control: ControlClient, emulator: Emulator) -> None:
    emulator.queue("pull").add(b"\xff\xfe" + "Schöne Grüße".encode(), name="found")
    emulator.queue("pull").add(b"\xff\xfe", name="other")

    for text in ("GRÜSSE", "grüsse", "Grüße"):
        assert names(control.get(f"{TASKS}?search={quote(text)}")) == ["found"]


def test_a_body_that_is_not_json_is_a_wrong_argument(control: ControlClient) -> None:
    for body in (b"{", b'{"tasks": [}', b"\xff"):
        reply = control.call("POST", TASKS, body)

        assert (reply.status, reply.body["error"]["status"]) == (400, "INVALID_ARGUMENT")
        assert reply.body["error"]["message"].startswith("the body is not JSON: ")


def exhaust(emulator: Emulator, *tasks: NewTask) -> None:
    """Add tasks and use up their leases."""
    queue = emulator.queue("limited")
    queue.add_many(tasks)
    queue.lease_tasks(0, 1000)


def test_exhausted_tasks_are_found(
    control: ControlClient, emulator: Emulator, clock: ManualClock
) -> None:
    """They have a state of their own, and are filtered and counted like others; the latest are
    first.
    """
    exhaust(emulator, NewTask("one", name="a", tag="t"))
    clock.advance(1)
    exhaust(emulator, NewTask("two", name="b"))

    listed = control.get(f"{LIMITED}/tasks?state=exhausted")

    assert {task["name"]: task["state"] for task in listed.body["tasks"]} == {
        "a": "exhausted",
        "b": "exhausted",
    }
    assert listed.body["total"] == 2
    assert control.get("/queues/limited").body["queue"]["exhausted"] == 2
    assert names(control.get(f"{LIMITED}/tasks?state=exhausted&search=two")) == ["b"]
    assert names(control.get("/exhausted?tag=t")) == ["a"]
    assert names(control.get("/exhausted?queue=limited&offset=1&limit=1")) == ["a"]
    assert control.get("/exhausted?queue=limited&tag=t").body["total"] == 1
    assert control.get("/exhausted?queue=nope").status == 404


def test_exhausted_tasks_are_requeued(control: ControlClient, emulator: Emulator) -> None:
    """Under their names, with payload and tag, to be leased as often as a new task."""
    exhaust(emulator, *(NewTask(f"p{n}", name=f"n{n}", tag="t") for n in range(100)))
    exhaust(emulator, NewTask("other", name="other"), NewTask("old", name="again"))
    queue = emulator.queue("limited")
    queue.add_many([NewTask(name="waits"), NewTask(name="gone")])
    queue.delete_tasks("gone")
    queue.free_names(["again"])
    queue.add("new", name="again")

    wanted = ["n0", "nope", "othr", "waits", "gone", "again"]
    reply = control.post(f"{LIMITED}/change", {"action": "requeue", "tasks": wanted})
    assert reply.body == {
        "changed": 1,
        "failed": {
            "nope": "does not exist",
            "othr": 'does not exist: did you mean "other"?',
            "waits": "is not exhausted",
            "gone": "was deleted",
            "again": "exists again",
        },
    }
    queue.delete_tasks("waits")
    reply = control.post(f"{LIMITED}/change", {"action": "requeue", "tag": "t"})

    assert reply.body == {"changed": 99, "failed": {}}
    assert queue.get_task("n0").payload == b"p0"
    assert queue.get_task("n99").retry_count == 0
    assert queue.get_task("again").payload == b"new"
    assert [task.name for task in queue.exhausted] == ["other", "again"]
    for body, message in (
        ({"action": "release", "state": "exhausted"}, "exhausted tasks have no lease to release"),
        ({"action": "requeue", "state": "leased"}, "only exhausted tasks can be requeued"),
        ({"action": "delete"}, "neither tasks nor a filter: send tasks, state, tag, status"),
    ):
        assert message in control.post(f"{LIMITED}/change", body).message
    assert [task.name for task in queue.exhausted] == ["other", "again"]
    queue.purge()
    reply = control.post(f"{LIMITED}/change", {"action": "requeue", "state": "exhausted"})
    assert reply.body["changed"] == 0
    assert "has lost its payload" in reply.body["failed"]["other"]
    reply = control.post(f"{LIMITED}/change", {"action": "delete", "state": "exhausted"})
    assert reply.body["changed"] == 2
    assert queue.exhausted == []


def test_a_default_queue_is_listed_once_used(control: ControlClient, emulator: Emulator) -> None:
    """App Engine has one in every app; it is listed once it is used, or as the only one."""

    def is_listed() -> bool:
        return "default" in [queue["name"] for queue in control.get("/queues").body["queues"]]

    assert not is_listed()
    assert control.get("/queues/default").status == 200
    default = emulator.queue("default")
    task = default.add()
    assert is_listed()
    default.delete_tasks(task)
    assert is_listed()

    only = Server(Emulator.from_text("queue: []"))
    [queue] = ControlClient(only).get("/queues").body["queues"]
    assert queue["name"] == "default"
