"""Actors, what their threads do, and what is kept of it."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest

from pullqueue.testing import WorkerKilled
from pullqueue.testing.exploration import left_threads
from pullqueue.testing.points.actors import Actor, following_actors, following_ends
from pullqueue.testing.points.strands import Strands


def test_an_actor_ends_when_the_call_of_another_thread_was_carried_out() -> None:
    actor = Actor("worker", WorkerKilled)
    begun, go_on, done = threading.Event(), threading.Event(), list[str]()

    def call() -> None:
        begun.set()
        go_on.wait()
        done.append("has ended" if actor.has_ended else "goes on")

    def end() -> None:
        with suppress(WorkerKilled):
            actor.end()

    calling = threading.Thread(target=partial(actor.carry_out, "call", call))
    ending = threading.Thread(target=end)
    calling.start()
    begun.wait()
    ending.start()
    ending.join(0.05)
    go_on.set()
    calling.join()
    ending.join()
    assert done == ["goes on"]
    assert actor.has_ended


def test_threads_that_were_awaited_are_not_kept() -> None:
    """A worker that starts one for each task would compare each call with those of all."""
    strands = Strands()
    first = strands.begin()
    first.is_awaited = True
    kept = weakref.ref(first)
    strands.begin().is_awaited = True
    strands.begin()
    del first
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("wait", [True, False])
def test_only_who_waits_for_the_end_of_a_pool_passes_the_turn_on(*, wait: bool) -> None:
    passed: list[str] = []

    class Waiting(Actor):
        def pass_on(self) -> None:
            passed.append(self.name)

    with following_ends, Waiting("worker", WorkerKilled).acting():
        ThreadPoolExecutor().shutdown(wait=wait)
    assert passed == ["worker"] * wait


def test_threads_that_wait_are_not_awaited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one that is kept for all attempts of a handler, and gets its work by a queue."""
    monkeypatch.setattr(left_threads, "_IDLES", 10)
    monkeypatch.setattr(left_threads, "_MOST_CHECKS", 3000)
    pauses, pause = itertools.count(), left_threads._pause

    def counted_pause() -> None:
        next(pauses)
        pause()

    monkeypatch.setattr(left_threads, "_pause", counted_pause)
    actor, stop = Actor("handler", WorkerKilled), threading.Event()
    thread = threading.Thread(target=stop.wait, daemon=True)
    with following_actors:
        with actor.acting():
            thread.start()
        assert not left_threads.await_threads(actor)
        stop.set()
        thread.join()
        assert left_threads.await_threads(actor)
    assert next(pauses) < 1000
