"""The commands that speak to a running server: queues, tasks, clock, faults."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests as http
from commands import Done, Run, shown_on_terminal
from push_app import push_app

from pullqueue import AttemptRecord, Emulator, HttpRequest, ManualClock, NewTask
from pullqueue.config.model import HttpTarget, QueueSettings, Rate, RetryParameters
from pullqueue.engine.attempts import finish_attempt, start_attempt
from pullqueue.engine.events import Interface, Origin
from pullqueue.faults.declaration import CALLS, KINDS
from pullqueue.faults.effects import ERRORS
from pullqueue.push.request import PushResponse
from pullqueue.server.lifecycle import Server
from pullqueue.testing import exhaust, run_tasks


def fail_once(emulator: Emulator, *names: str) -> None:
    """Replace all queues by push queues whose tasks have one attempt."""
    retry = RetryParameters(task_retry_limit=0)
    queues = tuple(QueueSettings(name=name, retry_parameters=retry) for name in names)
    emulator.reconfigure(replace(emulator.config, queues=queues))


def test_queues_are_listed_as_a_table_or_as_json(run: Run, emulator: Emulator) -> None:
    emulator.queue("pull").add(b"work")
    emulator.queue("pull").lease_tasks(60, 1)

    assert run("queues").out.splitlines() == [
        "QUEUE  TASKS  AVAIL  LEASED  SCHED  EXHAUSTED  OLDEST  DONE  FAILED  LIMIT  NOTE",
        "pull       1      0       1      0          0             0          3",
        "other      0      0       0      0          0             0          none",
        "push       0      0       0      0          0             0       0  none   push",
    ]
    assert json.loads(run("queues --json").out)["queues"][0]["leased"] == 1
    assert len(run("queues list other").out.splitlines()) == 2
    assert run("queues list nope").err.startswith('pullqueue: queue "nope" is not in ')


def test_tasks_of_a_queue_with_rate_0_are_not_sent_and_the_note_says_why(
    run: Run, emulator: Emulator
) -> None:
    settings = QueueSettings(name="zero", rate=Rate(count=0))
    emulator.reconfigure(replace(emulator.config, queues=(*emulator.config.queues, settings)))

    assert run("queues").out.splitlines()[-1].endswith("push, not sent: rate is 0")
    assert run("queues resume zero pull").err == (
        'queue "zero" is resumed, but its tasks are not sent: rate is 0; set another rate in '
        "queue.yaml\n"
    )


def test_numbers_of_a_push_queue(run: Run, emulator: Emulator) -> None:
    """Tasks that are being sent are in LEASED, those that wait for another attempt in SCHED."""
    queue = emulator.queue("push")
    queue.add(eta=emulator.clock.now() + timedelta(hours=1))
    _, failed = (
        start_attempt(queue, queue.add(), lease_seconds=60, attempts=AttemptRecord())
        for _ in range(2)
    )
    finish_attempt(queue, failed, attempts=AttemptRecord(1, status=500), backoff_seconds=9)

    assert run("queues").out.splitlines()[-1].split()[:5] == ["push", "3", "0", "1", "2"]
    (shown,) = json.loads(run("queues list push --json").out)["queues"]
    states = ("leased", "running", "scheduled", "retrying")
    assert [shown[state] for state in states] == [0, 1, 1, 1]  # as the route has them


@pytest.mark.parametrize(("count", "attempts"), [(1, "attempt"), (2, "attempts 1 to 2")])
def test_attempts_that_were_only_counted_are_one_line_of_the_history(
    run: Run, emulator: Emulator, count: int, attempts: str
) -> None:
    queue, record = emulator.queue("push"), AttemptRecord(count, status=0, reason="refused")
    task = queue.add(name="a")
    task = start_attempt(queue, task, lease_seconds=0, attempts=record, counted=count)
    finish_attempt(queue, task, attempts=record, backoff_seconds=9, counted=count)

    started, failed = run("tasks get push a").out.splitlines()[-2:]
    assert started.endswith(f"  {attempts} started  (Python)")
    assert f"  {attempts} failed, no response (refused), next 2026" in failed


def test_what_changes_the_behaviour_of_a_server(
    run: Run, emulator: Emulator, server: Server
) -> None:
    assert run("queues").err == "manual clock at 2026-01-01 00:00:00\n"
    emulator.queue("pull").add(name="a")
    exhaust(emulator.queue("pull"), "a")
    emulator.queue("pull").add()
    run("faults add fail purge")

    paused = run("queues pause pull other").out.splitlines()
    assert [line.split()[0] for line in paused[1:]] == ["pull", "other"]
    assert paused[1].endswith("3      paused, 1 due")
    shown = run("queues")
    assert shown.err == (
        "pull: it is paused: 1 due task waits until it is resumed, then workers can lease it; 1 "
        "task is exhausted, and not tried again until "
        f"`pullqueue tasks requeue pull --all --url {server.url}` adds it\n"
        "other: it is paused\n"
        "manual clock at 2026-01-01 00:03:00; faults: fail purge; paused: pull, other; "
        "exhausted tasks: 1 in pull\n"
    )
    assert json.loads(run("queues --json").out)["summary"]["paused"] == ["pull", "other"]
    assert "paused" not in run("queues resume pull other").out
    assert run("queues pause pull nowhere").status == 1
    assert run("queues").err.count("paused") == 0


def test_server_shows_where_it_listens_and_how_it_was_started(run: Run, server: Server) -> None:
    facts = dict(line.split(maxsplit=1) for line in run("server").out.splitlines()[:5])
    assert facts["url"] == server.url
    assert (facts["gRPC"], facts["store"], facts["auth"]) == ("off", "memory", "none")
    assert json.loads(run("server --json").out)["url"] == server.url


def test_release_takes_names_a_tag_or_all(run: Run, emulator: Emulator) -> None:
    queue = emulator.queue("pull")
    queue.add_many([NewTask(name=f"n{n}", tag="t" if n < 2 else None) for n in range(4)])
    queue.lease_tasks(60, 3)

    assert run("tasks release pull --tag t") == Done(0, "2 released\n", "")
    several = run("tasks release pull n2 n3")
    assert (several.status, several.out) == (1, "1 released\n")
    assert 'n3 task "n3" of queue "pull" is not leased by the caller' in several.err
    queue.lease_tasks(60, 3)
    assert run("tasks release pull --all") == Done(0, "3 released\n", "")
    assert run("tasks release pull").status == 2


def test_requests_are_listed_latest_first_and_filtered(run: Run, server: Server) -> None:
    url = f"{server.url}/taskqueue/v1beta2/projects/p/taskqueues/pull/tasks"
    headers = {"User-Agent": "worker/1.0"}
    for name in ("a", "b"):
        body = {"id": name, "payloadBase64": "YQ=="}
        http.post(url, json=body, headers=headers, timeout=60)
    http.post(f"{url}/lease?leaseSecs=60&numTasks=9", timeout=60)
    http.get(f"{url}/nothing", headers=headers, timeout=60)

    head, *lines = run("requests").out.splitlines()
    columns = "NUMBER TIME (UTC) INTERFACE METHOD QUEUE TASKS STATUS REASON MS CLIENT"
    assert head.split() == columns.split()
    assert [line.split()[0] for line in lines] == ["4", "3", "2", "1"]
    assert "TIME (UTC)" in shown_on_terminal("requests", "--url", server.url, columns=80)
    assert lines[1].split()[3:7] == ["REST", "tasks.lease", "pull", "2"]
    assert lines[2].split()[3:8] == ["REST", "tasks.insert", "pull", "b", "200"]
    assert lines[2].endswith("worker/1.0")
    for options, numbers in (
        ("--task b", ["3", "2"]),
        ("--client WORKER", ["4", "2", "1"]),
        ("--method insert", ["2", "1"]),
        ("--status failed", ["4"]),
        ("--status 2xx --limit 1", ["3"]),
    ):
        shown = run(f"requests {options}").out.splitlines()
        assert [line.split()[0] for line in shown[1:]] == numbers
    assert (
        run("requests --limit 3").err == "these are the latest 3: set --limit or another option\n"
    )
    assert run("requests --limit 4").err == ""
    assert run("requests --queue other").out == "no requests\n"
    assert run("requests --queue other --method lease").out == "no requests\n"
    assert run("requests --method leese").out == "no requests: did you mean --method lease?\n"
    assert 'queue "nope" is not in' in run("requests --queue nope").err
    one = run("requests 2").out
    assert "tasks: b\n\nsent: " in one
    assert '{"id": "b", "payloadBase64": "YQ=="}' in one
    assert run("requests 9").status == 1
    assert "request 3" in run("tasks get pull b").out


def test_what_happened_since_a_time_is_listed(run: Run, server: Server, clock: ManualClock) -> None:
    """A time of the day is the last such time, by the server's clock."""
    clock.move_to(datetime(2026, 1, 2, 23, 59, tzinfo=UTC))
    url = f"{server.url}/taskqueue/v1beta2/projects/p/taskqueues/pull"
    http.get(url, timeout=60)
    run("queues pause pull")
    clock.advance(90)
    http.get(url, timeout=60)
    run("queues resume pull")

    for since, found in (
        ("23:59", ["2", "1"]),
        ("00:00", ["2"]),
        ("00:00:31", ["2", "1"]),
        ("2026-01-03T00:00:31Z", []),
        ("2026-01-03T00:00:30Z", ["2"]),
        ("00:01", ["2", "1"]),
    ):
        requests = json.loads(run(f"requests --json --since {since}").out)["requests"]
        actions = json.loads(run(f"activity --json --since {since}").out)["actions"]
        assert [str(each["number"]) for each in requests] == found
        assert len(actions) == len(found)
    for wrong in ("25:00", "yesterday", "2026-01-03"):
        refused = run(f"requests --since {wrong}")
        assert (refused.status, f'since is "{wrong}"' in refused.err) == (2, True)
        assert ": use one such as " in refused.err


