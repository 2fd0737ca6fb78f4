"""docs/explanation/architecture.md, compared with what is executed."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import FrameType

import pullqueue
from pullqueue import Emulator
from pullqueue.server.lifecycle import Server

SOURCE = Path(pullqueue.__file__).parent
PAGE = Path(__file__).parents[2] / "docs/explanation/architecture.md"
STORE = "engine/memory/store.py"


def test_the_way_of_a_task() -> None:
    """The page lists the modules through which a REST insert gets to the store, and no others."""
    section = PAGE.read_text("utf-8").partition("## The way of a task")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(.*?)` \|", section, re.MULTILINE)

    with modules_executed() as executed, Server(Emulator.from_text(QUEUES)) as server:
        for _ in range(2):
            executed.clear()
            with closing(HTTPConnection(server.host, server.port, timeout=60)) as connection:
                connection.request("POST", TASKS, b'{"queueName": "pull", "payloadBase64": "aGk="}')
                assert connection.getresponse().status == 200

    # Modules beside the layers, such as clock.py, settings and models are listed below the table.
    beside = re.compile(r"[^/]*|config/.*|(observe|resources)/models\.py").fullmatch
    [inserted] = [each for each in executed.values() if STORE in each]
    way = {path for path in inserted if not beside(path)}
    assert way == set(listed)
    assert len(listed) == len(set(listed)) <= 17


QUEUES = "queue:\n- {name: pull, mode: pull}\n"
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
