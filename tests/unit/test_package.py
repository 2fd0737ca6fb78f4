"""What the package shows, and what importing it costs and brings along."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest
from programs import completed

import pullqueue

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "emulator" / "pullqueue"

ORDER = (
    *("errors", "extras", "address", "text", "pickled", "clock", "limits", "tasks", "structs"),
    *("checks", "config", "error_codes", "lint", "engine", "stores", "push", "faults", "api"),
    *("observe", "cron", "runtime", "resources", "cloudtasks", "sdk", "services", "console"),
    *("server", "cli", "testing"),
)
"""The parts of the package: each imports only parts before it, so there are no cycles."""


def test_the_names_are_sorted_and_exist() -> None:
    assert pullqueue.__all__ == sorted(pullqueue.__all__)
    assert [name for name in pullqueue.__all__ if not hasattr(pullqueue, name)] == []


def test_no_public_name_is_hidden_by_a_module() -> None:
    """Since Python 3.12, pydoc shows a module of a package before a function of its name."""
    for name, path in MODULES.items():
        if path.name == "__init__.py":
            public = {*getattr(import_module(name), "__all__", ())}
            assert not public & {each.stem for each in path.parent.iterdir()}, name


def test_the_version_is_that_of_the_distribution() -> None:
    assert pullqueue.__version__ == version("pullqueue")


def test_an_unknown_name_is_an_attribute_error() -> None:
    """The module's lazy lookup does not hide misspellings."""
    with pytest.raises(AttributeError, match='has no attribute "Emulater"'):
        _ = pullqueue.Emulater


def test_neither_imports_nor_help_bring_anything_heavy_along() -> None:
    """The package, its stores and its helpers for tests; test_plugin_basics has the plugin."""
    code = (
        "import sys, pullqueue.stores, pullqueue.testing; print(*sys.modules); "
        "from pullqueue.cli import main; main(['--help']); print(*sys.modules)"
    )
    env = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE")}
    done = completed([sys.executable, "-c", code], check=True, env=env)
    imported, *shown, after_help = done.stdout.splitlines()

    heavy = {"flask", "google.appengine", "jsonschema", "psycopg", "sqlite3", "werkzeug", "yaml"}
    assert not {*heavy, "click"} & {*imported.split()}
    assert "  serve " in "".join(shown)
    assert not {*heavy, "waitress"} & {*after_help.split()}


def modules_of(part: str) -> list[Path]:
    """Return the modules of a part of the package, which is a module or a folder."""
    path = SOURCE / part
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


MODULES = {
    ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
    for root in (SOURCE.parent, ROOT / "pytest_plugin", ROOT / "schemas")
    for path in root.rglob("*.py")
}
"""The files of all modules, by the names under which they are imported."""


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Return the statements of a module, with those of its classes and functions."""
    return [*statements(tree_of(path))]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in the blocks of a statement; to walk expressions, too, takes three times."""
    for block in ("body", "handlers", "orelse", "finalbody", "cases"):
        for each in getattr(node, block, ()):
            yield each
            yield from statements(each)


def names_imported_by(nodes: Iterable[ast.AST]) -> set[str]:
    """Return what some statements import of our own, as dotted names."""
    names = {
        f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    names |= {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
    return {name if name in MODULES else name.rpartition(".")[0] for name in names} & {*MODULES}


def for_types_only(nodes: Iterable[ast.AST]) -> list[ast.stmt]:
    """Return the statements of `if TYPE_CHECKING`."""
    return [
        each
        for node in nodes
        if isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
        for each in node.body
    ]


def imports_of(path: Path) -> set[str]:
    """Return the parts that a module imports, but for those of `if TYPE_CHECKING`."""
    unused = {*for_types_only(nodes_of(path))}
    names = names_imported_by(node for node in nodes_of(path) if node not in unused)
    return {name.split(".")[1] for name in names if name.startswith("pullqueue.")}


def test_helpers_of_tests_do_not_import_those_that_explore() -> None:
    """`crash_test` and `race_test` use points and the other helpers, and not the reverse."""
    testing = SOURCE / "testing"
    for path in {*modules_of("testing")} - {
        testing / "__init__.py",
        *testing.glob("exploration/*"),
    }:
        imported = names_imported_by(nodes_of(path))
        assert not [name for name in imported if "testing.exploration" in name], path


def test_every_part_has_a_place_in_the_order() -> None:
    parts = {path.stem for path in SOURCE.iterdir() if path.suffix in ("", ".py")}

    assert {part for part in parts if not part.startswith("__")} == {*ORDER}


def test_the_page_on_the_architecture_has_the_order_of_the_parts() -> None:
    """The plugin comes last."""
    page = (SOURCE.parents[1] / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    (block,) = re.findall(r"^```\{code-block\} text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)

    assert re.findall(r"\w+", block) == [*ORDER, "plugin"]


def test_imports_run_one_way() -> None:
    """Each part imports only parts before it, but for the public address of the loader."""
    for number, part in enumerate(ORDER):
        for path in {*modules_of(part)} - {SOURCE / "config" / "__init__.py"}:
            wrong = imports_of(path) - {*ORDER[: number + 1]}
            assert not wrong, f"{path} imports {wrong}"


def test_no_private_module_of_a_dependency_is_imported() -> None:
    """Private names are for `sdk/`; ruff's SLF001 holds the same for attributes."""
    parts = [part for part in ORDER if part not in ("sdk", "testing")]
    for path in (path for part in parts for path in modules_of(part)):
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("pullqueue"):
                names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                private = [name for name in names if re.match(r"_(?!_|typeshed)", name)]
                assert private == [], f"{path}:{node.lineno}"


def test_only_commands_import_click() -> None:
    """Every other part can be used without a command line."""
    users = {
        path.relative_to(SOURCE).parts[0]
        for path in SOURCE.rglob("*.py")
        if re.search(r"^ *(import|from) click\b", path.read_text("utf-8"), re.MULTILINE)
    }

    assert users == {"cli"}


def test_the_engine_knows_nothing_of_the_world() -> None:
    """The engine imports no file, socket, environment, YAML or web library, and names no SDK."""
    permitted = set(sys.stdlib_module_names) - {"socket", "http", "urllib", "subprocess", "pathlib"}
    for path in (SOURCE / "engine").rglob("*.py"):
        assert "google.appengine" not in path.read_text("utf-8"), path
        for node in nodes_of(path):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            roots = {name.partition(".")[0] for name in names}
            assert roots <= permitted | {"pullqueue"}, f"{path} imports {roots - permitted}"


def test_no_module_imports_itself_through_others() -> None:
    """Imports have no cycles, within a part either, nor have those for types only.

    Late imports may go back, and a package names the types that they return.
    """
    graph: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        statements = tree_of(path).body
        types = [] if path.name == "__init__.py" else for_types_only(statements)
        graph[name] = names_imported_by([*statements, *types]) - {name}

    TopologicalSorter(graph).prepare()


def test_private_modules_are_used_by_their_package_only() -> None:
    for name, path in MODULES.items():
        imported = names_imported_by(nodes_of(path))
        private = {other for other in imported if re.search(r"\._(?!_)", other)}
        strangers = {p for p in private if not name.startswith(p.partition("._")[0])}
        assert not strangers, f"{path} imports {strangers}"
