"""Nothing that a hostile server answers can control the terminal."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from commands import shown_on_terminal
from odd_servers import always_answering, answering

from pullqueue.cli import main
from pullqueue.error_codes import LOCALIZED_MESSAGE
from pullqueue.resources import openapi

EVIL = "\x1b]0;owned\x07\x1b[31m\x9b2J\x7f\r\u202e"
NOT_SAFE = "[^\n\x20-\x7e…]"
ERROR = {"message": EVIL, "details": [{"@type": LOCALIZED_MESSAGE, "message": EVIL}]}
NUMBERS = {
    *("attempts", "exhausted", "lease_seconds_left", "leased", "longest_seconds", "milliseconds"),
    *("oldest_age_seconds", "retrying", "running", "scheduled", "task_count", "tasks", "times"),
    *("total", "uptime_seconds"),
}
"""What commands calculate with; other numbers are hostile, too."""


@cache
def document() -> dict[str, Any]:
    return openapi.document()


def hostile(schema: dict[str, Any], name: str = "") -> Any:
    """Return a value of a schema of the document, with a hostile text wherever there can be one."""
    kinds = schema.get("anyOf", [schema])  # null is the first of them with an old msgspec
    schema = next((each for each in kinds if each.get("type") != "null"), schema)
    schema = document()["components"]["schemas"].get(schema.get("$ref", "").split("/")[-1], schema)
    kind = schema.get("type")
    if "properties" in schema:
        return {key: hostile(each, key) for key, each in schema["properties"].items()}
    if kind == "object":
        others = schema.get("additionalProperties")
        return {EVIL: hostile(others if isinstance(others, dict) else {}, name)}
    if kind == "array":
        return [hostile(each, name) for each in schema.get("prefixItems") or [schema["items"]]]
    if kind == "boolean" or (kind != "string" and name in NUMBERS):
        return name != "is_complete"  # what is not complete leads to a note
    if name == "base64":
        return b64encode(EVIL.encode()).decode()
    return "2026-01-01T00:00:00+00:00" if schema.get("format") == "date-time" else EVIL


def hostile_answer(verb: str, path: str) -> Any:
    """Return what a hostile server answers to a call of a route."""
    for template, operations in document()["paths"].items():
        pattern = re.sub(r"\{\w+\}", "[^/]+", template)
        if verb.lower() in operations and re.fullmatch(f"/_emulator{pattern}", path):
            content = operations[verb.lower()]["responses"]["200"]["content"]
            return hostile(content["application/json"]["schema"])
    raise AssertionError(f"{verb} {path} is not documented")


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
    "snapshot load {files}/snapshot.json",
    "clock",
    "clock advance 1",
    "credentials a@example.com",
    "faults",
    "faults add empty_leases",
    "faults clear",
    "seed {files}/seeds.yaml",
    "wait --empty pull --timeout 0",
]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "seeds.yaml").write_text("pull: [work]\n")
    (tmp_path / "snapshot.json").write_text('{"format": "pullqueue-snapshot/1", "queues": {}}')
    return tmp_path


def test_answers_on_a_terminal(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Names, tags, payloads, times and numbers are printed escaped, whatever the server sends."""
    with always_answering(hostile_answer) as address:
        for command in COMMANDS:
            order = command.format(files=files).split()
            shown = shown_on_terminal(*order, "--url", address)
            assert shown, command
            assert caplog.messages == []  # `the command failed because of a bug`
            assert re.findall(NOT_SAFE, shown) == [], command


def test_errors_on_a_terminal(files: Path) -> None:
    with always_answering({"error": ERROR}, 400) as address:
        for command in COMMANDS:
            order = command.format(files=files).split()
            shown = shown_on_terminal(*order, "--url", address)
            assert "owned" in shown, command
            assert re.findall(NOT_SAFE, shown) == [], command


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
    queue = hostile_answer("GET", "/_emulator/queues/pull")["queue"]
    queues = [{**queue, "name": name} for name in ("pull", EVIL, "a\nplain,b")]
    with always_answering({"queues": queues}) as address:
        monkeypatch.setenv("PULLQUEUE_EMULATOR_HOST", address)
        assert offered("queues", "list", "") == ["plain,pull"]


def test_json_keeps_the_content_of_strings(capfd: pytest.CaptureFixture[str]) -> None:
    with always_answering(hostile_answer) as address:
        assert main(("queues", "--json", "--url", address)) == 0

    shown = capfd.readouterr().out
    assert json.loads(shown)["queues"][0]["name"] == EVIL
    assert "\x1b" not in shown
