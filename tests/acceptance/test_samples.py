"""The samples do what they show."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from programs import completed, running
from served import serving

SAMPLES = Path(__file__).parents[2] / "samples"
DOCUMENTED = (
    (SAMPLES.parent / "docs" / "how-to" / name).read_text("utf-8")
    for name in ("samples.md", "containers.md", "team.md")
)
SHOWN = "\n".join(DOCUMENTED)
SCRIPTS = Path(sys.executable).parent


@pytest.mark.parametrize("folder", sorted(path.name for path in SAMPLES.iterdir()))
def test_every_sample_is_shown(folder: str) -> None:
    """The documentation says of each sample what it is for, and shows something of it."""
    assert f"`{folder}`" in SHOWN
    assert f"/samples/{folder}/" in SHOWN


def test_quickstart() -> None:
    """The lifecycle of a task, from being added to being exhausted."""
    done = completed(
        [sys.executable, "-W", "error", SAMPLES / "quickstart" / "quickstart.py"], check=True
    )

    assert done.stdout.splitlines() == [
        "leased parse1, parse2, render1",
        "left for others: 0",
        "leased again: render1, time 2",
        "too late: True",
        "exhausted: ['render1']",
        "leases that ran out: 3",
        "tasks left: 0",
    ]


def test_the_puller(tmp_path: Path) -> None:
    """Google's puller runs the program for each task, posts what it made, and deletes the task."""
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
            add = ["tasks", "add", "texts", text, "--name", name]
            subprocess.run([SCRIPTS / "pullqueue", *add], env=here, check=True, capture_output=True)
        subprocess.run(
            [
                *(SCRIPTS / "gtaskqueue_puller", "--project=my-app", "--taskqueue_name=texts"),
                *(f"--executable_binary={program}", "--num_tasks=1", "--exit_when_empty"),
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
    """A checkout is clean after each sample was run in its folder."""
    shutil.copy(SAMPLES.parent / ".gitignore", tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    written = ["counter/counts.sqlite", "go_worker/words", "rest_worker/key.json"]
    paths = [f"samples/{path}" for path in written]

    done = completed(["git", "-C", tmp_path, "check-ignore", *paths])

    assert done.stdout.splitlines() == paths
