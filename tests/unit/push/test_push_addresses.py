"""The addresses to which push tasks are sent, and what is said where there is none."""

from __future__ import annotations

import re

import pytest
from tables import each_row

from pullqueue.config.model import QueueSettings
from pullqueue.push.addresses import PushAddresses
from pullqueue.tasks import HttpRequest, Task

DEFAULT = "http://localhost:8080"
ADD = "run `pullqueue push-to"
TASK = Task(0, 1, 0, "t", "web", b"", None, 0, 5)


@each_row(
    ("option", "shown"),
    [
        (DEFAULT, DEFAULT),
        ("HTTP://LOCALHOST:8080/app//", "http://localhost:8080/app"),
        ("Worker=http://localhost:8081", "worker at http://localhost:8081"),
        ("0.v1.worker=http://localhost:8081", "0.v1.worker at http://localhost:8081"),
        (f"https://API.example.com={DEFAULT}", f"https://api.example.com at {DEFAULT}"),
        (f"https://api.example.com:443={DEFAULT}", f"https://api.example.com at {DEFAULT}"),
        ("https://api.example.com/X", "https://api.example.com/X"),
        ("w=HTTPS://localhost/a=http://b=https://c", "w at https://localhost/a=http://b=https://c"),
    ],
)
def test_an_option_is_shown_as_it_is_used(option: str, shown: str) -> None:
    """Names and origins in lower case, and without a slash at the end."""
    assert str(PushAddresses([option])) == shown


USE = "use [TARGET=]URL, such as http://localhost:8080 or worker=http://localhost:8081"
NAME = "use the name of a service, such as worker, or an origin, such as https://api.example.com"


@each_row(
    ("options", "message"),
    [
        *(
            ([option], f'invalid address "{option}": {problem}; {USE}')
            for option, problem in (
                ("localhost:8080", "it must begin with http:// or https://"),
                ("ftp://a", "it must begin with http:// or https://"),
                ("w=ftp://a", "it must begin with http:// or https://"),
                ("=http://a", "it must begin with http:// or https://"),
                ("http://", "it has no host"),
                ("http://a:99999", "its port must be 1 to 65535"),
                ("http://a:0", "its port must be 1 to 65535"),
                ("http://me@localhost", "it cannot have a user name or password"),
                *(
                    (f"http://{host}", "its host is not valid")
                    for host in ("a..b", "[a", "a b", ".", "a" * 64)
                ),
                ("http://8080", "its host is only a number"),
                ("http://localhost/?a", "it cannot have a query or a fragment"),
                ("http://localhost/#a", "it cannot have a query or a fragment"),
                (
                    "http://localhost/a b",
                    "it must consist of printable ASCII characters without spaces",
                ),
            )
        ),
        (["http://a..b=http://localhost"], f'invalid target "http://a..b": {NAME}'),
        (["==http://localhost"], f'invalid target "=": {NAME}'),
        (["\n=http://localhost"], f'invalid target "\\n": {NAME}'),
        (["a_b=http://localhost"], f'invalid target "a_b": {NAME}'),
        (["https://a:99999=http://b"], f'invalid target "https://a:99999": {NAME}'),
        (["a.b.c.d=http://localhost"], f'invalid target "a.b.c.d": {NAME}'),
        (
            [DEFAULT, "http://localhost:8081"],
            (
                'two addresses without a target: "http://localhost:8080" and '
                '"http://localhost:8081": name one'
            ),
        ),
        (
            ["w=http://localhost", "W=http://localhost:81"],
            'two addresses for target "w": "http://localhost" and "http://localhost:81": name one',
        ),
        (
            ["https://a=http://b", "https://a:443=http://c"],
            'two addresses for target "https://a": "http://b" and "http://c": name one',
        ),
    ],
)
def test_an_option_that_is_not_valid_changes_nothing(options: list[str], message: str) -> None:
    addresses = PushAddresses([DEFAULT])

    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        addresses.replace(options)

    assert str(addresses) == DEFAULT


