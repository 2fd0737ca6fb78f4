"""The conformance table, replayed: what production answered is what a server answers.

Each fact of `docs/conformance.yaml` is tested in v2beta2 and in one of the other two versions,
whose messages are the same, each by one transport: they share their code.
"""

from __future__ import annotations

import csv
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from cloudtasks_api import ApiRefused, Call, GrpcApi, HttpClient, RestApi
from push_app import Control, PushApp, Received, push_app, until
from stores import LONG
from tables import each_row

from pullqueue import Emulator, Limits, ManualClock
from pullqueue.clock import movable_clock
from pullqueue.cloudtasks.versions import V2, V2BETA2, VERSIONS
from pullqueue.push.addresses import PushAddresses
from pullqueue.server.lifecycle import Server

LOCATION = "projects/app/locations/us-central1"
QUEUE = f"{LOCATION}/queues/recorded"
WEEK_SECONDS = 604_800
CLOSED = "http://127.0.0.1:9"
"""Where nothing listens."""
with (Path(__file__).parents[2] / "docs" / "conformance.yaml").open() as file:
    FACTS = yaml.load(file, yaml.CSafeLoader)["facts"]  # all workers read it, hundreds of facts
NOT_IN_V2BETA2 = ("CreateQueue", "dispatchDeadline", "appEngine", "answers")
"""Words of facts that v2beta2 has in another form."""


def cases() -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yield each fact with the versions and transports that it is tested with."""
    for number, fact in enumerate(FACTS):
        versions = [
            version
            for version in fact.get("versions", VERSIONS)
            if version != "v2beta2" or not any(name in str(fact) for name in NOT_IN_V2BETA2)
        ]
        if not LONG and len(versions) > 1:
            versions.remove(("v2", "v2beta3")[number % 2])
        for place, version in enumerate(versions, number // 2):
            chosen = ("REST", "gRPC") if LONG else (("REST", "gRPC")[place % 2],)
            for transport in [fact["transport"]] if "transport" in fact else chosen:
                yield fact, version, transport


class Target(PushApp):
    """Answers with one status after the other, a second later each; None: too late."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.answers: Iterator[int | None] = iter(())
        self._clock = clock

    def handle(self, received: Received) -> int:
        self.received.append(received)
        self._clock.advance(1)
        status = next(self.answers)
        if status is None:
            self.released.wait(1)
        return status or 200


