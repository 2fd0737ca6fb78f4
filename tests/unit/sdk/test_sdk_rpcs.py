"""Calls to bundled services: how they are intercepted, and shown in reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sdk_calls import ndb, testbed
from tables import each_row

from pullqueue.sdk.rpcs import ServiceCall, drop_requests, intercepted
from pullqueue.testing import WorkerKilled

with_sdk = pytest.mark.usefixtures("services")


class Note(ndb.Model):  # type: ignore[misc] # the SDK is not typed
    text = ndb.StringProperty()


@pytest.fixture
def services() -> Iterator[None]:
    bed = testbed.Testbed()
    bed.activate()
    bed.init_datastore_v3_stub()
    bed.init_memcache_stub()
    bed.init_urlfetch_stub()
    ndb.get_context().set_memcache_policy(lambda _: False)
    yield
    bed.deactivate()
    drop_requests()


def fetch() -> None:
    from google.appengine.api import urlfetch  # noqa: PLC0415 - warns, and most tests do not use it

    with pytest.raises(urlfetch.Error):
        urlfetch.fetch("http://127.0.0.1:9/hook")


def set_in_memcache() -> None:
    from google.appengine.api import memcache  # noqa: PLC0415 - warns; most tests need none

    memcache.set_multi({"a": 1, "b": 2})
    memcache.get("a")
    memcache.incr("a")


@with_sdk
@each_row(
    ("act", "expected"),
    [
        (lambda: Note().put(), ["datastore_v3.Put 1 entity of kind Note"]),
        (lambda: ndb.put_multi([Note(), Note()]), ["datastore_v3.Put 2 entities of kind Note"]),
        (
            lambda: ndb.delete_multi([ndb.Key("A", 1), ndb.Key("A", 1, "B", 2)]),
            ["datastore_v3.Delete 2 keys of kind A, B"],
        ),
        (lambda: Note.query().fetch(), ["datastore_v3.RunQuery of kind Note"]),
        (
            lambda: ndb.transaction(lambda: None),
            ["datastore_v3.BeginTransaction", "datastore_v3.Commit"],
        ),
        (
            set_in_memcache,
            ["memcache.Set 2 keys", "memcache.Get 1 key", "memcache.Increment key a"],
        ),
        (fetch, ["urlfetch.Fetch http://127.0.0.1:9/hook"]),
    ],
)
def test_a_call_is_shown_in_one_line(act: Callable[[], object], expected: list[str]) -> None:
    seen: list[str] = []

    def intercept(call: ServiceCall, call_next: Callable[[], object]) -> object:
        seen.append(str(call))
        return call_next()

    with intercepted(intercept):
        act()

    assert seen == expected


@with_sdk
def test_a_call_that_is_not_carried_out_changes_nothing() -> None:
    def intercept(_: ServiceCall, __: Callable[[], object]) -> Any:
        raise WorkerKilled

    with intercepted(intercept), pytest.raises(WorkerKilled):
        Note(id="x").put()
    drop_requests()

    assert Note.get_by_id("x") is None


@with_sdk
def test_interceptions_can_end_in_any_order() -> None:
    seen: list[int] = []

    def counting(number: int) -> Any:
        def intercept(_: ServiceCall, call_next: Callable[[], object]) -> object:
            seen.append(number)
            return call_next()

        return intercepted(intercept)

    first, second = counting(1), counting(2)
    first.__enter__()
    with second:
        Note.get_by_id("x")
        first.__exit__(None, None, None)
        Note.get_by_id("y")
    Note.get_by_id("z")

    assert seen == [2, 1, 2]
