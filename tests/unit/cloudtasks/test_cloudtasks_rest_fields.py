"""What of a JSON request is not valid: each type of field at, below and above its limits."""

from __future__ import annotations

from typing import Any

import pytest
from cloudtasks_api import PULL, ApiRefused, RestApi
from tables import each_row

from pullqueue.cloudtasks.errors import CloudTasksError
from pullqueue.cloudtasks.messages import message_class
from pullqueue.cloudtasks.rest_fields import parse_values

PROTO = "type.googleapis.com/google.protobuf."
TASKS = "type.googleapis.com/google.cloud.tasks.v2."
PAYLOAD = "Invalid JSON payload received."
ILLEGAL = "Illegal duration format; duration must end with 's'"
LIMITS = "Duration value exceeds limits"
FORMAT = "Invalid duration format, failed to parse"
LONGEST = 315_576_000_000

VALUES: tuple[tuple[str, Any, str | None], ...] = (
    # Durations of 10,000 years, with up to nine decimals.
    *(("max_backoff", f"{seconds}s", None) for seconds in (-LONGEST, -1, 0, 1, LONGEST)),
    ("max_backoff", f"{LONGEST + 1}s", LIMITS),
    ("max_backoff", f"-{LONGEST + 1}s", LIMITS),
    ("max_backoff", f"{'9' * 5000}s", LIMITS),
    ("max_backoff", "0.123456789s", None),
    ("max_backoff", "0.1000000001s", LIMITS),
    ("max_backoff", "1", ILLEGAL),
    ("max_backoff", "NaN", ILLEGAL),
    ("max_backoff", "", ILLEGAL),
    ("max_backoff", "s", f"{FORMAT} seconds"),
    ("max_backoff", "one s", f"{FORMAT} seconds"),
    ("max_backoff", "1xs", f"{FORMAT} seconds"),
    ("max_backoff", "123.DEFs", f"{FORMAT} nano seconds"),
    ("max_backoff", 1, "Invalid data type for duration, value is 1"),
    ("max_backoff", True, "Invalid data type for duration, value is true"),
    ("max_backoff", None, None),
    # Times of the years 1 to 9999, with up to nine decimals.
    ("purge_time", "0001-01-01T00:00:00Z", None),
    ("purge_time", "9999-12-31T23:59:59.999999999Z", None),
    ("purge_time", "2026-01-01T00:00:00+23:59", None),
    ("purge_time", "0000-12-31T23:59:59Z", "Invalid time format: 0000-12-31T23:59:59Z"),
    ("purge_time", "10000-01-01T00:00:00Z", "Invalid time format: 10000-01-01T00:00:00Z"),
    ("purge_time", "2026-01-01", "Invalid time format: 2026-01-01"),
    ("purge_time", "2026-02-30T00:00:00Z", "Invalid time format: 2026-02-30T00:00:00Z"),
    *(
        ("purge_time", text, f"Invalid time format: {text}")
        for text in ("", "Z", "1970-01-01T00:00:00.ABZ", "2016-03-07T15:14:23+24:10")
    ),
    ("purge_time", 1.5, "Invalid data type for timestamp, value is 1.5"),
    # Numbers of 32 bits, also as text.
    *(("max_attempts", number, None) for number in (-(2**31), -1, 0, 5.0, "5", 2**31 - 1)),
    ("max_attempts", 2**31, "2147483648"),
    ("max_attempts", -(2**31) - 1, "-2147483649"),
    ("max_attempts", 1.5, "1.5"),
    ("max_attempts", "many", '"many"'),
    ("max_attempts", "", '""'),
    ("max_attempts", "é" * 300, f'"{"é" * 199}'),
    ("max_attempts", False, "false"),
    ("max_attempts", {}, "Starting an object on a scalar field"),
    ("max_dispatches_per_second", 1.7e308, None),
    ("max_dispatches_per_second", "1e-3", None),
    ("max_dispatches_per_second", "fast", '"fast"'),
    # Enums, by name or number.
    ("state", "RUNNING", None),
    ("state", 2, None),
    ("state", "running", '"running"'),
    ("state", True, "true"),
    # Messages.
    ("rate_limits", {}, None),
    ("rate_limits", 1, "1"),
    ("rate_limits", "none", '"none"'),
)
"""A field of a queue, its value, and what is wrong with that; None: nothing."""
PLACES = {
    "max_backoff": ("retryConfig", "maxBackoff", f"{PROTO}Duration"),
    "purge_time": ("", "purgeTime", f"{PROTO}Timestamp"),
    "max_attempts": ("retryConfig", "maxAttempts", "TYPE_INT32"),
    "max_dispatches_per_second": ("rateLimits", "maxDispatchesPerSecond", "TYPE_DOUBLE"),
    "state": ("", "state", f"{TASKS}Queue.State"),
    "rate_limits": ("", "rateLimits", f"{TASKS}RateLimits"),
}
"""In which message of a queue a field is, its name in JSON, and its type."""
ENDS = {
    b"{": "an object key or }.",
    b'{"a": 1,': "an object key or }.",
    b'{"a"': ": between key:value pair.",
    b'{"a":': "a value.",
    b'{"theme" : "Children"': ", or } after key:value pair.",
    b'{"a": {"b": "}"}': ", or } after key:value pair.",
    b'{"a": ["b"': ", or ] after array value.",
    b'{"a": [1]': ", or } after key:value pair.",
    b'{"a": 1, "b"': ": between key:value pair.",
    b'{"a": {"b": 1, "c"': ": between key:value pair.",
    b'{"a": [{"b": 1}': ", or ] after array value.",
    b'{"a": [1,': "a value or ] within an array.",
    b"[1,": "a value or ] within an array.",
}
"""Bodies that end too early, and what is expected next."""
MASK = f"'update_mask' ({PROTO}FieldMask), Field 'updateMask',"
NAMED = ("max_backoff", "purge_time")
"""Fields whose name in JSON the text repeats."""


