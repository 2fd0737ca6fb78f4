"""pullqueue.engine.request_validation: which requests are accepted, and messages for others."""

from __future__ import annotations

from typing import Any

import pytest
from tables import each_row

from pullqueue import (
    Emulator,
    HttpRequest,
    InvalidTaskError,
    Queue,
    RequestToken,
    RetryParameters,
    TaskTooLargeError,
)
from pullqueue.config.model import QueueConfig, QueueSettings
from pullqueue.engine import verbs
from pullqueue.tasks import NewTask


@pytest.fixture
def queue() -> Queue:
    return Emulator(QueueConfig(queues=(QueueSettings(name="web"),))).queue("web")


@each_row(
    "request_",
    [
        HttpRequest("/"),
        HttpRequest("/a?b=%20&c=/~!$'()*+,;=:@[]"),
        HttpRequest("/" + "u" * 2082),
        *(HttpRequest("/a", method) for method in ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH")),
        HttpRequest("/a", headers=(("a!#$%&'*+-.^_`|~9", "\tü \xff~"), ("b", ""))),
        HttpRequest("/a", target="instance.version.service", deadline_seconds=15),
        HttpRequest("/a", retry=RetryParameters(), deadline_seconds=86_415),
        HttpRequest("/a", retry=RetryParameters(min_backoff_seconds=0.1, max_backoff_seconds=0.1)),
        HttpRequest("/a", retry=RetryParameters(task_age_limit_seconds=2**63 - 1)),
    ],
)
def test_valid_requests_are_stored_as_given(queue: Queue, request_: HttpRequest) -> None:
    assert queue.add(request=request_).request == request_


@each_row(
    ("fields", "message"),
    [
        (
            {"url": None},
            "url is None: it must consist of printable ASCII characters without spaces",
        ),
        ({"url": ""}, 'url is "": it must consist of printable'),
        ({"url": "/a b"}, 'url is "/a b": it must consist of printable'),
        ({"url": "/a\r\nb"}, "it must consist of printable"),
        ({"url": "/é"}, "without spaces; percent-encode others"),
        ({"url": "/a#b"}, 'url is "/a#b": it cannot have a fragment (#)'),
        ({"url": "a"}, 'url is "a": it must begin with one /'),
        ({"url": "//host/a"}, 'url is "//host/a": it must begin with one /'),
        (
            {"url": "http://host/a"},
            (
                'url is "http://host/a": it must begin with one /; tasks with HTTP targets can '
                "only be created through the Cloud Tasks API: call create_task of its client, or "
                "pass the path alone, as for an App Engine target"
            ),
        ),
        (
            {"url": "/" + "u" * 2083},
            "url has 2084 characters; the maximum is 2083: send the data in the payload",
        ),
        ({"method": "post"}, 'method is "post": use DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT'),
        ({"method": None}, "method is None: use DELETE"),
        (
            {"headers": [("a", "b")]},
            "headers are [('a', 'b')]: pass a tuple of (name, value) pairs",
        ),
        ({"headers": (["a", "b"],)}, "header is ['a', 'b']: pass a tuple of name and value"),
        ({"headers": (("a", b"b"),)}, "pass a tuple of name and value"),
        ({"headers": (("a", "b", "c"),)}, "pass a tuple of name and value"),
        (
            {"headers": (("", "b"),)},
            'header name is "": use letters, digits and any of !#$%&\'*+-.^_`|~',
        ),
        ({"headers": (("a:", "b"),)}, 'header name is "a:": use letters, digits'),
        ({"headers": (("a\n", "b"),)}, "header name is"),
        ({"headers": (("a", "b\r\nX-AppEngine-QueueName: c"),)}, "header a is"),
        ({"headers": (("a", "b\0"),)}, "without line breaks and other control characters"),
        (
            {"headers": (("a", "€"),)},
            (
                'header a is "€": use characters of ISO 8859-1 without line breaks and other '
                "control characters"
            ),
        ),
        (
            {"target": ""},
            'target is "": use a service, version.service or instance.version.service',
        ),
        ({"target": "a/b"}, 'target is "a/b"'),
        ({"target": 5}, "target is 5"),
        (
            {"deadline_seconds": 14.9},
            "deadline_seconds is 14.9: it must be a number of seconds from 15 to 86415",
        ),
        ({"deadline_seconds": 86_416}, "deadline_seconds is 86416"),
        ({"deadline_seconds": float("nan")}, "deadline_seconds is nan"),
        ({"deadline_seconds": None}, "deadline_seconds is None"),
        ({"deadline_seconds": True}, "deadline_seconds is"),
        (
            {"token": RequestToken("oidc_token", "a@b")},
            ": it must be a RequestToken, and url an absolute URL",
        ),
        ({"url": "https://x", "token": "t"}, "must begin with one /"),
        ({"retry": {}}, "retry is {}: pass pullqueue.RetryParameters"),
        (
            {"retry": RetryParameters(task_retry_limit=-1)},
            "retry parameter task_retry_limit is -1: use a whole number from 0 to 2147483647",
        ),
        (
            {"retry": RetryParameters(task_age_limit_seconds=2**63)},
            (
                "retry parameter task_age_limit_seconds is 9223372036854775808: use a whole number "
                "from 0 to 9223372036854775807"
            ),
        ),
        ({"retry": RetryParameters(max_doublings=1.5)}, "max_doublings is 1.5"),  # type: ignore[arg-type]
        (
            {"retry": RetryParameters(max_backoff_seconds=float("inf"))},
            (
                "retry parameter max_backoff_seconds is inf: use a number from 0 to "
                "9223372036854775807"
            ),
        ),
        (
            {"retry": RetryParameters(min_backoff_seconds=2, max_backoff_seconds=1)},
            (
                "min_backoff_seconds is 2 and max_backoff_seconds is 1: the minimum must not "
                "exceed the maximum"
            ),
        ),
    ],
)
def test_an_invalid_request_is_refused_with_value_and_rule(
    queue: Queue, fields: dict[str, Any], message: str
) -> None:
    request = HttpRequest(**{"url": "/a", **fields})
    for call in (queue.add_many, queue.check):
        with pytest.raises(InvalidTaskError) as excinfo:
            call([NewTask(request=request)])
        assert message in str(excinfo.value)
    assert queue.list_tasks() == []


def test_a_url_alone_is_not_a_request(queue: Queue) -> None:
    with pytest.raises(InvalidTaskError) as excinfo:
        queue.add(request="/mail")  # type: ignore[arg-type]

    assert str(excinfo.value) == 'request is "/mail": pass a pullqueue.HttpRequest'


@pytest.mark.parametrize("url", ["https://api.example.com/a?b=c", "HTTP://localhost:8080", "/a"])
def test_absolute_urls_are_accepted_where_the_caller_permits_them(queue: Queue, url: str) -> None:
    added = verbs.insert(queue, [NewTask(request=HttpRequest(url))], absolute_urls=True).added

    assert [task.request for task in added] == [HttpRequest(url)]
    for refused, rule in (
        ("http:///a", "it has no host: write one after http:// or https://"),
        ("https:///a", "it has no host: write one after http:// or https://"),
        ("ftp://a", "it must begin with one / or http:// or https://"),
    ):
        with pytest.raises(InvalidTaskError, match=f'^url is "{refused}": {rule}$'):
            verbs.insert(queue, [NewTask(request=HttpRequest(refused))], absolute_urls=True)


def test_a_get_request_has_no_payload(queue: Queue) -> None:
    with pytest.raises(InvalidTaskError) as excinfo:
        queue.add(b"body", request=HttpRequest("/a", "GET"))

    assert str(excinfo.value) == (
        "a GET request has no body, and the payload has 4 bytes: use POST, PUT or PATCH, or no "
        "payload"
    )


def test_a_push_task_that_is_too_large_is_refused_unless_the_caller_permits_it(
    queue: Queue,
) -> None:
    new = NewTask(b"x" * 102_400, request=HttpRequest("/"))
    with pytest.raises(TaskTooLargeError) as excinfo:
        queue.add_many([new])

    assert str(excinfo.value) == (
        "push task (url, headers, body) has 102401 bytes; the maximum is 102400: store the data "
        "elsewhere and put a reference in the task"
    )
    assert verbs.insert(queue, [new], push_task_bytes=102_401).refused == {}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (HttpRequest("http://localhost:0/"), 'url is "http://localhost:0/": '),
        (
            HttpRequest("http://x/", token=RequestToken("id_token", "a@b")),
            'kind of token is "id_token": use oidc_token or oauth_token',
        ),
        (
            HttpRequest("http://x/", token="secret"),  # type: ignore[arg-type]
            'token is "secret": it must be a RequestToken',
        ),
    ],
)
def test_an_http_target_that_is_not_valid_is_refused(
    queue: Queue, request_: HttpRequest, message: str
) -> None:
    with pytest.raises(InvalidTaskError) as excinfo:
        verbs.insert(queue, [NewTask(request=request_)], absolute_urls=True)

    assert str(excinfo.value).startswith(message)
