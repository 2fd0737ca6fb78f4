"""Apps that reach a running server without `pullqueue exec`: by one line, or by two variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import completed
from served import Served, serving

COMMON = """
import threading
from google.appengine.api import taskqueue, wrap_wsgi_app
import pullqueue.sdk

def work(environ=None, start_response=None):
    queue = taskqueue.Queue("pull")
    queue.add(taskqueue.Task(payload=b"work", method="PULL"))
    tasks = queue.lease_tasks(60, 10)
    queue.delete_tasks(tasks)
    print([task.payload for task in tasks])
    return []

def in_a_thread(function, *arguments):
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()

ENVIRON = {"PATH_INFO": "/", "HTTP_HOST": "localhost", "REQUEST_METHOD": "GET"}
"""

WRAPPED = """
app = pullqueue.sdk.local_request(wrap_wsgi_app(work, use_legacy_context_mode=LEGACY))
in_a_thread(app, ENVIRON, None)
in_a_thread(work)
"""

LOOP = """
pullqueue.sdk.connect()
work()
in_a_thread(work)
"""

TWICE = "[b'work']\n" * 2


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that runs as a program of its own."""
    folder: Path = tmp_path_factory.mktemp("served")
    (folder / "queue.yaml").write_text("queue:\n- name: pull\n  mode: pull\n")
    with serving("--no-lease-rate-limit", folder=folder) as served:
        yield served


def run(program: str, **variables: str) -> tuple[str, str]:
    """Run a program and return its output and the last line of its errors."""
    done = completed(
        [sys.executable, "-W", "ignore", "-c", COMMON + program],
        env={**os.environ, "HTTP_HOST": "localhost", **variables},
    )
    return done.stdout, "".join(done.stderr.splitlines()[-1:])


@pytest.mark.parametrize("from_environ", ["true", "false"])
@pytest.mark.parametrize("legacy", ["True", "False"])
def test_a_wrapped_app(served: Served, legacy: str, from_environ: str) -> None:
    """Requests of a wrapped app and its threads reach the queues, in every mode of context."""
    output, errors = run(
        WRAPPED.replace("LEGACY", legacy),
        PULLQUEUE_EMULATOR_HOST=served.url.removeprefix("http://"),
        READ_GAE_CONTEXT_FROM_OS_ENVIRON=from_environ,
    )

    assert output == TWICE, errors


@pytest.mark.parametrize("from_environ", ["true", "false"])
def test_a_loop(served: Served, from_environ: str) -> None:
    """A program that handles no requests reaches them too, and so do its threads."""
    output, errors = run(
        LOOP,
        PULLQUEUE_EMULATOR_HOST=served.url.removeprefix("http://"),
        READ_GAE_CONTEXT_FROM_OS_ENVIRON=from_environ,
    )

    assert output == TWICE, errors


def test_the_variables_of_app_engine(served: Served) -> None:
    """API_HOST and API_PORT do as well, which runtimes of other languages know."""
    host, port = served.url.removeprefix("http://").split(":")

    output, errors = run("pullqueue.sdk.connect()\nwork()\n", API_HOST=host, API_PORT=port)

    assert output == "[b'work']\n", errors


def test_an_address_in_the_program(served: Served) -> None:
    """An address given goes before the environment."""
    address = served.url.removeprefix("http://")

    output, errors = run(
        f"pullqueue.sdk.connect({address!r})\nwork()\n", PULLQUEUE_EMULATOR_HOST="127.0.0.1:1"
    )

    assert output == "[b'work']\n", errors


@pytest.mark.parametrize(
    ("argument", "variable", "complaint"),
    [
        (
            "http://h:1",
            "",
            'the address is "http://h:1", which is not a valid address: use HOST:PORT',
        ),
        (
            "",
            "nonsense",
            'PULLQUEUE_EMULATOR_HOST is "nonsense", which is not a valid address: use HOST',
        ),
    ],
)
def test_an_invalid_address(argument: str, variable: str, complaint: str) -> None:
    """It is refused where it is given, and not by the first call."""
    _, errors = run(
        f"pullqueue.sdk.connect({argument!r})\nprint('connected')\n",
        PULLQUEUE_EMULATOR_HOST=variable,
    )

    assert errors.startswith(f"pullqueue.errors.ServerAddressError: {complaint}")


def test_an_empty_variable(served: Served) -> None:
    """It is as good as none: App Engine's own variables count."""
    host, port = served.url.removeprefix("http://").split(":")

    output, errors = run(
        "pullqueue.sdk.connect()\nwork()\n",
        PULLQUEUE_EMULATOR_HOST="",
        API_HOST=host,
        API_PORT=port,
    )

    assert output == "[b'work']\n", errors


def test_a_ticket_of_the_front_end(served: Served) -> None:
    """A request that has a ticket already, as from App Engine's front end, keeps it."""
    program = (
        "app = pullqueue.sdk.local_request(wrap_wsgi_app(lambda environ, _: "
        "print(environ['HTTP_X_APPENGINE_API_TICKET']) or []))\n"
        "app({**ENVIRON, 'HTTP_X_APPENGINE_API_TICKET': 'given'}, None)\n"
    )

    output, errors = run(program, PULLQUEUE_EMULATOR_HOST=served.url.removeprefix("http://"))

    assert output == "given\n", errors


def test_without_any_of_it(served: Served) -> None:
    """The SDK alone refuses to call from outside a request: hence the line."""
    _, errors = run("wrap_wsgi_app(work)\nwork()\n")

    assert "without active security ticket" in errors
