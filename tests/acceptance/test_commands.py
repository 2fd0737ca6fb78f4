"""The commands that speak to a running server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import BytesIO, StringIO, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from pullqueue import Emulator, ManualClock, TransientError
from pullqueue.cli import main, pullqueue
from pullqueue.cli.clock import clock
from pullqueue.cli.faults import faults
from pullqueue.cli.snapshot import snapshot
from pullqueue.cli.tasks import tasks
from pullqueue.engine.calls import VERBS, QueueCall
from pullqueue.rest.control.config_file import ConfigFile
from pullqueue.rest.control.fault_board import KINDS
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

    numbers = "QUEUE    MODE  TASKS  AVAILABLE  LEASED  SCHEDULED  OLDEST"
    assert run("queues").out.splitlines() == [
        f"{numbers}  LEASED/MIN  LEASED/HOUR  RETRY LIMIT",
        "pull     pull      1          0       1          0  0 s              1            1  3",
        "other    pull      0          0       0          0                   0            0  none",
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
        "TASK  TAG  STATE                    ETA (UTC)            LEASES  BYTES  PAYLOAD",
        "a     t    leased, 1 min 30 s left  2026-01-01 00:01:35  1 of 3      5  hello",
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
    push = "push is a push queue: only tasks of pull queues are shown\n"
    assert run("tasks", "list", "push").out == push


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
        assert refused.err.endswith("pullqueue: nothing was deleted: answer y, or give --yes\n")
    assert len(emulator.queue("pull").list_tasks()) == 1

    assert run("tasks", "purge", "pull", "--yes").out == "1 deleted\n"
    monkeypatch.setattr(sys, "stdin", StringIO("y\n"))
    assert run("tasks", "purge", "pull", "--json").status == 0


def test_stats(run: Run, emulator: Emulator) -> None:
    """The pull queues, or those that are named."""
    assert "push" not in run("stats").out
    assert len(run("stats", "other").out.splitlines()) == 2
    assert run("stats", "nope").err.startswith("pullqueue: queue 'nope' is not in ")
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
        "NUMBER  KIND          CALL         EFFECT         WHEN         STRUCK",
        "     1  fail          lease_tasks  InternalError  times=2      0 of 0",
        "     2  empty_leases  every lease  no tasks       queue=other  0 of 0",
    ]
    assert run("faults", "remove", "1").out == "1 removed\n"
    assert run("faults", "clear").out == "1 removed\n"
    assert run("faults", "remove", "1").err == "pullqueue: there is no fault '1': none is set\n"
    run("faults", "add", "latency", "add", "--seconds", "2")
    assert "latency  add   2 s later  always" in run("faults").out
    assert "there is no fault '1': give one of 3" in run("faults", "remove", "1").err


def test_the_help_on_faults_names_them_all(run: Run) -> None:
    """Every kind of fault and every call that can be struck stands there."""
    shown = run("faults", "add", "--help").out

    assert [name for name in (*KINDS, *VERBS) if name not in shown] == []


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


def test_waiting_for_a_server_that_is_not_ready(run: Run, emulator: Emulator) -> None:
    """Its own reason is told."""

    def away(_call: QueueCall, _proceed: Callable[[], object]) -> object:
        raise TransientError("the store is away")

    emulator.call_path.add(away)
    done = run("wait", "--timeout", "0")

    assert done.status == 1
    assert done.err.endswith(" is not ready: the store is away\n")


def test_waiting_for_a_server_to_come(emulator: Emulator) -> None:
    """A server that starts later is waited for."""
    with Server(emulator) as first:
        port = first.port
    waiting = subprocess.Popen([PROGRAM, "wait", "--url", f"127.0.0.1:{port}"])
    with Server(emulator, port=port):
        assert waiting.wait(30) == 0


def test_snapshots(
    run: Run, tmp_path: Path, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is saved can be loaded again; a broken file changes nothing."""
    file = tmp_path / "state.json"
    emulator.queue("pull").add(b"work", name="a")

    saved = run("snapshot", "save", str(file))
    run("reset", "--yes")
    loaded = run("snapshot", "load", str(file), "--shift")

    assert saved.out == f"{file}: {file.stat().st_size} bytes\n"
    assert loaded.out == "1 task loaded\n"
    assert emulator.queue("pull").get_task("a").payload == b"work"
    file.write_text("{}")
    assert run("snapshot", "load", str(file)).err == (
        f"pullqueue: {file}: this is no snapshot: give one that was saved, as by `pullqueue "
        "snapshot save`; nothing was changed\n"
    )
    file.write_text("queue:")
    assert f"{file}: it is not JSON: " in run("snapshot", "load", str(file)).err
    assert "cannot write '.': " in run("snapshot", "save", ".").err
    assert run("snapshot", "load", "nowhere").status == 2
    assert run("snapshot", "save", str(tmp_path / "no" / "file")).status == 2
    saved_to_stdout = run("snapshot", "save", "-").out
    assert json.loads(saved_to_stdout)["format"] == "pullqueue-snapshot/1"
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(saved_to_stdout.encode())))
    assert json.loads(run("snapshot", "load", "-", "--json").out) == {"tasks": 1}


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
    assert run("seed", "no.yaml").err == (
        "pullqueue: cannot read 'no.yaml': no such file or directory\n"
    )
    assert emulator.queue("other").list_tasks()[0].payload == b"[1]"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "", "1:1: the file is empty: give the names of queues, each with a list"),
        ("a.yaml", "- a\n", "1:1: the file is no mapping: give the names of queues"),
        ("a.yaml", "[a]: []\n", "1:1: this is no name of a queue: give"),
        ("a.yaml", "pull: a\n", "1:7: queue 'pull' has no list of tasks: begin each with `- `"),
        ("a.yaml", "pull: []\npull: []\n", "2:1: queue 'pull' stands here again: write one list"),
        ("a.yaml", "pull:\n- size: 1\n", "2:9: a task has no 'size': give one of count, countdown"),
        ("a.yaml", "pull:\n- [a]: 1\n", "2:8: a task has no '?': give one of count"),
        ("a.yaml", "pull: [{tag: a, tag: b}]\n", "1:17: 'tag' stands twice in one task"),
        ("a.yaml", "pull: [{count: 0}]\n", "1:16: count is 0: give a whole number, 1 or more"),
        (
            "a.yaml",
            "pull: [{count: 2, name: a}]\n",
            "1:16: a task has either name or count, and not both: leave one out",
        ),
        (
            "a.yaml",
            "pull: [{payload: a, payload_base64: YQ==}]\n",
            "1:37: a task has either payload or payload_base64, and not both: leave one out",
        ),
        ("a.yaml", "pull: [{payload_base64: '%'}]\n", "1:25: payload_base64 is '%': give base64"),
        ("a.yaml", "pull: [2026-01-01]\n", "1:8: the payload holds what JSON has no word for"),
        ("a.yaml", "pull: [2026-13-01]\n", "1:8: '2026-13-01' cannot be read (month must be in"),
        ("a.yaml", "pull: [{eta: 2026-01-01}]\n", "1:14: eta is '2026-01-01': give a moment with"),
        ("a.yaml", "pull: [{eta: soon}]\n", "1:14: eta is 'soon': give a moment with its time"),
        ("a.yaml", "pull: [{countdown: .inf}]\n", "1:20: countdown is inf: give a number of"),
        ("a.yaml", "pull: [{tag: 17}]\n", "1:14: tag is 17: give text; put it in quotes"),
        ("a.yaml", "pull: [{name: a b}]\n", "1:15: task name is 'a b': give letters"),
        ("a.yaml", f"pull: [{{tag: {'t' * 501}}}]\n", "1:14: tag has 501 characters"),
        ("a.yaml", f"pull:\n- {'p' * (1 << 20)}p\n", "2:3: payload has 1048577 bytes"),
        ("a.yaml", "pull: [a\n", "1:7: `[` is never closed: `]` is missing"),
        ("a.yaml", "pull:\n\t- a\n", "2:1: a tab is used for indentation: YAML permits spaces"),
        ("a.yaml", "a: []\n---\nb: []\n", "2:1: a second document begins here: give one"),
        (
            "a.yaml",
            f"pull: {'[' * 5000}{']' * 5000}\n",
            "1:1: nested too deeply: give flatter data",
        ),
        ("a.yaml", "pull:\n- \udcff\n", "2:3: byte 0xff is not UTF-8: save the file as UTF-8"),
        ("a.jsonl", '\n{"payload": 1}\n', '2:1: no object with a "queue": give one a line'),
        ("a.jsonl", '{"queue": \n', "1:11: not JSON (Expecting value): give one object a line"),
        ("a.yaml", "pull: [a]\nnope: [a]\n", "2:1: queue 'nope' is not in"),
        ("a.yaml", "push: [a]\n", "1:1: queue 'push' is a push queue: name one with `mode: pull`"),
    ],
)
def test_seeds_that_make_no_sense(
    run: Run, tmp_path: Path, name: str, text: str, message: str
) -> None:
    """What is wrong is told on one line with its place, and nothing is added before."""
    file = tmp_path / name
    file.write_text(text, errors="surrogateescape")

    done = run("seed", str(file))

    assert done.status == 2
    assert done.err.startswith(f"pullqueue: {file}:{message}")
    assert done.err.count("\n") == 1
    assert run("tasks", "list", "pull").out == "no tasks in pull\n"


