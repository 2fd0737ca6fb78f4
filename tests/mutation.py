"""Mutation testing of the engine and of faults: change one thing, and see whether a test notices.

    python tests/mutation.py                      # engine/, faults/, clock.py: half an hour
    python tests/mutation.py engine/memory/index.py      # one module
    python tests/mutation.py --list engine/memory/index.py

A mutant is killed when a test fails, or when it does not end. The tests of its module run first,
then all quick ones; what survives them is tested with all, the Hypothesis machines included
(without `--fast`). Survivors are printed with their
place and change; `docs/mutation.md` says why those that are known survive.

Each mutant runs in a process of its own, forked from one that has pytest loaded but not pullqueue.
Texts of messages, docstrings and annotations are left as they are.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import freezegun  # noqa: F401 - what the tests import is loaded once, before any fork
import hypothesis.stateful  # noqa: F401 - the same
import jsonschema  # noqa: F401 - the same
import pytest
import yaml  # noqa: F401 - the same

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "emulator" / "pullqueue"
TESTS = [
    *("tests/unit/engine", "tests/unit/test_clock.py", "tests/unit/test_tasks.py"),
    *("tests/unit/stores/test_stores_queues.py", "tests/unit/stores/test_stores_rules.py"),
    "tests/unit/testing/test_testing_faults.py",
]
LONG = "TestIndex or model_agree or chunks_stay_small or round_trip or threads"
"""The tests that the quick run leaves out, as pytest's -k."""
ELSEWHERE = "sqlite or postgres"
"""Tests of what is not mutated."""
PLUGINS = ["-p", "no:cacheprovider", "-p", "pytest_timeout", "-p", "xdist.plugin"]
CPU_SECONDS = {"nearest": 20, "quick": 20, "all": 60}

_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Break: ast.Continue,
    ast.Continue: ast.Break,
}

_CHANGEABLE = (
    *(ast.Compare, ast.BoolOp, ast.BinOp, ast.AugAssign, ast.Constant, ast.If, ast.While),
    *(ast.IfExp, ast.Return, ast.Expr, ast.Raise, ast.Delete, ast.Break, ast.Continue, ast.Assign),
)


class Mutant(NamedTuple):
    """One change in one module."""

    path: Path
    line: int
    change: str
    source: str

    @property
    def module(self) -> str:
        """The module's dotted name."""
        return ".".join(self.path.relative_to(PACKAGE.parent).with_suffix("").parts)

    def __str__(self) -> str:
        return f"{self.path.relative_to(PACKAGE)}:{self.line}: {self.change}"


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Returns the mutant where its module is imported."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find the mutated module, and no other."""
        if fullname != self.mutant.module:
            return None
        return importlib.util.spec_from_file_location(
            fullname,
            self.mutant.path,
            loader=self,
        )

    def get_source(self, fullname: str) -> str:
        """Return the changed source."""
        return self.mutant.source


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a module."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    left_alone = _left_alone(tree)
    for number, node in enumerate(ast.walk(tree)):
        if not isinstance(node, _CHANGEABLE) or id(node) in left_alone:
            continue
        for variant in range(2):
            changed = ast.parse(text)
            target = next(islice(ast.walk(changed), number, None))
            before = ast.unparse(target)
            parents = {id(c): p for p in ast.walk(changed) for c in ast.iter_child_nodes(p)}
            after = _mutate(target, parents.get(id(target)), variant)
            if after is None:
                break
            line = getattr(node, "lineno", 0)
            source = ast.unparse(ast.fix_missing_locations(changed))
            yield Mutant(path, line, f"{_short(before)}  ->  {_short(after)}", source)


def _short(code: str) -> str:
    code = " ".join(code.split())
    return code if len(code) <= 90 else code[:87] + "..."


def _left_alone(tree: ast.AST) -> set[int]:
    """Return the nodes that are not changed: annotations, docstrings, texts, type variables."""
    roots: list[ast.AST] = []
    for node in ast.walk(tree):
        if _is_text(node):
            roots.append(node)
        elif isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
            roots.append(node.annotation)
        elif isinstance(node, ast.FunctionDef) and node.returns:
            roots.append(node.returns)
        elif _is_for_types(node):
            roots.append(node)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            roots += node.exc.args
        elif isinstance(node, ast.ClassDef):
            roots += [*node.bases, *node.keywords]
    return {id(node) for root in roots for node in ast.walk(root)}


def _is_text(node: ast.AST) -> bool:
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or isinstance(node, ast.JoinedStr)