@pytest.mark.parametrize(("length", "shown"), [(40, "x" * 40), (41, f"{'x' * 37}...")])
def test_a_list_has_the_beginning_of_a_payload(
    run: Run, emulator: Emulator, length: int, shown: str
) -> None:
    emulator.queue("pull").add("x" * length)

    assert run("tasks list pull").out.split()[-1] == shown


def test_the_lifecycle_of_a_task(run: Run) -> None:
    run("tasks add pull hello --name a --tag t --countdown 5")
    assert "scheduled" in run("tasks list pull").out
    assert run("clock advance 5").out.splitlines() == [
        "2026-01-01T00:00:05+00:00  (manual clock)",
        "QUEUE  EXPIRED  DUE  DELIVERED  FAILED  EXHAUSTED  SENDING  WAITING",
        "pull         0    1          0       0          0        0        0",
    ]
    assert run("tasks lease pull --by-tag --seconds 90").out.splitlines() == [
        "TASK  TAG  STATE                    ETA (UTC)            LEASES  BYTES  PAYLOAD",
        "a     t    leased, 1 min 30 s left  2026-01-01 00:01:35  1 of 3      5  hello",
    ]
    assert "leased, 2 h left" in run("tasks renew pull a --seconds 7200").out
    too_long = run("tasks renew pull a --seconds 604801s")
    assert (too_long.status, "the maximum is 7 d" in too_long.err) == (2, True)
    assert run("tasks lease other --seconds 604800s").out == "nothing to lease\n"
    assert "available" in run("tasks release pull a").out
    *shown, empty, payload = run("tasks get pull a").out.splitlines()
    assert (empty, payload) == ("", "hello")
    by = "  (control, pullqueue tasks"
    assert shown[2:] == [
        f"  2026-01-01 00:00:00  added{by} add)",
        f"  2026-01-01 00:00:05  leased, until 2026-01-01 00:01:35{by} lease)",
        f"  2026-01-01 00:00:05  extended, until 2026-01-01 02:00:05{by} renew)",
        f"  2026-01-01 00:00:05  released{by} release)",
    ]
    assert run("tasks get pull a --payload").out == "hello"
    assert json.loads(run("tasks get pull a --json").out)["task"]["tag"] == "t"
    deleted = run("tasks delete pull a b")
    assert deleted == Done(1, "1 deleted\n", "b does not exist\n")
    taken = run("tasks add pull x --name a")
    assert taken.status == 1
    assert 'task "a" of queue "pull" was done, deleted or exhausted recently' in taken.err
    gone = run("tasks get pull a")
    assert gone.status == 0
    assert gone.out.splitlines() == [
        *shown[2:],
        "  2026-01-01 00:00:05  deleted  (control, pullqueue tasks delete)",
    ]
    assert gone.err == 'task "a" of queue "pull" was deleted: its payload is not stored any more\n'
    assert run("tasks get pull a --payload").out == ""
    assert run("tasks get pull c") == Done(1, "", 'pullqueue: queue "pull" has no task "c"\n')


