"""Each sentence is true: random scenes, with real deliveries, against what the queues have done."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenes import KINDS, Step, scene, steps_of
from sentences import SPECIFICATION, check_advice, check_queue
from stores import LONG
from tables import each_row

from pullqueue.engine import verbs
from pullqueue.resources.queues import get_queue
from pullqueue.runtime.causes import CAUSES
from pullqueue.tasks import HttpRequest, NewTask, TaskState

CONFIG = """\
queue:
- {name: fast, rate: 100/s, bucket_size: 50}
- name: slow
  rate: 2/s
  bucket_size: 1
  retry_parameters: {min_backoff_seconds: 20, task_retry_limit: 2}
- {name: narrow, rate: 50/s, max_concurrent_requests: 2}
- {name: zero, rate: 0/s}
- {name: rare, rate: 1/m, bucket_size: 1}
- {name: pull, mode: pull, retry_parameters: {task_retry_limit: 3}}
"""
PUSH = ["fast", "slow", "narrow", "zero", "rare"]
THREADS = 6

push = st.sampled_from(PUSH)
tags = st.sampled_from([None, "red", "blue"])
counts = st.sampled_from([1, 2, 3, 12, 60])
delays = st.sampled_from([0, 0, 0, 30, 86_400])
seconds = st.sampled_from([1, 10, 20, 59, 61, 100, 3600])
faults = st.fixed_dictionaries(
    {"kind": st.just("fail"), "call": st.just("attempt")},
    optional={
        "queues": st.lists(push, min_size=1, max_size=1),
        "url": st.sampled_from(["/mail", "/status/*", "/nothing"]),
        "probability": st.sampled_from([0.1, 0.5]),
        "status": st.sampled_from([500, 503]),
        "times": st.integers(1, 3),
    },
)
lease_faults = st.sampled_from(
    [{"kind": "empty_leases"}, {"kind": "fail", "call": "lease_tasks", "times": 1}]
)
adds = st.tuples(st.just("add"), push, st.sampled_from(sorted(KINDS)), counts, delays)
steps = st.one_of(
    adds,
    adds,
    adds,
    st.tuples(st.just("add"), st.just("pull"), st.just("mail"), counts, delays, tags),
    st.tuples(st.sampled_from(["pause", "resume"]), st.sampled_from([*PUSH, "pull"])),
    st.tuples(st.just("fault"), faults | lease_faults),
    st.tuples(st.just("clear_faults")),
    st.tuples(st.sampled_from(["jump", "deliver"]), seconds),
    st.tuples(
        st.just("lease"),
        st.just("pull"),
        st.sampled_from([1, 5]),
        st.sampled_from([10, 300]),
        tags,
    ),
    st.tuples(st.just("burst"), st.just("pull"), st.sampled_from([9, 10, 11])),
    st.tuples(st.sampled_from(["look", "remove"]), st.just("pull"), st.sampled_from([1, 5])),
    st.tuples(st.just("done")),
)
SCRIPTS = st.lists(steps, min_size=1, max_size=12)


def test_each_cause_is_documented_with_an_example() -> None:
    """In the order in which they are shown, and as they are worded."""
    text = (Path(__file__).parents[3] / "docs/reference/causes.md").read_text()
    rows = re.findall(r"^\| `(.+?)` \| (.+) \| .+ \|$", text, re.MULTILINE)
    assert [reason for reason, _ in rows] == list(CAUSES) == list(SPECIFICATION)
    states = re.findall(r"^\| `(\w+)` \| [^|]+ \|$", text, re.MULTILINE)
    assert states == [*(each.value for each in TaskState), "exhausted"]
    for reason, example in rows:
        assert re.fullmatch(SPECIFICATION[reason].pattern, example), example


SCENES = [
    ("add zero mail 2", "zero", "rate 0"),
    ("add fast away 2", "fast", "no address"),
    ("add fast away 2; add fast hangs 1", "fast", "no address"),
    ("add fast away 60 30; add fast mail 1 30", "fast", "no address, not due"),
    ("add fast mail 3; add fast cmyk 1 30", "fast", "not due"),
    ("add fast dead 2", "fast", "no response, retrying"),
    # An attempt past its lease is not due.
    ("add slow away 3 30; add slow hangs 3; jump 3600", "slow", "no address, running"),
    # Their retries are minutes apart.
    ("add fast dead 2; deliver 100; jump 61; jump 61", "fast", "no response, retrying"),
    ("add slow cmyk 3", "slow", "failing, rate"),
    ("add fast mail 2; add fast cmyk 1", "fast", "some failed, retrying"),
    ("add fast busy 1", "fast", "failing, slowed, retrying"),
    ("fault times=1; fault status=500; add fast mail 3", "fast", "failing, retrying"),
    (
        "add fast cmyk 1; add fast dead 1; add fast odd 1; add fast busy 1; add fast busy 1",
        *("fast", "failing, slowed, retrying"),
    ),
    ("add narrow hangs 5", "narrow", "concurrency"),
    ("add fast hangs 1; jump 10", "fast", "running"),
    # Past their leases, which are renewed by the machine's time.
    ("add narrow hangs 5; jump 61", "narrow", "concurrency, running"),
    ("add fast hangs 20; add narrow hangs 2; jump 10", "fast", "shared slots, running"),
    ("add slow mail 9", "slow", "rate"),
    # Others make the clock stop at other times.
    ("add rare mail 7; add slow cmyk 9", "rare", "rate"),
    ("add rare mail 7; add fast dead 3; deliver 30", "rare", "rate"),
    ("add slow cmyk 1; jump 15", "slow", "failing, retrying"),
    ("add pull mail 9", "pull", "no worker"),
    ("add pull mail 9 0 red; lease pull 1 10 blue", "pull", "other tag"),
    (
        "add pull mail 9 0 red; fault kind=expire_leases; lease pull 1 10 blue",
        *("pull", "other tag"),
    ),
    ("add pull mail 9; fault kind=empty_leases; lease pull 1 10", "pull", "leases fail"),
    ("add pull mail 9; look pull 1", "pull", "no worker"),
    (
        "add pull mail 9; look pull 1; fault kind=empty_leases; lease pull 1 10",
        "pull",
        "leases fail",
    ),
    ("add pull mail 9; lease pull 1 300", "pull", "few leased"),
    ("add pull mail 30; burst pull 10", "pull", "few leased"),
    ("add pull mail 30; burst pull 11", "pull", "lease rate, few leased"),
    ("add pull mail 30; burst pull 10; jump 1; burst pull 1", "pull", "few leased"),
    ("add pull mail 30; burst pull 11; jump 59", "pull", "lease rate, few leased"),
    ("add pull mail 30; burst pull 11; jump 60", "pull", "no worker"),
    # Nothing that it could have got.
    ("add pull mail 10; burst pull 11", "pull", "leased"),
    ("add pull mail 30; burst pull 11; pause pull", "pull", "paused"),
    (
        "burst pull 10; add pull mail 1 0 red; lease pull 1 10",
        *("pull", "lease rate"),
    ),
    (
        "burst pull 10; add pull mail 1 0 red; fault kind=empty_leases; lease pull 1 10",
        *("pull", "leases fail"),
    ),
    (
        "add pull mail 12; look pull 1; lease pull 3 300; done; remove pull 2; lease pull 1 300",
        *("pull", "few leased"),
    ),
    (
        "add pull mail 12; lease pull 5 10; look pull 1; jump 59; lease pull 1 10; jump 2",
        *("pull", "leases expire"),
    ),
    ("add pull mail 1" + "; lease pull 1 10; jump 100" * 4, "pull", "exhausted"),
    ("add slow cmyk 2; deliver 3600; jump 61; add slow mail 3", "slow", "rate, exhausted"),
    (
        "add fast busy 1; fault url=/n; fault url=/s*",
        *("fast", "failing, slowed, retrying, faults"),
    ),
    ("add pull mail 5; lease pull 5 300", "pull", "leased"),
    ("add pull mail 5; add pull mail 1 30; pause pull", "pull", "paused"),
    ("add pull mail 1 30; pause pull", "pull", "paused, not due"),
    ("add slow cmyk 3; pause slow; jump 61", "slow", "paused, failing"),
    ("pause narrow; add narrow hangs 2", "narrow", "paused"),
    ("pause narrow; add narrow hangs 3", "narrow", "paused"),
    ("add narrow hangs 1; pause narrow; add narrow hangs 2; jump 10", "narrow", "paused, running"),
    ("pause fast; add fast hangs 12", "fast", "paused"),
    ("add fast cmyk 1; add fast mail 1 86400", "fast", "failing, retrying, not due"),
    # A success after failures, and no task is left.
    ("add fast odd 1; deliver 10", "fast", "failing"),
    # Leases that were made more than a minute ago.
    ("add pull mail 4; lease pull 4 100; jump 101", "pull", "no worker, leases expire"),
    ("add pull mail 12; lease pull 4 100; jump 161", "pull", "no worker"),
]
"""What was done, the queue, and the causes of its sentence."""


@pytest.mark.slow
@each_row(("script", "name", "reasons"), SCENES)
def test_a_sentence_has_the_causes_of_what_was_done(script: str, name: str, reasons: str) -> None:
    """One scene for each cause that a running server can have; and each is true."""
    with scene(CONFIG, threads=THREADS) as played:
        played.play(steps_of(script))
        queue = get_queue(played.state, name)
        check_queue(played, name, queue)
        progress = queue.progress
        assert ", ".join(each.reason for each in progress.causes) == reasons
        for cause in progress.causes[-1:]:
            check_advice(played, name, cause)


def test_a_new_address_is_that_of_the_next_attempts() -> None:
    """And no longer the one at which nothing listens; tasks without an address have none."""
    with scene(CONFIG, threads=THREADS) as played:
        played.play(steps_of("add slow dead 1"))
        queue, now = played.state.emulator.queue("slow"), played.state.emulator.clock.now()
        tasks = [
            NewTask(eta=now + timedelta(seconds=seconds), request=request)
            for seconds, request in (
                (1, HttpRequest("https://unknown.example/")),
                (30, HttpRequest("/mail", target="other")),
            )
        ]
        verbs.insert(queue, tasks, absolute_urls=True)
        before = get_queue(played.state, "slow").progress.text
        addresses = ["dead=http://127.0.0.1:7", "other=http://127.0.0.1:8"]
        played.state.push_to.replace(addresses, keep_others=True)
        after = get_queue(played.state, "slow").progress.text

    assert ", or `pullqueue push-to dead=URL` (retries have a limit); " in before
    assert " failed: the next attempts go to 127.0.0.1:7 and 127.0.0.1:8; " in after


def test_each_cause_has_a_scene() -> None:
    """Or a test of its own, where a running server with one project cannot have it."""
    shown = {reason for _, _, reasons in SCENES for reason in reasons.split(", ")}
    assert set(CAUSES) - shown == {"disabled", "not listening", "run only", "due"}


@pytest.mark.slow
@settings(max_examples=1000 if LONG else 12)
@given(SCRIPTS, st.randoms(use_true_random=False))
def test_each_sentence_is_true_and_its_advice_works(script: list[Step], chance: Random) -> None:
    """Whatever was done to the queues: what is said is so, and nothing that waits is left out."""
    check(script, chance)


@settings(max_examples=200 if LONG else 5)
@given(SCRIPTS, st.randoms(use_true_random=False))
def test_each_sentence_is_true_of_a_database(script: list[Step], chance: Random) -> None:
    check(script, chance, store="sqlite")


def check(script: list[Step], chance: Random, store: str = "memory") -> None:
    with scene(CONFIG, threads=THREADS, store=store) as played:
        played.play(script)
        queues = {name: get_queue(played.state, name) for name in (*PUSH, "pull")}
        for name, each in queues.items():
            check_queue(played, name, each)
        advice = [(name, cause) for name, each in queues.items() for cause in each.progress.causes]
        if advice:
            check_advice(played, *chance.choice(advice))
