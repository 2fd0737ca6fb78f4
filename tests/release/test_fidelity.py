"""The fidelity table names everything there is, and nothing else."""

from __future__ import annotations

import csv
import inspect
import sys
from pathlib import Path
from typing import Any

import pytest
from programs import completed

from pullqueue import Limits
from pullqueue.api.routes import ROUTES
from pullqueue.cloudtasks.versions import VERSIONS
from pullqueue.config.schema import queue_schema
from pullqueue.sdk.imports import taskqueue

DOCS = Path(__file__).parents[2] / "docs"
ROWS = [*csv.DictReader((DOCS / "fidelity.csv").read_text("utf-8").splitlines())]


def items(area: str) -> set[str]:
    return {row["item"] for row in ROWS if row["area"] == area}


def keys_of(schema: dict[str, Any]) -> set[str]:
    properties = schema.get("properties", {})
    parts = [*properties.values(), *([schema["items"]] if "items" in schema else [])]
    return set(properties).union(*map(keys_of, parts))


def test_the_documents_show_the_table_of_today() -> None:
    done = completed([sys.executable, DOCS / "fidelity.py", "--check"])

    assert done.returncode == 0, done.stdout


def test_every_verdict_is_one_of_three() -> None:
    assert [row for row in ROWS if None in row or None in row.values()] == []  # five fields each
    assert {row["verdict"] for row in ROWS} == {"supported", "differs", "not supported"}
    assert [row["item"] for row in ROWS if row["verdict"] != "supported" and not row["note"]] == []
    assert [row["item"] for row in ROWS if not row["source"]] == []


def test_every_call_of_the_sdk_is_listed() -> None:
    verbs = {f"Queue.{name}" for name in dir(taskqueue.Queue) if not name.startswith("_")}
    calls = {name for name in verbs if callable(getattr(taskqueue.Queue, name[6:]))}

    assert calls <= items("SDK call")
    assert {"QueueStatistics.fetch", "Task.add", "taskqueue.add"} <= items("SDK call")


EXCEPTIONS = {
    kind.__name__
    for _, kind in inspect.getmembers(taskqueue, inspect.isclass)
    if issubclass(kind, taskqueue.Error) and kind is not taskqueue.Error
}


@pytest.mark.parametrize(
    ("area", "names"),
    [
        ("SDK exception", EXCEPTIONS),
        ("REST method", {route.method_id for route in ROUTES["v1beta2"]}),
        (
            "Cloud Tasks method",
            {method.name for version in VERSIONS.values() for method in version.methods}
            | {name for version in VERSIONS.values() for name, _, _ in version.unimplemented},
        ),
        ("queue.yaml field", keys_of(queue_schema())),
        ("limit", {*Limits._fields}),
    ],
)
def test_each_name_of_an_area_is_listed(area: str, names: set[str]) -> None:
    assert items(area) == names, (
        f"docs/fidelity.csv has no row of {area} for {names - items(area)}, or one too many for "
        f"{items(area) - names}; then run python docs/fidelity.py"
    )
