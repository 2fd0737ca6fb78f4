"""Assertions about queues and what their messages show."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from tables import each_row

from pullqueue import Emulator, InvalidQueueModeError, ManualClock, Queue
from pullqueue.tasks import HttpRequest
from pullqueue.testing import (
    UNTAGGED,
    JsonPayload,
    assert_added,
    assert_available,
    assert_empty,
    assert_exhausted,
    assert_leased,
    describe,
    exhaust,
    record_calls,
)


def test_an_empty_queue_passes_and_any_task_fails_it(queue: Queue) -> None:
    assert_empty(queue)
    eta = queue.clock.now() + timedelta(hours=1)
    queue.add("later", name="one", eta=eta)

    with pytest.raises(AssertionError) as caught:
        assert_empty(queue)

    assert str(caught.value).splitlines() == [
        'queue "work" is not empty: it has 1 task',
        'queue "work": 1 scheduled',
        "  scheduled \"one\" from 2026-01-01T01:00:00+00:00 (in 1:00:00) payload b'later'",
        "  events:",
        '    2026-01-01T00:00:00+00:00 "one" added',
    ]


def test_tasks_are_counted_by_their_state_now(queue: Queue, clock: ManualClock) -> None:
    for name in ("one", "two", "three"):
        queue.add(name=name)
    assert_leased(queue, 0)
    queue.lease_tasks(60, 1)

    assert_available(queue)
    assert_available(queue, 2)
    assert_leased(queue, count=1)
    with pytest.raises(AssertionError, match=r'^expected 3 available in queue "work", but found 2'):
        assert_available(queue, 3)

    clock.advance(60)
    with pytest.raises(
        AssertionError, match=r'^expected at least one leased in queue "work", but found 0\n'
    ):
        assert_leased(queue)


def test_a_task_is_exhausted_when_its_last_permitted_lease_has_run_out(
    limited: Queue, queue: Queue
) -> None:
    task = limited.add(name="one")
    with pytest.raises(
        AssertionError,
        match=r'^task "one" of queue "limited", which permits 2 leases, is not exhausted\n',
    ):
        assert_exhausted(limited, task)
    with pytest.raises(AssertionError, match=r"which has no task_retry_limit, is not"):
        assert_exhausted(queue, "one")
    assert_exhausted(limited, count=0)

    exhaust(limited, task)

    assert_exhausted(limited)
    assert_exhausted(limited, task)
    assert_exhausted(limited, "one", 1)
    assert_added(limited, name="one", count=1)
    with pytest.raises(AssertionError, match=r'^expected 2 exhausted in queue "limited", but'):
        assert_exhausted(limited, count=2)


def test_added_tasks_are_found_by_payload_tag_and_name(queue: Queue) -> None:
    queue.add("a", name="one", tag="x")
    queue.add("b", name="two", tag="x")

    assert_added(queue)
    assert_added(queue, count=2)
    assert_added(queue, tag="x", count=2)
    assert_added(queue, payload="a")
    assert_added(queue, payload=b"b", tag="x", name="two", count=1)
    assert_added(queue, tag="y", count=0)


def test_a_miss_shows_the_nearest_tasks_and_in_what_they_differ(queue: Queue) -> None:
    """Not where tasks are as expected, but not as many."""
    with pytest.raises(AssertionError, match=r"but found 0\n  nothing was added$"):
        assert_added(queue)
    queue.add('{"n": 1}', name="near", tag="x")
    with pytest.raises(AssertionError, match=r'^expected 2 tasks .* to queue "work", but found 1$'):
        assert_added(queue, tag="x", count=2)
    queue.add("a", name="far")

    with pytest.raises(AssertionError) as caught:
        assert_added(queue, payload=JsonPayload({"n": 2}), tag="x", count=1)

    head, *misses = str(caught.value).splitlines()
    assert head == (
        'expected 1 task with tag="x", payload=JsonPayload({\'n\': 2}) added to queue "work", '
        "but found 0"
    )
    assert misses == [
        "  nearest misses:",
        '    payload is b\'{"n": 1}\': "near" tag "x" payload b\'{"n": 1}\'',
        "    it has no tag, payload is b'a': \"far\" payload b'a'",
    ]


def test_long_states_are_cut(queue: Queue) -> None:
    """A message shows the beginning of a long payload, with its length, and five tasks."""
    for _ in range(7):
        queue.add(b"x" * 1000, tag="y")

    with pytest.raises(AssertionError, match=r"'\.\.\. \(1000 bytes\)\n") as caught:
        assert_empty(queue)
    assert str(caught.value).splitlines()[7] == "  available and more"
    with pytest.raises(AssertionError, match=r'tag is "y"') as caught:
        assert_added(queue, tag="x")
    assert str(caught.value).endswith("    and 2 more")


def test_a_deleted_task_is_known_by_name_only(queue: Queue) -> None:
    queue.delete_tasks(queue.add("a", name="one"))

    assert_added(queue)
    assert_added(queue, name="one", count=1)
    with pytest.raises(AssertionError, match=r"1 task left the queue with unknown payload and tag"):
        assert_added(queue, payload="a")


@pytest.mark.parametrize("seconds", [0, 60])
def test_two_tasks_that_had_one_name_in_turn_are_two(
    emulator: Emulator, queue: Queue, clock: ManualClock, seconds: int
) -> None:
    with record_calls(emulator):
        for payload in ("a", "b"):
            queue.delete_tasks(queue.add(payload, name="one"))
            queue.free_names()
            clock.advance(seconds)

        assert_added(queue, count=2)
        assert_added(queue, name="one", count=2)
        assert_added(queue, payload="a", count=1)
        assert_added(queue, payload="b", count=1)
    assert_added(queue, name="one", count=2)


@each_row(
    ("expected", "payload", "equal"),
    [
        ({"a": 1, "b": [1, 2]}, b'{"b": [1, 2],\n "a": 1}', True),
        ({"a": 1}, b'{"a": 1, "b": 2}', False),
        ([1, 2], "[1, 2]", True),
        ([1, 2], "[1]", False),
        (True, b"1", False),
        (1, b"1.0", True),
        (None, b"null", True),
        ({"a": 1}, b"not json", False),
        ({"a": 1}, 7, False),
    ],
)
def test_json_is_compared_by_its_value(expected: object, payload: object, *, equal: bool) -> None:
    assert (JsonPayload(expected) == payload) is equal  # type: ignore[arg-type]


def test_partial_ignores_further_keys_at_any_depth() -> None:
    wanted = JsonPayload({"a": {"b": 1}}, partial=True)

    assert wanted == b'{"a": {"b": 1, "c": 2}, "d": 3}'
    assert wanted != b'{"a": {"c": 2}}'
    assert wanted == JsonPayload({"a": {"b": 1}}, partial=True)
    assert wanted != JsonPayload({"a": {"b": 1}})
    assert repr(wanted) == "JsonPayload({'a': {'b': 1}}, partial=True)"


def test_of_an_emulator_each_queue_that_is_not_empty_is_shown(
    emulator: Emulator, queue: Queue, limited: Queue
) -> None:
    assert_empty(emulator)
    queue.add(name="one")
    limited.add(name="two")
    limited.add(name="three")

    with pytest.raises(AssertionError) as caught:
        assert_empty(emulator)

    assert re.findall("(?m)^queue .*", str(caught.value)) == [
        'queue "work" is not empty: it has 1 task',
        'queue "limited" is not empty: it has 2 tasks',
        'queue "work": 1 available',
        'queue "limited": 2 available',
    ]


class TestPushQueues:
    @pytest.fixture
    def pushed(self, emulator: Emulator) -> Queue:
        pushed = emulator.queue("pushed")
        form = (("content-type", "application/x-www-form-urlencoded"),)
        request = HttpRequest("/mail?lang=de", headers=form)
        pushed.add("to=ada&cc=a%C3%A4&cc=b&bcc=", name="one", request=request)
        return pushed

    def test_due_push_tasks_are_available_and_never_leased(
        self, emulator: Emulator, pushed: Queue
    ) -> None:
        assert_available(pushed, 1)
        assert_exhausted(pushed, count=0)
        with pytest.raises(AssertionError, match=r'^queue "pushed" is not empty: it has 1 task\n'):
            assert_empty(emulator)
        with pytest.raises(AssertionError, match="permits 3 retries, is not exhausted\n"):
            assert_exhausted(pushed, "one")
        message = r'^queue "pushed" is a push queue: .* run_tasks\(\)$'
        with pytest.raises(InvalidQueueModeError, match=message):
            assert_leased(pushed)

    @pytest.mark.parametrize(
        "wanted",
        [
            {"url": "/mail"},
            {"url": "/mail?lang=de"},
            {"method": "POST"},
            {"params": {"lang": "de", "to": "ada", "cc": ["aä", "b"], "bcc": ""}},
            {"name": "one", "url": "/mail", "payload": "to=ada&cc=a%C3%A4&cc=b&bcc="},
        ],
    )
    def test_a_request_is_found_by_url_method_and_parameters(
        self, pushed: Queue, wanted: dict[str, Any]
    ) -> None:
        assert_added(pushed, count=1, **wanted)

    def test_params_are_a_mapping_and_compared_as_text(self, pushed: Queue) -> None:
        """A body that is not a form has none."""
        pushed.add(b"\xff", request=HttpRequest("/n?a=1&a=2&b=True"))

        assert_added(pushed, count=1, params={"a": (1, 2), "b": True})
        with pytest.raises(TypeError, match=r'^params is "a=1": pass a mapping, such as \{"to": '):
            assert_added(pushed, params="a=1")  # type: ignore[arg-type]

    def test_the_message_says_what_was_added_instead(self, pushed: Queue) -> None:
        with pytest.raises(AssertionError) as caught:
            assert_added(pushed, url="/male", method="PUT", params={"to": "bob"})

        assert (
            str(caught.value)
            == """\
