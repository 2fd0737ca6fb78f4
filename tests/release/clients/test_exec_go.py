"""`pullqueue exec`: programs on App Engine's Go package."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from executing import QUEUE_YAML, forked_exec
from programs import completed, go_program, running
from served import free_port
from urllib3 import PoolManager, Retry

HERE = Path(__file__).parent
SAMPLE = HERE.parents[2] / "samples" / "go_worker"


def built(folder: Path, source: Path) -> Path:
    package = "google.golang.org/appengine"
    return go_program(source, folder, package, debian="golang-google-appengine-dev")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "queue.yaml").write_text(QUEUE_YAML)
    return tmp_path


def execute(folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = completed([*forked_exec(), *arguments], cwd=folder)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("go"), HERE / "go")


def test_go_programs_make_all_calls_for_pull_queues(app: Path, folder: Path) -> None:
    status, output, errors = execute(folder, "--no-lease-rate-limit", "--", str(app), "calls")

    assert status == 0, errors
    reported = json.loads(output)
    (over,), (unknown,) = reported.pop("lease that is over"), reported.pop("unknown queue")
    assert over.startswith("API error 11 (taskqueue: TOMBSTONED_TASK): ")
    assert unknown.startswith('API error 1 (taskqueue: UNKNOWN_QUEUE): queue "pul" is not in ')
    assert reported == {
        "added": "mine",
        "taken": ["taskqueue: task has already been added", "<nil>"],
        "generated": 16,
        "leased by tag": ["two"],
        "leased by oldest tag": ["one"],
        "extended": True,
        "leased": ["two"],
        "retry count": 2,
        "in flight": 1,
        "deleted": ["<nil>", "API error 14 (taskqueue: UNKNOWN_TASK)"],
        "left": 0,
        "app": ["my-app", "default", "1.1", "0"],
    }
    listening, *_, line = errors.splitlines()
    assert listening.startswith("pullqueue listening on ")
    assert line.endswith(" INFO: a line of the log")


def test_handlers_under_appengine_main_use_the_queues(app: Path, folder: Path) -> None:
    port = free_port()
    with running(*forked_exec(), "--", app, cwd=folder, PORT=str(port)) as process:
        retries = Retry(connect=10, backoff_factor=0.05)
        with PoolManager(retries=retries) as client:
            url = f"http://127.0.0.1:{port}"
            answers = [client.request("GET", url + path).data for path in ("/one", "/two")]
        process.terminate()
        _, errors = process.communicate(timeout=60)

    assert answers == [b"1\n", b"2\n"]
    lines = errors.splitlines()
    log = [line.split(" ", 2)[2] for line in lines if "a request" in line]
    assert log == ["INFO: a request"] * 2
    assert lines[-1] == "pullqueue: 2 tasks were left and are deleted with this server"


def test_the_worker_of_the_sample_counts_words(folder: Path) -> None:
    words = shlex.quote(str(built(folder, SAMPLE)))
    commands = f"{words} add 'to be or not to be' && {words} add $'\\xff' && {words} work"

    status, output, errors = execute(
        folder, str(SAMPLE / "queue.yaml"), "--", "bash", "-c", commands
    )

    counts, *unreadable = output.splitlines()
    assert status == 0, errors
    assert json.loads(counts) == {"be": 2, "not": 1, "or": 1, "to": 2}
    assert [line.split(", ")[1] for line in unreadable] == ["time 1", "time 2", "time 3"]


def test_a_datastore_that_python_shares(folder: Path) -> None:
    """Transactions at the same time, their tasks, queries and memcache; both see the same app."""
    show = (
        "from google.appengine.ext import ndb; print([*map(str, ndb.Query().iter(keys_only=True))])"
    )
    python = shlex.join([sys.executable, "-W", "ignore", "-c", show])
    program = shlex.quote(str(built(folder, HERE / "go_datastore")))

    status, output, errors = execute(folder, "--", "bash", "-c", f"{program} && {python}")

    assert status == 0, errors
    reported, keys = output.splitlines()
    assert json.loads(reported) == {
        "app": "dev~my-app",
        "orders": [{"Item": "tea", "Count": 9}],
        "failed": "rolled back",
        "tasks": 1,
        "payload": "tea",
        "memcache": "1",
    }
    assert keys == "[\"Key('Order', 'tea')\"]"
