"""The faults and their options. Each is declared here, and nowhere else.

A fault is a method of `Faults`, listed in `KINDS`; its options are the parameters of the method and
the fields of `When`. The control routes, their OpenAPI document, the console's form and `pullqueue
faults` are derived from these signatures. `Wire` annotates an option whose JSON differs from what
Python takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    Self,
    TypeAlias,
    Unpack,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from pullqueue.clock import duration_usec, movable_clock
from pullqueue.engine.interceptors import VERBS, QueueCall
from pullqueue.engine.store import Lease
from pullqueue.errors import ClockError, DeadlineExceededError, TransientError
from pullqueue.faults import effects
from pullqueue.faults.fault import CallNext, Effect, Fault
from pullqueue.faults.when import When, Wire
from pullqueue.structs import about
from pullqueue.text import did_you_mean, quoted

if TYPE_CHECKING:
    from pullqueue.engine.emulator import Emulator
    from pullqueue.engine.queue import Queue
    from pullqueue.sdk.rpcs import ServiceCall

__tracebackhide__ = True  # a failed test is shown at its own line

CALLS: Final = VERBS
"""What a fault can affect; `lease_tasks` includes leases by tag."""
CALL_OF_METHOD: Final[Mapping[str, str]] = {
    "CreateTask": "add",
    "BatchCreateTasks": "add",
    "DeleteTask": "delete_tasks",
    "BatchDeleteTasks": "delete_tasks",
    "AcknowledgeTask": "delete_tasks",
    "RenewLease": "modify_task_lease",
    "CancelLease": "modify_task_lease",
    "PurgeQueue": "purge",
    "RunTask": "attempt",
    "GetTask": "get_task",
    "ListTasks": "list_tasks",
    "LeaseTasks": "lease_tasks",
    "insert": "add",
    "lease": "lease_tasks",
    "update": "modify_task_lease",
    "patch": "modify_task_lease",
    "delete": "delete_tasks",
    "get": "get_task",
    "list": "list_tasks",
}
"""The calls of the methods of Cloud Tasks, then of those of REST that have another name."""
METHODS: Final = tuple(method for method in CALL_OF_METHOD if method[0].isupper())
"""The methods of Cloud Tasks, whose names can be used for their calls."""

_RULES: Final[Mapping[str, str]] = {"status": "the status of a failed attempt is 300 to 599"}
"""What is reported of an option, where the type in JSON does not say why."""


Call: TypeAlias = Annotated[
    str,
    Wire(
        Literal[(*CALLS, *METHODS)],
        about("Call to affect, or a method of Cloud Tasks, which makes the call."),
    ),
]
Error: TypeAlias = Annotated[
    effects.ErrorSource,
    Wire(
        Literal[tuple(effects.ERRORS)],
        about(
            "Error that the call raises, or a status of gRPC that means one. Default: "
            "TransientError; DeadlineExceededError for lose_response."
        ),
    ),
]
Status: TypeAlias = Annotated[
    int | None,
    Wire(
        int, Meta(ge=300, le=599, description="HTTP status of the response, instead of an error.")
    ),
]
Seconds: TypeAlias = Annotated[
    float | timedelta,
    Wire(float, Meta(ge=0, description="Latency in seconds, by the manual clock. Default: 1.")),
]
_OF_TASKS: Final = ("url", "per_task")
"""The options that select tasks: of calls that are about known tasks."""
_CALLS_OF_TASKS: Final = ("attempt", "add")


class Faults:
    """Sets faults in the calls to an emulator, through every interface.

        faults = Faults(emulator)
        faults.fail("lease_tasks", TransientError, times=3)

    Each method returns the fault it sets: its `hits` count how often it has triggered, `remove()`
    or a `with` block removes it. `clear()` or a `with` block of `Faults` removes all of them.

    At most one fault triggers on each call: the one that was set first. One without `times`
    prevents later faults of the same call from triggering.

    `lease_tasks` includes leases by tag, `lease_tasks_by_tag` means only those. The assertions of
    `pullqueue.testing` trigger no fault.
    """

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._faults: list[Fault] = []

    @property
    def active(self) -> list[Fault]:
        """The faults set here and not removed, in the order in which they were set."""
        return [fault for fault in self._faults if fault.is_set]

    def fail(
        self,
        call: Call,
        error: Error = TransientError,
        *,
        status: Status = None,
        **when: Unpack[When],
    ) -> Fault:
        """Raise an error instead of carrying the call out.

        `error` is an error of pullqueue, of App Engine's SDK or of Google's clients
        (`google.api_core.exceptions`), the class of one, or a status of gRPC such as "UNAVAILABLE".
        All names mean the same: apps that use the SDK get the SDK's exception, callers of an API
        its status. An `attempt` gets no response, or a response with a `status`; nothing is sent.

        With the fixture `pullqueue_sdk`, `call` can be one to a bundled service, such as
        `"datastore_v3.Commit"`. `error` is then an error of the SDK, by default a timeout.

        Raises:
            ValueError: the call does not exist, has no status, or `when` is not valid.
            TypeError: `error` is not one of these.
        """
        call = _call_of(call)
        if "." in call:
            return self._fail_service("fail", call, error, when)
        effects.make_error(error)
        _check_call(call)
        if status is None:
            arguments: dict[str, object] = {"call": call, "error": error}
        elif call != "attempt":
            raise ValueError(f"status is {status}, and {call} has none: use error=, or attempt")
        else:
            _check("status", status)
            arguments = {"call": call, "status": status}

        def effect(intercepted: QueueCall, _: CallNext) -> object:
            if status is not None:
                return status
            raise effects.make_error(error, intercepted.queue.name)

        return self._set("fail", arguments, when, effect)

    def lose_response(
        self, call: Call, error: Error = DeadlineExceededError, **when: Unpack[When]
    ) -> Fault:
        """Carry out the call and raise an error nevertheless: the response is lost.

        `call` and `error` are as in `fail`.

        Raises:
            ValueError: the call does not exist, or `when` is not valid.
            TypeError: `error` is not one of these.
        """
        call = _call_of(call)
        if "." in call:
            return self._fail_service("lose_response", call, error, when)
        effects.make_error(error)

        def effect(intercepted: QueueCall, call_next: CallNext) -> object:
            call_next()
            raise effects.make_error(error, intercepted.queue.name)

        return self._set("lose_response", {"call": call, "error": error}, when, effect)

    def latency(self, call: Call, seconds: Seconds = 1, **when: Unpack[When]) -> Fault:
        """Move the clock forward before the call returns.

        It moves by seconds or a timedelta. Calls of the SDK have a deadline, by default 10 seconds
        for leases. If the latency exceeds it, the call is carried out, the clock advances by the
        deadline, and the call raises DeadlineExceededError.

        Raises:
            ValueError: the call does not exist, or `when` is not valid.
            ClockError: the emulator's clock cannot be moved, or not by that much.
        """
        clock = movable_clock(self._emulator)
        usec = duration_usec(seconds)
        if usec < 0:
            raise ClockError(f"latency is {seconds}: must be 0 or more")

        def effect(intercepted: QueueCall, call_next: CallNext) -> object:
            result = call_next()
            effects.advance(clock, usec, intercepted.deadline_usec)
            return result

        return self._set("latency", {"call": _call_of(call), "seconds": seconds}, when, effect)

    def empty_leases(self, **when: Unpack[When]) -> Fault:
        """Make leases return no tasks, as when they are requested too often.

        Raises:
            ValueError: `when` is not valid.
        """

        def effect(*_: object) -> object:
            return Lease([], rate_limited=True)

        return self._set("empty_leases", {}, when, effect)

    def expire_leases(
        self, other_worker: Callable[[], object] | None = None, **when: Unpack[When]
    ) -> Fault:
        """Make leases expire while the worker has them, so that their tasks are delivered twice.

        Before the worker's next call the clock moves to the end of the lease, and `other_worker`,
        a function without arguments, is called: it can lease the tasks, and delete them before the
        first worker does.

        Raises:
            ValueError: `when` is not valid.
            ClockError: the emulator's clock cannot be moved.
            TypeError: `other_worker` is not a function.
        """
        if other_worker is not None and not callable(other_worker):
            raise TypeError(
                f"other_worker is {quoted(other_worker)}: pass a function without arguments, which "
                "leases the tasks"
            )
        lapse = effects.Lapse(movable_clock(self._emulator), other_worker)
        fault = self._set("expire_leases", {}, when, lapse.note_lease)
        fault.before_call = lapse.before_call
        return fault

    def _fail_service(self, method: str, call: str, error: object, when: When) -> Fault:
        """Set a fault in calls to a bundled service, after which the SDK raises an error."""
        source = None if error in (TransientError, DeadlineExceededError) else error
        effects.check_service_fault(call, source)

        def effect(intercepted: ServiceCall, call_next: CallNext) -> object:
            intercepted.fail(source, is_lost=method == "lose_response")
            return call_next()

        arguments = {"call": call} if source is None else {"call": call, "error": source}
        return self._set(method, arguments, when, effect)

    def clear(self) -> None:
        """Remove all faults that were set here."""
        for fault in self.active:
            fault.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def _set(
        self, method: str, arguments: Mapping[str, object], when: When, effect: Effect
    ) -> Fault:
        call = str(arguments.get("call", "lease_tasks"))
        if not (is_of_service := "." in call):
            _check_call(call)
        for name in when.keys() - WHEN.keys():
            raise TypeError(f"{method}() has no argument `{name}`: use one of {', '.join(WHEN)}")
        for name in _OF_TASKS:
            if name in when and arguments.get("call") not in _CALLS_OF_TASKS:
                other = arguments.get("call", "a lease")
                raise ValueError(
                    f"{name} is for faults of attempt and add, not of {other}: remove it"
                )
        if "queues" in when and is_of_service:
            raise ValueError(f"queues is for faults of calls to queues, not of {call}: remove it")
        if "queues" in when:
            when["queues"] = self._names_of(when["queues"])
        for name, value in when.items():
            _check(name, value)
        texts = [
            f"status={value}" if name == "status" else _source_text(value)
            for name, value in arguments.items()
        ]
        texts += [f"{name}={_source_text(value)}" for name, value in when.items()]
        fault = Fault(f"{method}({', '.join(texts)})", arguments, when, effect)
        self._faults.append(fault.set_in(self._emulator))
        return fault

    def _names_of(self, queues: Iterable[Queue | str]) -> list[str]:
        if isinstance(queues, str) or not isinstance(queues, Iterable):
            raise TypeError(f"queues is {quoted(queues)}: pass a list, queues=[{quoted(queues)}]")
        names = [queue if isinstance(queue, str) else queue.name for queue in queues]
        return [self._emulator.queue(name).name for name in names]


def _call_of(name: str) -> str:
    """Return the call of a method of Cloud Tasks; another name as it is."""
    return CALL_OF_METHOD[name] if name in METHODS else name


def _check_call(call: object) -> None:
    if call not in CALLS:
        raise ValueError(f"there is no call {quoted(call)}: {_advice_on(str(call))}")


def _advice_on(call: str) -> str:
    plain = call.replace("_", "").lower()
    for method, known in CALL_OF_METHOD.items():
        if plain == method.lower():
            return f"the call of {method} is {quoted(known)}"
    return did_you_mean(call, CALLS)


def _check(name: str, value: object) -> None:
    try:
        msgspec.convert(value, OPTIONS[name])
    except msgspec.ValidationError as error:
        problem = str(error)
        rule = _RULES.get(name, f"{problem[:1].lower()}{problem[1:]}")
        raise ValueError(f"{name} is {value}: {rule}") from None


def _source_text(argument: object) -> str:
    if isinstance(argument, type):
        return argument.__name__
    if isinstance(argument, list):
        return f"[{', '.join(map(_source_text, argument))}]"
    if isinstance(argument, str):
        return quoted(argument)
    return f"{argument:g}" if isinstance(argument, float) else repr(argument)


def _wire_types(declared: object) -> dict[str, Any]:
    """Return the annotated parameters of a function, or fields of a class, as JSON has them."""
    hints = get_type_hints(declared, localns={"Queue": object}, include_extras=True)
    annotated = {name: hint for name, hint in hints.items() if get_origin(hint) is Annotated}
    for name, hint in annotated.items():
        extra = hint.__metadata__[0]
        if isinstance(extra, Wire):
            annotated[name] = Annotated[extra.type, extra.meta]
    return annotated


WHEN: Final[Mapping[str, Any]] = _wire_types(When)
"""The options of every fault, and their types in JSON."""


class Kind:
    """A fault that can be set from outside of Python: by the routes, the command, the console."""

    def __init__(self, method: Callable[..., Fault], *, moves_clock: bool = False) -> None:
        self.name = method.__name__
        self.summary = (inspect.getdoc(method) or "").partition("\n")[0]
        self.options: Mapping[str, Any] = _wire_types(method)
        """Its options beside those of `WHEN`, and their types in JSON."""
        parameters = inspect.signature(method).parameters
        self.required = [
            n for n in self.options if parameters[n].default is inspect.Parameter.empty
        ]
        self.moves_clock = moves_clock
        self.set_in = method
        """Sets it in `Faults`."""


KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind(Faults.fail),
        Kind(Faults.lose_response),
        Kind(Faults.latency, moves_clock=True),
        Kind(Faults.empty_leases),
        Kind(Faults.expire_leases, moves_clock=True),
    )
}

OPTIONS: Final[Mapping[str, Any]] = {
    name: kind
    for options in (*(k.options for k in KINDS.values()), WHEN)
    for name, kind in options.items()
}
"""All options, and their types in JSON."""


def build_schema(option: str) -> dict[str, Any]:
    """Return the JSON Schema of an option."""
    return msgspec.json.schema(OPTIONS[option])


def options_text(fault: Mapping[str, Any]) -> str:
    """Return the options of a fault but its call, such as `error=TransientError, times=3`."""
    given = {name: fault[name] for name in OPTIONS if name in fault and name != "call"}
    return ", ".join(f"{name}={_option_text(value)}" for name, value in given.items())


def _option_text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return f"{value:.15g}" if isinstance(value, float) else str(value)
