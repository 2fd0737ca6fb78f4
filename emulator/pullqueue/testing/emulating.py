"""An emulator for the length of a block, with its clock, its faults and its interfaces."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pullqueue import config as queue_yaml
from pullqueue.clock import Clock, ManualClock, MovableClock, parse_time
from pullqueue.config.document import path_text
from pullqueue.config.files import read_bytes
from pullqueue.config.findings import InvalidQueueConfigError
from pullqueue.config.model import QueueConfig
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.memory.store import MemoryStore
from pullqueue.engine.store import StoreFactory, random_names
from pullqueue.errors import ClockError, ConfigFileError
from pullqueue.faults.declaration import Faults
from pullqueue.limits import Limits
from pullqueue.testing.clock import FixtureClock
from pullqueue.testing.describing import describe_rest
from pullqueue.testing.freezing import FreezerChoice, ProcessClock, is_frozen
from pullqueue.testing.freezing import freeze as freeze_process
from pullqueue.testing.live_server import LiveServer, live_server
from pullqueue.testing.points import emulator_of_sdk
from pullqueue.testing.record import record_calls, records_of
from pullqueue.text import quoted

if TYPE_CHECKING:
    from pullqueue.sdk.stub import EmulatorStub

ConfigSource: TypeAlias = "os.PathLike[str] | str | QueueConfig"
"""A path, the text of a queue.yaml (a str of more than one line), or a configuration."""
QueueEntries: TypeAlias = "Sequence[str | Mapping[str, object]]"
"""Names of pull queues, or entries as in queue.yaml."""

_NAME_SEED = 0


def emulation(
    config: ConfigSource | None = None,
    *,
    queues: QueueEntries | None = None,
    start: datetime | str | None = None,
    freeze: bool | FreezerChoice = False,
    sdk: bool = False,
    server: bool = False,
) -> AbstractContextManager[Emulation]:
    """Run an emulator in a `with` block, in any scope, such as a module or an example.

        with emulation(queues=["jobs"]) as emulated:
            emulated.emulator.queue("jobs").add("work")
            emulated.clock.advance(60)

    `config` is a path, the text of a queue.yaml, or a `QueueConfig`; without it and `queues`, the
    file `queue.yaml` in the current folder is read. `queues` are names of pull queues, or entries
    as in queue.yaml; there are no other queues.

    It has a manual clock of its own, which starts at `start`, an aware datetime or ISO 8601 text
    (2026-01-01T00:00Z if None). No time outside is frozen, unless `freeze` is True: then its clock
    is the time of the whole process, frozen by time-machine where it is installed, else by
    freezegun, or by the one that `freeze` names. Time that is frozen already stays as it is, and
    its clock moves it.

    With `sdk`, App Engine's SDK uses the emulator within the block; with `server`, a server of the
    REST API listens on a free port.

    Raises:
        TypeError: both `config` and `queues` are passed, or one has the wrong type.
        ClockError: `start` is not an aware datetime, or is set where time is frozen already.
        ImportError: the library that freezes time is not installed.
        ConfigFileError: the file cannot be read.
        InvalidQueueConfigError: the configuration is not valid.
        SdkInUseError: the block is inside another one, or in a test with `pullqueue_sdk`.
        SdkMissingError: App Engine's SDK is not installed.
    """
    if config is not None and queues is not None:
        raise TypeError("both config and queues are set: use one of them")
    parsed = read_config(config) if queues is None else queue_config(queues)
    started = None if start is None else parse_time(start, "start", ClockError)
    return Emulation.run(parsed, _clock(started, freeze), sdk=sdk, server=server)


@contextmanager
def _clock(start: datetime | None, freezer: FreezerChoice | bool) -> Iterator[MovableClock]:  # noqa: FBT001 - as users pass it
    """Yield a clock of its own, or that of the process, frozen."""
    if not freezer:
        yield ManualClock(start or ManualClock.DEFAULT_START)
    elif not is_frozen():
        library: FreezerChoice = "auto" if freezer is True else freezer
        with freeze_process(start or ManualClock.DEFAULT_START, freezer=library):
            yield ProcessClock()
    elif start is None:
        yield ProcessClock()
    else:
        raise ClockError(
            f"start is {start.isoformat()}, but time is frozen already: leave out start, or do not "
            "freeze time outside of emulation()"
        )


class Emulation:
    """An emulator under test, as `emulation` yields it."""

    def __init__(self, emulator: Emulator, clock: FixtureClock, faults: Faults) -> None:
        self.emulator = emulator
        self.clock = clock
        """Its clock, which only the test moves."""
        self.faults = faults
        """Sets faults in its calls; they are removed at the end of the block."""
        self._sdk: EmulatorStub | None = None
        self._server: LiveServer | None = None
        self._last_faults: list[str] | None = None
        """The faults that were set at the end of the block, after which they are removed."""
        self._records = list(records_of(emulator))

    @property
    def sdk(self) -> EmulatorStub:
        """The stub of App Engine's SDK, with `sdk=True`."""
        if self._sdk is None:
            raise AttributeError("App Engine's SDK is not in use here: use emulation(sdk=True)")
        return self._sdk

    @property
    def server(self) -> LiveServer:
        """The server of the REST API, with `server=True`."""
        if self._server is None:
            raise AttributeError("no server is running here: use emulation(server=True)")
        return self._server

    @classmethod
    @contextmanager
    def run(
        cls,
        config: QueueConfig,
        clock_of_block: AbstractContextManager[MovableClock],
        *,
        sdk: bool,
        server: bool,
    ) -> Iterator[Emulation]:
        """Run an emulator, and what else is asked for, until the block ends."""
        with ExitStack() as stack:
            clock = stack.enter_context(clock_of_block)
            emulator = stack.enter_context(emulated(config, clock=clock))
            faults = stack.enter_context(Faults(emulator))
            self = cls(emulator, FixtureClock(clock, lambda: emulator), faults)
            if sdk:
                from pullqueue.sdk import install  # noqa: PLC0415 - imports the SDK

                self._sdk = stack.enter_context(install(emulator))
            if server:
                self._server = stack.enter_context(live_server(emulator))
            latest[:] = [*(each for each in latest if not each.has_ended), self]
            try:
                yield self
            finally:
                self._last_faults = [str(fault) for fault in faults.active]

    @property
    def has_ended(self) -> bool:
        """True after the end of the block."""
        return self._last_faults is not None

    def describe(self, message: str) -> str:
        """Return the state of the queues and faults that a message does not show."""
        with ExitStack() as stack:
            for record in self._records if self.has_ended else ():
                stack.enter_context(self.emulator.interceptors.installed(record))
            state = describe_rest(self.emulator, message, self._last_faults)
        other = emulator_of_sdk() if self._sdk is None else None
        elsewhere = "" if other is None else f"App Engine's SDK uses another emulator: {other!r}"
        return "\n".join(filter(None, (elsewhere, state)))