def test_a_deferred_call_is_shown_as_function_and_types(run: Run, emulator: Emulator) -> None:
    """Its bytes say little."""
    emulator.queue("pull").add(pickle.dumps((len, ("ada",), {})), name="a")

    assert run("tasks list pull").out.splitlines()[1].endswith("  len(str)")
    shown = run("tasks get pull a").out.splitlines()
    assert shown[-2] == "deferred call: len(str)"
    assert shown[-1].startswith("base64: gA")


@pytest.mark.parametrize(
    ("options", "leased"),
    [("", "a"), ("--max 9", "a b c"), ("--max 9 --tag t", "b c"), ("--max 9 --by-tag", "a")],
)
def test_which_tasks_are_leased(run: Run, emulator: Emulator, options: str, leased: str) -> None:
    tags = {"a": None, "b": "t", "c": "t"}
    emulator.queue("pull").add_many([NewTask(name=name, tag=tag) for name, tag in tags.items()])

    lines = run(f"tasks lease pull {options}").out.splitlines()

    assert " ".join(line.split()[0] for line in lines[1:]) == leased


def test_tasks_are_limited_and_filtered_by_state_tag_and_text(run: Run, emulator: Emulator) -> None:
    for place in range(1100):
        emulator.queue("pull").add(f"n{place}", tag="t" if place == 7 else None)

    assert len(run("tasks list pull --limit 1050").out.splitlines()) == 1051
    hint = "these are 100 of 1100: set --limit, --tag or --search\n"
    assert run("tasks list pull").err == hint
    assert run("tasks list pull --limit 1099").err.startswith("these are 1099 of 1100: ")
    assert run("tasks list pull --limit 1100").err == ""
    listed = run("tasks list pull --limit 2000 --json")
    assert len(json.loads(listed.out)["tasks"]) == 1100
    assert "n7" in run("tasks list pull --tag t").out
    assert len(run("tasks list pull --search n1099").out.splitlines()) == 2
    assert run("tasks list pull --state leased").out == "no tasks in pull match the options\n"
    assert run("tasks list push").out == "no tasks in push\n"


