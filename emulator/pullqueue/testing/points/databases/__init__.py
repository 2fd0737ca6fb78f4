"""The databases whose calls are points by themselves, by public hooks of the packages.

Each module here knows one of them. A package that was not imported is not looked for.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from dis import get_instructions
from importlib import import_module
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from weakref import WeakKeyDictionary

from pullqueue.testing.patching import Patches
from pullqueue.testing.place import app_modules, is_test_module
from pullqueue.testing.points.actors import Actor


@dataclass(frozen=True, kw_only=True, slots=True)
class Database:
    """A package by which apps call a database."""

    name: str
    """As reports show it."""
    packages: tuple[str, ...]
    """What apps import: the package itself, or another that uses it."""
    module: str = ""
    """Which module here has its hooks, `following`; empty: its calls are not seen."""
    used_by: tuple[str, ...] = ()
    """The names of those that use it; if they are seen, it is."""
    advice: str = "call pullqueue.testing.point() before each call, in a hook of the test"
    """What makes calls seen."""

    @property
    def is_followed(self) -> bool:
        """True if its calls can be points by themselves."""
        return bool(self.module)

    def has(self, module: str) -> bool:
        """Return whether a module is of the package, or of one that uses it."""
        return any(f"{module}.".startswith(f"{package}.") for package in self.packages)

    @property
    def is_loaded(self) -> bool:
        """True if the package was imported."""
        return any(package in sys.modules for package in self.packages)

    def follow(self) -> Patches:
        """Return what makes its calls points, in a block."""
        following: Patches = import_module(f"{__name__}.{self.module}").following
        return following


_ORMS = ("Django", "SQLAlchemy")

DATABASES = (
    Database(
        name="sqlite3",
        packages=("sqlite3", "_sqlite3"),
        module="sqlite",
        used_by=_ORMS,
        advice="make the connection in the actors or in setup, by sqlite3.connect",
    ),
    Database(
        name="SQLAlchemy",
        packages=("sqlalchemy", "flask_sqlalchemy", "sqlmodel"),
        module="sqlalchemy_events",
        advice="make the calls by its Connection or Session, not by a connection of the driver",
    ),
    Database(
        name="Django",
        packages=("django.db",),
        module="django",
        advice="make the calls by its ORM or its cursors, not by a connection of the driver",
    ),
    Database(
        name="Datastore",
        packages=("google.cloud.ndb", "google.cloud.datastore"),
        module="google_grpc",
        advice="make the calls over gRPC",
    ),
    Database(
        name="Firestore",
        packages=("google.cloud.firestore", "google.cloud.firestore_v1"),
        module="google_grpc",
        advice="make the calls over gRPC, and not by an AsyncClient",
    ),
    Database(
        name="redis",
        packages=("redis",),
        module="redis",
        advice="make the calls by redis.Redis, and not by redis.asyncio or a cluster",
    ),
    *(
        Database(name=name, packages=(name,), used_by=_ORMS)
        for name in ("asyncpg", "MySQLdb", "psycopg", "psycopg2", "pymysql")
    ),
    *(
        Database(name=name, packages=(name,))
        for name in ("google.cloud.bigtable", "google.cloud.spanner", "motor", "pymongo")
    ),
)


def find_unseen(seen: Collection[str], own: str) -> dict[Database, str]:
    """Return the databases that the app uses and that are not among those whose calls were seen.

    That is where one of its modules has the package, or anything of it, in a global, or a function
    that imports it; the values are the names of these modules. `own` is that of the test, which is
    not the app's.
    """
    left = [each for each in DATABASES if not {each.name, *each.used_by} & {*seen}]
    found: dict[Database, str] = {}
    for name, module in app_modules().items():
        if name == own or is_test_module(name):
            continue
        origins = {*map(_origin, vars(module).values()), *_imports_in_functions(module)}
        found |= {
            database: name
            for database in left
            if database not in found and any(map(database.has, origins))
        }
    return found


def _origin(value: object) -> str:
    """Return the module of a value, or of its class; nothing else is asked of it."""
    kind = type(value)
    if kind is ModuleType:
        return str(vars(value)["__name__"])
    named = value if kind in (type, FunctionType, BuiltinFunctionType) else kind
    return str(getattr(named, "__module__", ""))


def _imports_in_functions(module: ModuleType) -> frozenset[str]:
    """Return what functions of a module import, by its code."""
    if module not in _imports:
        find_code = getattr(vars(module).get("__loader__"), "get_code", None)
        code = None
        with suppress(ImportError):
            code = find_code(module.__name__) if find_code else None
        _imports[module] = frozenset(_imported(code) if code else ())
    return _imports[module]


_imports: WeakKeyDictionary[ModuleType, frozenset[str]] = WeakKeyDictionary()
_TOP_LEVEL = frozenset(package.partition(".")[0] for each in DATABASES for package in each.packages)


def _imported(code: CodeType, *, is_function: bool = False) -> Iterator[str]:
    """Yield the absolute names that functions in some code import."""
    names = {name.partition(".")[0] for name in code.co_names}
    if is_function and not _TOP_LEVEL.isdisjoint(names):
        steps = [each for each in get_instructions(code) if each.opname != "EXTENDED_ARG"]
        for index, step in enumerate(steps):
            if step.opname == "IMPORT_NAME" and not steps[index - 2].argval:  # it is not relative
                yield step.argval
                yield from (f"{step.argval}.{name}" for name in steps[index - 1].argval or ())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _imported(constant, is_function=True)


def release(actor: Actor) -> None:
    """Roll back the transactions of an actor that has ended, as the end of its instance does."""
    if sqlite := sys.modules.get(f"{__name__}.sqlite"):  # others do that where it is interrupted
        sqlite.release(actor)
