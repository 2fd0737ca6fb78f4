"""How the commands find their server, and what they say when they are asked wrongly."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest
from commands import Done, Run
from forking import forked
from odd_servers import answering, silent

from pullqueue import Emulator
from pullqueue.cli import main
from pullqueue.faults.declaration import KINDS
from pullqueue.server.lifecycle import Server
from pullqueue.testing import exhaust


def test_wait_ends_once_all_is_well(run: Run, emulator: Emulator) -> None:
    emulator.queue("pull").add(b"work")

    assert run("wait --empty other") == Done(0, "", "")
    late = run("wait --empty pull --timeout 0.1")
    assert late.status == 1
    assert 'queue "pull" has 1 task, 0 of them leased' in late.err
    away = run("wait --url http://127.0.0.1:9 --timeout 0")
    assert away.status == 1
    assert "no pullqueue responds at http://127.0.0.1:9" in away.err
    assert run("wait --empty nope").status == 1
    emulator.queue("push").add(b"to=ada")
    push = run("wait --empty push --timeout 0.1")
    assert 'queue "push" has 1 task, 0 of them running' in push.err
    exhaust(emulator.queue("pull"), emulator.queue("pull").list_tasks()[0])
    exhausted = "(see `pullqueue tasks list pull --state exhausted`)"
    message = f'queue "pull" is empty; exhausted tasks: 1 {exhausted}\n'
    assert run("wait --empty pull") == Done(0, "", message)


def test_waiting_for_a_server_to_come(emulator: Emulator) -> None:
    with ThreadPoolExecutor() as pool:
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            nobody.settimeout(60)
            port = nobody.getsockname()[1]
            waiting = pool.submit(main, ("wait", "--url", f"127.0.0.1:{port}"))
            nobody.accept()[0].close()  # it has looked, and found no server
        with Server(emulator, port=port):
            assert waiting.result(60) == 0


def test_wait_does_not_wait_longer_for_an_answer_than_at_all(run: Run) -> None:
    with silent() as address:
        done = run("wait --timeout 0 --url", address)
        tls = run("wait --timeout 0 --url", f"https://{address}")

    assert done.status == 1
    assert f"after 0 s, no pullqueue responds at http://{address} (timed out): start" in done.err
    assert "timed out): use http:// unless a proxy with TLS is in front of it, start" in tls.err
    hint = "; with --port-file, passed to both, `wait` ends as soon as `serve` has failed\n"
    assert done.err.endswith(f"or PULLQUEUE_EMULATOR_HOST{hint}")


def test_an_answer_that_breaks_off_is_one_line(run: Run) -> None:
    for order in ("queues", "credentials a@example.com", "snapshot save -"):
        with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{}") as address:
            done = run(order, "--url", address)

        assert (done.status, done.err.count("\n")) == (3, 1)
        assert done.err.startswith(f"pullqueue: the response of http://{address} broke off (")


def test_a_wrong_address_and_a_missing_server_are_reported(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "start one with `pullqueue serve`" in run("queues --url 127.0.0.1:9").err
    for address in (
        *("ftp://x", "localhost", "localhost:x", ":1", "//h:1"),
        *("http://", "http://h:0", "http://h:99999", "http://a b"),
    ):
        assert run("queues --url", address).err.endswith(
            f'"{address}" is not a valid address: use HOST:PORT, such as localhost:8124\n'
        )
    monkeypatch.setenv("PULLQUEUE_EMULATOR_HOST", "a b:1")
    assert "--url' (env var: 'PULLQUEUE_EMULATOR_HOST'): \"a b:1\" is not a" in run("queues").err


def test_another_kind_of_server_is_reported(run: Run, server: Server) -> None:
    for url in (f"{server.url}/elsewhere", f"{server.url}/console"):
        done = run("queues --url", f"{url}/")
        assert done.status == 3
        assert done.err == (
            f"pullqueue: the server at {url} is not a pullqueue, or another version: pass its "
            "address with --url or PULLQUEUE_EMULATOR_HOST\n"
        )


WRONG_USAGE = [
    ("tasks lease pull --seconds nan", "'--seconds': ... nan is not finite"),
    ("tasks renew pull a --seconds -1", "'--seconds': ... -1.0 is not in the range 0<=x<="),
    ("tasks lease pull --seconds 800000", "'--seconds': ... the maximum is 7 d"),
    ("tasks lease pull --seconds 9d", "'--seconds': ... \"9d\" is not a valid duration: the"),
    ("tasks lease pull --max 1001", "'--max': ... 1001 is not in the range 1<=x<=1000"),
    ("wait --timeout soon", "'--timeout': ... \"soon\" is not a valid duration: use seconds, or"),
    ("requests --status 5x", "'--status': ... \"5x\" is not a valid status: use one such as 404"),
    ("queues --interval 0", "'--interval': ... 0.0 is not in the range x>=0.1"),
    ("faults add fail lease_task", "'[CALL]': ... \"lease_task\" does not exist: did you mean"),
    ("faults add fial add", '\'KIND\': ... "fial" does not exist: did you mean "fail"?'),
    ("faults add fail add --error Oops", "'--error': ... \"Oops\" does not exist: use one of D"),
    ("faults add", "Missing argument 'KIND'. Choose from:\n    " + ",\n    ".join(KINDS)),
    ("requests abc", '"abc" is not a valid request number: use one that `pullqueue requests`'),
    ("tasks add push", "pass a PAYLOAD or --file, or for a push task --request"),
    ("tasks delete pull", ""),
    ("tasks delete pull --all", "there is no option `--all`: use `pullqueue queues purge`\n"),
    ("tasks add pull x --delay 1h", "there is no option `--delay`: use --countdown\n"),
    ("tasks lease pull --count 2", "there is no option `--count`: use --max\n"),
    ("tasks add push --url /mail", 'by --request, as in --request "POST /mail"\n'),
    # These would lead to other routes.
    ("queues list ''", '"" is not a valid name of a queue or task\n'),
    ("tasks list a/b", '"a/b" is not a valid name'),
    ("tasks get pull ''", '"" is not a valid name'),
    ("tasks renew pull a/b", '"a/b" is not a valid name'),
    # A clock never goes back, and what begins with a minus is not taken for an option.
    *(
        (f"clock advance {span}", f'BY is "{span} ... and a clock never goes back: use')
        for span in ("-5s", "-1.5", "-7d")
    ),
    (f"clock advance {'9' * 400}", f'pullqueue: BY is "{"9" * 50}'),
    ("clock advance long", 'pullqueue: BY is "long'),
    ("--nope", ""),
    ("queus", "\n\npullqueue: there is no command `queus`: did you mean `queues`?\n"),
    ("rules", "there is no command `rules`: use `pullqueue explain --list`"),
    ("frobnicate", "`frobnicate`: `pullqueue --help` lists the commands\n"),
    ("snapshot sve x", "there is no command `sve`: did you mean `save`?"),
    ("tasks frobnicate", "there is no command `frobnicate`: `pullqueue tasks --help` lists"),
    ("requests --limt 3", "there is no option `--limt`: did you mean `--limit`?"),
    ("queues --frobnicate", "no option `--frobnicate`: `pullqueue queues list --help`"),
    ("tasks list --state exhaust", '"exhaust" does not exist: did you mean "exhausted"?'),
    ("serve --clock manul", '"manul" does not exist: did you mean "manual"?'),
    ("lint --format jso", '"jso" does not exist: did you mean "json"?'),
]
"""What is written, and what the error has, in parts."""


def test_wrong_usage_is_refused_before_the_server_is_asked(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULLQUEUE_EMULATOR_HOST", "127.0.0.1:9")
    for order, message in WRONG_USAGE:
        done = run(order)
        assert done.status == 2, order
        assert all(part in done.err for part in message.split(" ... ")), done.err


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("credentials nobody", 'email is "nobody": use an address such as worker@example.com'),
        ("clock move-to yesterday", 'move_to is "yesterday", which is not a valid time: use one s'),
        ("clock move-to -5s", 'move_to is "-5s", which is not a valid time: use one such as'),
        ("tasks add pull x --countdown 1e300", "countdown: 1e+300 is not a valid duration"),
    ],
)
def test_a_value_that_the_server_refuses_is_wrong_usage(run: Run, order: str, message: str) -> None:
    done = run(order)

    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"pullqueue: {message}")
    assert done.err.count("\n") == 1


def test_what_the_state_of_the_server_forbids_is_not_wrong_usage(
    run: Run, emulator: Emulator
) -> None:
    emulator.queue("pull").add(name="a")

    for order in ("clock advance 999999999999999", "tasks renew pull a", "tasks lease push"):
        assert run(order).status == 1
    assert run("wait --empty ''").err.endswith(
        'pullqueue: "" is not a valid name of a queue or task\n'
    )


@pytest.mark.parametrize(
    ("order", "seconds"),
    [
        ("tasks lease pull --seconds 1h", 3600),
        ("tasks lease pull --seconds 1.5min", 90),
        ("tasks lease pull --seconds 60", 60),
        ("tasks renew pull a --seconds 2d", 172_800),
        ("tasks add pull x --name b --countdown 2m", 120),
        ("clock advance 1h", 3600),
    ],
)
def test_durations_are_the_same_everywhere(
    run: Run, emulator: Emulator, order: str, seconds: int
) -> None:
    start = emulator.clock.now()
    queue = emulator.queue("pull")
    queue.add(name="a")
    if "renew" in order:
        queue.lease_tasks(60, 1)

    assert run(order).status == 0

    etas = [task.eta for task in queue.list_tasks()]
    assert (max(*etas, emulator.clock.now()) - start).total_seconds() == seconds


def test_a_full_disk_is_reported_in_one_line(server: Server) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [Path(sys.executable).with_name("pullqueue"), "queues", "--url", server.url],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 3
    assert done.stderr == "pullqueue: the output cannot be written: no space left on device\n"


def test_watch_repeats_the_statistics_until_ctrl_c(server: Server) -> None:
    order = ["queues", "--watch", "--interval", "0.1", "--json", "--url", server.url]
    with subprocess.Popen(
        [forked("pullqueue"), *order], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        shown = (line for line in process.stdout if '"queues"' in line)
        assert len(list(islice(shown, 3))) == 3
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


INTERRUPTING = """
import atexit, os, signal, sys

