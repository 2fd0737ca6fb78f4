"""The threads in which the projects of a server send their push tasks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from push_app import until
from tables import each_row

from pullqueue.runtime import sender_threads
from pullqueue.runtime.sender_threads import SenderThreads


class Project:
    ended = 0

    def end_job(self) -> None:
        self.ended += 1


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_threads, "_IDLE_SECONDS", 0.01)


@contextmanager
def busy(senders: SenderThreads, jobs: dict[str, int]) -> Iterator[None]:
    """Run jobs of senders that do not end before the block does."""
    end, running = threading.Event(), threading.Semaphore(0)

    def job() -> None:
        running.release()
        end.wait()

    for count in jobs.values():
        sender = Project()
        for _ in range(count):
            senders.run(sender, job)
        assert senders.is_busy(sender)
    for _ in range(sum(jobs.values())):
        running.acquire()  # none of them waits for another
    yield
    end.set()


@each_row(("projects", "share"), [(0, 64), (1, 64), (8, 64), (9, 56), (16, 32), (100, 5), (600, 1)])
def test_the_share_of_a_project_follows_how_many_send(projects: int, share: int) -> None:
    senders = SenderThreads()

    with busy(senders, {f"p{number}": 1 for number in range(projects)}):
        assert senders.share == share
    until(lambda: senders.share == 64)


def test_the_jobs_of_one_project_are_one_share() -> None:
    senders = SenderThreads()

    with busy(senders, {"a": 20, "b": 1}):
        assert senders.share == 64


def test_threads_are_used_again_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    senders = SenderThreads()
    done: list[int] = []

    def fails() -> None:
        done.append(0)
        raise ValueError

    def alive() -> int:
        return sum(each.name == "pullqueue attempt" for each in threading.enumerate())

    until(lambda: alive() == 0)
    jobs = (fails, lambda: done.append(1), fails, lambda: done.append(2))
    project = Project()
    for number, job in enumerate(jobs, 1):
        senders.run(project, job)
        until(lambda: alive() == 0)
        assert (len(done), project.ended) == (number, number)
        assert not senders.is_busy(project)

    assert done == [0, 1, 0, 2]
