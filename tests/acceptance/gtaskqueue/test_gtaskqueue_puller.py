"""`gtaskqueue_puller` against a running server.

It looks after real processes, which no clock ends: so it works in real time, and these tests wait
for what it does, by short programs of the shell and short intervals.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from forking import forked
from push_app import push_app, until

from pullqueue import NewTask, Queue, TransientError
from pullqueue.cli.gtaskqueue import gtaskqueue_puller
from pullqueue.engine.events import EventKind
from pullqueue.server.lifecycle import Server
from pullqueue.testing import Faults

UPPER = 'tr a-z A-Z < "$1" > "$2"'

Pull = Callable[..., Result]


@pytest.fixture
def pull(queue_flags: list[str]) -> Iterator[Pull]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def pull(program: str, *more: str) -> Result:
        binary = f"--executable_binary={shell(program)}"
        pace = ("--sleep_before_next_poll_secs=0.05", "--sleep_interval_secs=0.1")
        return CliRunner().invoke(
            gtaskqueue_puller, [*queue_flags, binary, *pace, "--exit_when_empty", *more]
        )

    yield pull
    for number, handler in handlers.items():
        signal.signal(number, handler)


def shell(program: str) -> str:
    """Return the command of a program of the shell, whose arguments are $1 and $2."""
    return shlex.join(["sh", "-c", program, "sh"])


def meet(folder: Path, count: int) -> str:
    """Return a program that makes a file and ends when there are so many."""
    return f"cd {folder} && touch $$ && until [ $(ls | wc -l) -ge {count} ]; do sleep 0.02; done"


def test_a_program_for_each_task(pull: Pull, queue: Queue, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    for place in range(10):
        queue.add(f"work {place}", name=f"n{place}")

    with push_app() as app:
        url = f"--output_url={app.url}/done?name="
        pull(UPPER, url, f"-appengine_access_token_file={tmp_path / 'token'}")

    assert queue.list_tasks() == []
    posted = {one.path: one for one in app.received}
    assert len(posted) == len(app.received) == 10
    for place in range(10):
        one = posted[f"/done?name=n{place}"]
        assert (one.method, one.body) == ("POST", f"WORK {place}".encode())
        assert one.headers["Content-Type"] == "byte-array"
        assert one.headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("program", "flag"),
    [
        ("exit 1", ""),
        ("exec sleep 60", "--task_timeout_secs=0.3"),
        ("", "--executable_binary=./program"),
        (UPPER, "--output_url={}/status/500/"),
    ],
    ids=["fails", "takes too long", "cannot be started", "its output is refused"],
)
def test_the_task_of_a_failed_program_stays_leased(
    pull: Pull, queue: Queue, folder: Path, program: str, flag: str
) -> None:
    (folder / "program").touch(mode=0o755)
    queue.add(b"work", name="a")

    with push_app() as app:
        done = pull(program, *flag.format(app.url).split())

    assert done.exit_code == 0
    assert app.paths() == (["/status/500/a"] if "output" in flag else [])
    assert queue.get_task("a").retry_count == 1


def test_a_lease_is_extended_as_long_as_its_program_runs(
    pull: Pull, queue: Queue, tmp_path: Path
) -> None:
    queue.add(b"work", name="a")

    def kinds() -> list[str]:
        return [event.kind.value for event in queue.history("a")]

    def end_it() -> None:
        until(lambda: kinds().count("extended") > 1)
        (tmp_path / "end").touch()

    with ThreadPoolExecutor(1) as executor:
        ended = executor.submit(end_it)
        pull(meet(tmp_path, 2), "--lease_secs=2", "--sleep_before_next_poll_secs=60")
        ended.result()

    assert queue.list_tasks() == []
    assert kinds()[:3] == ["added", "leased", "extended"]
    assert kinds().count("leased") == 1


def test_a_lease_that_was_lost(pull: Pull, queue: Queue, tmp_path: Path) -> None:
    """A task that is leased again is not given to a second program, and its lease is extended."""
    queue.add(b"work", name="a")

    def take_away() -> None:
        until(lambda: queue.get_task("a").retry_count == 1)
        queue.modify_task_lease(queue.get_task("a"), 0)
        until(lambda: queue.history("a")[-1].kind is EventKind.EXTENDED)
        (tmp_path / "done").touch()

    with ThreadPoolExecutor(1) as executor:
        taken = executor.submit(take_away)
        pull(meet(tmp_path, 2), "--num_tasks=2", "--min_running_tasks=1", "--lease_secs=2")
        taken.result()

    assert queue.list_tasks() == []
    assert len(list(tmp_path.iterdir())) == 2


def test_as_many_programs_as_asked_for_run_side_by_side(
    pull: Pull, queue: Queue, tmp_path: Path
) -> None:
    queue.add_many([NewTask()] * 4)

    pull(meet(tmp_path, 4), "--num_tasks=4")

    assert queue.list_tasks() == []


THREE_TASKS = """
    name=$(cat "$1")
    [ $name != third ] || touch {file}
    [ $name != second ] || timeout {seconds} sh -c 'until [ -e {file} ]; do sleep 0.02; done'
    exit 0
