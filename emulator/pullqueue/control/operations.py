"""What an operation of the control routes is: verb, path, what goes in and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from pullqueue.api.encoding import JSON_TYPE, Json
from pullqueue.api.errors import ApiError
from pullqueue.control import messages
from pullqueue.control.state import ServerState
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.queue import Queue

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

Schema = Mapping[str, Any]

_TRUTHS: Mapping[str, bool] = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What an operation answers."""

    body: Json | str
    """JSON, or text of another type."""
    status: int = 200
    content_type: str = JSON_TYPE


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call of an operation, its parameters and body checked."""

    state: ServerState
    values: Mapping[str, Any]
    """The parameters, of path and query, by name; absent ones have their default or are missing."""
    body: Json = field(default_factory=dict)

    @property
    def emulator(self) -> Emulator:
        """The emulator that is served."""
        return self.state.emulator

    @property
    def queue(self) -> Queue:
        """The queue that the path names.

        Raises:
            UnknownQueueError: there is none.
        """
        return self.emulator.queue(self.values["queue"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """A parameter in the query; those of the path are always required texts."""

    name: str
    description: str
    schema: Schema


LIMIT = Parameter(
    name="limit",
    description="How many at most.",
    schema={"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Operation:
    """One operation."""

    id: str
    verb: str
    path: str
    """Behind `/_emulator`, with parameters in braces."""
    summary: str
    handle: Callable[[Call], Answer]
    answer: Schema
    parameters: tuple[Parameter, ...] = ()
    body: Schema | None = None
    reads_body: bool = False
    """Whether `handle` checks the body by itself, since the schema would take too long."""
    content_type: str = JSON_TYPE

    @property
    def path_parameters(self) -> list[str]:
        """The names of the parameters in the path."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    def checked(self, path: Mapping[str, str], query: Mapping[str, str]) -> dict[str, Any]:
        """Give the parameters by name, with their types and defaults.

        Raises:
            ApiError: one is unknown or not valid.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        values: dict[str, Any] = {
            name: parameter.schema["default"]
            for name, parameter in known.items()
            if "default" in parameter.schema
        }
        for name, text in query.items():
            if name not in known:
                raise ApiError.parameter(_unknown(name, sorted(known)), name)
            values[name] = _converted(text, known[name])
        return {**values, **path}

    def checked_body(self, body: Json) -> Json:
        """Give a body that is as the operation wants it.

        Raises:
            ApiError: it is not.
        """
        if self.body is not None and not self.reads_body:
            _check(body, self.id, self.body, place="the body")
        return body


def _converted(text: str, parameter: Parameter) -> str | int:
    kind = parameter.schema["type"]
    value: str | int = text
    try:
        if kind == "integer":
            value = int(text)
        elif kind == "boolean":
            value = _TRUTHS[text.lower()]
    except (ValueError, KeyError):
        message = f"{parameter.name} is {text!r:.100}: give {_A[kind]}"
        raise ApiError.parameter(message, parameter.name) from None
    _check(value, parameter.name, parameter.schema, place=parameter.name)
    return value


_A: Mapping[str, str] = {"integer": "a whole number", "boolean": "true or false"}


def _unknown(name: str, known: list[str]) -> str:
    if not known:
        return f"there is no parameter {name!r:.100}: this route takes none"
    return f"there is no parameter {name!r:.100}: this route takes {', '.join(known)}"


def _check(value: Json | str | float, key: str, schema: Schema, *, place: str) -> None:
    from jsonschema.exceptions import best_match  # noqa: PLC0415 - slow to import, seldom needed

    error = best_match(_validator(key, _Held(schema)).iter_errors(value))
    if error is not None:
        raise ApiError(messages.of(error, place=place))


class _Held:
    """A schema as a key of the cache: the same object is the same schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and other.schema is self.schema


@cache
def _validator(_key: str, held: _Held) -> Validator:
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - the same

    return Draft202012Validator(held.schema)
