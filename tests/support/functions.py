"""Functions that call others: what begins a run, workers, and handlers of push tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from flask import Flask

from pullqueue import Queue

Run = Callable[..., Any]
"""The fixtures `race` and `crash`."""
Load = Callable[..., Any]
"""The fixture `load`."""
Work = Callable[[], None]
"""A function without arguments, such as the fixture `work`."""


def in_turn(*calls: Callable[[], object]) -> Callable[[], None]:
    """Return a function that makes some calls, one after the other."""

    def call_all() -> None:
        for call in calls:
            call()

    return call_all


def adding(queue: Queue, *names: str, **fields: Any) -> Callable[[], None]:
    """Return a function that adds tasks with some names, which are otherwise the same."""
    return in_turn(*(partial(queue.add, name=name, **fields) for name in names))


def handling(*calls: Callable[[], object]) -> Callable[[object], int]:
    """Return a handler that makes some calls, and then responds with 200."""

    def send(_: object) -> int:
        for call in calls:
            call()
        return 200

    return send


def working(queue: Queue, *calls: Callable[[], object]) -> Work:
    """Return a worker that leases one task, makes some calls, and deletes it."""

    def work() -> None:
        for task in queue.lease_tasks(60, 1):
            in_turn(*calls)()
            queue.delete_tasks(task)

    return work


KINDS = ("flask", "fastapi, async", "fastapi", "fastapi, in one loop")
"""Of apps; those of FastAPI run handlers in their loop, in threads, or in those of a kept loop."""


@contextmanager
def sending_to(kind: str, handle: Callable[[str], object]) -> Iterator[dict[str, Any]]:
    """Yield what sends tasks to an app of a kind, which calls a function with their path."""
    if kind == "flask":
        app = Flask("app")
        app.add_url_rule("/<path>", view_func=lambda path: str(handle(path)), methods=["POST"])
        yield {"app": app}
        return
    from fastapi import FastAPI, Request  # noqa: PLC0415 - slow to import
    from fastapi.testclient import TestClient  # noqa: PLC0415 - slow to import

    def handle_in_thread(path: str) -> None:
        handle(path)

    async def handle_in_loop(path: str, request: Request) -> None:
        await request.body()
        handle(path)

    handle_in_loop.__annotations__["request"] = Request  # which is not in the globals
    api = FastAPI()
    api.post("/{path}")(handle_in_loop if kind == "fastapi, async" else handle_in_thread)
    client = TestClient(api)
    with client if kind == "fastapi, in one loop" else nullcontext():
        yield {"send": lambda request: client.request(request.method, request.url)}