def test_the_heads_of_tasks_are_those_of_the_mode_of_their_queue(
    run: Run, emulator: Emulator
) -> None:
    pull, push = emulator.queue("pull"), emulator.queue("push")
    retry = RetryParameters(task_retry_limit=0)
    for _ in range(2):
        pull.add()
        push.add(request=HttpRequest("/mail", retry=retry))
        orders = ("tasks list pull", "tasks list push", "tasks list --state exhausted")
        heads = [run(order).out.partition("\n")[0].split() for order in orders]
        exhaust(pull, pull.list_tasks()[0])
        run_tasks(emulator, send=lambda _: 503, rates=True)

    rest = ["BYTES", "PAYLOAD"]
    assert heads == [
        ["TASK", "TAG", "STATE", "ETA", "(UTC)", "LEASES", *rest],
        ["TASK", "REQUEST", "STATE", "ETA", "(UTC)", "ATTEMPTS", *rest],
        ["QUEUE", "TASK", "TAG/REQUEST", "STATE", "ETA", "(UTC)", "LEASES/ATTEMPTS", *rest],
    ]


def test_add_takes_the_bytes_of_a_file_as_payload(
    run: Run, tmp_path: Path, emulator: Emulator
) -> None:
    """Its control characters do not reach the terminal."""
    (tmp_path / "payload").write_bytes(b"\xff\x1b[31m")

    run("tasks add pull --file", str(tmp_path / "payload"), "--name", "a")

    assert emulator.queue("pull").get_task("a").payload == b"\xff\x1b[31m"
    assert r"\xff\x1b[31m" in run("tasks list pull").out
    assert run("tasks add pull --file nowhere").status == 3

    for place, arguments in enumerate((["-"], ["--file", "-"])):
        run("tasks add pull", *arguments, "--name", f"in{place}", stdin=b"\xff\n")
        assert emulator.queue("pull").get_task(f"in{place}").payload == b"\xff\n"
    closed = run("tasks add pull -", stdin=None)
    assert closed.err == "pullqueue: standard input is closed: name a file\n"
    assert run("tasks add pull").status == 2


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("order", "question", "done", "left"),
    [
        ("queues purge pull", 'Delete 2 tasks of queue "pull"?', "pull: 2 deleted", 0),
        (
            "queues purge pull other",
            'Delete 2 tasks of queues "pull", "other"?',
            "pull: 2 deleted\nother: 0 deleted",
            0,
        ),
        ("tasks delete pull --tag t", 'Delete 2 tasks of queue "pull"?', "2 deleted", 0),
        ("reset", "Delete everything, including 2 tasks?", "everything is deleted: 2 tasks", 0),
        ("snapshot load state.json", "Replace everything, including 2 tasks?", "1 task loaded", 1),
    ],
)
def test_tasks_are_lost_only_after_yes(
    run: Run, emulator: Emulator, *, order: str, question: str, done: str, left: int
) -> None:
    """Where nobody can answer, nothing is done and that is reported."""
    emulator.queue("pull").add(b"work", tag="t")
    run("snapshot save state.json")
    emulator.queue("pull").add(b"work", tag="t")

    for stdin in (b"n\n", b"", None):
        refused = run(order, stdin=stdin)
        assert refused.status == 1
        assert stdin is None or f"{question} [y/N]:" in refused.err
        assert refused.err.endswith("pullqueue: nothing was changed: answer y, or pass --yes\n")
    assert len(emulator.queue("pull").list_tasks()) == 2

    # Older versions of click put a space of the question's on standard output.
    assert run(order, stdin=b"y\n").out.lstrip() == f"{done}\n"
    assert len(emulator.queue("pull").list_tasks()) == left


def test_what_is_not_asked(run: Run) -> None:
    """Where there is nothing to lose no question is asked; faults can be lost, too."""
    assert run("queues purge pull") == Done(0, "pull: 0 deleted\n", "")
    assert run("reset") == Done(0, "everything is deleted: 0 tasks\n", "")
    run("faults add empty_leases")
    assert "Delete everything, including 1 fault? [y/N]:" in run("reset", stdin=b"n\n").err


def test_reset_can_keep_created_queues(run: Run, emulator: Emulator) -> None:
    emulator.create_queue(QueueSettings(name="made"))
    assert run("reset --yes --keep-queues").status == 0
    assert "made" in run("queues").out

    run("reset --yes")

    assert "made" not in run("queues").out