def test_seeds_that_the_server_refuses(run: Run, tmp_path: Path) -> None:
    """What only the server can tell has its place as well, and what was added before is told."""
    file = tmp_path / "seed.yaml"
    late = "- {eta: 2100-01-01T00:00:00Z}\n"

    file.write_text(f"pull:\n- {{count: 100}}\n{late}")
    alone = run("seed", str(file)).err
    file.write_text(f"pull:\n- a\n{late}")
    among_others = run("seed", str(file)).err

    assert alone.startswith(f"pullqueue: {file}:3:3: eta is 2100-01-01T00:00:00+00:00: at most ")
    assert alone.endswith(" from now are permitted; 100 tasks were added before\n")
    assert among_others.startswith(f"pullqueue: {file}:2:3: in this task or one after it: eta is")


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


def test_addresses(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is not there, an address that is none, and something else that answers."""
    assert "start one with `pullqueue serve`" in run("queues", "--url", "127.0.0.1:9").err
    for address in (
        *("ftp://x", "localhost", "localhost:x", ":1", "//h:1"),
        *("http://", "http://h:0", "http://h:99999", "http://a b"),
    ):
        assert run("queues", "--url", address).err == (
            f"pullqueue: --url is {address!r}, which is no address: give HOST:PORT, such as "
            "localhost:8124\n"
        )
    monkeypatch.setenv("PULLQUEUE_EMULATOR_HOST", "a b:1")
    assert run("queues").err == (
        "pullqueue: PULLQUEUE_EMULATOR_HOST is 'a b:1', which is no address: give HOST:PORT, such "
        "as localhost:8124, or unset the variable\n"
    )


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

    lines = run("tasks", "list", "pull").out.splitlines()

    assert "\x1b" not in "".join(lines)
    assert lines[1].startswith(f"a     日本{' ' * 38}available")
    assert lines[2].startswith(f"b     e\N{COMBINING ACUTE ACCENT}{' ' * 41}available")
    assert lines[3].startswith("c     ''  ")
    assert lines[4].startswith(r"d     \x1b[31m  ")
    assert lines[5].startswith(f"e     {'t' * 37}...  available")


@pytest.mark.parametrize(
    "order",
    [
        ("tasks", "lease", "pull", "--seconds", "nan"),
        ("tasks", "extend", "pull", "a", "--seconds", "-1"),
        ("tasks", "add", "pull", "x", "--countdown", "inf"),
        ("wait", "--timeout", "soon"),
        ("stats", "--interval", "0"),
    ],
)
def test_numbers_that_are_none(run: Run, order: tuple[str, ...]) -> None:
    """What is no number of seconds is refused before anything is asked of the server."""
    done = run(*order)

    assert done.status == 2
    assert f"{order[-1]!r} is none: give a number of seconds" in done.err


def test_a_full_disk(emulator: Emulator) -> None:
    """Output that cannot be written is told in one line."""
    with Server(emulator) as server, Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [PROGRAM, "queues", "--url", server.url],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 2
    assert done.stderr == "pullqueue: the output cannot be written: no space left on device\n"


def test_an_interrupt(emulator: Emulator) -> None:
    """Ctrl-C is how to end what is shown again and again: it is no failure."""
    emulator.queue("pull").add(b"work")
    with Server(emulator) as server:
        watching: list[str | Path] = [PROGRAM, "stats", "--watch", "--json", "--url", server.url]
        with subprocess.Popen(watching, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert '"queues"' in process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0


def test_the_summary_of_each_command_is_whole() -> None:
    """The lists of commands show no sentence that breaks off."""
    groups = [pullqueue, tasks, faults, snapshot, clock]
    summaries = {
        f"{group.name} {name}": command.get_short_help_str(65)
        for group in groups
        for name in group.list_commands(click.Context(group))
        if (command := group.get_command(click.Context(group), name)) and name != "exec"
    }

    assert len(summaries) > 30
    assert not [name for name, text in summaries.items() if text.endswith("...")]


def test_commands_that_are_not_there(run: Run) -> None:
    """A slip of the finger is told what was meant; the exit status is that of wrong usage."""
    slip, far = run("queus"), run("frobnicate")

    assert slip.status == far.status == 2
    assert slip.err.endswith("\n\npullqueue: there is no command 'queus': did you mean 'queues'?\n")
    assert far.err.endswith("'frobnicate': `pullqueue --help` lists them\n")
    assert run("--nope").status == 2


@pytest.mark.parametrize("path", ["elsewhere", "console"])
def test_something_else_answers(run: Run, emulator: Emulator, path: str) -> None:
    """Routes that the server does not have are not ours, whatever it is that answers."""
    with Server(emulator) as server:
        url = f"{server.url}/{path}"
        done = run("queues", "--url", f"{url}/")

    assert done.status == 2
    assert done.err == (
        f"pullqueue: what answers at {url} is no pullqueue, or one of another version: say where "
        "it is with --url or PULLQUEUE_EMULATOR_HOST\n"
    )


def test_resetting_asks(run: Run, emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is forgotten only after yes, and the question says how much that is."""
    emulator.queue("pull").add(b"work")

    monkeypatch.setattr(sys, "stdin", StringIO("n\n"))
    refused = run("reset")
    assert refused.status == 2
    assert "Forget everything, 1 task of all queues included? [y/N]:" in refused.err
    assert refused.err.endswith("pullqueue: nothing was deleted: answer y, or give --yes\n")
    assert len(emulator.queue("pull").list_tasks()) == 1

    monkeypatch.setattr(sys, "stdin", StringIO("y\n"))
    assert run("reset").out == "everything is forgotten\n"
    assert emulator.queue("pull").list_tasks() == []


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
