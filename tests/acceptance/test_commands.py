"""The commands that speak to a running server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import BytesIO, StringIO, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest

from pullqueue import Emulator, ManualClock
from pullqueue.cli import main
from pullqueue.rest.control.config_file import ConfigFile
from pullqueue.rest.server import Server

QUEUE_YAML = """\
queue:
- name: pull
  mode: pull
  retry_parameters:
    task_retry_limit: 3
- name: other
  mode: pull
- name: push
  rate: 5/s
"""


PROGRAM = Path(sys.executable).with_name("pullqueue")


class Done(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def queue_yaml(tmp_path: Path) -> Path:
    """Give a queue.yaml."""
    path = tmp_path / "queue.yaml"
    path.write_text(QUEUE_YAML)
    return path


@pytest.fixture
def emulator(queue_yaml: Path) -> Emulator:
    """Give an emulator whose clock stands still."""
    return Emulator.from_file(queue_yaml, clock=ManualClock())


@pytest.fixture
def run(
    emulator: Emulator,
    queue_yaml: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Iterator[Run]:
    """Give a function that runs a command against a running server."""
    with Server(emulator, config_file=ConfigFile(queue_yaml)) as server:
        monkeypatch.setenv("PULLQUEUE_EMULATOR_HOST", f"{server.host}:{server.port}")

        def run(*arguments: str) -> Done:
            status = main(arguments)
            return Done(status, *capfd.readouterr())

        yield run


def test_queues(run: Run, emulator: Emulator) -> None:
    """A table for people, JSON for scripts."""
    emulator.queue("pull").add(b"work")
    emulator.queue("pull").lease_tasks(60, 1)

    assert run("queues").out.splitlines() == [
        "QUEUE    TYPE  TASKS  AVAILABLE  LEASED  SCHEDULED  OLDEST  MINUTE  HOUR  LEASES",
        "pull     pull      1          0       1          0  0 s          1     1       3",
        "other    pull      0          0       0          0               0     0",
        "push     push",
        "default  push",
    ]
    assert json.loads(run("queues", "--json").out)["queues"][0]["leased"] == 1


def test_the_life_of_a_task(run: Run) -> None:
    """Added, listed, leased, extended, released, shown and deleted."""
    run("tasks", "add", "pull", "hello", "--name", "a", "--tag", "t", "--countdown", "5")
    assert "scheduled" in run("tasks", "list", "pull").out
    assert run("clock", "advance", "5").out == "2026-01-01T00:00:05+00:00  (manual clock)\n"
    assert run("tasks", "lease", "pull", "--by-tag", "--seconds", "90").out.splitlines() == [
        "TASK  TAG  STATE                    ETA (UTC)            LEASES  SIZE  PAYLOAD",
        "a     t    leased, 1 min 30 s left  2026-01-01 00:01:35  1 of 3     5  hello",
    ]
    assert "leased, 2 h left" in run("tasks", "extend", "pull", "a", "--seconds", "7200").out
    assert "available" in run("tasks", "release", "pull", "a").out
    shown = run("tasks", "get", "pull", "a").out.splitlines()
    assert [line.split("  ")[2].split(",")[0] for line in shown[2:]] == [
        "added",
        "leased",
        "extended",
        "released",
    ]
    assert run("tasks", "get", "pull", "a", "--payload").out == "hello"
    assert json.loads(run("tasks", "get", "pull", "a", "--json").out)["task"]["tag"] == "t"
    deleted = run("tasks", "delete", "pull", "a", "b")
    assert deleted == Done(1, "1 deleted\n", "b is not there\n")
    taken = run("tasks", "add", "pull", "x", "--name", "a")
    assert taken.status == 2
    assert "task 'a' of pull was deleted not long ago" in taken.err


def test_listing(run: Run, emulator: Emulator) -> None:
    """As many as asked for, over several pages; narrowed by state, tag and text."""
    for place in range(1100):
        emulator.queue("pull").add(f"n{place}", tag="t" if place == 7 else None)

    assert len(run("tasks", "list", "pull", "--limit", "1050").out.splitlines()) == 1051
    assert "there are more" in run("tasks", "list", "pull").err
    listed = run("tasks", "list", "pull", "--limit", "2000", "--json")
    assert len(json.loads(listed.out)["tasks"]) == 1100
    assert "n7" in run("tasks", "list", "pull", "--tag", "t").out
    assert len(run("tasks", "list", "pull", "--search", "n1099").out.splitlines()) == 2
    assert run("tasks", "list", "pull", "--state", "leased").out == "no tasks in pull\n"


def test_payloads_from_files(
    run: Run, tmp_path: Path, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A payload is taken byte for byte; control characters do not reach the terminal."""
    (tmp_path / "payload").write_bytes(b"\xff\x1b[31m")

    run("tasks", "add", "pull", "--file", str(tmp_path / "payload"), "--name", "a")

    assert emulator.queue("pull").get_task("a").payload == b"\xff\x1b[31m"
    assert r"\xff\x1b[31m" in run("tasks", "list", "pull").out
    assert run("tasks", "add", "pull", "--file", "nowhere").status == 2

    for place, arguments in enumerate((["-"], ["--file", "-"])):
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"\xff\n")))
        run("tasks", "add", "pull", *arguments, "--name", f"in{place}")
        assert emulator.queue("pull").get_task(f"in{place}").payload == b"\xff\n"
    assert run("tasks", "add", "pull").status == 2