def test_a_delivery_that_takes_long_goes_on_until_its_time(
    run: Run, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In calls that are short; what they have done adds up."""
    monkeypatch.setattr("pullqueue.cli.client.clock._CALL_SECONDS", 0.001)
    calls: list[float] = []
    eta = server.emulator.clock.now() + timedelta(seconds=1)
    server.emulator.queue("push").add_many([NewTask(eta=eta)] * 30)
    with push_app() as app:
        app.on_request = lambda _: calls.append(server.emulator.now_usec())
        server.push_to(app.url)
        done = run("clock advance 1min --deliver")

    assert done.out.splitlines()[0] == "2026-01-01T00:01:00+00:00  (manual clock)"
    assert [line.split() for line in done.out.splitlines()[1:]] == [
        ["QUEUE", "EXPIRED", "DUE", "DELIVERED", "FAILED", "EXHAUSTED", "SENDING", "WAITING"],
        ["push", "0", "30", "30", "0", "0", "0", "0"],
    ]
    assert "delivering until 2026-01-01 00:01:00" in done.err
    assert len(set(calls)) > 1


def test_clock_shows_advances_and_moves_the_time(run: Run) -> None:
    assert run("clock").out == "2026-01-01T00:00:00+00:00  (manual clock)\n"
    assert run("clock advance 1.5h").out.startswith("2026-01-01T01:30:00")
    assert run("clock move-to 2026-02-01T00:00:00Z").out.startswith("2026-02-01T00:00:00")
    assert json.loads(run("clock --json").out)["manual"] is True
    back = run("clock move-to 2026-01-01T00:00:00Z")
    assert back.status == 1
    assert "never goes back" in back.err


def test_a_noun_alone_lists(run: Run) -> None:
    run("tasks add pull a")

    for alone, meant in {
        "clock": "clock show",
        "queues --json": "queues list --json",
        "faults": "faults list",
        "cron --json": "cron list --json",
        "tasks --limit 1": "tasks list --limit 1",
        "snapshot": "snapshot --help",
    }.items():
        done = run(alone)
        assert (done.out or done.err) == run(meant).out != ""


def test_faults_are_set_listed_and_removed(run: Run) -> None:
    assert run("faults").out == "no faults\n"
    run("faults add fail lease_tasks --error InternalError --times 2")
    run("faults add empty_leases --queue other --queue pull")
    run("faults add latency CreateTask")
    assert run("faults").out.splitlines() == [
        "NUMBER  KIND          CALL         OPTIONS                       TRIGGERED",
        "     1  fail          lease_tasks  error=InternalError, times=2  0 of 0",
        "     2  empty_leases  every lease  queues=other,pull             0 of 0",
        "     3  latency       add          seconds=1                     0 of 0",
    ]
    assert run("faults remove 1").out == "1 removed\n"
    assert run("faults clear").out == "2 removed\n"
    assert run("faults remove 1").err == 'pullqueue: there is no fault "1": none is set\n'
    run("faults add latency add --seconds 1.5min")
    assert "latency  add   seconds=90" in run("faults").out
    assert 'there is no fault "1": use one of 4' in run("faults remove 1").err


def test_the_help_on_faults_names_them_all(run: Run) -> None:
    shown = run("faults add --help").out

    assert [name for name in (*KINDS, *CALLS, *ERRORS) if name not in shown] == []
    text = "empty_leases: Make leases return no tasks, as when they are requested too often. "
    assert f"{text}expire_leases: Make leases expire while " in " ".join(shown.split())


def test_reload_reports_what_changed(run: Run, queue_yaml: Path) -> None:
    queue_yaml.write_text("queue:\n- name: pull\n  mode: pull\n- name: new\n  mode: pull\n")
    assert run("reload").out.splitlines() == [
        "added: new",
        "changed: pull (retry_parameters)",
        "disabled: other, push",
    ]
    assert run("reload").out == "nothing changed\n"
    queue_yaml.write_text(f"total_storage_limit: 1M\n{queue_yaml.read_text()}")
    assert run("reload").out == "changed: total_storage_limit\n"
    queue_yaml.write_text("queue: [")
    broken = run("reload")
    assert broken.status == 1
    assert "queue.yaml:1" in broken.err
    queue_yaml.unlink()
    missing = run("reload")
    assert missing.status == 3
    assert "no such file or directory" in missing.err


def test_what_a_terminal_shows(run: Run, emulator: Emulator) -> None:
    """Columns are aligned for letters of any width, and no tag sends anything to the terminal."""
    queue = emulator.queue("pull")
    for name, tag in (
        ("a", "日本"),
        ("b", "e\N{COMBINING ACUTE ACCENT}"),
        ("c", ""),
        ("d", "\x1b[31m"),
    ):
        queue.add(b"work", name=name, tag=tag)
    queue.add(b"work", name="e", tag="t" * 500)

    lines = run("tasks list pull").out.splitlines()

    assert "\x1b" not in "".join(lines)
    assert lines[1].startswith(f"a     日本{' ' * 38}available")
    assert lines[2].startswith(f"b     e\N{COMBINING ACUTE ACCENT}{' ' * 41}available")
    assert lines[3].startswith('c     ""  ')
    assert lines[4].startswith(r"d     \x1b[31m  ")
    assert lines[5].startswith(f"e     {'t' * 37}...  available")


def test_tasks_are_cut_to_fit_a_narrow_terminal(emulator: Emulator, server: Server) -> None:
    """Payload, tag and state are cut; name and eta are whole in 80 columns."""
    name, command = "0123456789abcdef", ("tasks", "list", "pull", "--url", server.url)
    emulator.queue("pull").add(b"a long payload " * 9, name=name, tag="books")
    coloured = shown_on_terminal(*command, columns=60, colour=True)
    emulator.queue("pull").lease_tasks(3599, 1)
    shown = shown_on_terminal(*command).splitlines()

    assert "\x1b[32mavailab…\x1b[0m" in coloured
    assert shown[1] == f"{name} books leased, 59 min… 2026-01-01 00:59:59 1 of 3   135 a long …"
    assert max(map(len, shown)) <= 80


@pytest.mark.parametrize(
    ("length", "head"),
    [
        (11, "TASKS  AVAIL  LEASED  SCHED  EXHAUSTED  OLDEST  DONE  FAILED  LIMIT"),
        (12, "TASKS AVAIL LEASED SCHED EXHAUSTED OLDEST DONE FAILED LIMIT"),
        (20, "TASKS AVAIL LEASED SCHED EXHAUSTED OLDEST DONE FAILED LIMIT"),
        (21, "TASKS AVAIL LEASED SCHED EXHAUSTED OLDEST DONE FAILED"),
        (44, "TASKS AVAIL LEASED EXHAUSTED FAILED"),
        (45, "TASKS AVAIL LEASED EXHAUSTED FAILED"),
    ],
)
def test_a_table_that_is_too_wide(length: int, head: str) -> None:
    """Less useful columns are left out before the name of a queue is cut."""
    name = "q" * length
    with Server(Emulator.from_text(f"queue: [{{name: {name}, mode: pull}}]")) as server:
        shown = shown_on_terminal("queues", "list", name, "--url", server.url).splitlines()

    assert shown[0].removeprefix("QUEUE").strip() == head
    assert max(map(len, shown)) <= 80
    assert shown[1].split()[0] == (name if length < 45 else f"{'q' * 43}…")


def test_reasons_are_not_cut(emulator: Emulator, server: Server) -> None:
    fail_once(emulator, "mail")
    emulator.queue("mail").add(name="a", request=HttpRequest("/x"))
    reason = "the images of this kind are not supported by the library that we use for them"
    run_tasks(emulator, send=lambda _: PushResponse(500, reason.encode()))

    narrow = shown_on_terminal("tasks", "failures", "--url", server.url, columns=80)
    wide = shown_on_terminal("tasks", "failures", "--url", server.url, columns=200)

    assert narrow.splitlines() == [
        "TASKS QUEUE STATE     STATUS LATEST TIME (UTC)",
        "    REASON",
        "    1 mail  exhausted    500 a      2026-01-01 00:00:00",
        f"    {reason}",
    ]
    assert [reason in line for line in wide.splitlines()] == [False, True]


def test_exhausted_tasks_are_listed_and_requeued(run: Run, emulator: Emulator) -> None:
    queue = emulator.queue("pull")
    queue.add_many([NewTask("work", name=f"n{n}", tag="t") for n in range(3)])
    for _ in range(3):
        queue.lease_tasks(0, 10)

    listed = run("tasks list pull --state exhausted --limit 2")
    assert "n2    t    exhausted" in listed.out
    assert listed.err == "these are 2 of 3: set --limit, --tag or --search\n"
    shown = run("tasks get pull n0").out.splitlines()
    assert shown[1].startswith("n0    t    exhausted  2026-01-01 00:00:00  3 of 3")
    assert shown[-3:] == ["  2026-01-01 00:00:00  exhausted", "", "work"]
    of_all = run("tasks list --state exhausted --tag t --limit 2").out.splitlines()
    assert [line.split()[:2] for line in of_all[1:]] == [["pull", f"n{n}"] for n in (2, 1)]
    assert run("tasks list pull").out == (
        "no tasks in pull; exhausted tasks: 3 (see `pullqueue tasks list pull --state exhausted`)\n"
    )
    assert run("tasks list --search n0").out == (
        "no tasks match the options; exhausted tasks: 1 (see `pullqueue tasks list --search n0 "
        "--state exhausted`)\n"
    )
    assert run("tasks get pull n0 --payload").out == "work"
    assert run("tasks requeue pull n0").out == "1 requeued\n"
    assert run("tasks get pull n0").out.splitlines()[-3] == (
        "  2026-01-01 00:00:00  requeued  (control, pullqueue tasks requeue)"
    )
    assert run("tasks requeue pull n0") == Done(1, "0 requeued\n", "n0 is not exhausted\n")
    assert run("tasks requeue pull --tag t").out == "2 requeued\n"
    assert queue.fetch_statistics().available == 3
    assert run("tasks requeue pull").status == 2
    assert run("tasks requeue pull --all").out == "0 requeued\n"


def test_delete_takes_a_tag_or_a_state(run: Run, emulator: Emulator) -> None:
    queue = emulator.queue("pull")
    queue.add_many([NewTask(name=f"n{n}", tag="even" if n % 2 == 0 else None) for n in range(5)])

    assert run("tasks delete pull --tag even --yes").out == "3 deleted\n"
    assert run("tasks delete pull --state available --yes").out == "2 deleted\n"
    assert run("tasks delete pull --tag even") == Done(0, "0 deleted\n", "")  # nothing is asked
    assert run("tasks delete pull n0 --tag even").status == 2


def test_delete_counts_a_repeated_name_once(run: Run, emulator: Emulator) -> None:
    queue = emulator.queue("pull")
    queue.add_many([NewTask(name=name) for name in ("a", "b")])
    for _ in range(3):
        queue.lease_tasks(0, 1)

    done = run("tasks delete pull a b b none")

    assert done == Done(1, "2 deleted\n", "none does not exist\n")
    assert (queue.exhausted, queue.list_tasks()) == ([], [])
    again = run("tasks delete pull a")
    assert again == Done(1, "0 deleted\n", "a was done, deleted or exhausted before\n")


def test_a_task_is_requeued_with_changes(run: Run, emulator: Emulator, tmp_path: Path) -> None:
    """A header replaces the one of its name, whatever its case; without a value it is removed."""
    fail_once(emulator, "mail")
    queue = emulator.queue("mail")
    headers = (("X-A", "1"), ("X-B", "2"), ("X-C", "3"))
    for name in "ab":
        queue.add("old", name=name, request=HttpRequest("/x", headers=headers))
    run_tasks(emulator, send=lambda _: 500)
    (tmp_path / "payload").write_bytes(b"\xff")

    options = "--payload new --request 'PUT /y' --header 'x-b: 5' --header X-C:"
    requeued = run(f"tasks requeue mail a {options}").out.splitlines()[1]
    assert requeued.split()[:3] == ["a", "PUT", "/y"]
    assert run("tasks requeue mail b --file", str(tmp_path / "payload")).status == 0

    changed = queue.get_task("a")
    assert changed.payload == b"new"
    assert changed.request == HttpRequest("/y", "PUT", (("X-A", "1"), ("x-b", "5")))
    assert queue.get_task("b").payload == b"\xff"
    assert queue.get_task("b").request == HttpRequest("/x", headers=headers)
    for wrong in (
        *("a b --payload x", "--all --payload x", "a --payload x --file y"),
        "a --request y",
    ):
        assert run(f"tasks requeue mail {wrong}").status == 2
    assert 'no task "nope"' in run("tasks requeue mail nope --payload x").err


def test_a_group_of_failures_is_requeued(run: Run, emulator: Emulator) -> None:
    fail_once(emulator, "mail", "jobs")
    for name, path in (("a", "/status/500"), ("b", "/status/404"), ("c", "/status/500/c")):
        for queue in ("mail", "jobs"):
            emulator.queue(queue).add(name=name, request=HttpRequest(path))
    run_tasks(
        emulator, send=lambda sent: PushResponse(int(sent.url[8:11]), f"no {sent.url}".encode())
    )

    listed = run("tasks failures").out.splitlines()
    assert listed[0].split()[:5] == ["TASKS", "QUEUE", "STATE", "STATUS", "REASON"]
    assert listed[1].split()[:6] == ["2", "mail", "exhausted", "500", "no", "…"]
    assert listed[3].split()[:6] == ["1", "mail", "exhausted", "404", "no", "/status/404"]
    assert len(listed) == 5
    assert run("tasks failures --search STATUS/404 --limit 1").err == (
        "these are 1 of 2 groups: set --limit or another option\n"
    )
    assert run("tasks list --state exhausted --search 'STATUS/404'").out.count("404 (no") == 2
    assert run("tasks requeue mail --status 500 --reason nothing").out == "0 requeued\n"
    assert run("tasks requeue --status 500 --reason 'no …'").out == "4 requeued\n"
    assert [task.name for task in emulator.queue("mail").exhausted] == ["b"]
    assert run("tasks list").out.count("POST /status/500") == 4


def test_a_requeue_of_all_queues_names_the_queue_of_each_failure(
    run: Run, emulator: Emulator
) -> None:
    fail_once(emulator, "mail", "jobs")
    for queue in emulator.queues[:2]:
        queue.add(b"work", name="a")
    run_tasks(emulator, send=lambda _: PushResponse(500))
    for queue in emulator.queues[:2]:
        queue.purge()

    why = "has lost its payload, which was deleted when the queue was purged"
    both = f"mail/a {why}\njobs/a {why}\n"
    assert run("tasks requeue --status 500") == Done(1, "0 requeued\n", both)
    assert run("tasks requeue mail --status 500") == Done(1, "0 requeued\n", f"a {why}\n")


def test_a_queue_shows_what_it_overrides_in_its_tasks(run: Run, emulator: Emulator) -> None:
    target = HttpTarget(host="api.example.com", headers=(("X-Mine", "7"),))
    settings = replace(emulator.queue("push").settings, http_target=target)
    emulator.reconfigure(replace(emulator.config, queues=(settings,)))

    text = "host api.example.com, header X-Mine: 7"
    assert f"push: its HTTP tasks are sent with {text}\n" in run("queues list push").err
    assert json.loads(run("queues list push --json").out)["queues"][0]["http_target"] == text


def test_a_task_shows_what_the_app_answered_last(run: Run, server: Server) -> None:
    with push_app() as app:
        run("push-to", app.url)
        for name, path in (("a", "/status/500"), ("b", "/status/200")):
            run("tasks add push --countdown 1h --name", name, "--request", f"POST {path}")
            run("tasks run push", name)
    history, _, response = run("tasks get push a").out.partition("\nresponse to the last ")

    assert "attempt failed, status 500 (no /status/500), next 2026-01-01 00:00:00" in history
    assert response == "attempt, at most 4 KiB of it:\nno /status/500\nat all\n\n"
    assert "response to the last" not in run("tasks get push b").out


def test_a_fault_selects_tasks_by_their_url(run: Run) -> None:
    """--url is the address of the server, as everywhere."""
    added = run("faults add fail attempt --task-url '/mail/*' --status 500 --per-task")

    assert (added.status, added.err) == (0, "")
    assert "url=/mail/*" in added.out


def test_workers_and_their_leases_are_listed(run: Run, server: Server, emulator: Emulator) -> None:
    assert run("workers").out == "no client has called yet\n"
    emulator.queue("pull").add(name="a")
    url = f"{server.url}/taskqueue/v1beta2/projects/p/taskqueues/pull/tasks/lease"
    http.post(f"{url}?numTasks=1&leaseSecs=60", headers={"User-Agent": "worker/1"}, timeout=60)

    until = ["2026-01-01", "00:01:00"]
    assert run("workers").out.splitlines()[1].split()[:5] == ["worker/1", "1", "0", "s", *until][:5]
    assert json.loads(run("workers --json").out)["workers"][0]["queues"] == ["pull"]
    listed = run("tasks list --client worker/1").out.splitlines()
    assert (listed[0].split()[-2:], listed[1].split()[-1]) == (["LEASED", "BY"], "worker/1")
    assert run("tasks list pull --client worker/2").out == "no tasks in pull match the options\n"
    assert run("tasks get pull a").err == "leased by worker/1 since 2026-01-01 00:00:00\n"


def test_activity_outlives_a_reset(run: Run, server: Server) -> None:
    assert run("activity").out == "nobody did anything since the server started\n"
    assert run("activity --since 14:05") == Done(
        0, "nobody did anything since 14:05\n", "nothing failed\n"
    )
    run("queues pause pull")
    run("reset --yes")

    shown = run("activity").out.splitlines()
    done = ["reset the server: 0 tasks deleted", "paused queue pull"]
    assert [line.split("  ")[1] for line in shown[1:]] == done
    actions = json.loads(run("activity --json").out)["actions"]
    assert [each["client"] for each in actions] == ["pullqueue reset", "pullqueue queues pause"]
    server.state.activity.record("did", Origin(Interface.CONTROL, f"Chrome/{'9' * 100}"))
    assert f"  Chrome/{'9' * 30}...\n" in run("activity").out


def test_the_status_of_exhausted_tasks_is_beside_their_state(
    run: Run, emulator: Emulator, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(emulator, "push")
    emulator.queue("push").add(name="a")
    run_tasks(emulator, send=lambda _: 503)

    assert "exhausted, 503" in run("tasks list --state exhausted").out
    none = "no tasks in push match the options"
    for option in ("--status 503", "--search a"):
        see = f"(see `pullqueue tasks list push {option} --state exhausted`)"
        assert run(f"tasks list push {option}").out == f"{none}; exhausted tasks: 1 {see}\n"
    for option in (
        *("--state leased", "--state exhausted --status 500", "--client worker/1"),
        "--reason down",
    ):
        assert run(f"tasks list push {option}").out == f"{none}\n"
    monkeypatch.delenv("PULLQUEUE_EMULATOR_HOST")
    address = f"--url http://{server.host}:{server.port}"
    command = f"tasks list push --state exhausted {address}"
    assert f"(see `pullqueue {command}`)" in run(f"tasks list push {address}").out
    assert "exhausted, 503" in run(command).out
    monkeypatch.setenv("PULLQUEUE_EMULATOR_HOST", f"{server.host}:{server.port}/")
    assert "--url" not in run("tasks list push").out
    rows = [" ".join(row.split()) for row in run("activity").out.splitlines()]
    assert "2026-01-01 00:00 2026-01-01 00:00 1 task of queue push exhausted" in rows
