"""The ini option pullqueue_store: tests with another store, each from an empty one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from stores import postgres_url

from pytest_pullqueue.emulator import store_of_worker

QUEUE_YAML = "queue:\n- name: pull\n  mode: pull\n"
TESTS = """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_each_begins_empty(pullqueue_emulator, pullqueue_clock, number):
    queue = pullqueue_emulator.queue("pull")
    assert queue.fetch_statistics().tasks == 0
    queue.add(name="same")
    queue.lease_tasks(60, 1)
    pullqueue_clock.advance(60)
    assert [task.retry_count for task in queue.lease_tasks(60, 1)] == [2]
"""
Run = Callable[..., pytest.RunResult]


def test_a_worker_of_xdist_has_a_file_of_its_own_whose_folder_is_made(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\npullqueue_store = sqlite:///.pytest_cache/pullqueue/tasks.db\n")
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")

    run(TESTS).assert_outcomes(passed=4)

    files = [path.name for path in pytester.path.glob(".pytest_cache/pullqueue/*.db")]
    assert files == ["tasks-gw0.db"]


def test_the_store_in_postgresql_is_a_schema_of_its_own(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini(f"[pytest]\npullqueue_store = {postgres_url()}?schema=test_plugin\n")
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw9")

    run(TESTS).assert_outcomes(passed=4)

    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        assert connection.execute("SELECT name FROM test_plugin_gw9.tasks").fetchall()
        connection.execute("DROP SCHEMA test_plugin_gw9 CASCADE")


def test_a_store_that_cannot_be_opened(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeini("[pytest]\npullqueue_store = sqlite:///taken/tasks.db\n")
    pytester.path.joinpath("taken").write_text("no folder")

    result = run(TESTS)

    result.assert_outcomes(errors=4)
    result.stdout.fnmatch_lines(['*taken/tasks-*.db" cannot be opened as a store: *'])


def test_the_name_of_a_store_gets_that_of_the_worker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw3")

    assert store_of_worker("memory", tmp_path) == "memory"
    assert store_of_worker("sqlite:///a.db?synchronous=full", tmp_path) == (
        f"sqlite:///{tmp_path}/a-gw3.db?synchronous=full"
    )
    parts = urlsplit(store_of_worker("postgresql://me@host:1/db?sslmode=require", tmp_path))
    assert (parts.netloc, parts.path) == ("me@host:1", "/db")
    assert parse_qs(parts.query) == {"sslmode": ["require"], "schema": ["pullqueue_gw3"]}
