"""An emulator for the length of a block, in any scope."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from tables import each_row

from pullqueue import (
    ClockError,
    ConfigFileError,
    InvalidQueueConfigError,
    SystemClock,
    TransientError,
    UnknownQueueError,
)
from pullqueue.config import loads
from pullqueue.sdk.imports import taskqueue
from pullqueue.testing import assert_added, assert_empty, emulation, freeze

YAML = "queue:\n- name: jobs\n  mode: pull\n"


def test_emulator_clock_and_faults_belong_together() -> None:
    with emulation(queues=["jobs"]) as emulated:
        queue = emulated.emulator.queue("jobs")
        queue.add("work", name="one")
        queue.lease_tasks(60, 1)
        assert emulated.clock.now() == datetime(2026, 1, 1, tzinfo=UTC)
        assert SystemClock().now() != emulated.clock.now()
        emulated.clock.expire_leases()
        emulated.faults.fail("lease_tasks", TransientError, times=1)
        with pytest.raises(TransientError):
            queue.lease_tasks(60, 1)
        queue.delete_tasks(queue.lease_tasks(60, 1))
        assert_added(queue, payload="work", count=1)

    assert emulated.faults.active == []


def test_two_emulations_share_nothing() -> None:
    with emulation(queues=["jobs"]) as outer, emulation(queues=["jobs"]) as inner:
        first = outer.emulator.queue("jobs").add()
        outer.clock.advance(1)

        assert_empty(inner.emulator)
        assert inner.emulator.queue("jobs").add().name == first.name
        assert outer.clock.now() - inner.clock.now() == timedelta(seconds=1)


@pytest.mark.parametrize(
    "start", ["2027-03-28T01:00+01:00", datetime(2027, 3, 28, tzinfo=UTC)], ids=str
)
def test_the_start_is_an_aware_datetime_or_iso_8601(start: datetime | str) -> None:
    with emulation(queues=[], start=start) as emulated:
        assert emulated.clock.now() == datetime(2027, 3, 28, tzinfo=UTC)


@pytest.mark.parametrize("freezer", [True, "time-machine"])
def test_the_clock_is_the_time_of_the_process(freezer: Literal[True, "time-machine"]) -> None:
    with emulation(queues=["jobs"], start="2027-03-28T00:00Z", freeze=freezer) as emulated:
        emulated.emulator.queue("jobs").add()
        emulated.emulator.queue("jobs").lease_tasks(60, 1)
        assert emulated.clock.expire_leases() == datetime(2027, 3, 28, 0, 1, tzinfo=UTC)
        assert SystemClock().now() == emulated.clock.now()

    assert SystemClock().now() != datetime(2027, 3, 28, 0, 1, tzinfo=UTC)


def test_time_that_is_frozen_already_stays_and_is_moved() -> None:
    with freeze(datetime(2028, 1, 1, tzinfo=UTC)):
        with emulation(queues=[], freeze=True) as emulated:
            emulated.clock.advance(60)
        assert SystemClock().now() == datetime(2028, 1, 1, 0, 1, tzinfo=UTC)
        with (
            pytest.raises(ClockError, match=r"^start is 2027-03-28.*, but time is frozen already"),
            emulation(queues=[], start="2027-03-28T00:00Z", freeze=True),
        ):
            pass


@each_row("start", ["noon", "2027-01-01", datetime(2027, 1, 1), 7])  # noqa: DTZ001
def test_an_invalid_start_is_refused_before_the_block(start: datetime) -> None:
    with pytest.raises(ClockError, match="use one such as"):
        emulation(queues=[], start=start)


def test_a_configuration_is_a_path_a_text_an_object_or_the_file_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "queue.yaml"
    path.write_text(YAML)
    monkeypatch.chdir(tmp_path)

    for source in (path, str(path), YAML, loads(YAML), None):
        with emulation(source) as emulated:
            assert [queue.name for queue in emulated.emulator.queues] == ["jobs", "default"]
    path.unlink()
    with pytest.raises(ConfigFileError, match=r"^no queue.yaml in .*: pass config or queues$"):
        emulation()


def test_queues_are_names_of_pull_queues_or_entries_of_a_file() -> None:
    entry = {"name": "slow", "retry_parameters": {"task_retry_limit": 1}}
    with emulation(queues=["jobs", entry, {"name": "web", "mode": "push", "rate": "1/s"}]) as e:
        assert [queue.name for queue in e.emulator.queues] == ["jobs", "slow", "web"]
        assert e.emulator.queue("slow").retention.leases == 1
        with pytest.raises(UnknownQueueError, match=r'^queue "job" is not in queues: did you mean'):
            e.emulator.queue("job")


@each_row(
    ("queues", "error", "message"),
    [
        (
            ["no good"],
            InvalidQueueConfigError,
            r'^queues\[0\].name: invalid queue name "no good": ',
        ),
        (["a", {"name": "b", "rate": "1/s"}], InvalidQueueConfigError, r"^queues\[1\].rate: "),
        ([5], TypeError, "^queues contains 5: pass a queue name, or an entry as in queue.yaml$"),
        ("jobs", TypeError, '^queues is "jobs": pass a list of queue names or entries$'),
    ],
)
def test_queues_that_are_not_valid_are_refused(
    queues: list[str], error: type[Exception], message: str
) -> None:
    """The message names the entry, and no place in a file that nobody wrote."""
    with pytest.raises(error, match=message) as caught:
        emulation(queues=queues)

    assert "1:" not in str(caught.value)


def test_a_config_of_another_type_or_beside_queues_is_refused() -> None:
    """A list is taken for queues, which have a name of their own."""
    config: Any = ["jobs"]
    with pytest.raises(TypeError, match=r"config is \['jobs'\]: .* are given as queues=\[\.\.\.\]"):
        emulation(config)
    with pytest.raises(TypeError, match=r"^both config and queues are set: use one of them$"):
        emulation(YAML, queues=["jobs"])


def test_the_sdk_uses_the_emulator_and_is_put_back() -> None:
    with emulation(queues=["jobs"], sdk=True) as emulated:
        jobs = taskqueue.Queue("jobs")
        jobs.add(taskqueue.Task(payload="later", method="PULL", countdown=60))
        assert jobs.lease_tasks(60, 1) == []
        emulated.clock.advance_to_next_event()
        [task] = jobs.lease_tasks(60, 1)
        assert task.payload == b"later"
        assert emulated.sdk.get_filtered_tasks(queue_names="jobs")[0].name == task.name

    with pytest.raises(AssertionError):
        taskqueue.Queue("jobs").lease_tasks(60, 1)


def test_what_was_not_asked_for_is_missing_with_how_to_ask() -> None:
    with emulation(queues=["jobs"]) as emulated:
        with pytest.raises(AttributeError, match=r"use emulation\(sdk=True\)$"):
            _ = emulated.sdk
        with pytest.raises(AttributeError, match=r"use emulation\(server=True\)$"):
            _ = emulated.server