class Replay:
    """A server, and what one fact needs of it."""

    def __init__(
        self, fact: dict[str, Any], version: str, transport: str, server: Server, app: Target
    ) -> None:
        self.app = app
        self._api: Call = (
            GrpcApi(server, version=VERSIONS[version])
            if transport == "gRPC"
            else RestApi(HttpClient(server.url), version=VERSIONS[version])
        )
        self._control = Control(server.url)
        self._v2 = RestApi(HttpClient(server.url), version=V2)
        self._v2beta2 = RestApi(HttpClient(server.url), version=V2BETA2)
        self._fact = fact

    def call(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        api = self._v2beta2 if name == "UploadQueueYaml" else self._api
        return api(name, **self._filled(request))

    def prepare(self) -> None:
        """Create the queue, and what was there before the call."""
        queue = {"name": QUEUE, "retryConfig": self._fact.get("retry", {})}
        self._v2("CreateQueue", parent=LOCATION, queue=queue)
        for step in self._fact.get("before", []):
            [(name, request)] = step.items()
            self.call(name, request)

    def deliver(self) -> None:
        """Create a task, and have it sent until the target has given all its answers."""
        answers, url = self._fact["answers"], f"{self.app.url}/work"
        request: dict[str, Any] = {"httpRequest": {"url": f"{CLOSED}/" if answers == [0] else url}}
        if self._fact["target"] == "app engine":
            request = {"appEngineHttpRequest": {"relativeUri": "/work"}}
        if None in answers:
            request["dispatchDeadline"] = "0.2s"
        name = f"{QUEUE}/tasks/one"
        self.call("PauseQueue", {"name": QUEUE})
        self.call("CreateTask", {"parent": QUEUE, "task": {"name": name, **request}})
        if "wait" in self._fact:
            self.call("ResumeQueue", {"name": QUEUE})
        for number in range(1, len(answers) + 1):
            if "wait" not in self._fact:
                self.call("RunTask", {"name": name})
            elif number > 1:
                self._control.call("POST", "/clock", {"advance": 2**number})
            until(partial(self._has_ended, name, number))

    def _has_ended(self, task: str, attempt: int) -> bool:
        try:
            shown = self.call("GetTask", {"name": task})
        except ApiRefused:
            return True
        return shown.get("dispatchCount") == attempt and "responseTime" in shown["lastAttempt"]

    def _filled(self, value: Any) -> Any:
        """Return a value of the table with its placeholders replaced."""
        if isinstance(value, dict):
            return {key: self._filled(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        if not isinstance(value, str):
            return value
        if re.fullmatch(r"\d+ bytes", value):
            return b64encode(b"x" * int(value.removesuffix(" bytes"))).decode()
        return value.replace("{location}", LOCATION).replace("{queue}", QUEUE)

    def expected(self) -> dict[str, Any]:
        """Return what is answered here: as in production, but for what the table names."""
        fact: dict[str, Any] = self._filled(self._fact)
        ours: dict[str, Any] = fact.get("ours", {})
        return fact | ours


@contextmanager
def served(limits: Limits | None = None) -> Iterator[tuple[Server, Target]]:
    clock = ManualClock()
    app = Target(clock)
    emulator = Emulator.from_text("queue: []", clock=clock, limits=limits)
    with push_app(app), Server(emulator, push_to=PushAddresses([app.url])) as server:
        yield server, app


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Server, Target]]:
    with served() as server:
        yield server


@contextmanager
def replaying(
    shared: tuple[Server, Target], fact: dict[str, Any], version: str, transport: str
) -> Iterator[Replay]:
    """Yield the server for all facts, or one whose tasks may have any deadline."""
    answers = fact.get("answers", [])
    other = served(Limits(min_deadline_seconds=0)) if None in answers else nullcontext(shared)
    with other as (server, app):
        app.answers, app.received = iter(answers), []
        try:
            yield Replay(fact, version, transport, server, app)
        finally:
            for queue in server.emulator.queues:
                if queue.name != "default":
                    server.emulator.delete_queue(queue.name)
            movable_clock(server.emulator).advance(WEEK_SECONDS)  # all names are free again


@each_row(("fact", "version", "transport"), cases())
def test_a_recorded_fact_holds(
    shared: tuple[Server, Target], fact: dict[str, Any], version: str, transport: str
) -> None:
    with replaying(shared, fact, version, transport) as replay:
        check(replay, fact)


def check(replay: Replay, fact: dict[str, Any]) -> None:
    replay.prepare()
    if "answers" in fact:
        replay.deliver()
    expected = replay.expected()
    if fact["call"] == "delivery":
        check_headers(replay.app.received, expected["headers"])
        return
    request = {"name": f"{QUEUE}/tasks/one"} if "answers" in fact else fact["request"]
    if expected.get("code", "OK") != "OK":
        with pytest.raises(ApiRefused) as refused:
            replay.call(fact["call"], request)
        assert (refused.value.code, refused.value.message) == (expected["code"], expected["text"])
        details = expected.get("details", [])
        assert refused.value.details[: len(details)] == details
        return
    shown = replay.call(fact["call"], request)
    check_shown(shown, expected.get("shows", {}))
    if "wait" in fact:
        ended = datetime.fromisoformat(shown["lastAttempt"]["responseTime"])
        waited = datetime.fromisoformat(shown["scheduleTime"]) - ended
        assert waited.total_seconds() == fact["wait"]


def check_shown(shown: Any, expected: Any, path: str = "") -> None:
    """Check the fields that the table names: null is absent, `any` is set; headers are complete."""
    if not isinstance(expected, dict):
        assert expected in ("any", shown), path
        return
    if path.endswith(".headers"):
        assert shown == expected
    for name, value in expected.items():
        assert (name in shown) == (value is not None), f"{path}.{name}"
        if value is not None:
            check_shown(shown[name], value, f"{path}.{name}")


def check_headers(received: list[Received], expected: dict[str, list[str | None]]) -> None:
    for name, values in expected.items():
        sent = [{key.lower(): value for key, value in one.headers.items()} for one in received]
        assert [headers.get(name.lower()) for headers in sent] == values, name


def test_a_difference_has_a_reason() -> None:
    assert [fact["when"] for fact in FACTS if ("ours" in fact) != ("why" in fact)] == []


with (Path(__file__).parents[2] / "docs" / "recordings.csv").open(newline="") as file:
    RECORDINGS = list(csv.DictReader(file))


def test_what_is_called_the_same_is_tested() -> None:
    """Each recording that is the same here names the fact above, or the test, that shows it."""
    facts = {f"{fact['call']}: {fact['when']}" for fact in FACTS}
    folders = [Path(__file__).parents[1] / name for name in ("acceptance", "contract", "unit")]
    files = [path for folder in folders for path in folder.rglob("test_*.py")]
    sources = "".join(path.read_text("utf-8") for path in files)
    tests = set(re.findall(r"def (test_\w+)", sources))
    proofs = {"fact": facts, "test": tests}

    for row in RECORDINGS:
        kind, _, name = row["proof"].partition(": ")
        assert kind or row["verdict"] != "same", row
        assert not kind or name in proofs[kind], row


def test_what_is_not_the_same_says_why() -> None:
    assert {row["verdict"] for row in RECORDINGS} == {"same", "differs", "not supported"}
    assert [row for row in RECORDINGS if row["verdict"] != "same" and not row["note"]] == []