def press(*_):
    os.kill(os.getpid(), signal.SIGINT)

class Finder:
    def find_spec(self, name, *_):
        if name == "pullqueue.cli{name}":
            {how}

sys.meta_path.insert(0, Finder())
"""
IN_A_CLASS = 'type("Owner", (), {"it": type("Property", (), {"__set_name__": press})()})'


@pytest.mark.parametrize(
    ("name", "how", "status"),
    [
        ("", "press()", 130),
        (".serve", "press()", 130),
        (".serve", IN_A_CLASS, 130),
        (".serve", "atexit.register(press); press()", -signal.SIGINT),
    ],
)
def test_ctrl_c_ends_a_command_quietly_while_it_is_imported(
    tmp_path: Path, name: str, how: str, status: int
) -> None:
    """A second one ends what the process does at its end."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTING.format(name=name, how=how))
    command = [sys.executable, "-m", "pullqueue", "serve", "--port", "0"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr.strip()) == (status, "", "")


def test_the_summary_of_each_command_is_whole(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lists of commands show no sentence that breaks off, on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = [
        run(f"{group} --help").out.partition("--help ")[2].splitlines()
        for group in ("", "queues", "tasks", "faults", "snapshot", "cron", "clock")
    ]

    assert all(shown)
    assert [line for lines in shown for line in lines if line.endswith("...")] == []


def test_help_shows_what_the_option_shows_of_any_command(run: Run) -> None:
    assert run("help").out == run("--help").out
    assert run("help tasks list").out == run("tasks list --help").out
    assert run("help tasks nope").status == run("help nope").status == 2
    assert "did you mean `tasks`?" in run("help task").err
    assert run("-V").out == run("--version").out
    sections = [line for line in run("help").out.splitlines() if line and line[0] != " "][1:]
    assert sections == [
        "Options:",
        "Run an emulator:",
        "Queues, tasks and records of a running server:",
        "The running server itself:",
        "Check queue.yaml:",
        "Shell:",
    ]


def test_json_makes_an_error_one_object(run: Run) -> None:
    for order, status in {
        "tasks list nope": 1,
        "queues --url 127.0.0.1:9": 3,
        "queues --nope": 2,
    }.items():
        done = run(order, "--json")
        error = json.loads(done.err)["error"]
        assert done.status == error["exit_status"] == status
        assert error["message"] in run(order).err


def test_each_shell_gets_a_completion_script(run: Run) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_PULLQUEUE_COMPLETE" in run("completion", shell).out


# A completion ends without closing its connections.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_completion_offers_queues_and_tasks_of_the_server(
    run: Run, emulator: Emulator, offered: Callable[..., list[str]]
) -> None:
    emulator.queue("pull").add(name="task-1", tag="books")
    emulator.queue("pull").add(tag="books")
    run("faults add fail purge")

    assert offered("tasks", "list", "") == ["plain,pull", "plain,other", "plain,push"]
    assert offered("tasks", "get", "pull", "ta") == ["plain,task-1"]
    assert offered("tasks", "requeue", "pull", "") == [""]
    for command in ("list", "lease", "delete", "release"):
        assert offered("tasks", command, "pull", "--tag", "b") == ["plain,books"]
    assert offered("tasks", "requeue", "pull", "--tag", "") == [""]
    assert offered("faults", "remove", "") == ["plain,1"]
    assert offered("tasks", "get", "a/b", "") == [""]
    assert offered("he") == ["plain,help"]