def violations(method: str, values: dict[str, Any], version: str = "v2") -> list[tuple[str, str]]:
    """Return field and description of what is not valid in a request."""
    try:
        parse_values(values, message_class(version, f"{method}Request")())
    except CloudTasksError as error:
        [detail] = error.details
        found = [(each.get("field", ""), each["description"]) for each in detail["fieldViolations"]]
        assert str(error) == "\n".join(description for _, description in found)
        return found
    return []


@each_row(("field", "value", "problem"), VALUES)
def test_a_value_is_refused_as_by_the_front_end(
    field: str, value: Any, problem: str | None
) -> None:
    outer, name, kind = PLACES[field]
    queue = {outer: {name: value}} if outer else {name: value}
    holders = {"retryConfig": "retry_config.", "rateLimits": "rate_limits.", "": ""}
    path = f"queue.{holders[outer]}{field}"
    if field in NAMED:
        problem = problem and f"Field '{name}', {problem}"

    found = violations("CreateQueue", {"queue": queue})

    expected = [(path, f"Invalid value at '{path}' ({kind}), {problem}")]
    assert found == ([] if problem is None else expected)


@each_row(
    ("request_", "field", "text"),
    [
        ({"body": "***"}, "body", '(TYPE_BYTES), Base64 decoding failed for "***"'),
        ({"body": 1}, "body", "(TYPE_BYTES), 1"),
        ({"url": 1}, "url", "(TYPE_STRING), 1"),
        ({"headers": {"a": "b", "c": 1}}, "headers[1].value", "(TYPE_STRING), 1"),
        ({"headers": ["a"]}, "headers", "(Map), Cannot bind a list to map for field 'headers'."),
        ({"httpMethod": "PSOT"}, "http_method", f'({TASKS}HttpMethod), "PSOT"'),
    ],
)
def test_a_value_of_a_task_is_refused(request_: dict[str, Any], field: str, text: str) -> None:
    path = f"task.http_request.{field}"

    found = violations("CreateTask", {"task": {"httpRequest": request_}})

    assert found == [(path, f"Invalid value at '{path}' {text}")]


