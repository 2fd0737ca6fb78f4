"""What the package shows, and what importing it costs and brings along."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import pullqueue

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "emulator" / "pullqueue"

LAYERS = {
    "address": 0,
    "clock": 0,
    "errors": 0,
    "limits": 0,
    "error_codes": 0,
    "tasks": 0,
    "config": 1,
    "engine": 1,
    "stores": 1,
    "lint": 2,
    "testing": 4,
    "api": 2,
    "control": 2,
    "sdk": 2,
    "server": 3,
    "console": 3,
    "cli": 4,
    "gtaskqueue": 4,
}
"""Where each part of the package stands: it imports from its own layer and those below."""


def test_the_names_are_sorted_and_exist() -> None:
    """`__all__` is what the package offers."""
    assert pullqueue.__all__ == sorted(pullqueue.__all__)
    assert [name for name in pullqueue.__all__ if not hasattr(pullqueue, name)] == []


def test_the_version_is_that_of_the_distribution() -> None:
    """The version stands in one place."""
    assert pullqueue.__version__ == version("pullqueue")


def test_an_unknown_name_is_an_attribute_error() -> None:
    """The module's lazy lookup does not hide misspellings."""
    with pytest.raises(AttributeError, match="has no attribute 'Emulater'"):
        _ = pullqueue.Emulater


def test_importing_brings_nothing_heavy_along() -> None:
    """`import pullqueue` leaves Flask, YAML, jsonschema and the SDK alone."""
    code = "import sys, pullqueue; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    assert "pullqueue" in loaded
    assert not {"flask", "werkzeug", "yaml", "jsonschema", "click", "google.appengine"} & {*loaded}


def imports_of(path: Path) -> set[str]:
    """Return the parts of pullqueue that a module imports anywhere in it."""
    parts: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "pullqueue":
                parts |= {alias.name for alias in node.names}
            elif node.module.startswith("pullqueue."):
                parts.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            parts |= {a.name.split(".")[1] for a in node.names if a.name.startswith("pullqueue.")}
    return parts


@pytest.mark.parametrize("part", [part for part in LAYERS if (SOURCE / part).is_dir()])
def test_imports_run_one_way(part: str) -> None:
    """No part imports one of a higher layer."""
    for path in (SOURCE / part).rglob("*.py"):
        above = {name for name in imports_of(path) if LAYERS.get(name, 0) > LAYERS[part]}

        assert not above, f"{path} imports {above}"


def test_production_code_does_not_use_the_helpers_for_tests() -> None:
    """Nothing but the helpers themselves imports `pullqueue.testing`."""
    users = {
        path.parent.name
        for path in SOURCE.rglob("*.py")
        if "testing" in imports_of(path) and (SOURCE / "testing") not in path.parents
    }

    assert users == set()


def test_the_engine_knows_nothing_of_the_world() -> None:
    """The engine imports no file, socket, environment, YAML or web library."""
    permitted = set(sys.stdlib_module_names) - {"socket", "http", "urllib", "subprocess", "pathlib"}
    for path in (SOURCE / "engine").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            roots = {name.partition(".")[0] for name in names}
            assert roots <= permitted | {"pullqueue"}, f"{path} imports {roots - permitted}"