expected at least one task with url="/male", method="PUT", params={'to': 'bob'} added to queue \
"pushed", but found 0
  nearest misses:
    url is "/mail?lang=de", method is POST, params are {'lang': 'de', 'to': 'ada', 'cc': \
['aä', 'b'], 'bcc': ''}: "one" POST /mail?lang=de payload b'to=ada&cc=a%C3%A4&cc=b&bcc='"""
        )

    @pytest.mark.parametrize(
        ("name", "wanted", "word"),
        [
            ("pushed", {"tag": "red"}, "tag"),
            ("work", {"url": "/mail"}, "url"),
            ("work", {"method": "PUT"}, "method"),
            ("work", {"params": {}}, "params"),
        ],
    )
    def test_what_tasks_of_a_mode_do_not_have_is_refused(
        self, emulator: Emulator, name: str, wanted: dict[str, Any], word: str
    ) -> None:
        with pytest.raises(
            InvalidQueueModeError, match=f"queue: its tasks have no {word}; remove "
        ):
            assert_added(emulator.queue(name), **wanted)


@each_row(
    "helper",
    [
        *(assert_empty, assert_available, assert_leased, assert_exhausted, assert_added),
        lambda queue: exhaust(queue, "one"),
    ],
)
def test_what_is_not_a_queue_is_refused_with_what_to_pass(
    emulator: Emulator, helper: Callable[[object], object]
) -> None:
    """A name, a queue of another library, and an emulator, which only `assert_empty` takes."""
    message = r'is not a Queue: pass emulator\.queue\("jobs"\)$'
    with pytest.raises(TypeError, match=f'^"jobs" {message}'):
        helper("jobs")
    with pytest.raises(TypeError, match=message):
        helper(SimpleNamespace(name="jobs"))
    if helper is not assert_empty:
        with pytest.raises(TypeError, match=r' is not a Queue: pass emulator\.queue\("NAME"\)$'):
            helper(emulator)


def test_a_payload_or_a_tag_that_no_task_has_is_refused_or_named(queue: Queue) -> None:
    """A dict is never a payload, so `count=0` would always hold; `UNTAGGED` is none of its tags."""
    payload: Any = {"n": 1}
    with pytest.raises(TypeError, match=r"payload is \{'n': 1\}: pass JsonPayload\(\{'n': 1\}\)"):
        assert_added(queue, payload=payload, count=0)

    queue.add(name="red", tag="red")
    assert_added(queue, tag=UNTAGGED, count=0)
    with pytest.raises(
        AssertionError, match=r'(?s)task with tag=UNTAGGED added.*tag is "red": "red"'
    ):
        assert_added(queue, tag=UNTAGGED)
    queue.add(name="empty", tag="")
    queue.add(name="none")
    assert_added(queue, tag=UNTAGGED, name="none", count=1)
    assert_added(queue, tag=UNTAGGED, count=1)
    assert_added(queue, tag=None, count=3)


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b"a", "b'a'"),
        (b"\xff", r"b'\xff'"),
        ("日本\x1b".encode(), r"'日本\x1b'"),
        ("é".encode() * 60, f"'{'é' * 60}'"),
        ("é".encode() * 61, f"'{'é' * 60}'... (122 bytes)"),
    ],
)
def test_a_payload_in_utf_8_is_shown_as_text(
    emulator: Emulator, queue: Queue, payload: bytes, shown: str
) -> None:
    queue.add(payload)
    assert f" payload {shown}\n" in describe(emulator)