@each_row(
    ("method", "names", "value", "text"),
    [
        (
            "CreateQueue",
            ("queue", "retryConfig", "unlimitedAttempts"),
            "yes",
            "'queue.retry_config.unlimited_attempts' (TYPE_BOOL), \"yes\"",
        ),
        (
            "CreateQueue",
            ("queue", "httpTarget", "uriOverride", "port"),
            "x",
            "'queue.http_target.uri_override.port' (TYPE_INT64), \"x\"",
        ),
        (
            "SetIamPolicy",
            ("updateMask",),
            5,
            f"{MASK} Invalid data type for field mask, value is 5",
        ),
        (
            "SetIamPolicy",
            ("updateMask",),
            "retry_config",
            f"{MASK} Invalid field mask: retry_config",
        ),
        (
            "SetIamPolicy",
            ("updateMask",),
            {"paths": ["bindings"]},
            f'\'update_mask\' ({PROTO}FieldMask), {{"paths": ["bindings"]}}',
        ),
    ],
)
def test_a_value_of_a_rare_type_is_refused(
    method: str, names: tuple[str, ...], value: Any, text: str
) -> None:
    """Those that only one version, or only one method has."""
    version = "v2beta2" if "unlimitedAttempts" in names else "v2beta3"
    for name in reversed(names):
        value = {name: value}

    [(_, found)] = violations(method, value, version)

    assert found == f"Invalid value at {text}"


def test_all_that_is_not_valid_is_listed(call: RestApi) -> None:
    """Within messages, lists and maps, with the path of each field."""
    task = {
        "scheduleTime": "tomorrow",
        "appEngineHttpRequest": {"headers": {"a": 1}, "payload": "**", "path": "/"},
    }

    with pytest.raises(ApiRefused) as error:
        call.send("POST", f"{PULL}/tasks", {"task": task, "responseView": 1, "more": 1})

    [detail] = error.value.details
    found = [(each.get("field"), each["description"]) for each in detail["fieldViolations"]]
    request = "task.app_engine_http_request"
    schedule, header, payload = (
        "task.schedule_time",
        f"{request}.headers[0].value",
        f"{request}.payload",
    )
    wrong_time = f"({PROTO}Timestamp), Field 'scheduleTime', Invalid time format: tomorrow"
    assert found == [
        (schedule, f"Invalid value at '{schedule}' {wrong_time}"),
        (header, f"Invalid value at '{header}' (TYPE_STRING), 1"),
        (payload, f"Invalid value at '{payload}' (TYPE_BYTES), Base64 decoding failed for \"**\""),
        (request, f"{PAYLOAD} Unknown name \"path\" at '{request}': Cannot find field."),
        (None, f'{PAYLOAD} Unknown name "more": Cannot find field.'),
    ]
    assert str(error.value).startswith(f"INVALID_ARGUMENT: {found[0][1]}\n{found[1][1]}\n")


def test_names_that_are_not_fields_are_refused() -> None:
    """With the message that they are in; a list where there is one value is such a name, too."""
    not_a_list = "Proto field is not repeating, cannot start list."
    found = violations("CreateTask", {"task": {"path": 1, "scheduleTime": []}, "tag": None})

    assert found == [
        ("task", f"{PAYLOAD} Unknown name \"path\" at 'task': Cannot find field."),
        ("task", f"{PAYLOAD} Unknown name \"scheduleTime\" at 'task': {not_a_list}"),
        ("", f'{PAYLOAD} Unknown name "tag": Cannot find field.'),
    ]