def test_purging_asks(run: Run, emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done only after yes; where nobody can answer, nothing is done and that is told."""
    emulator.queue("pull").add(b"work")

    for stdin in (StringIO("n\n"), StringIO(), None):
        monkeypatch.setattr(sys, "stdin", stdin)
        refused = run("tasks", "purge", "pull")
        assert refused.status == 2
        assert stdin is None or "Delete 1 task of queue 'pull'? [y/N]:" in refused.err
        assert refused.err.endswith("Error: nothing was deleted: answer y, or give --yes\n")
    assert len(emulator.queue("pull").list_tasks()) == 1

    assert run("tasks", "purge", "pull", "--yes").out == "1 deleted\n"
    monkeypatch.setattr(sys, "stdin", StringIO("y\n"))
    assert run("tasks", "purge", "pull", "--json").status == 0


def test_stats(run: Run, emulator: Emulator) -> None:
    """The pull queues, or those that are named."""
    assert "push" not in run("stats").out
    assert len(run("stats", "other").out.splitlines()) == 2
    assert run("stats", "nope").err == "Error: there is no queue 'nope'\n"
    assert json.loads(run("stats", "--json").out)["queues"][1]["name"] == "other"


def test_watching(emulator: Emulator) -> None:
    """--watch shows them again and again, until it is interrupted."""
    with Server(emulator) as server:
        order = ["stats", "--watch", "--interval", "0.1", "--json", "--url", server.url]
        with subprocess.Popen([PROGRAM, *order], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            shown = (line for line in process.stdout if '"queues"' in line)
            assert len(list(islice(shown, 3))) == 3
            process.terminate()


def test_the_clock(run: Run) -> None:
    """Shown, advanced by a span, moved to a moment; what makes no sense is refused."""
    assert run("clock").out == "2026-01-01T00:00:00+00:00  (manual clock)\n"
    assert run("clock", "advance", "1.5h").out.startswith("2026-01-01T01:30:00")
    assert run("clock", "move-to", "2026-02-01T00:00:00Z").out.startswith("2026-02-01T00:00:00")
    assert json.loads(run("clock", "--json").out)["manual"] is True
    assert "BY is 'long'" in run("clock", "advance", "long").err
    back = run("clock", "move-to", "2026-01-01T00:00:00Z")
    assert back.status == 2
    assert "never goes back" in back.err


def test_faults(run: Run) -> None:
    """Set, listed, removed by number, and all of them."""
    assert run("faults").out == "no faults\n"
    run("faults", "add", "fail", "lease_tasks", "--error", "InternalError", "--times", "2")
    run("faults", "add", "empty_leases", "--queue", "other")
    assert run("faults").out.splitlines() == [
        "NUMBER  KIND          CALL         WHAT           WHEN         STRUCK",
        "     1  fail          lease_tasks  InternalError  times=2      0 of 0",
        "     2  empty_leases                              queue=other  0 of 0",
    ]
    assert run("faults", "remove", "1").out == "1 removed\n"
    assert run("faults", "clear").out == "1 removed\n"
    assert "there is no fault '1'" in run("faults", "remove", "1").err


def test_waiting(run: Run, emulator: Emulator) -> None:
    """It ends at once when all is well, and with status 1 when it takes too long."""
    emulator.queue("pull").add(b"work")

    assert run("wait", "--empty", "other") == Done(0, "", "")
    late = run("wait", "--empty", "pull", "--timeout", "0.1")
    assert late.status == 1
    assert "queue 'pull' has 1 task, 0 of them leased" in late.err
    away = run("wait", "--url", "http://127.0.0.1:9", "--timeout", "0")
    assert away.status == 1
    assert "no pullqueue answers at http://127.0.0.1:9" in away.err
    assert run("wait", "--empty", "nope").status == 2


def test_waiting_for_a_server_to_come(emulator: Emulator) -> None:
    """A server that starts later is waited for."""
    with Server(emulator) as first:
        port = first.port
    waiting = subprocess.Popen([PROGRAM, "wait", "--url", f"127.0.0.1:{port}"])
    with Server(emulator, port=port):
        assert waiting.wait(30) == 0


def test_snapshots(run: Run, tmp_path: Path, emulator: Emulator) -> None:
    """What is saved can be loaded again; a broken file changes nothing."""
    file = tmp_path / "state.json"
    emulator.queue("pull").add(b"work", name="a")

    saved = run("snapshot", "save", str(file))
    run("reset", "--yes")
    loaded = run("snapshot", "load", str(file), "--shift")

    assert saved.out == f"{file}: {file.stat().st_size} bytes\n"
    assert loaded.out == "1 tasks loaded\n"
    assert emulator.queue("pull").get_task("a").payload == b"work"
    file.write_text("{}")
    assert "the snapshot is damaged" in run("snapshot", "load", str(file)).err
    assert run("snapshot", "load", "nowhere").status == 2
    assert run("snapshot", "save", str(tmp_path / "no" / "file")).status == 2
    assert json.loads(run("snapshot", "save", "-").out)["format"] == "pullqueue-snapshot/1"


def test_seeding(run: Run, tmp_path: Path, emulator: Emulator) -> None:
    """Tasks of a YAML file: texts, data as JSON, many of one kind, names and times."""
    file = tmp_path / "seed.yaml"
    file.write_text(
        "pull:\n"
        "- just text\n"
        "- {payload: {order: 17}, tag: t, count: 250}\n"
        "- {payload: x, name: a, eta: 2026-01-01T00:01:00Z}\n"
        "other:\n"
        "- {payload_base64: /w==, countdown: 5}\n"
    )

    first = run("seed", str(file))
    second = run("seed", str(file), "--json")

    assert first == Done(0, "253 tasks added\n", "")
    assert json.loads(second.out) == {"added": 252, "refused": 1}
    queue = emulator.queue("pull")
    assert queue.list_tasks(1, tag="t")[0].payload == b'{"order": 17}'
    assert queue.get_task("a").eta.isoformat() == "2026-01-01T00:01:00+00:00"
    assert emulator.queue("other").list_tasks()[0].payload == b"\xff"


def test_seeding_from_lines(run: Run, tmp_path: Path, emulator: Emulator) -> None:
    """One JSON object a line, each with its queue."""
    file = tmp_path / "seed.jsonl"
    file.write_text('{"queue": "pull", "payload": "a"}\n\n{"queue": "other", "payload": [1]}\n')

    assert run("seed", str(file)).out == "2 tasks added\n"
    assert emulator.queue("other").list_tasks()[0].payload == b"[1]"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "- a\n", "it must be a mapping"),
        ("a.yaml", "pull: a\n", "'pull' must be a list of tasks"),
        ("a.yaml", "pull: [{size: 1}]\n", "task 1 of 'pull' has 'size': a task has count"),
        ("a.yaml", "pull: [{count: 0}]\n", "the count of task 1 of 'pull' is 0: give 1 or more"),
        ("a.yaml", "pull: [{count: 2, name: a}]\n", "has both a name and a count"),
        ("a.yaml", "pull: [\n", "it is not YAML"),
        ("a.jsonl", '{"payload": 1}\n', 'line 1 must be a JSON object with a "queue"'),
        ("a.yaml", "nope: [a]\n", "queue 'nope' is not in"),
    ],
)
def test_seeds_that_make_no_sense(
    run: Run, tmp_path: Path, name: str, text: str, message: str
) -> None:
    """What is wrong is told with its place."""
    (tmp_path / name).write_text(text)

    done = run("seed", str(tmp_path / name))

    assert done.status == 2
    assert message in done.err


def test_reloading(run: Run, queue_yaml: Path) -> None:
    """What changed is told; a broken file is refused with its place."""
    queue_yaml.write_text("queue:\n- name: pull\n  mode: pull\n- name: new\n  mode: pull\n")
    assert run("reload").out.splitlines() == [
        "added: new",
        "changed: pull",
        "disabled: other, push",
    ]
    assert run("reload").out == "no queue changed\n"
    queue_yaml.write_text("queue: [")
    assert "queue.yaml:1" in run("reload").err


def test_refusals_say_what_was_wrong(run: Run) -> None:
    """The engine's own words, not the short ones of the real service."""
    done = run("tasks", "list", "pul")

    assert done.status == 2
    assert "queue 'pul' is not in" in done.err
    assert "did you mean 'pull'?" in done.err


def test_addresses(run: Run) -> None:
    """A server that is not there, an address that is none, and something else that answers."""
    assert "start one with `pullqueue serve`" in run("queues", "--url", "127.0.0.1:9").err
    assert "give one such as" in run("queues", "--url", "ftp://x").err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(run: Run, shell: str) -> None:
    """Each shell gets a script."""
    assert "_PULLQUEUE_COMPLETE" in run("completion", shell).out


def test_completion_of_queues(emulator: Emulator) -> None:
    """The names of the running server's pull queues are offered."""
    with Server(emulator) as server:
        done = subprocess.run(
            [PROGRAM],
            env={
                **os.environ,
                "_PULLQUEUE_COMPLETE": "bash_complete",
                "COMP_WORDS": "pullqueue tasks list ",
                "COMP_CWORD": "3",
                "PULLQUEUE_EMULATOR_HOST": f"127.0.0.1:{server.port}",
            },
            capture_output=True,
            text=True,
            check=True,
        )

    assert done.stdout.splitlines() == ["plain,pull", "plain,other"]
