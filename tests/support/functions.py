"""Functions that call others: what begins a run, workers, and handlers of push tasks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from flask import Flask

from pullqueue import Queue


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


KINDS = ("flask", "fastapi, async", "fastapi", "fastapi, in one loop")


def sending_to(kind: str, handle: Callable[[str], object]) -> dict[str, Any]:
    """Return what sends tasks to an app of a kind, which calls a function with their path."""
    if kind == "flask":
        app = Flask("app")
        app.add_url_rule("/<path>", view_func=lambda path: str(handle(path)), methods=["POST"])
        return {"app": app}
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
    if kind == "fastapi, in one loop":
        client.__enter__()
    return {"send": lambda request: client.request(request.method, request.url)}