def test_the_items_of_a_list_have_their_numbers() -> None:
    requests = [{"task": {}}, {"task": {"path": 1}}, 3]

    assert violations("BatchCreateTasks", {"requests": requests}) == [
        (
            "requests[1].task",
            f"{PAYLOAD} Unknown name \"path\" at 'requests[1].task': Cannot find field.",
        ),
        ("requests[2]", f"Invalid value at 'requests[2]' ({TASKS}CreateTaskRequest), 3"),
    ]


def test_a_second_field_of_a_oneof_is_refused() -> None:
    """A null is not a field."""
    app: dict[str, Any] = {"relativeUri": "/work"}
    url = {"url": "https://example.com"}

    assert (
        violations("CreateTask", {"task": {"appEngineHttpRequest": None, "httpRequest": url}}) == []
    )
    second = "oneof field 'message_type' is already set. Cannot set 'httpRequest'"
    task = {"app_engine_http_request": app, "httpRequest": url, "path": 1}
    assert violations("CreateTask", {"task": task}) == [
        ("task", f"Invalid value at 'task' (oneof), {second}"),
        ("task", f"{PAYLOAD} Unknown name \"path\" at 'task': Cannot find field."),
    ]


def test_a_value_that_is_nested_too_deep_to_be_shown_is_refused() -> None:
    value: object = 1
    for _ in range(100_000):
        value = {"a": value}

    [(field, text)] = violations("CreateQueue", {"queue": {"state": value}})

    assert field == ""
    assert text.startswith(f"{PAYLOAD} ")
    assert text.endswith(" while encoding a JSON object")


END = "\n\n^"
"""What is shown of a body that ends too early."""


@each_row(
    ("body", "sentence", "place"),
    [
        *((body, f"Unexpected end of string. Expected {each}", END) for body, each in ENDS.items()),
        (b'{"filter": "a', "Closing quote expected in string.", END),
        (b'{"filter": "', "Closing quote expected in string.", END),
        (b'{"maxTasks": }', "Unexpected token.", 13),
        (b"{'maxTasks': 1}", "Expected an object key or }.", 1),
        (b'{"maxTasks": 1,}', "Expected an object key or }.", 15),
        (b'{"maxTasks" 1}', "Expected : between key:value pair.", 12),
        (b'{"maxTasks": 1 "filter": ""}', "Expected , or } after key:value pair.", 15),
        (b'{"names": ["a" "b"]}', "Expected , or ] after array value.", 15),
        (b"{}x", "Parsing terminated before end of input.", 2),
        (b"{} more", "Parsing terminated before end of input.", 3),
        (
            b'{"filter": "a long text"} and more than twenty characters',
            "Parsing terminated before end of input.",
            f'\ner": "a long text"}} and more than twenty\n{" " * 20}^',
        ),
        *(
            (body, 'Unknown name "": Root element must be a message.', "")
            for body in (b"[]", b'"text"', b"1", b"null")
        ),
        (b'{"filter": "\xff"}', "Encountered non UTF-8 code points.", ""),
        (b'{"maxTasks": 1e400}', "Unable to parse number.", ""),
        (b'{"maxTasks": tru}', "Unexpected token.", 17),
        (b"\xff", "Unexpected token.", "\n�\n^"),
        (b"[" * 100_000, "Unexpected end of string. Expected a value or ] within an array.", END),
        (
            b"[" * 100_000 + b"]" * 100_001 + b":, 1",
            "Unexpected end of string. Expected : between key:value pair.",
            END,
        ),
    ],
)
def test_what_is_not_json_is_refused_with_its_place(
    call: RestApi, body: bytes, sentence: str, place: int | str
) -> None:
    """Twenty characters on each side."""
    with pytest.raises(ApiRefused) as refused:
        call.send("POST", f"{PULL}/tasks:lease", body)

    if isinstance(place, int):
        place = f"\n{body.decode()}\n{' ' * place}^"
    assert refused.value.message == f"{PAYLOAD} {sentence}{place}"
    [detail] = refused.value.details
    assert detail["fieldViolations"] == [{"description": refused.value.message}]
