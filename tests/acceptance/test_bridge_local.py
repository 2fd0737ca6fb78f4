"""Apps that reach a running server without `pullqueue exec`: by one line, or by two variables."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from forking import forked
from programs import completed

from pullqueue import Emulator
from pullqueue.server.lifecycle import Server

COMMON = """
import os, sys, threading
from itertools import product
from google.appengine.api import taskqueue, wrap_wsgi_app
from google.appengine.runtime import context, middlewares
import pullqueue.sdk

def work(environ=None, start_response=None):
    queue = taskqueue.Queue("pull")
    queue.add(taskqueue.Task(payload=b"work", method="PULL"))
    tasks = queue.lease_tasks(60, 10)
    queue.delete_tasks(tasks)
    print(*[task.payload for task in tasks], end=" ")
    return []

def in_a_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()

ENVIRON = {"PATH_INFO": "/", "HTTP_HOST": "localhost", "REQUEST_METHOD": "GET"}
"""

MODES = """
for legacy, context.READ_FROM_OS_ENVIRON in product([True, False, None], [True, False]):
    if not os.fork():
        if legacy is None:
            pullqueue.sdk.connect()
            work()
        else:
            app = wrap_wsgi_app(work, use_legacy_context_mode=legacy)
            in_a_thread(pullqueue.sdk.local_request(app), ENVIRON, None)
        in_a_thread(work)
        sys.stdout.flush()
        os._exit(0)  # without the time that the end of an interpreter takes
    os.wait()
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Server(Emulator.from_text("queue: [{name: pull, mode: pull}]")) as server:
        yield server.url.removeprefix("http://")


def run(program: str, **variables: str) -> tuple[str, str]:
    """Run a program and return its output and the last line of its errors.

    Modes of context that it tries have a process each, which need not import the SDK again.
    """
    done = completed(
        [forked("python-program"), "-c", COMMON + program],
        env={**os.environ, "HTTP_HOST": "localhost", **variables},
    )
    return done.stdout, "".join(done.stderr.splitlines()[-1:])


def test_every_mode_of_context(address: str) -> None:
    output, errors = run(MODES, PULLQUEUE_EMULATOR_HOST=address)

    assert output.split() == ["b'work'"] * 12, errors


def test_an_address_given_goes_before_the_environment(address: str) -> None:
    """What is in the environment goes before App Engine's variables. Those, API_HOST and API_PORT,
    are known to runtimes of other languages.
    """
    host, port = address.split(":")
    program = (
        "if not os.fork():\n"
        "    os.environ['PULLQUEUE_EMULATOR_HOST'] = '127.0.0.1:1'\n"
        f"    pullqueue.sdk.connect({address!r})\n"
        "else:\n"
        "    os.wait()\n"
        "    pullqueue.sdk.connect()\n"
        "work()\n"
    )

    output, errors = run(program, PULLQUEUE_EMULATOR_HOST="", API_HOST=host, API_PORT=port)

    assert output == "b'work' " * 2, errors


def test_requests_have_an_application_id_and_keep_the_ticket_of_a_front_end(address: str) -> None:
    """The id is that of `exec`."""
    program = (
        "from google.appengine.api import full_app_id\n"
        "def show(environ, _):\n"
        "    print(full_app_id.get(), environ['HTTP_X_APPENGINE_API_TICKET'])\n"
        "    return []\n"
        "pullqueue.sdk.connect()\n"
        "ticket = {'HTTP_X_APPENGINE_API_TICKET': 'given'}\n"
        "pullqueue.sdk.local_request(wrap_wsgi_app(show))({**ENVIRON, **ticket}, None)\n"
    )

    output, errors = run(program, PULLQUEUE_EMULATOR_HOST=address)

    assert output == "dev~my-app given\n", errors


def test_the_switch_to_cloud_tasks(address: str) -> None:
    program = (
        "pullqueue.sdk.connect()\n"
        "queue = taskqueue.Queue('default')\n"
        "queue.add([taskqueue.Task(url='/a', name='a'), taskqueue.Task(url='/b')])\n"
        "pullqueue.sdk.connect()\n"
        "queue.delete_tasks_by_name('a')\n"
        "cloudtask = getattr(taskqueue.taskqueue, 'cloudtask', None)  # since 3.1.0\n"
        "versions = cloudtask and sorted(version for version, _ in cloudtask._CLIENTS)\n"
        "print(queue.fetch_statistics().tasks, versions in (None, ['v2']))\n"
    )

    output, errors = run(
        program, PULLQUEUE_EMULATOR_HOST=address, APPENGINE_USE_CLOUDTASK_PUSH_QUEUE="true"
    )

    assert output == "1 True\n", errors
