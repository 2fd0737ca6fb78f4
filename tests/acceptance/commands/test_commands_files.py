"""Commands that put what a file holds into a running server, or the other way round."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from commands import Done, Run, shown_on_terminal
from forking import forked
from odd_servers import always_answering, answering
from push_app import until

from pullqueue import Emulator, HttpRequest, NewTask
from pullqueue.server.lifecycle import Server
from pullqueue.testing import exhaust
from pullqueue.text import format_size

ALIAS_BOMB = (
    "pull:\n- payload: {a0: &a0 [x]"
    + "".join(f", a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))
    + "}\n"
)
MERGE_BOMB = (
    "pull:\n- payload: {a0: &a0 {x: 1}"
    + "".join(f", a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12))
    + "}\n"
)

NESTED = b'{"format":"pullqueue-snapshot/1","queues":{"q":{"exhausted":[],"tasks":[{"x":%b}]}}}'
"""A snapshot with a task of which a field is to be filled in."""


def test_a_saved_snapshot_can_be_loaded_again(run: Run, tmp_path: Path, emulator: Emulator) -> None:
    file = tmp_path / "state.json"
    emulator.queue("pull").add_many([NewTask(name="x"), NewTask(name="y")])
    exhaust(emulator.queue("pull"), "x")
    emulator.queue("pull").add(b"work", name="a")

    saved = run("snapshot save", str(file))
    run("reset --yes")
    loaded = run("snapshot load", str(file), "--shift")

    assert saved.out == f"{file}: 1 task and 2 exhausted, {format_size(file.stat().st_size)}\n"
    assert loaded.out == "1 task and 2 exhausted loaded\n"
    assert run("tasks get pull a").out.splitlines()[2] == (
        "  (recorded from the load of a snapshot on, at 2026-01-01T00:03:00+00:00)"
    )
    assert emulator.queue("pull").get_task("a").payload == b"work"
    file.write_bytes(NESTED % b"1")
    refused = run("snapshot load --yes", str(file))
    assert (refused.status, refused.err.partition(": ")[2].partition(": ")[0]) == (
        1,
        f"{file} cannot be loaded",
    )
    assert refused.err.endswith("; nothing was changed\n")
    file.write_text("queue:")
    kept = run("snapshot save", str(file))
    assert (kept.status, file.read_text()) == (1, "queue:")
    assert f'"{file}" exists, and is not a snapshot: name another file, or replace' in kept.err
    assert [run("snapshot save", str(file), *force).status for force in (["--force"], [])] == [0, 0]
    assert 'cannot write ".": ' in run("snapshot save . --force").err
    assert run("snapshot load nowhere").status == 3
    assert run("snapshot save", str(tmp_path / "no" / "file")).status == 3
    saved_to_stdout = run("snapshot save -").out
    assert json.loads(saved_to_stdout)["format"] == "pullqueue-snapshot/1"
    loaded = run("snapshot load - --json --yes", stdin=saved_to_stdout.encode())
    assert json.loads(loaded.out) == {"tasks": 1, "exhausted": 2, "warning": None}


def test_snapshots_are_compared(run: Run, tmp_path: Path, emulator: Emulator) -> None:
    old, new = str(tmp_path / "old.json"), str(tmp_path / "new.json")
    pull = emulator.queue("pull")
    pull.add_many([NewTask(name=name) for name in ("last", "kept", "leased", "deleted")])
    run("snapshot save", old)
    assert run("snapshot diff", old) == Done(0, "no task differs\n", "")
    for _ in range(3):
        pull.modify_task_lease(pull.lease_tasks(60, 1)[0], 0)
    pull.modify_task_lease(pull.lease_tasks(60, 2)[0], 0)
    pull.delete_tasks("deleted")
    emulator.queue("other").add_many([NewTask(name=f"n{number}") for number in range(3)])
    run("snapshot save", new)

    for files in ([old, new], [old]):
        shown = run("snapshot diff", *files, "--limit", "2").out.splitlines()
        assert shown == [
            "QUEUE  CHANGE     TASKS  NAMES",
            "other  added          3  n0, n1 and 1 more",
            "pull   gone           2  last, deleted",
            "pull   changed        2  kept (retry_count), leased (eta_usec, retry_count)",
            "pull   exhausted      1  last",
        ]
    found = json.loads(run("snapshot diff --json", old, new).out)["differences"]
    names = [[each["task"] for each in difference["tasks"]] for difference in found]
    assert names == [["n0", "n1", "n2"], ["last", "deleted"], ["kept", "leased"], ["last"]]
    fields = {each["task"]: each["fields"] for each in found[2]["tasks"]}
    assert fields == {"kept": ["retry_count"], "leased": ["eta_usec", "retry_count"]}
    (tmp_path / "new.json").write_text("queue:")
    refused = run("snapshot diff", old, new)
    assert (refused.status, f"{new} is not a snapshot (" in refused.err) == (3, True)
    assert run("snapshot diff nowhere").status == 3


NOT_SNAPSHOTS = (
    b"",
    b"{}",
    b"\xff",
    b'{"format": "\xff"}',
    b"[" * 200_000,
    b'{"queues":' * 200_000,
    NESTED % (b"[" * 200_000),
    NESTED % (b"1" * 100_000),
    NESTED % b"1e400",
    b'{"format":"pullqueue-snapshot/1","queues":[]}',
)


def test_other_files_are_neither_compared_nor_loaded(run: Run, tmp_path: Path) -> None:
    good, bad = str(tmp_path / "good.json"), str(tmp_path / "bad.json")
    run("snapshot save", good)
    for data in NOT_SNAPSHOTS:
        Path(bad).write_bytes(data)
        for command in (["diff", bad], ["diff", good, bad], ["diff", bad, good], ["load", bad]):
            done = run("snapshot", *command)
            assert (done.status, done.out) == (3, ""), data[:99]
            assert done.err.startswith(f"pullqueue: {bad} is not a snapshot ("), done.err
            assert done.err.endswith(": pass a file that `pullqueue snapshot save` wrote\n")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_a_file_without_end_is_refused(run: Run, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    refused = Done(3, "", f'pullqueue: cannot read "{fifo}": is a FIFO, not a regular file\n')

    for command in ("snapshot diff", "snapshot load", "seed", "tasks add pull --file"):
        assert run(command, str(fifo)) == refused
    # The others read files in the same way, as the first one shows.
    assert "it is larger than 536,870,912 bytes" in run("seed /dev/zero").err


def test_a_snapshot_of_a_later_time(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    saved = json.loads(run("snapshot save -").out)
    file.write_text(json.dumps(saved | {"taken_usec": saved["taken_usec"] + 1}))

    loaded, shifted = (run("snapshot load", str(file), *shift) for shift in ([], ["--shift"]))

    assert loaded.out == shifted.out == "0 tasks loaded\n"
    assert loaded.err.startswith("warning: the snapshot was taken at 2026-01-01T00:00:00.000001")
    assert loaded.err.endswith("(--shift)\n")
    assert shifted.err == ""


def test_seed_adds_the_tasks_of_a_yaml_file(run: Run, tmp_path: Path, emulator: Emulator) -> None:
    file = tmp_path / "seed.yaml"
    file.write_text(
        "pull:\n"
        "- just text\n"
        "- {payload: {order: 17}, tag: t, count: 250}\n"
        "- {payload: 2026-13-01, name: a, eta: 2026-01-01T00:01:00Z}\n"
        f"- {{payload: {'9' * 5000}, name: digits}}\n"
        "other:\n"
        "- {payload_base64: /w==, countdown: 5}\n"
        "push:\n"
        "- request: {url: /mail, method: PUT, headers: [[X-Mine, '7']], target: worker}\n"
        "- work\n"
    )

    first = run("seed", str(file))
    second = run("seed", str(file), "--json")

    assert first == Done(0, "256 tasks added\n", "")
    assert (second.status, json.loads(second.out)) == (1, {"added": 254, "refused": 2})
    queue = emulator.queue("pull")
    assert queue.list_tasks(1, tag="t")[0].payload == b'{"order": 17}'
    assert queue.get_task("a").eta.isoformat() == "2026-01-01T00:01:00+00:00"
    assert queue.get_task("a").payload == b"2026-13-01"
    assert queue.get_task("digits").payload == b"9" * 5000
    assert emulator.queue("other").list_tasks()[0].payload == b"\xff"
    assert [task.request for task in emulator.queue("push").list_tasks(2)] == [
        HttpRequest("/mail", "PUT", (("X-Mine", "7"),), "worker"),
        HttpRequest("/_ah/queue/push"),
    ]


def test_a_snapshot_that_breaks_off(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "backup" / "state.json"
    file.parent.mkdir()
    before = '{"format": "pullqueue-snapshot/1"}'
    file.write_text(before)

    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{}") as address:
        done = run("snapshot save", str(file), "--url", address)

    assert done.status == 3
    assert "broke off (998 bytes are missing): check whether the server still runs" in done.err
    assert [path.read_text() for path in file.parent.iterdir()] == [before]


def test_seeding_on_a_terminal(tmp_path: Path, server: Server) -> None:
    """A bar is shown from the start, while the file is checked, and then for what is added."""
    seeds = tmp_path / "seeds.yaml"
    seeds.write_text("pull: [{count: 250}]\n")

    shown = shown_on_terminal("seed", str(seeds), "--url", server.url)

    assert shown.index("Checking  [") < shown.index("Adding  [") < shown.index("250 tasks added")


def test_a_server_that_fails(run: Run, tmp_path: Path) -> None:
    seeds, snapshot = tmp_path / "seed.yaml", tmp_path / "state.json"
    seeds.write_text("pull: [work]")
    snapshot.write_text("{}")

    with always_answering({"status": "failing", "reason": "the disk is full"}, 500) as address:
        seeded = run("seed", str(seeds), "--url", address)
        loaded = run("snapshot load", str(snapshot), "--url", address)

    reason = f"http://{address} is not ready: the disk is full"
    assert seeded == Done(3, "", f"pullqueue: {seeds}:1:1: {reason}\n")
    assert loaded == Done(3, "", f"pullqueue: {snapshot} cannot be loaded: {reason}\n")


def test_large_tasks_are_seeded_by_as_many_requests_as_they_need(
    run: Run, tmp_path: Path, emulator: Emulator
) -> None:
    file = tmp_path / "seed.yaml"
    file.write_text(f"pull:\n- {{payload: {'x' * 900_000}, count: 20}}\n")

    assert run("seed", str(file)) == Done(0, "20 tasks added\n", "")
    assert emulator.queue("pull").fetch_statistics().tasks == 20


def test_seed_reads_one_json_object_per_line(run: Run, tmp_path: Path, emulator: Emulator) -> None:
    file = tmp_path / "seed.jsonl"
    file.write_text(
        '{"queue": "pull", "payload": "a\u2028b"}\r\n\n{"queue": "other", "payload": [1]}\n'
    )

    assert run("seed", str(file)).out == "2 tasks added\n"
    assert emulator.queue("pull").list_tasks()[0].payload.decode() == "a\u2028b"
    assert run("seed no.yaml").err == (
        'pullqueue: cannot read "no.yaml": no such file or directory\n'
    )
    assert emulator.queue("other").list_tasks()[0].payload == b"[1]"


def test_seed_sees_what_standard_input_has(run: Run, emulator: Emulator) -> None:
    for text in (
        '\n{"queue": "pull", "payload": "a"}\n{"queue": "other"}\n',
        '{"pull": ["b"], "other": []}\n',
        "pull:\n- c\n",
    ):
        assert run("seed -", stdin=text.encode()).status == 0
    refused = run("seed -", stdin=b'{"queue": "pull"}\n17\n')

    assert refused.err.startswith('pullqueue: <stdin>:2:1: not an object with a "queue"')
    tasks = emulator.queue("pull").list_tasks()
    assert [task.payload for task in tasks] == [b"a", b"b", b"c"]
    assert emulator.queue("other").fetch_statistics().tasks == 1


NOT_SEEDS = [
    ("", "1:1: the file is empty: write the names of queues, each with a list"),
    ("- a\n", "1:1: the file is not a mapping: write the names of queues"),
    ("[a]: []\n", "1:1: a list or mapping is used as a key: use a name"),
    ("pull: a\n", '1:7: queue "pull" has no list of tasks: begin each with `- `'),
    ("pull: []\npull: []\n", "2:1: `pull` is defined twice in one mapping: put all"),
    ("pull:\n- size: 1\n", '2:9: "size" is not a field of a task: use one of count, countdown'),
    ("pull:\n- [a]: 1\n", "2:3: a list or mapping is used as a key: use a name"),
    ("pull: [{tag: a, tag: b}]\n", "1:17: `tag` is defined twice in one mapping: keep one"),
    ("pull: [{count: 0}]\n", "1:16: count is 0: use a whole number, 1 or more"),
    ("pull: [{count: 2, name: a}]\n", "1:16: a task has either name or count, and not both:"),
    ("pull: [{payload: a, payload_base64: YQ==}]\n", "1:37: a task has either payload or"),
    ("pull: [{countdown: 1, eta: 2026-01-01T00:00:00Z}]\n", "1:20: a task has either eta or"),
    ("pull: [{payload_base64: '%'}]\n", '1:25: payload_base64 is "%": use base64'),
    ("pull: [{a: 1, payload: {b: .inf}}]\n", '1:12: "a" is not a field of a task'),
    ("pull: [{payload: {a: .inf}}]\n", "1:18: the payload cannot be written as"),
    ("pull: [!x a]\n", "1:8: tags, and a plain `=` or `<<`, are not supported: put"),
    ("pull: [{a: {b: 1, b: 2}}]\n", "1:19: `b` is defined twice in one mapping: keep"),
    ("pull: [{eta: 2026-01-01}]\n", '1:14: eta is "2026-01-01", which has no time'),
    ("pull: [{eta: 17}]\n", "1:14: eta is 17: use a time with its time zone, s"),
    ("pull: [{countdown: soon}]\n", '1:20: countdown is "soon": use a number of s'),
    ("pull: [{tag: 17}]\n", "1:14: tag is 17: use text; put it in quotes"),
    ("pull: [{name: a b}]\n", '1:15: task name is "a b": use letters'),
    (f"pull:\n- {'p' * (1 << 20)}p\n", "2:3: payload has 1048577 bytes"),
    ("pull: [a\n", "1:7: `[` is not closed: add `]`"),
    ("pull:\n\t- a\n", "2:1: a tab is used for indentation: use spaces"),
    ("a: []\n---\nb: []\n", "2:1: a second document begins here: keep one"),
    (f"pull: {'[' * 1_000}", "1:206: nested too deeply: use flatter data"),
    ("pull:\n- \udcff\n", "2:3: byte 0xff is not UTF-8 (perhaps Latin-1): save the"),
    ("pull: [a]\nnope: [a]\n", '2:1: queue "nope" is not in'),
    ("push: [{request: /mail}]\n", '1:18: request is "/mail": use `{url: /mail}`'),
    ("push: [{request: {url: /, head: a}}]\n", "1:18: request is "),
    ("push: [{request: {url: mail}}]\n", '1:18: url is "mail": it must begin'),
    # Without limits these would take gigabytes, or never end.
    (ALIAS_BOMB, "2:17: anchors, aliases and merge keys are not supported: write"),
    (MERGE_BOMB, "2:17: anchors, aliases and merge keys are not supported: write"),
    ("pull:\n- &a\n  payload: {self: *a}\n", "2:3: anchors, aliases and merge keys are not"),
]
NOT_LINES = [
    ('\n{"payload": 1}\n', '2:1: not an object with a "queue": write one per line'),
    ('{"queue": \n', "1:11: not JSON (Expecting value): write one object per line"),
    (f'{{"queue": "pull", "count": {"9" * 5000}}}', "1:1: a number has too many digits"),
    (f"\n{'[' * 99_999}", "2:1: nested too deeply: use flatter data"),
]


def test_seeds_that_make_no_sense_add_nothing(run: Run, tmp_path: Path) -> None:
    """What is wrong is reported on one line with its place."""
    for file, cases in ((tmp_path / "a.yaml", NOT_SEEDS), (tmp_path / "a.jsonl", NOT_LINES)):
        for text, message in cases:
            file.write_text(text, errors="surrogateescape")
            done = run("seed", str(file))
            assert (done.status, done.err.count("\n")) == (1, 1), message
            assert done.err.startswith(f"pullqueue: {file}:{message}")
    assert run("tasks list pull").out == "no tasks in pull\n"


def test_seeds_that_the_server_refuses(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "seed.yaml"
    late = "- {eta: 2100-01-01T00:00:00Z}\n"

    file.write_text(f"pull:\n- {{count: 100}}\n{late}")
    alone = run("seed", str(file)).err
    file.write_text(f"pull:\n- a\n{late}")
    among_others = run("seed", str(file)).err

    assert alone.startswith(
        f"pullqueue: {file}:3:3: eta is 2100-01-01T00:00:00+00:00; the maximum is "
    )
    assert alone.endswith(" here; 100 tasks were added before\n")
    assert among_others.startswith(f"pullqueue: {file}:2:3: in this task or one after it: eta is")


def test_seeding_many_lines_uses_one_connection(
    run: Run, tmp_path: Path, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "many.jsonl"
    lines = [f'{{"queue": "{("pull", "other")[n % 2]}", "payload": "p{n}"}}' for n in range(1000)]
    file.write_text("\n".join(lines))
    calls: list[str] = []
    connections = []
    request, connect = HTTPConnection.request, HTTPConnection.connect

    def counted(self: HTTPConnection, verb: str, *rest: Any, **options: Any) -> None:
        calls.append(verb)
        request(self, verb, *rest, **options)

    def connected(self: HTTPConnection) -> None:
        connections.append(self)
        connect(self)

    monkeypatch.setattr(HTTPConnection, "request", counted)
    monkeypatch.setattr(HTTPConnection, "connect", connected)

    assert run("seed", str(file)).out == "1000 tasks added\n"
    assert calls == ["GET", "GET", *["POST"] * 10]
    assert len(connections) == 1
    first = [task.payload for task in emulator.queue("pull").list_tasks(500)]
    assert first == [f"p{n}".encode() for n in range(0, 1000, 2)]


def interruptible(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [forked("pullqueue"), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_ctrl_c_says_how_many_tasks_seed_has_added(
    server: Server, emulator: Emulator, tmp_path: Path
) -> None:
    file = tmp_path / "many.yaml"
    file.write_text("pull:\n- {payload: a, count: 2000000}\n")
    with interruptible("seed", str(file), "--url", server.url) as process:
        until(lambda: emulator.queue("pull").fetch_statistics().tasks)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)

    added = emulator.queue("pull").fetch_statistics().tasks
    found = re.search(r"interrupted: (\d+) to (\d+) of 2000000 tasks were added", errors)
    assert found is not None
    assert int(found[1]) <= added <= int(found[2])
    assert process.returncode == 130


def test_ctrl_c_says_what_becomes_of_a_snapshot_on_its_way(tmp_path: Path) -> None:
    """The server, which does not answer here, goes on to load what it has."""
    file = tmp_path / "state.json"
    file.write_text('{"format": "pullqueue-snapshot/1"}')
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        command = ("snapshot", "load", str(file), "--yes", "--url", url)
        with interruptible(*command) as process, listener.accept()[0] as connection:
            connection.recv(1)  # it has begun to send
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)

    assert errors.startswith("interrupted: once the server has the whole file it loads it")
    assert process.returncode == 130
