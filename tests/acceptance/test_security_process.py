"""What docs/explanation/security.md says of the process itself: what it listens to, what it runs.

Python reports each program that is started, and each port that is opened, to an audit hook.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from executing import QUEUE_YAML
from forking import forked
from linting import committed
from programs import completed
from served import serve_here

NOTING = """
import json, sys
noted = []
def note(event, arguments):
    if event in ("os.system", "os.exec", "os.posix_spawn"):
        noted.append([event, [str(arguments)]])
    if event == "subprocess.Popen":
        noted.append([event, [str(argument) for argument in arguments[1]]])
    if event == "socket.bind":
        noted.append([event, [str(arguments[1])]])
sys.addaudithook(note)
"""
TELLING = "\nprint(json.dumps(noted))\n"
WITHOUT_A_SERVER = """
import pytest, warnings
warnings.simplefilter("ignore")
from google.appengine.api import taskqueue
from pullqueue import Emulator, config
from pullqueue.stores import open_store
from pullqueue.sdk import install
emulator = Emulator.from_file("queue.yaml", store=open_store("sqlite:///tasks.db"))
with install(emulator):
    taskqueue.Queue("pull").add(taskqueue.Task(payload="x", method="PULL"))
    assert len(taskqueue.Queue("pull").lease_tasks(60, 1)) == 1
emulator.close()
config.load("queue.yaml")
assert pytest.main(["-q", "-p", "no:cacheprovider", "test_fixtures.py"]) == 0
"""
TEST = """
import requests

def test_all(pullqueue_clock, pullqueue_sdk, pullqueue_responses, pullqueue_faults):
    root = "https://www.googleapis.com/taskqueue/v1beta2/projects/p/taskqueues/pull"
    assert requests.get(root).status_code == 200

def test_server(pullqueue_server): pass
"""
LINTING = """
from pullqueue.cli import main
main(["lint", "--fix", "."])
"""
COMPARING = """
from pullqueue.cli import main
main(["lint", "--against", "HEAD", "queue.yaml"])
"""


def noted_in(program: str, folder: Path) -> list[tuple[str, list[str]]]:
    # Loading all plugins would take longer than all that is looked at.
    fixtures = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_pullqueue.plugin"}
    done = completed(
        [forked("python-program"), "-c", f"{NOTING}{program}{TELLING}"],
        check=True,
        cwd=folder,
        env={**os.environ, **fixtures},
    )
    return [(event, arguments) for event, arguments in json.loads(done.stdout.splitlines()[-1])]


def test_nothing_but_a_server_listens(app_folder: Path) -> None:
    (app_folder / "test_fixtures.py").write_text(TEST)

    noted = noted_in(WITHOUT_A_SERVER, app_folder)

    (address,) = {arguments[0] for event, arguments in noted if event == "socket.bind"}
    assert address.startswith("('127.0.0.1', ")


@pytest.mark.usefixtures("app_folder")
def test_serving_listens_to_one_port_of_this_machine() -> None:
    """All interfaces of a server are on the one port, which other machines cannot reach."""
    before = listening()

    _, (url, during) = serve_here(use=lambda url: (url, listening()))

    port = int(url.rpartition(":")[2])
    assert during - before == {f"0100007F:{port:04X}"}


def listening() -> set[str]:
    """Return the addresses at which this process listens."""
    names = {path.readlink().name for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    files = [Path("/proc/net", name).read_text("ascii") for name in ("tcp", "tcp6")]
    table = [line.split() for text in files for line in text.splitlines()[1:]]
    return {line[1] for line in table if line[3] == "0A" and f"socket:[{line[9]}]" in names}


@pytest.fixture
def repository(app_folder: Path) -> Path:
    """Return a git repository whose files are called like options and commands."""
    committed(
        *("--output=x queue.yaml", "$(touch was-here)-queue.yaml"),
        ";touch was-here;queue.yaml",
        text=QUEUE_YAML,
    )
    return app_folder


def test_the_linter_runs_no_program(repository: Path) -> None:
    assert noted_in(LINTING, repository) == []
    assert not (repository / "was-here").exists()


def test_the_linter_compares_by_reading_objects(repository: Path) -> None:
    commands = [command for _, command in noted_in(COMPARING, repository)]

    assert {command[0] for command in commands} == {"git"}
    assert all({"rev-parse", "cat-file"} & set(command) for command in commands)
