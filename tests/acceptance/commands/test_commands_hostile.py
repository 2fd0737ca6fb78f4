"""Nothing that a hostile server answers can control the terminal."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import shown_on_terminal
from odd_servers import always_answering, answering

from pullqueue.cli import main
from pullqueue.error_codes import LOCALIZED_MESSAGE

EVIL = "\x1b]0;owned\x07\x1b[31m\x9b2J\x7f\r\u202e"
NOT_SAFE = "[^\n\x20-\x7e…]"


def evil(names: str) -> dict[str, object]:
    """Return fields with a hostile value, whatever their type should be."""
    return dict.fromkeys(names.split(), EVIL)


ERROR = evil("message") | {"details": [{"@type": LOCALIZED_MESSAGE, **evil("message")}]}
_TIME = "2026-01-01T00:00:00+00:00"
_PULL_TASK = {
    **evil("name queue tag state retry_count retry_limit"),
    "eta": _TIME,
    "lease_seconds_left": None,
    "match": evil("field before text after"),
    "leased_by": {**evil("client"), "leased": _TIME},
    "push": None,
    "payload": {**evil("bytes text"), "base64": b64encode(EVIL.encode()).decode()},
}
_PUSH = {**evil("kept last_status last_reason limits"), "next_attempt": _TIME}
_PUSH_TASK = {**_PULL_TASK, "push": {**_PUSH, "request": evil("method url")}}
_QUEUE = {
    **evil("name state leased_last_minute leased_last_hour kept http_target"),
    "mode": "pull",
    **dict.fromkeys(("tasks", "available", "leased", "scheduled", "exhausted", "paused"), 1),
    **dict.fromkeys(("running", "retrying"), 1),
    "oldest_age_seconds": 1.5,
    "progress": {**evil("text severity"), "leased": 1, "done": 1, "failed": 1},
    "settings": {"retry_parameters": evil("task_retry_limit")},
}
_EVENT = {
    "time": _TIME,
    "until": None,
    "requeued": False,
    "attempts": 1,
    **evil("kind status reason interface client request"),
}
_REQUEST = {
    **evil("number interface method verb path query queue status reason caller agent client"),
    "time": _TIME,
    "milliseconds": 1.5,
    "task_count": 2,
    "times": 2,
    "tasks": [EVIL],
    "headers": [EVIL],
    "body": {**evil("bytes text"), "truncated": True},
    "response": {**evil("bytes text"), "truncated": False},
}
_MAIL = {
    **evil("number sender subject reply_to text html"),
    **{name: [EVIL] for name in ("to", "cc", "bcc")},
    "time": _TIME,
    "attachments": [evil("name bytes")],
}
_FAULT = evil("number kind call error hits calls")
ANSWER = {
    **evil("problem missing url grpc store auth project file profile python deleted now version"),
    **evil("private_key warning data"),
    "cron_jobs": 1,
    **{name: [EVIL] for name in ("paused", "push_to", "services", "changed", "added", "removed")},
    "settings": {EVIL: [EVIL]},
    "total_storage_limit": True,
    **dict.fromkeys(("manual", "manual_clock"), True),
    "queue": _QUEUE,
    "queues": [_QUEUE],
    "task": _PUSH_TASK,
    "tasks": [_PULL_TASK, _PUSH_TASK],
    "total": 3,
    "next": None,
    "events": [_EVENT],
    "last_response": {**evil("text base64"), "bytes": 1},
    "requests": [_REQUEST],
    "request": _REQUEST,
    "mails": [_MAIL],
    "mail": _MAIL,
    "clock": {"now": _TIME, "manual": True},
    "exhausted": {EVIL: 1},
    "unlisted": {EVIL: 1},
    "push": {"addresses": [EVIL], "tasks": 1, "kept": {EVIL: EVIL}},
    "steps": [
        {
            **evil("queue sending text"),
            **dict.fromkeys(("expired", "due", "delivered", "failed", "exhausted", "waiting"), 1),
        }
    ],
    "reached": True,
    "actions": [{**evil("text interface client"), "time": _TIME}],
    "workers": [
        {
            **evil("client leased expired calls failed last_method"),
            "longest_seconds": 1.5,
            **dict.fromkeys(("last", "until"), _TIME),
            "queues": [EVIL],
        }
    ],
    "failures": [
        {
            **evil("number queue state reason pattern text client"),
            **dict.fromkeys(("first", "last"), _TIME),
            "status": 500,
            "tasks": 1,
            "examples": [{**evil("task reason"), "time": _TIME}],
        }
    ],
    "is_complete": False,
    "uptime_seconds": 1.5,
    "refused": {},
    "rate_limited": False,
    "failed": {EVIL: EVIL},
    "fault": {**_FAULT, "queues": [EVIL]},
    "faults": [_FAULT],
}
COMMANDS = [
    "queues",
    "queues list pull",
    "tasks list pull",
    "tasks list --state exhausted",
    "requests",
    "requests 1",
    "mails",
    "mails 1",
    "server",
    "queues pause pull",
    "tasks get pull a",
    "tasks get pull a --payload",
    "tasks add pull x",
    "tasks lease pull",
    "tasks renew pull a",
    "tasks release pull a",
    "tasks release pull a b",
    "tasks delete pull a",
    "tasks requeue pull a",
    "tasks failures",
    "workers",
    "activity",
    "queues purge pull --yes",
    "queues purge pull",
    "reload",
    "reset",
    "snapshot save -",
    "snapshot load /dev/null",
    "clock",
    "clock advance 1",
    "credentials a@b",
    "faults",
    "faults add empty_leases",
    "faults clear",
    "seed {seeds}",
    "wait --empty pull --timeout 0",
]


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("seeds") / "seeds.yaml"
    path.write_text("pull: [work]\n")
    return path


@pytest.fixture(scope="module")
def answering_all() -> Iterator[str]:
    with always_answering(ANSWER) as address:
        yield address


@pytest.fixture(scope="module")
def refusing_all() -> Iterator[str]:
    with always_answering({"error": ERROR}, 400) as address:
        yield address


@pytest.mark.parametrize("command", COMMANDS)
def test_answers_on_a_terminal(
    command: str, seeds: Path, answering_all: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Names, tags, payloads, times and numbers are printed escaped, whatever the server sends."""
    order = command.format(seeds=seeds).split()
    shown = shown_on_terminal(*order, "--url", answering_all)

    assert shown
    assert caplog.messages == []  # `the command failed because of a bug`
    assert re.findall(NOT_SAFE, shown) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_errors_on_a_terminal(command: str, seeds: Path, refusing_all: str) -> None:
    order = command.format(seeds=seeds).split()
    shown = shown_on_terminal(*order, "--url", refusing_all)

    assert "owned" in shown
    assert re.findall(NOT_SAFE, shown) == []


