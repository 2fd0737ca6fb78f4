"""The queue.yaml that a suite passes to `init_taskqueue_stub`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sdk_calls import pull

from pullqueue import Emulator, InvalidQueueConfigError
from pullqueue.sdk import install
from pullqueue.sdk.imports import taskqueue

PULL = "queue:\n- name: mine\n  mode: pull\n"


@pytest.fixture
def installed(emulator: Emulator, bed: Any) -> Iterator[Any]:
    with install(emulator):
        yield bed


def write(path: Path, text: str, *, age: int = 0) -> Path:
    """Write a file that was last changed so many seconds after the first time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (age, age))
    return path


@pytest.mark.parametrize(
    "name", ["queue.yaml", "queue.yml", "WEB-INF/appengine-generated/queue.yaml"]
)
def test_the_file_under_the_root_is_found(
    installed: Any, emulator: Emulator, tmp_path: Path, name: str
) -> None:
    write(tmp_path / name, PULL)

    installed.init_taskqueue_stub(root_path=str(tmp_path))
    taskqueue.Queue("mine").add(pull())

    assert [task.payload for task in emulator.queue("mine").list_tasks()] == [b"work"]
    with pytest.raises(taskqueue.QueuePausedError):
        taskqueue.Queue("pull").lease_tasks(60, 1)


def test_the_configuration_comes_back(emulator: Emulator, bed: Any, tmp_path: Path) -> None:
    write(tmp_path / "queue.yaml", PULL)
    config = emulator.config
    with install(emulator):
        bed.init_taskqueue_stub(root_path=str(tmp_path))
        assert emulator.config is not config

    assert emulator.config is config
    assert emulator.queue("pull").add(b"work")


def test_a_file_by_its_path_goes_before_the_root(installed: Any, tmp_path: Path) -> None:
    write(tmp_path / "queue.yaml", PULL)
    other = write(tmp_path / "other.yaml", "queue:\n- name: by-path\n  mode: pull\n")

    installed.init_taskqueue_stub(root_path=str(tmp_path), queue_config_path=str(other))

    assert taskqueue.Queue("by-path").add(pull()).was_enqueued


def test_a_root_can_be_given_later_and_have_no_file(installed: Any, tmp_path: Path) -> None:
    """As suites that set `_root_path` afterwards do; an invalid file is reported."""
    installed.init_taskqueue_stub(root_path=str(tmp_path))
    assert taskqueue.Queue("pull").add(pull()).was_enqueued

    installed.init_taskqueue_stub()
    path = write(tmp_path / "queue.yaml", PULL)
    installed.get_stub("taskqueue")._root_path = str(tmp_path)
    assert taskqueue.Queue("mine").add(pull()).was_enqueued

    write(path, "queue:\n- name: mine\n  mode: sideways\n")
    with pytest.raises(InvalidQueueConfigError, match="sideways"):
        installed.init_taskqueue_stub(root_path=str(tmp_path))


def test_a_changed_file_is_read_again(installed: Any, emulator: Emulator, tmp_path: Path) -> None:
    path = write(tmp_path / "queue.yaml", PULL, age=1)
    installed.init_taskqueue_stub(root_path=str(tmp_path))
    config = emulator.config
    taskqueue.Queue("mine").add(pull())
    with pytest.raises(taskqueue.UnknownQueueError):
        taskqueue.Queue("added").add(pull())
    assert emulator.config is config

    write(path, PULL + "- name: added\n  mode: pull\n", age=2)

    assert taskqueue.Queue("added").add(pull()).was_enqueued
    assert taskqueue.Queue("mine").fetch_statistics().tasks == 1


def test_push_settings_on_a_pull_queue_are_accepted(installed: Any, tmp_path: Path) -> None:
    write(tmp_path / "queue.yaml", PULL + "  rate: 5/s\n  bucket_size: 3\n")
    installed.init_taskqueue_stub(root_path=str(tmp_path))

    assert taskqueue.Queue("mine").add(pull()).was_enqueued
