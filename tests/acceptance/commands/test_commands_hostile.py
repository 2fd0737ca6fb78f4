"""Nothing that a hostile server answers can control the terminal."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode

import pytest
from commands import PROGRAM, all_shown_on_terminal, shown_on_terminal
from odd_servers import always_answering, answering
from programs import completed

EVIL = "\x1b]0;owned\x07\x1b[31m\x9b2J\x7f\r\u202e"
NOT_SAFE = "[^\n\x20-\x7e…]"
_TIME = "2026-01-01T00:00:00+00:00"
_TASK = {
    "name": EVIL,
    "queue": EVIL,
    "tag": EVIL,
    "state": EVIL,
    "eta": _TIME,
    "lease_seconds_left": None,
    "retry_count": EVIL,
    "retry_limit": EVIL,
    "payload": {"bytes": EVIL, "text": EVIL, "base64": b64encode(EVIL.encode()).decode()},
}
_QUEUE = {
    "name": EVIL,
    "mode": "pull",
    "state": EVIL,
    **dict.fromkeys(("tasks", "available", "leased", "scheduled", "exhausted", "paused"), 1),
    "oldest_age_seconds": 1.5,
    "leased_last_minute": EVIL,
    "leased_last_hour": EVIL,
    "kept": EVIL,
    "settings": {"retry_parameters": {"task_retry_limit": EVIL}},
}
_EVENT = {
    "time": _TIME,
    "kind": EVIL,
    "until": None,
    "status": EVIL,
    "interface": EVIL,
    "client": EVIL,
    "request": EVIL,
}
_REQUEST = {
    "time": _TIME,
    "milliseconds": 1.5,
    "task_count": 2,
    "tasks": [EVIL],
    **dict.fromkeys(("number", "interface", "method", "verb", "path", "query", "queue"), EVIL),
    **dict.fromkeys(("status", "caller", "agent", "client"), EVIL),
    "body": {"bytes": EVIL, "truncated": True, "text": EVIL},
    "response": {"bytes": EVIL, "truncated": False, "text": EVIL},
}
_FAULT = {"number": EVIL, "kind": EVIL, "call": EVIL, "error": EVIL, "hits": EVIL, "calls": EVIL}
ANSWER = {
    "queue": _QUEUE,
    "queues": [_QUEUE],
    "task": _TASK,
    "tasks": [_TASK],
    "next": None,
    "events": [_EVENT],
    "problem": EVIL,
    "missing": EVIL,
    "requests": [_REQUEST],
    "request": _REQUEST,
    "clock": {"now": _TIME, "manual": True},
    "paused": [EVIL],
    "exhausted": {EVIL: 1},
    "push": {"addresses": [EVIL], "tasks": 1, "kept": {EVIL: EVIL}},
    "steps": [{"queue": EVIL, "expired": 1, "due": 1, "exhausted": 1, "sending": EVIL}],
    **dict.fromkeys(("url", "grpc", "store", "auth", "project", "file", "profile"), EVIL),
    "manual_clock": True,
    "push_to": [EVIL],
    "uptime_seconds": 1.5,
    "python": EVIL,
    "refused": {},
    "rate_limited": False,
    "changed": [EVIL],
    "failed": {EVIL: EVIL},
    "deleted": EVIL,
    "added": [EVIL],
    "removed": [EVIL],
    "now": EVIL,
    "manual": True,
    "fault": {**_FAULT, "queues": [EVIL]},
    "faults": [_FAULT],
    "version": EVIL,
    "private_key": EVIL,
}
COMMANDS = [
    "queues",
    "stats",
    "stats pull",
    "tasks list pull",
    "tasks list --state exhausted",
    "requests",
    "requests 1",
    "server",
    "pause pull",
    "tasks get pull a",
    "tasks get pull a --payload",
    "tasks add pull x",
    "tasks lease pull",
    "tasks extend pull a",
    "tasks release pull a",
    "tasks release pull a b",
    "tasks delete pull a",
    "tasks requeue pull a",
    "tasks purge pull --yes",
    "tasks purge pull",
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
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what a terminal gets of each command."""
    return shown_of_all(tmp_path_factory, ANSWER, 200)


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the same where the server refuses everything."""
    error = {"message": EVIL, "errors": [{"debugInfo": EVIL}]}
    return shown_of_all(tmp_path_factory, {"error": error}, 400)


def shown_of_all(folders: pytest.TempPathFactory, answer: object, status: int) -> dict[str, str]:
    """Run all commands against a server that answers each with the same."""
    seeds = folders.mktemp("seeds") / "seeds.yaml"
    seeds.write_text("pull: [work]\n")
    commands = [command.format(seeds=seeds) for command in COMMANDS]
    with always_answering(answer, status) as address:
        shown = all_shown_on_terminal(commands, "--url", address)
    return dict(zip(COMMANDS, shown.values(), strict=True))


@pytest.mark.parametrize("command", COMMANDS)
def test_answers_on_a_terminal(command: str, answers: dict[str, str]) -> None:
    """Names, tags, payloads, times and numbers are printed escaped, whatever the server sends."""
    assert answers[command]
    assert re.findall(NOT_SAFE, answers[command]) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_errors_on_a_terminal(command: str, errors: dict[str, str]) -> None:
    """So are its messages."""
    assert "owned" in errors[command]
    assert re.findall(NOT_SAFE, errors[command]) == []


def test_a_server_that_is_not_ready() -> None:
    """Its reason is printed escaped."""
    with always_answering({"ready": False, "reason": EVIL}, 503) as address:
        shown = shown_on_terminal("wait", "--timeout", "0", "--url", address)

    assert "owned" in shown
    assert re.findall(NOT_SAFE, shown) == []


@pytest.mark.parametrize("status", [200, 400, 501])
def test_exec(status: int) -> None:
    """What the server of `exec` answers is printed escaped, too."""
    error = {"message": EVIL, "errors": [{"debugInfo": EVIL}]}
    body = json.dumps({"error": error}) if status == 400 else EVIL
    head = f"HTTP/1.1 {status} OK\r\nContent-Length: {len(body.encode())}\r\n\r\n"
    with answering((head + body).encode()) as address:
        shown = shown_on_terminal("exec", "--", "true", PULLQUEUE_EMULATOR_HOST=address)

    assert ("owned" in shown) == (status == 400)
    assert re.findall(NOT_SAFE, shown) == []


def test_completion() -> None:
    """Names with control characters are not offered."""
    evil = {"queues": [{**_QUEUE, "name": name} for name in ("pull", EVIL, "a\nplain,b")]}
    with always_answering(evil) as address:
        done = completed(
            [PROGRAM],
            check=True,
            env={
                **os.environ,
                "_PULLQUEUE_COMPLETE": "bash_complete",
                "COMP_WORDS": "pullqueue stats ",
                "COMP_CWORD": "2",
                "PULLQUEUE_EMULATOR_HOST": address,
            },
        )

    assert done.stdout == "plain,pull\n"


def test_json() -> None:
    """With --json the strings keep their content, in JSON's own escapes."""
    with always_answering(ANSWER) as address:
        done = completed([PROGRAM, "queues", "--json", "--url", address], check=True)

    assert json.loads(done.stdout)["queue"]["name"] == EVIL
    assert "\x1b" not in done.stdout
