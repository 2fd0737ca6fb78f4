"""The samples do what they show."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from documents import blocks_of
from executing import call, forked_exec, forked_python
from forking import forked
from programs import completed, running
from push_app import until
from served import free_port, serving

SAMPLES = Path(__file__).parents[2] / "samples"
DOCUMENTED = (
    (SAMPLES.parent / "docs" / name).read_text("utf-8")
    for name in ("tutorials/samples.md", "how-to/containers.md")
)
SHOWN = "\n".join(DOCUMENTED)


def test_every_sample_is_shown() -> None:
    names = [path.name for path in SAMPLES.iterdir()]

    assert [n for n in names if f"`{n}`" not in SHOWN or f"/samples/{n}/" not in SHOWN] == []


@pytest.mark.parametrize(("folder", "tests"), [("pytest_suite", 18), ("counter", 2), ("shop", 6)])
def test_the_tests_of_a_sample_pass(tmp_path: Path, folder: str, tests: int) -> None:
    copy = shutil.copytree(SAMPLES / folder, tmp_path / folder)
    only_ours = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_pullqueue.plugin"}

    done = completed(
        [forked("pytest"), "-p", "no:cacheprovider"], cwd=copy, env={**os.environ, **only_ours}
    )

    assert f" {tests} passed" in done.stdout, done.stdout
    assert done.returncode == 0


def test_the_quickstart_shows_the_lifecycle_of_a_task() -> None:
    done = completed(
        [sys.executable, "-W", "error", SAMPLES / "quickstart" / "quickstart.py"], check=True
    )

    assert done.stdout.splitlines() == [
        "leased parse1, parse2, render1",
        "left for others: 0",
        "leased again: render1, lease 2",
        "too late: True",
        "exhausted: ['render1']",
        "expired leases: 3",
        "tasks left: 0",
    ]


def test_the_puller_runs_its_program_for_each_task(tmp_path: Path) -> None:
    program = f"{sys.executable} {SAMPLES / 'puller' / 'count_words.py'}"
    with (
        serving("queue.yaml", folder=SAMPLES / "puller") as served,
        running(
            *(sys.executable, SAMPLES / "puller" / "results.py"),
            stderr=subprocess.DEVNULL,
            PORT="0",
        ) as results,
    ):
        assert results.stdout is not None
        port = results.stdout.readline().split()[-1]
        here = {**os.environ, "PULLQUEUE_EMULATOR_HOST": served.url.removeprefix("http://")}
        for name, text in (("hamlet", "to be or not to be"), ("lear", "nothing will come")):
            add = [forked("pullqueue"), "tasks", "add", "texts", text, "--name", name]
            completed(add, env=here, check=True)
        subprocess.run(
            [
                *(forked("gtaskqueue_puller"), "--project=my-app", "--taskqueue_name=texts"),
                *(f"--executable_binary={program}", "--num_tasks=1", "--exit_when_empty"),
                "--sleep_before_next_poll_secs=0.05",
                f"--output_url=http://127.0.0.1:{port}/done?name=",
            ],
            cwd=tmp_path,
            env=here,
            check=True,
            timeout=60,
        )
        printed = [results.stdout.readline(), results.stdout.readline()]

    assert printed == [
        'hamlet: {"be": 2, "not": 1, "or": 1, "to": 2}\n',
        'lear: {"come": 1, "nothing": 1, "will": 1}\n',
    ]


def test_what_the_samples_write_is_ignored(tmp_path: Path) -> None:
    shutil.copy(SAMPLES.parent / ".gitignore", tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    written = ["counter/counts.sqlite", "go_worker/words", "rest_worker/key.json"]
    paths = [f"samples/{path}" for path in written]

    done = completed(["git", "-C", tmp_path, "check-ignore", *paths])

    assert done.stdout.splitlines() == paths


def test_the_counter_and_its_workers_share_a_queue(tmp_path: Path) -> None:
    folder, port = Path(shutil.copytree(SAMPLES / "counter", tmp_path / "counter")), free_port()
    app = f"http://127.0.0.1:{port}"
    command = (*forked_exec(), "--", *forked_python())
    with running(*command, "main.py", cwd=folder, PORT=str(port)) as web:
        assert web.stderr is not None
        listening = next(line for line in web.stderr if "pullqueue listening on " in line)
        until(lambda: call(app) is not None)
        for worker in ("worker.py", "rest_worker.py"):
            for thing in ("tea", "coffee", "tea"):
                call(f"{app}/votes/{thing}", "POST")
            address = listening.strip().rpartition("/")[2]
            with running(*command, worker, cwd=folder, PULLQUEUE_EMULATOR_HOST=address) as working:
                assert working.stdout is not None
                counted = [working.stdout.readline().strip() for _ in range(2)]
            assert counted == ["tea: 2", "coffee: 1"]
        assert call(app) == {"coffee": 2, "tea": 4}


def test_the_shop_mails_and_invoices_an_order(tmp_path: Path) -> None:
    folder, port = Path(shutil.copytree(SAMPLES / "shop", tmp_path / "shop")), free_port()
    start, order = [b.text for b in blocks_of(folder / "README.md") if b.language == "console"]
    command = start.removeprefix("$ ").replace("8124", "0").replace("8080", str(port))
    app = f"http://127.0.0.1:{port}"
    folders = {str(Path(forked(name)).parent) for name in ("pullqueue", "python")}
    path = os.pathsep.join([*folders, os.environ["PATH"]])
    with running(
        *shlex.split(command),
        cwd=folder,
        stderr=subprocess.DEVNULL,
        PATH=path,
        PORT=str(port),
        PYTHONWARNINGS="ignore",
    ) as process:
        until(lambda: call(app) or process.poll() is not None)
        assert call(f"{app}/orders/tea", "POST") == f"{order.splitlines()[1]}\n"
        until(lambda: call(app)["orders"][0]["mails"] and call(app)["sold"])
        state = call(app)

    assert state == json.loads(order.splitlines()[-1])
    assert process.returncode == 128 + signal.SIGTERM