"""
"""The second of three waits for the third, but not forever; there is room for two."""


@pytest.mark.parametrize(
    ("flag", "seconds"),
    [
        ("", 0.5),
        ("--min_running_tasks=1", 60),
        ("--timeout_secs_for_next_lease_request=0.1", 60),
    ],
)
def test_tasks_are_leased_once_programs_have_ended(
    pull: Pull, queue: Queue, tmp_path: Path, flag: str, seconds: float
) -> None:
    """All, or so many that few enough are left, or one long enough ago."""
    for name in ("first", "second", "third"):
        queue.add(name, name=name)

    program = THREE_TASKS.format(file=str(tmp_path / "third"), seconds=seconds)
    pull(program, "--num_tasks=2", *flag.split())

    events = [(event.task_name, event.kind) for event in queue.events()]
    leased, deleted = ("third", EventKind.LEASED), ("second", EventKind.DELETED)
    assert (events.index(deleted) < events.index(leased)) == (seconds < 60)


def test_no_task_is_leased_without_room_for_it(
    pull: Pull, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """A lease of 0 tasks is refused, and that would be logged."""
    queue.add(b"work")

    pull("sleep 0.3", "--num_tasks=1", "--min_running_tasks=1")

    assert caplog.messages == []


def test_an_empty_queue_is_asked_again_after_an_interval(
    pull: Pull, server: Server, queue: Queue
) -> None:
    queue.add(b"work")

    pull("sleep 1", "--num_tasks=2", "--min_running_tasks=1", "--sleep_interval_secs=0.5")

    methods = [each.method for each in server.state.requests.latest()]
    assert 2 <= methods.count("tasks.lease") <= 6  # with the first, and one that ends it


def test_after_two_deletions_the_next_lease_waits_as_long_as_these_two_may_take(
    pull: Pull, queue: Queue
) -> None:
    queue.add_many([NewTask()] * 3)

    pull("", "--num_tasks=2", "--taskapi_requests_per_sec=4")

    leases = [event.usec for event in queue.events() if event.kind is EventKind.LEASED]
    assert leases[2] - leases[0] >= 500_000


def test_a_log_file_gets_what_goes_wrong(
    queue: Queue, queue_flags: list[str], tmp_path: Path
) -> None:
    queue.add(b"work", name="a")
    file = tmp_path / "puller.log"
    program = [f"--executable_binary={shell('exit 3')}", "--sleep_before_next_poll_secs=0.05"]

    done = subprocess.run(
        [
            forked("gtaskqueue_puller"),
            *queue_flags,
            *program,
            f"-log_output_file={file}",
            "-exit_when_empty",
        ],
        capture_output=True,
        check=True,
        timeout=60,
    )

    assert done.stderr == b""
    assert file.read_text().endswith(
        " - pullqueue.gtaskqueue - WARNING - task a: the program ended with status 3\n"
    )


def test_a_signal_ends_programs_and_releases_their_tasks(
    queue: Queue, queue_flags: list[str]
) -> None:
    queue.add(b"work", name="a")
    sleeper = "--executable_binary=sh -c 'exec sleep 60'"
    with subprocess.Popen(
        [forked("gtaskqueue_puller"), *queue_flags, sleeper, "--lease_secs=600"],
        stderr=subprocess.PIPE,
    ) as process:
        try:
            until(lambda: queue.get_task("a").retry_count == 1)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)

    assert process.returncode == 0
    assert [event.kind.value for event in queue.history("a")][-1] == "released"


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--executable_binary", "/nowhere", 'program "/nowhere" is not found'),
        ("--executable_binary", "", 'program "" is not found'),
        ("--executable_binary", "cat 'x", '"cat \'x": No closing quotation'),
        ("--lease_secs", "0", "0 is not in the range x>=1"),  # to extend it releases the task
    ],
)
def test_a_value_that_is_not_valid_is_refused_before_a_lease(
    queue: Queue, queue_flags: list[str], flag: str, value: str, message: str
) -> None:
    queue.add(b"work", name="a")

    done = CliRunner().invoke(gtaskqueue_puller, [*queue_flags, f"{flag}={value}"])

    assert done.exit_code == 2
    assert f"Error: Invalid value for '{flag}': {message}" in done.stderr
    assert queue.get_task("a").retry_count == 0


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("--taskqueue_name=pul", 'queue "pul" is not in '),
        ("--api_host=http://127.0.0.1:9", "no pullqueue responds at "),
    ],
)
def test_no_queue_to_empty(pull: Pull, flag: str, reason: str) -> None:
    """With --exit_when_empty a queue that cannot be asked is an error, not a reason to wait."""
    done = pull("", flag)

    assert done.exit_code == 1
    assert reason in done.stderr


@pytest.mark.parametrize(
    ("verb", "seconds", "flag", "logged", "left"),
    [
        ("lease_tasks", 1, "--num_tasks=2", "no task could be leased: ", 0),
        ("modify_task_lease", 1.5, "--lease_secs=1", "task a: the lease is not extended: ", 0),
        ("delete_tasks", 0, "--lease_secs=60", "task a: is done, but not deleted: ", 1),
    ],
)
def test_the_work_goes_on_after_failures_of_the_server(
    pull: Pull,
    server: Server,
    queue: Queue,
    caplog: pytest.LogCaptureFixture,
    *,
    verb: str,
    seconds: float,
    flag: str,
    logged: str,
    left: int,
) -> None:
    queue.add(b"work", name="a")
    after = 1 if verb == "lease_tasks" else 0
    Faults(server.emulator).fail(verb, TransientError, after=after, times=1)

    pull(f"sleep {seconds}", "--min_running_tasks=1", flag)

    assert len(queue.list_tasks()) == left
    assert [line for line in caplog.messages if line.startswith(logged)]
