"""The container image and the compose sample, checked without a container engine: the commands they
hold are run as they stand, and the sample's programs work together.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import yaml

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "samples" / "compose"
PROGRAM = Path(sys.executable).with_name("pullqueue")
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


def compose() -> dict[str, Any]:
    """Give the services of the compose file."""
    document = yaml.safe_load((SAMPLE / "compose.yaml").read_text("utf-8"))
    return dict(document["services"])


def listed(pattern: str) -> list[str]:
    """Give the one list in the Dockerfile that stands behind a pattern."""
    (found,) = re.findall(rf"{pattern} (\[.*\])$", DOCKERFILE, re.MULTILINE)
    return [str(argument) for argument in json.loads(found)]


def here(arguments: list[str]) -> list[str]:
    """Give the arguments of a container as they must be on this machine: file and port."""
    places = {"/etc/pullqueue/queue.yaml": str(SAMPLE / "queue.yaml")}
    return [places.get(argument, argument) for argument in arguments]


@contextmanager
def running(*command: str | Path, **environment: str) -> Iterator[tuple[Any, str]]:
    """Run a program and give it, with the first line it prints."""
    with subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield (
                process,
                process.stdout.readline() if "picture_worker.py" not in str(command) else "",
            )
        finally:
            process.terminate()


def test_the_image_s_command_and_health_check() -> None:
    """The server starts by the image's command, and its health check finds it well, then gone."""
    command = here(listed("^CMD"))
    with running(PROGRAM, *command, "--port", "0") as (_, line):
        url = line.split()[-1]
        check = listed(r"^HEALTHCHECK .*\\\n\s+CMD")
        health = [argument.replace("http://127.0.0.1:8124", url) for argument in check]
        well = subprocess.run([PROGRAM, *health[1:]], check=False)
    gone = subprocess.run([PROGRAM, *health[1:-1], "0"], check=False, stderr=subprocess.DEVNULL)

    assert health[0] == "pullqueue"
    assert (well.returncode, gone.returncode) == (0, 1)


def test_the_image_does_not_run_as_root() -> None:
    """It has a user of its own, known by number, and takes nothing but the sources along."""
    assert re.search(r"^USER [1-9]\d+$", DOCKERFILE, re.MULTILINE)
    assert listed("^ENTRYPOINT") == ["pullqueue"]
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert ignored[0] == "*"
    for kept in (line[1:] for line in ignored if line.startswith("!")):
        assert (ROOT / kept).exists(), kept


def test_app_and_worker_of_the_compose_file() -> None:
    """What is posted to the app is done by the worker; both find the server by its name."""
    services = compose()
    assert services["app"]["environment"] == {"PULLQUEUE_EMULATOR_HOST": "pullqueue:8124"}
    assert services["app"]["depends_on"]["pullqueue"]["condition"] == "service_healthy"
    with running(PROGRAM, *here(services["pullqueue"]["command"]), "--port=0") as (_, line):
        url = line.split()[-1]
        by_name = Request(f"{url}/_emulator/ready", headers={"Host": "pullqueue:8124"})  # noqa: S310
        with urlopen(by_name, timeout=10) as answer:  # noqa: S310
            assert answer.status == 200
        where = {"PULLQUEUE_EMULATOR_HOST": url.removeprefix("http://")}
        with (
            running(sys.executable, SAMPLE / "picture_app.py", PORT="0", **where) as (_, said),
            running(sys.executable, "-u", SAMPLE / "picture_worker.py", **where) as (worker, _),
        ):
            port = said.split()[-1]
            post = Request(f"http://127.0.0.1:{port}/", b"resize cat.png")
            with urlopen(post, timeout=10) as answer:  # noqa: S310
                name = answer.read().decode().split()[1]
            assert worker.stdout.readline() == f"{name}: RESIZE CAT.PNG\n"
            done = subprocess.run(
                [PROGRAM, "wait", "--url", url, "--empty", "pictures"], check=False
            )
            assert done.returncode == 0


def test_the_unit_of_systemd() -> None:
    """It waits for the server's word, reloads by the signal, and starts a command that exists."""
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # as the library documents it
    unit.read(ROOT / "samples" / "systemd" / "pullqueue.service")
    service = unit["Service"]
    command = here(service["ExecStart"].split()[1:])

    assert service["Type"] == "notify"
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    with running(PROGRAM, *command, "--port", "0") as (_, line):
        assert line.startswith("pullqueue listening on ")
