"""A real app with ndb in a process of its own, with the services of `exec` and `serve`."""

from __future__ import annotations

import random
import subprocess
from functools import partial
from pathlib import Path

import pytest
from executing import app_under_exec, call, forked_exec, forked_python, on_sdk
from forking import forked
from programs import completed, running
from push_app import until
from served import serving
from services_client import Client
from stores import LONG

from pullqueue.services.journal import Journal

APP = str(Path(__file__).parent / "orders.py")
web_app = partial(app_under_exec, Path(APP))
QUEUE_YAML = "queue:\n- {name: default, rate: 100/s}\n- {name: pull, mode: pull}\n"
KILLS = 30 if LONG else 1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "queue.yaml").write_text(QUEUE_YAML)
    return tmp_path


def test_a_folder_of_data_keeps_all_of_an_app(folder: Path) -> None:
    """Entities, and the tasks that were left; the app's crash in a transaction leaves neither."""
    with web_app(folder, "--data", "data") as (url, _, process):
        assert call(f"{url}/orders/tea", "POST") == ""
        until(lambda: call(url) == {"tea": 1})
        assert call(f"{url}/orders/coffee?crash", "POST") is None
        assert process.wait(60) == 128 + 9
    assert sorted(path.name for path in (folder / "data").iterdir()) == ["datastore.db", "tasks.db"]

    with web_app(folder, "--data", "data") as (url, *_):
        assert call(url).keys() == {"tea"}  # its mail is sent again if exec missed the response
        call(f"{url}/orders/coffee", "POST")
        until(lambda: call(url)["coffee"] == 1)


@pytest.mark.long
def test_kill_9_loses_nothing_that_was_acknowledged(folder: Path) -> None:
    """Of the server, and of the app: each order is there with its task, or neither is."""
    chance = random.Random(1)  # noqa: S311 - the time of a kill is not secret
    acknowledged: list[str] = []
    for turn in range(KILLS):
        with serving("--data", "data", folder=folder) as served:
            address = served.url.removeprefix("http://")
            under_exec = (*forked_exec(), "--url", address, "--", *forked_python(), APP)
            with running(
                *under_exec, "write", f"{turn}", cwd=folder, stderr=subprocess.DEVNULL
            ) as app:
                assert app.stdout is not None
                count = chance.randrange(20, 120) if LONG else 10
                acknowledged += [app.stdout.readline().strip() for _ in range(count)]
                served.kill()
                acknowledged += app.stdout.read().split()

    with serving("--data", "data", folder=folder) as served:
        address = served.url.removeprefix("http://")
        under_exec = (*forked_exec(), "--url", address, "--", *forked_python(), APP)
        checked = completed([*under_exec, "check"], cwd=folder)
    orders, tasks = (line.split() for line in checked.stdout.splitlines())

    assert set(acknowledged) <= set(orders), checked.stderr
    assert tasks == orders
    journal = Journal(folder / "data" / "datastore.db")
    assert journal.tasks() == []
    journal.close()


def test_a_command_deletes_the_data(folder: Path) -> None:
    with serving("--data", "data", folder=folder) as served:
        client, command = Client(served.url), (forked("pullqueue"), "reset", "--yes")
        client.put("a", 1)
        completed([*command, "--url", served.url], cwd=folder, check=True)
        assert client.get("a") == 1
        completed([*command, "--services", "--url", served.url], cwd=folder, check=True)
        assert client.get("a") is None
        second = completed([*command[:1], "serve", "--port", "0", "--data", "data"], cwd=folder)
        served.process.terminate()
        assert served.process.stdout is not None
        output = served.process.stdout.read()

    assert "Datastore and blobs are stored in data\n" in output
    assert f"Tasks are stored in sqlite:///{folder / 'data' / 'tasks.db'}\n" in output
    assert (second.returncode, second.stderr.count("\n")) == (3, 1), second.stderr
    assert 'data/datastore.db" is in use by another server: stop it' in second.stderr


def test_python_and_the_server_agree_on_the_project(folder: Path) -> None:
    show = (
        "from google.appengine.api.modules import *; from google.appengine.ext import ndb; "
        "print(get_current_module_name(), get_current_version_name(), get_current_instance_id()); "
        "print(ndb.Model(id=1).put())"
    )
    python = on_sdk(show)
    mine = completed([*forked_exec(), "--project", "mine", *python], cwd=folder)
    assert (mine.returncode, mine.stdout) == (0, "default 1 0\nKey('Model', 1)\n"), mine.stderr
    with serving("--project", "theirs", "--strict-project", folder=folder) as served:
        url = served.url.removeprefix("http://")
        refused = completed([*forked_exec(), "--url", url, *python], cwd=folder)

    assert refused.returncode == 1
    assert "my-app" in refused.stderr
