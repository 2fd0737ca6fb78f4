"""Cloud Tasks: what is not valid, by method: it is refused with its field, and changes nothing."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Any

import pytest
from cloudtasks_api import LOCATION, MADE, PULL, PUSH, RestApi, app_engine, http, refused
from tables import each_row
from werkzeug.test import Client

from pullqueue import Emulator
from pullqueue.cloudtasks import texts
from pullqueue.cloudtasks.versions import V2, V2BETA2, V2BETA3, Version

Case = tuple[Version, str, dict[str, Any], str, str]

CASES: list[Case] = []
"""Version, method, fields, status, and text of the message or the advice."""
INVALID, FAILED = "INVALID_ARGUMENT", "FAILED_PRECONDITION"


def refuse(
    version: Version,
    method: str,
    *rows: tuple[dict[str, Any], str],
    code: str = INVALID,
    **fields: Any,
) -> None:
    """Add cases of a method: what each has beside, or in place of, the fields of all."""
    CASES.extend((version, method, fields | own, code, text) for own, text in rows)


# Pull tasks.
PULL_ALONE = 'task is for queue "pull", a pull queue: set pull_message alone$'
refuse(
    V2BETA2,
    "CreateTask",
    ({"task": None}, "task is missing"),
    ({"task": http()}, PULL_ALONE),
    ({"task": {"appEngineHttpRequest": {}}}, PULL_ALONE),
    ({"task": {"name": "one"}}, "task.name is"),
    (
        {"task": {"name": f"{LOCATION}/queues/limited/tasks/one"}},
        rf'{PULL}.*{LOCATION}/queues/limited[^/].*\(task.name is ".*": it .* "{PULL}"',
    ),
    ({"task": {"name": f"{PULL}/tasks/a.b"}}, "task.name is"),
    parent=PULL,
)
refuse(
    V2BETA2,
    "LeaseTasks",
    *(
        ({"filter": text}, "filter is .*use tag=TAG")
        for text in (
            *("red", "tag:red", 'tag="red', 'tag="red" x', "tag_function=newest_tag()", "tags=red"),
        )
    ),
    ({"leaseDuration": None}, "lease_duration is missing"),
    ({"leaseDuration": "-0.5s"}, "lease_duration is -1 seconds"),
    ({"maxTasks": 1001}, "max_tasks is 1001"),
    parent=PULL,
    leaseDuration="60s",
)
refuse(
    V2BETA2,
    "ListTasks",
    *(
        ({"pageToken": token}, "page_token is")
        for token in ("x", "é", "MS0", "LTE=", "\n", "MSAx!", "OTk5OTk5OTk5OTk5OTk5OTk5OTkgMQ==")
    ),
    ({"pageSize": -1}, "page_size is -1: use 0 to 2147483647"),
    parent=PULL,
)
refuse(V2BETA2, "RunTask", ({"name": f"{PULL}/tasks/one"}, 'name is "one", a pull task: lease it'))
TIME = "schedule_time is .* LeaseTasks or RenewLease returned it"
for method in ("AcknowledgeTask", "RenewLease", "CancelLease"):
    more = {"leaseDuration": "60s"} if method == "RenewLease" else {}
    held = {"name": f"{PULL}/tasks/held", "scheduleTime": "2026-01-01T00:01:00.000001Z"}
    refuse(V2BETA2, method, (held | {"scheduleTime": None}, TIME), **more)
    refuse(
        V2BETA2, method, (held, ""), (held | {"name": f"{PUSH}/tasks/one"}, ""), code=FAILED, **more
    )
    refuse(V2BETA2, method, (held | {"name": f"{PULL}/tasks/no"}, ""), code="NOT_FOUND", **more)

refuse(
    V2BETA2,
    "DeleteTask",
    ({"name": f"{PULL}/tasks/no"}, r'\(queue "pull" has no task "no"\)$'),
    code="NOT_FOUND",
)

# Push tasks.
APP_ENGINE, HTTP = "task.app_engine_http_request", "task.http_request"
"""The fields of a request, as messages name them."""
EMAIL = {"serviceAccountEmail": "worker@app.iam.gserviceaccount.com"}
IN_ASCII = r"write a host in ASCII, such as xn--bcher-kva\.example"
SCHEME = r"HttpTarget\.url must start with 'http://' or 'https://'\."
AUTHORIZED = (
    r"HttpRequest\.url must start with 'https://' for request with "
    r"HttpRequest\.authorization_header"
)
OWN = r"it must begin with https://, or name this machine or an origin of --push-to\)$"
USE_URL = "use an http:// or https:// URL"
BODY = b64encode(b"work").decode()
TOO_FAR = (
    r"The Task\.scheduleTime, 2026-01-30T16:00:01-08:00, is too far in the future\. Schedule time "
    r"must be no more than 720h in the future\. \(task\.schedule_time is "
    r"2026-01-31T00:00:01\+00:00; the latest is 2026-01-31T00:00:00\+00:00, 30 days from now\)$"
)
DEADLINE = r"Task\.dispatchDeadline must be between \[15s, 30m\]\. \(task\.dispatch_deadline is"
refuse(
    V2BETA2,
    "CreateTask",
    ({"task": {"pullMessage": {}}}, "push queue: set app_engine_http_request or http_request"),
    parent=PUSH,
)
refuse(
    V2,
    "CreateTask",
    *(
        ({"task": task}, text)
        for task, text in (
            (
                {},
                r"Task\.payload_type is not set\. \(queue .* is a push queue: set app_engine_http",
            ),
            (app_engine("mail"), f'{APP_ENGINE}.relative_uri is "mail": it must begin with /'),
            (app_engine("//host"), "must begin with one /"),
            (
                app_engine(body=BODY, httpMethod="PATCH"),
                f"{APP_ENGINE}.body is set, and http_method is PATCH: use POST, PUT$",
            ),
            (http(httpMethod=99), "http_method is 99: use a name of HttpMethod"),
            (
                http(body=BODY, httpMethod="GET"),
                f"{HTTP}.body is set, and http_method is GET: use POST, PUT, PATCH$",
            ),
            (http(""), rf"HttpRequest.url is required\. \({HTTP}.url is missing: {USE_URL}\)$"),
            (http("/work"), rf'{SCHEME} \({HTTP}.url is "/work": {USE_URL}\)$'),
            (http("ftp://example.com"), USE_URL),
            (http("http://localhost:80:80"), "its port must be 1 to 65535"),
            (http("http://a..b/x"), "its host is not valid"),
            (
                http("https://bücher.example/ü"),
                rf'{HTTP}.url is "https://bücher.example/ü": its host is not valid; {IN_ASCII}$',
            ),
            (http("http://"), r'url is "http://": it has no host: write one after http'),
            (http(headers={"X-A": "b" * 81_917}), f"{HTTP}.headers have 81920 bytes: they must"),
            (http(oidcToken={}), f"{HTTP}.oidc_token.service_account_email is missing"),
            (
                http(oauthToken={"serviceAccountEmail": "nomail"}),
                f'{HTTP}.oauth_token.service_account_email is "nomail": use an e-mail address',
            ),
            (
                http("http://example.com", oidcToken=EMAIL),
                rf'{AUTHORIZED} \({HTTP}.url is "http://example.com": with {HTTP}.oidc_token {OWN}',
            ),
            *(
                (
                    http() | {"dispatchDeadline": text},
                    rf"{DEADLINE} {float(text[:-1])} seconds: use 15 to 1800\)$",
                )
                for text in ("0s", "14.9s", "1800.001s")
            ),
            (app_engine() | {"dispatchDeadline": "86416s"}, "seconds: use 15 to 86415"),
            (http() | {"scheduleTime": "2026-01-31T00:00:01Z"}, TOO_FAR),
            (http() | {"retryConfig": {"maxAttempts": -2}}, "task.retry_config.max_attempts is -2"),
        )
    ),
    parent=PUSH,
)
refuse(
    V2,
    "BatchCreateTasks",
    ({}, "requests is 0 tasks: use 1 to 100"),
    ({"requests": [{}] * 101}, "requests is 101 tasks"),
    parent=PUSH,
)
refuse(
    V2,
    "BatchDeleteTasks",
    ({"names": ["x"] * 1001}, "names is 1001 tasks: use 1 to 1000"),
    parent=PUSH,
)

# Queues.
refuse(
    V2BETA3,
    "GetQueue",
    (
        {"readMask": "color"},
        'read_mask is "color": use fields of name, app_engine_http_queue, .*, type, stats$',
    ),
    ({"readMask": "stats,color"}, 'read_mask is "stats,color": use fields of'),
    name=PUSH,
)
refuse(
    V2BETA2,
    "GetQueue",
    ({"name": f"{LOCATION}/queues/pul"}, 'did you mean "pull"'),
    code="NOT_FOUND",
)
for method in ("GetQueue", "PauseQueue", "DeleteQueue"):
    refuse(V2, method, ({"name": PULL}, '"pull" is a pull queue: .* use v2beta2'), code=FAILED)
FILTERS = (
    r"name:TEXT, state=RUNNING \(or PAUSED, DISABLED\), pull_target:\* or "
    r"app_engine_http_target:\*"
)
refuse(
    V2BETA2,
    "ListQueues",
    *(
        ({"filter": text}, f'filter is "{text}": use {FILTERS}$')
        for text in ("x", "state=STOPPED", "state!=RUNNING", "pull_target:x")
    ),
    ({"pageToken": "MSAx"}, "page_token is"),
    parent=LOCATION,
)


def refuse_queue(version: Version, *rows: tuple[str, Any, str], **fields: Any) -> None:
    """Add cases of CreateQueue: the path of a field of the queue, its value, and the text, in which
    ~ is the field as messages name it.
    """
    for path, wrong, text in rows:
        field = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", f"queue.{path}")
        value = wrong
        for name in reversed(path.split(".")):
            value = {name: value}
        queue = {"name": MADE} | fields | value
        refuse(
            version, "CreateQueue", ({"queue": queue}, text.replace("~", field)), parent=LOCATION
        )


refuse_queue(
    V2BETA2,
    ("name", "", '~ is ""'),
    ("retryConfig.maxAttempts", 0, "~ is 0: use 1 to 2147483647"),
    ("taskTtl", "0s", "~ is 0 seconds: use 1 to 315576000000"),
    ("tombstoneTtl", "777601s", "~ is 777601 seconds: use 0 to 777600"),
    ("tombstoneTtl", "-1s", "~ is -1 seconds"),
    pullTarget={},
)
refuse_queue(
    V2BETA2,
    ("retryConfig.maxAttempts", -1, "~ is -1"),
    ("rateLimits.maxBurstSize", 501, "~ is 501: use 0 to 500"),
    (
        "rateLimits.maxTasksDispatchedPerSecond",
        "NaN",
        "~ is nan: use 0 to 500",
    ),
    appEngineHttpTarget={},
)
NO_TARGET = "queue has no pull_target, app_engine_http_target or http_target: set one"
refuse_queue(V2BETA2, ("name", MADE, NO_TARGET))
OTHER = f"{LOCATION}x/queues/made"
RATE = r"RateLimits\.maxDispatchesPerSecond"
LESS = f"{RATE} must be less than or equal to 500\\. .*~ is 501.0: use 0 to 500"
ATTEMPTS = rf"{re.escape(texts.ATTEMPTS)} \(~ is -2: use -1 for no limit, or 1 and more\)$"
ORDER = (
    rf"{re.escape(texts.BACKOFF_ORDER)} \(~ is 3600.5 and max_backoff is 3600.0 seconds: the "
    r"minimum must not exceed the maximum\)$"
)
HEADERS = "httpTarget.headerOverrides"
refuse_queue(
    V2,
    ("name", OTHER, rf"{OTHER} must begin with {LOCATION}\. \(queue.name is .*: it"),
    ("name", f"{LOCATION}/queues/a_b", "letters, digits and hyphens"),
    ("rateLimits.maxDispatchesPerSecond", 501, LESS),
    (
        "rateLimits.maxDispatchesPerSecond",
        -1,
        rf"{RATE} cannot be negative\..*~ is -1.0: use 0 or more",
    ),
    ("rateLimits.maxConcurrentDispatches", 5001, "~ is 5001.*: use 0 to 5000"),
    ("retryConfig.maxAttempts", -2, ATTEMPTS),
    ("retryConfig.maxDoublings", -1, r"RetryConfig.maxDoublings .*\(~ is -1: use 0 or"),
    ("retryConfig.minBackoff", "-0.5s", r"RetryConfig.minBackoff .*\(~ is -1 seconds"),
    ("retryConfig.minBackoff", "3600.5s", ORDER),
    ("stackdriverLoggingConfig.samplingRatio", 1.5, "~ is 1.5: use 0 to 1"),
    *(
        ("httpTarget.uriOverride.host", host, f'~ is "{shown}": use the name of a host')
        for host, shown in (
            *(("", ""), ("a b", "a b"), ("a/b", "a/b"), ("a?b", r"a\?b"), ("x@y", "x@y")),
            *(("a\r\nb", r"a\\r\\nb"), ("a:b", "a:b")),
        )
    ),
    ("httpTarget.uriOverride.port", "-1", "~ is -1: use 0 to 65535"),
    ("httpTarget.httpMethod", 99, "~ is 99: use a name of HttpMethod"),
    ("httpTarget.oidcToken", {"audience": "me"}, "~.service_account_email is missing"),
    *(
        (HEADERS, [{"header": {"key": key}}], f'~ have the name "{shown}": use ASCII letters')
        for key, shown in (("a b", "a b"), ("", ""), ("a:", "a:"), ("\x7f", r"\\x7f"))
    ),
    (HEADERS, [{"header": {"key": "a", "value": "\n"}}], '~ have control characters in "a"$'),
    (
        HEADERS,
        [{"header": {"key": "a", "value": "b" * 81_919}}],
        "~ have 81920 bytes: they must have less than 81920",
    ),
)
OF_PULL_QUEUES = "http_target is set, and the queue is a pull queue"
refuse(
    V2BETA2,
    "UpdateQueue",
    ({"updateMask": "color"}, 'update_mask is "color": use fields of name, .*, stats$'),
    ({}, OF_PULL_QUEUES),
    ({"updateMask": "httpTarget"}, OF_PULL_QUEUES),
    queue={"name": PULL, "httpTarget": {"uriOverride": {"host": "x"}}},
)
refuse(
    V2BETA2,
    "UploadQueueYaml",
    ({"appId": "", "httpBody": {}}, "app_id is missing"),
    (
        {"httpBody": {"data": b64encode(b"queue:\n- name: new\n  mode: sideways\n").decode()}},
        "queue.yaml:3:.*sideways",
    ),
    appId="app",
)
LOCATED = (
    ("ListQueues", "parent", ""),
    ("GetQueue", "name", "/queues/pull"),
    ("GetLocation", "name", ""),
)
for method, field, below in LOCATED:
    for place, meant in (
        *(("us-centra1", "us-central1"), ("europe-west11", "europe-west1")),
        *(("here", "us-central1"), ("US-EAST1", "")),
    ):
        name = f"projects/app/locations/{place}{below}"
        text = (
            rf"Location '{place}' is not a valid location\. Use ListLocations to list valid "
            rf'locations.*\({field} is "{name}": use a region of Google Cloud such as {meant}'
        )
        refuse(V2BETA2, method, ({field: name}, text))


@pytest.fixture(autouse=True)
def _tasks(emulator: Emulator) -> None:
    """Have a leased and an available task."""
    emulator.queue("pull").add(name="held")
    emulator.queue("pull").lease_tasks(60, 1)
    emulator.queue("pull").add(name="one")


@each_row(("version", "method", "fields", "code", "text"), CASES)
def test_what_is_not_valid_is_refused_and_changes_nothing(
    emulator: Emulator,
    client: Client,
    *,
    version: Version,
    method: str,
    fields: dict[str, Any],
    code: str,
    text: str,
) -> None:
    before = emulator.export(), [queue.settings for queue in emulator.queues]

    with refused(code, text):
        RestApi(client, version=version)(method, **fields)

    assert (emulator.export(), [queue.settings for queue in emulator.queues]) == before
