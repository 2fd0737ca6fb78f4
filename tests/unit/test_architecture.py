"""docs/explanation/architecture.md, compared with what is executed."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import FrameType

from push_app import push_app, until
from services_client import Client

import pullqueue
from pullqueue import Emulator
from pullqueue.push.addresses import PushAddresses
from pullqueue.server.lifecycle import Server
from pullqueue.services.hosting import Services

SOURCE = Path(pullqueue.__file__).parent
PAGE = Path(__file__).parents[2] / "docs/explanation/architecture.md"
STORE = "engine/memory/store.py"


def listed(way: str) -> list[str]:
    """Return the modules in the table of a part of the page."""
    section = PAGE.read_text("utf-8").partition(f"## The way of {way}")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(.*?)` \|", section, re.MULTILINE)


# Modules beside the layers, such as clock.py, settings and models, are listed below the tables.
is_beside = re.compile(
    r"[^/]*|config/.*|engine/interceptors.py|(observe|resources)/models\.py"
).fullmatch


def test_the_way_of_a_task_is_what_an_insert_executes() -> None:
    """The page lists the modules through which a REST insert gets to the store, and no others."""
    with modules_executed() as executed, Server(Emulator.from_text(QUEUES)) as server:
        for _ in range(2):
            executed.clear()
            with closing(HTTPConnection(server.host, server.port, timeout=60)) as connection:
                connection.request("POST", TASKS, b'{"queueName": "pull", "payloadBase64": "aGk="}')
                assert connection.getresponse().status == 200

    [inserted] = [each for each in executed.values() if STORE in each]
    way = [path for path in listed("a task") if path != "engine/interceptors.py"]
    assert {path for path in inserted if not is_beside(path)} == set(way)
    assert len(way) == len(set(way)) <= 17


def test_the_way_of_a_push_task_is_what_an_attempt_executes() -> None:
    """Those of the engine and the store are the same for all tasks; only attempts are listed."""
    emulator = Emulator.from_text(QUEUES)
    with (
        push_app() as app,
        modules_executed() as executed,
        Server(emulator, push_to=PushAddresses([app.url])),
    ):
        emulator.queue("push").add(name="a")
        until(lambda: not emulator.queue("push").list_tasks())

    done = {path for each in executed.values() for path in each if not is_beside(path)}
    way = set(listed("a push task"))
    assert {path for path in done if path.startswith(("push/", "runtime/", "observe/"))} <= way
    assert way <= done


def test_the_way_of_an_entity_is_what_a_put_executes() -> None:
    """Each floor is there once."""
    emulator = Emulator.from_text(QUEUES)
    with (
        modules_executed() as executed,
        Server(emulator, services=Services(clock=emulator.clock)) as server,
    ):
        client = Client(server.url)
        client.put("made by the first call")
        executed.clear()
        client.put("a")

    [put] = [each for each in executed.values() if "services/datastore.py" in each]
    way = listed("an entity")
    assert {path for path in put if not is_beside(path)} == set(way)
    assert len(way) == len(set(way))


QUEUES = "queue:\n- {name: pull, mode: pull}\n- {name: push, rate: 5/s}\n"
TASKS = "/taskqueue/v1beta2/projects/p/taskqueues/pull/tasks"


@contextmanager
def modules_executed() -> Iterator[dict[int, set[str]]]:
    """Yield the modules that each thread started in the block executes, but for the store's.

    Those of the others are of servers that an earlier test has left behind.
    """
    executed: dict[int, set[str]] = {}
    within = threading.local()

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(SOURCE):
            return
        module = path.relative_to(SOURCE).as_posix()
        inserts = module == STORE and frame.f_code.co_name == "insert"
        if event == "return" and inserts:
            within.store = False
        elif event == "call" and not getattr(within, "store", False):
            executed.setdefault(threading.get_ident(), set()).add(module)
            within.store = inserts

    threading.setprofile(profile)
    try:
        yield executed
    finally:
        threading.setprofile(None)