def _is_for_types(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("TypeVar", "ParamSpec", "cast")


def _mutate(node: ast.AST, parent: ast.AST | None, variant: int) -> str | None:
    """Change a node in place; None: there is no such variant."""
    if isinstance(node, ast.Compare | ast.BoolOp | ast.BinOp | ast.AugAssign):
        return _swap_operator(node, variant, parent)
    if variant:
        return None
    if isinstance(node, ast.Constant):
        return _change_constant(node)
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return f"not ({ast.unparse(node.test.operand)})"
    if isinstance(node, ast.Return):
        return _return_nothing(node)
    return _remove(node, parent)


def _return_nothing(node: ast.Return) -> str | None:
    if node.value is None or ast.unparse(node.value) == "None":
        return None
    node.value = ast.Constant(None)
    return "return None"


def _swap_operator(
    node: ast.Compare | ast.BoolOp | ast.BinOp | ast.AugAssign,
    variant: int,
    parent: ast.AST | None,
) -> str | None:
    if isinstance(node, ast.AugAssign) and variant == 1:
        return _remove(node, parent)
    operators = node.ops if isinstance(node, ast.Compare) else [node.op]
    if variant >= len(operators) or type(operators[variant]) not in _SWAPS:
        return None
    swapped = _SWAPS[type(operators[variant])]()
    if isinstance(node, ast.Compare):
        node.ops[variant] = swapped  # type: ignore[call-overload]
    else:
        node.op = swapped  # type: ignore[assignment]
    return ast.unparse(node)


def _change_constant(node: ast.Constant) -> str | None:
    value = node.value
    if isinstance(value, bool):
        node.value = not value
    elif isinstance(value, int | float):
        node.value = value + 1
    elif isinstance(value, str):
        node.value = f"X{value}"
    else:
        return None
    return ast.unparse(node)


def _remove(node: ast.AST, parent: ast.AST | None) -> str | None:
    if isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Attribute):
        return None  # a name that is missing is found by any test
    for field in ("body", "orelse", "finalbody"):
        statements = getattr(parent, field, None)
        if isinstance(statements, list) and node in statements:
            statements[statements.index(node)] = ast.Pass()
            return "removed"
    return None


def killed(mutant: Mutant | None, tests: str) -> bool:
    """Run `quick` tests, or `all`, against a mutant (None: the source as it is)."""
    child = os.fork()
    if child == 0:
        _run(mutant, tests)
    _, status = os.waitpid(child, 0)
    return status != 0


def _run(mutant: Mutant | None, tests: str) -> None:
    """Become the process that tests a mutant; does not return."""
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS[tests], CPU_SECONDS[tests]))
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        signal.alarm(10 * CPU_SECONDS[tests])  # for one that waits forever
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        if mutant is not None:
            sys.meta_path.insert(0, Mutated(mutant))
        skipped = ELSEWHERE if tests == "all" else f"{ELSEWHERE} or {LONG}"
        files = [_nearest(mutant)] if mutant and tests == "nearest" else TESTS
        code = pytest.main([*files, "-xq", *PLUGINS, "-k", f"not ({skipped})"])
    finally:
        os._exit(int(code))


def _nearest(mutant: Mutant) -> str:
    """Return the file that tests the mutated module most, and kills most of its mutants."""
    files = [ROOT / name for name in TESTS[1:]] + [*(ROOT / TESTS[0]).glob("test_*.py")]
    named = {path.stem.rpartition("_")[2]: str(path) for path in files}
    return named.get(mutant.path.stem, named["queue"])


def survivors_of(mutants: Sequence[Mutant], tests: str) -> list[Mutant]:
    """Return the mutants that survive the tests, and tell of each as soon as it is known."""
    survivors: list[Mutant] = []
    for number, mutant in enumerate(mutants, 1):
        if not killed(mutant, tests):
            survivors.append(mutant)
            print(f"[{number}/{len(mutants)}] survives the {tests} tests: {mutant}", flush=True)
    return survivors


def main(arguments: Sequence[str]) -> int:
    """Run the mutants of some modules and tell the score."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("modules", nargs="*", help="such as engine/memory/index.py; all by default")
    parser.add_argument("--fast", action="store_true", help="leave out tests with Hypothesis")
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    options = parser.parse_args(arguments)
    paths = [PACKAGE / module for module in options.modules]
    folders = (PACKAGE / "engine", PACKAGE / "faults")
    paths = paths or [PACKAGE / "clock.py", *(p for f in folders for p in sorted(f.rglob("*.py")))]
    mutants = [mutant for path in paths for mutant in mutants_of(path)]
    if options.list:
        print(*mutants, sep="\n")
        return 0
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PULLQUEUE_TEST_POSTGRES", None)
    if killed(None, "quick"):
        print("the tests fail without any mutant", file=sys.stderr)
        return 2
    survivors: Sequence[Mutant] = mutants
    for tests in ("nearest", "quick") if options.fast else ("nearest", "quick", "all"):
        survivors = survivors_of(survivors, tests)
    score = 1 - len(survivors) / max(len(mutants), 1)
    print(f"{len(mutants)} mutants, {len(survivors)} survived: {score:.1%} killed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