def test_the_reason_of_a_server_that_is_not_ready_is_escaped() -> None:
    with always_answering({"ready": False, "reason": EVIL}, 503) as address:
        shown = shown_on_terminal("wait", "--timeout", "0", "--url", address)

    assert f"http://{address} is not ready: " in shown
    assert "owned" in shown
    assert re.findall(NOT_SAFE, shown) == []


@pytest.mark.parametrize("status", [200, 400, 501])
def test_exec_escapes_what_its_server_answers(status: int) -> None:
    body = json.dumps({"error": ERROR}) if status == 400 else EVIL
    head = f"HTTP/1.1 {status} OK\r\nContent-Length: {len(body.encode())}\r\n\r\n"
    with answering((head + body).encode()) as address:
        shown = shown_on_terminal("exec", "--", "true", PULLQUEUE_EMULATOR_HOST=address)

    assert ("owned" in shown) == (status == 400)
    assert re.findall(NOT_SAFE, shown) == []


# A completion ends without closing its connections.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_completion_offers_no_names_with_control_characters(
    monkeypatch: pytest.MonkeyPatch, offered: Callable[..., list[str]]
) -> None:
    queues = [{**_QUEUE, "name": name} for name in ("pull", EVIL, "a\nplain,b")]
    with always_answering({"queues": queues}) as address:
        monkeypatch.setenv("PULLQUEUE_EMULATOR_HOST", address)
        assert offered("queues", "list", "") == ["plain,pull"]


def test_json_keeps_the_content_of_strings(
    answering_all: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(("queues", "--json", "--url", answering_all)) == 0

    shown = capfd.readouterr().out
    assert json.loads(shown)["queues"][0]["name"] == EVIL
    assert "\x1b" not in shown
