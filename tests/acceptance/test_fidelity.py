"""The fidelity table names everything there is, and nothing else."""

from __future__ import annotations

import csv
import inspect
import json
import sys
import warnings
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from programs import completed

from pullqueue import Limits
from pullqueue.api.routes import ROUTES
from pullqueue.cloudtasks.versions import VERSIONS

ROOT = Path(__file__).parents[2]


def items(area: str) -> set[str]:
    """Return what the table lists in an area."""
    with (ROOT / "docs" / "fidelity.csv").open(encoding="utf-8", newline="") as file:
        return {row["item"] for row in csv.DictReader(file) if row["area"] == area}


@pytest.fixture(scope="module")
def taskqueue() -> Any:
    """Return Google's module, whose own deprecation warnings are not ours to fail on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from google.appengine.api import taskqueue  # noqa: PLC0415

        return taskqueue


def keys_of(schema: dict[str, Any]) -> set[str]:
    """Return every key that a JSON Schema names."""
    properties = schema.get("properties", {})
    parts = [*properties.values(), *([schema["items"]] if "items" in schema else [])]
    return set(properties).union(*map(keys_of, parts))


def test_the_documents_show_the_table_of_today() -> None:
    """It is generated from the data."""
    command = [sys.executable, str(ROOT / "docs" / "fidelity.py"), "--check"]
    done = completed(command)

    assert done.returncode == 0, done.stdout


def test_every_verdict_is_one_of_three() -> None:
    """Supported, differs or not supported; where it differs the table says how."""
    with (ROOT / "docs" / "fidelity.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))

    assert [row for row in rows if None in row or None in row.values()] == []  # five fields each
    assert {row["verdict"] for row in rows} == {"supported", "differs", "not supported"}
    assert [row["item"] for row in rows if row["verdict"] != "supported" and not row["note"]] == []
    assert [row["item"] for row in rows if not row["source"]] == []


def test_every_call_of_the_sdk_is_listed(taskqueue: Any) -> None:
    """The verbs of Queue, QueueStatistics and Task, and the functions of the module."""
    verbs = {f"Queue.{name}" for name in dir(taskqueue.Queue) if not name.startswith("_")}
    calls = {name for name in verbs if callable(getattr(taskqueue.Queue, name[6:]))}

    assert calls <= items("SDK call")
    assert {"QueueStatistics.fetch", "Task.add", "taskqueue.add"} <= items("SDK call")


def test_every_exception_of_the_sdk_is_listed(taskqueue: Any) -> None:
    """All but the root, and aliases."""
    exceptions = {
        kind.__name__
        for _, kind in inspect.getmembers(taskqueue, inspect.isclass)
        if issubclass(kind, taskqueue.Error) and kind is not taskqueue.Error
    }

    assert items("SDK exception") == exceptions


def test_every_method_of_rest_is_listed() -> None:
    """The table has the methods that are routed."""
    assert items("REST method") == {route.method_id for route in ROUTES["v1beta2"]}


def test_every_field_of_queue_yaml_is_listed() -> None:
    """The table has the keys of the published schema."""
    schema = json.loads(files("pullqueue_schemas").joinpath("queue.schema.json").read_text("utf-8"))

    assert items("queue.yaml field") == keys_of(schema)


def test_every_limit_is_listed() -> None:
    """The table has the fields of `Limits`."""
    assert items("limit") == {*Limits._fields}


def test_every_method_of_cloud_tasks_is_listed() -> None:
    """The table has the methods of the service, and those that are not supported."""
    versions = VERSIONS.values()
    served = {method.name for version in versions for method in version.methods}
    refused = {name for version in versions for name, _, _ in version.unimplemented}
    assert items("Cloud Tasks method") == served | refused