@each_row(
    ("options", "url", "target", "found"),
    [
        ([], "/mail", None, f"{ADD} http://localhost:8080`"),
        ([DEFAULT], "/mail", None, DEFAULT),
        ([DEFAULT], "/mail", "worker", DEFAULT),
        *(([DEFAULT, "worker=http://localhost:8081"], "/mail", target, "http://localhost:8081")
          for target in ("worker", "v1.worker", "0.v1.worker")),
        (["worker=http://a", "0.v1.worker=http://localhost:81"], "/mail", "0.v1.worker",
         "http://localhost:81"),
        (["worker=http://localhost:8081"], "/mail", None,
         f"there is no default address: {ADD} http://localhost:8080`"),
        (["worker=http://localhost:8081"], "/mail", "mail",
         f'there is no address for "mail": {ADD} mail=http://localhost:8080`'),
        ([], "http://localhost:9/x", None, "http://localhost:9"),
        (["http://app:81"], "http://app:81/x", None, "http://app:81"),
        ([], "http://app:81/x", None, f'there is no address for "http://app:81": {ADD} http://app:81`'),
        ([DEFAULT], "http://app:81/x", None,
         f'there is no address for "http://app:81": {ADD} http://app:81=http://app:81`'),
        ([DEFAULT], "https://a.example/x", None,
         (f'there is no address for "https://a.example": {ADD} '
         "https://a.example=http://localhost:8080`")),
        ([f"https://a.example={DEFAULT}"], "https://a.example/x", None, DEFAULT),
        ([], "http://a.example/x", None,
         f'there is no address for "http://a.example": {ADD} http://a.example`'),
    ],
)  # fmt: skip
def test_where_a_task_is_sent(options: list[str], url: str, target: str | None, found: str) -> None:
    """Or which command adds the address that is missing."""
    task = TASK._replace(request=HttpRequest(url, target=target))

    assert str(PushAddresses(options).find(task, QueueSettings(name="web"))) == found


def test_a_pull_task_is_sent_nowhere() -> None:
    assert PushAddresses([DEFAULT]).missing(TASK, QueueSettings(name="web")) == (
        "it was added while the queue was a pull queue: delete it, or set `mode: pull` and lease it"
    )


@each_row(
    ("url", "found"),
    [
        ("/mail", None),
        ("https://other.example/x", None),
        ("https://a.example/x", DEFAULT),
        ("http://localhost:9/x", "http://localhost:9"),
    ],
)
def test_the_address_of_a_url(url: str, found: str | None) -> None:
    address = PushAddresses([f"https://a.example={DEFAULT}"]).find_url(url)

    assert (None if address is None else str(address)) == found


def test_nothing_is_sent_to_this_machine_until_the_app_listens() -> None:
    """Other addresses, and those that are named again, are not waited for."""
    addresses = PushAddresses([DEFAULT, "w=http://localhost:81", "x=https://a.example"])
    addresses.await_app()
    assert addresses.awaited == {DEFAULT, "http://localhost:81"}
    assert addresses.waiting(None) == f"the server waits for the app to listen at {DEFAULT}"
    assert addresses.waiting("x") is None
    assert addresses
    reason = "the server waits for the app to listen at http://localhost:81"
    settings = QueueSettings(name="web", target="w")
    assert addresses.kept(settings) == f"kept, not delivered: {reason}"
    assert addresses.find(TASK._replace(request=HttpRequest("/mail")), settings) == reason

    addresses.has_begun_to_listen(DEFAULT)
    assert addresses.awaited == {"http://localhost:81"}
    addresses.replace(["w=http://localhost:81"], keep_others=True)
    assert not addresses.awaited
    assert str(addresses) == f"{DEFAULT}, w at http://localhost:81, x at https://a.example"

    addresses.await_app()
    addresses.replace([])
    assert not addresses.awaited
    assert not addresses


@each_row(
    ("options", "target", "kept"),
    [
        ([], None, f"kept, not delivered: {ADD} http://localhost:8080`"),
        ([], "mail", f"kept, not delivered: {ADD} mail=http://localhost:8081`"),
        ([DEFAULT], "mail", None),
        (["w=http://localhost:81"], None, None),
        (["w=http://localhost:81"], "w", None),
        (["https://a.example=http://localhost:81"], None,
         f"kept, not delivered: {ADD} http://localhost:8080`"),
        (["w=http://localhost:81"], "mail",
         f"kept, not delivered: {ADD} mail=http://localhost:8081`"),
    ],
)  # fmt: skip
def test_tasks_of_a_queue_without_an_address_are_kept(
    options: list[str], target: str | None, kept: str | None
) -> None:
    assert PushAddresses(options).kept(QueueSettings(name="web", target=target)) == kept


@each_row(
    ("targets", "unknown"),
    [
        ([None], None),
        (["worker"], None),
        (["v1.worker", "mail"], None),
        (["mail", "cron"],
         ('no queue has the target "v2.worker": only tasks that name it are sent to its address; '
         "the targets of the queues are cron, mail")),
    ],
)  # fmt: skip
def test_targets_that_no_queue_has(targets: list[str | None], unknown: str | None) -> None:
    """A queue's version is of the same service; origins and the default address are none."""
    addresses = PushAddresses(
        [DEFAULT, f"https://a.example={DEFAULT}", "v2.worker=http://localhost:81"]
    )

    assert list(addresses.hosts()) == [(None, "localhost:8080"), ("v2.worker", "localhost:81")]
    assert addresses.unknown_targets(QueueSettings(name="q", target=t) for t in targets) == unknown
    addresses.replace(["v1.w=http://localhost:82"], keep_others=True)
    more = addresses.unknown_targets(QueueSettings(name="q", target=t) for t in targets)
    both = unknown and unknown.replace('"v2.worker"', '"v2.worker", "v1.w"')
    assert unknown is None or more == both