latest: list[Emulation] = []
"""Those that run, and those that have ended since, for the reports of failed tests."""


@contextmanager
def emulated(
    config: QueueConfig,
    *,
    clock: Clock,
    limits: Limits | None = None,
    project: str | None = None,
    location: str | None = None,
    store: StoreFactory = MemoryStore,
) -> Iterator[Emulator]:
    """Make an emulator whose generated names are the same in each run, and which is empty."""
    emulator = Emulator(
        config,
        clock=clock,
        limits=limits,
        project=project,
        location=location,
        store=store,
        names=random_names(_NAME_SEED),
    )
    with closing(emulator):
        emulator.reset()
        with record_calls(emulator):
            yield emulator


_parse = lru_cache(maxsize=16)(queue_yaml.loads)
"""A configuration is a value, so tests can share it."""


def read_config(
    source: ConfigSource | None, *, name: str = "config", profile: str = "gcloud"
) -> QueueConfig:
    """Return the configuration of a source; without one, that of ./queue.yaml.

    `name` is what messages call a text.
    """
    if isinstance(source, QueueConfig):
        return source
    if not isinstance(source, str | os.PathLike | None):
        raise TypeError(
            f"config is {quoted(source)}: pass a path, the text of a queue.yaml or a "
            "QueueConfig; names of queues are given as queues=[...]"
        )
    if isinstance(source, str) and "\n" in source:
        return _parse(source, file=name, profile=profile)
    path = Path(source or "queue.yaml")
    if source is None and not path.exists():
        raise ConfigFileError(f"no queue.yaml in {path.absolute().parent}: pass config or queues")
    return _parse(read_bytes(path), file=str(path), profile=profile)


def queue_config(
    queues: QueueEntries, *, total_storage_limit: str | None = None, profile: str = "gcloud"
) -> QueueConfig:
    """Return a configuration that has exactly these queues."""
    if isinstance(queues, str) or not isinstance(queues, Sequence):
        raise TypeError(f"queues is {quoted(queues)}: pass a list of queue names or entries")
    tree: dict[str, object] = {"queue": [_entry(queue) for queue in queues]}
    if total_storage_limit is not None:
        tree["total_storage_limit"] = total_storage_limit
    try:
        config = _parse(json.dumps(tree), file="queues", profile=profile)  # JSON is YAML
    except InvalidQueueConfigError as error:
        # Lines and columns of the text that was generated here would mean nothing to the user.
        paths = [problem.path for problem in error.problems]
        places = [path_text(("queues", *p[1:]) if p[:1] == ("queue",) else p) for p in paths]
        texts = [f"{place}: {p.message}" for place, p in zip(places, error.problems, strict=True)]
        error.args = ("\n".join(texts),)
        raise
    return replace(config, default_queue=False)


def _entry(queue: object) -> Mapping[str, object]:
    if isinstance(queue, str):
        return {"mode": "pull", "name": queue}
    if isinstance(queue, Mapping):
        return {"mode": "pull", **queue}
    raise TypeError(
        f"queues contains {quoted(queue)}: pass a queue name, or an entry as in queue.yaml"
    )
