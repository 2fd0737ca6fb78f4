"""What each cause in the sentence of a queue states, checked against the queue itself.

For each cause there is a pattern, and what has to be so where it is shown: by the history of the
tasks, the tasks, the settings, and what the app is doing; never by what the sentence is made of.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import to_builtins
from scenes import LEASE, Scene

from pullqueue.clock import to_usec
from pullqueue.engine.events import Event, EventKind
from pullqueue.engine.queue_base import QueueState
from pullqueue.observe.patterns import find_pattern
from pullqueue.push.rate import is_overload
from pullqueue.resources.queue_resource import QueueResource
from pullqueue.runtime.causes import Cause
from pullqueue.runtime.progress import Progress
from pullqueue.tasks import AttemptResult, Task, TaskState
from pullqueue.text import format_span

Found: TypeAlias = re.Match[str]
Check: TypeAlias = Callable[[Scene, str, Cause, Found], None]


class Statement(NamedTuple):
    """What a cause states: its pattern, and what has to be so where it is shown."""

    pattern: str
    check: Check


_SECOND: Final = 1_000_000
_MINUTE: Final = 60 * _SECOND
ENDED: Final = (EventKind.ATTEMPT_FAILED, EventKind.ATTEMPT_SUCCEEDED)
_SPAN = r"(?:< 1 s|\d+ (?:d|h|min|s)(?: \d+ (?:h|min|s))?)"
_ADVICE = r"`pullqueue clock advance (?P<advance>\d+)s(?P<deliver> --deliver)?`"
_WAIT = r"(?P<due>\d+) due tasks? waits?"
_TIME = r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d"
_ATTEMPTS = (
    rf"(?:(?:its only attempt|all (?P<earlier>\d+) attempts) since (?P<start>{_TIME}) UTC failed|"
    r"its only attempt in the last minute failed|(?:all (?P<all>\d+)|(?P<failed>\d+) of "
    r"(?P<ended>\d+)) attempts failed in the last minute)"
    rf"(?: \(failing since (?P<since>{_TIME}) UTC\))?"
)
_PACE = rf"(?:, about {_SPAN} for all at the pace of the last minute)?"
_RESULTS = r"(?P<results>.+)"


def ended_attempts(scene: Scene, name: str) -> list[Event]:
    """Return the ends of attempts that count: those of the last minute; where there are none, those
    since the last minute with a success, while tasks that failed wait.
    """
    if recent := scene.recent(name, *ENDED):
        return recent
    first_usec = (scene.clock.now_usec() - 24 * 60 * _MINUTE) // _MINUTE * _MINUTE
    ended = _ended_since(scene, name, first_usec)
    failed = {each.task_name for each in ended if each.kind is EventKind.ATTEMPT_FAILED}
    due = scene.due(name)
    seen = due if len(due) <= 100 else due[:10]  # as it is documented
    again = {task.name for task in (*seen, *scene.waiting(name))} | scene.running(name)
    return _since_success(ended) if failed & again else []


def _ended_since(scene: Scene, name: str, usec: int) -> list[Event]:
    events = [each for each in scene.queue(name).events() if each.usec >= usec]
    return [each for each in events if each.kind in ENDED for _ in range(each.attempts)]


def _since_success(ended: list[Event]) -> list[Event]:
    minutes = [each.usec // _MINUTE for each in ended if each.kind is EventKind.ATTEMPT_SUCCEEDED]
    return [each for each in ended if each.usec // _MINUTE > max(minutes, default=0)]


def _has_counted(scene: Scene, name: str) -> bool:
    """Return whether attempts were counted and not made, whose times the history does not have."""
    ended = [each for each in scene.queue(name).events() if each.kind in ENDED]
    return any(each.attempts > 1 or not (each.origin and each.origin.server) for each in ended)


def failures(scene: Scene, name: str) -> list[Event]:
    return [e for e in ended_attempts(scene, name) if e.kind is EventKind.ATTEMPT_FAILED]


def is_failing(scene: Scene, name: str) -> bool:
    """Return whether half or more of the attempts that count have failed."""
    failed = len(failures(scene, name))
    return failed > 0 and 2 * failed >= len(ended_attempts(scene, name))


def is_error(scene: Scene, name: str) -> bool:
    """Return whether it is failing, and tasks are left or exhausted."""
    is_left = bool(scene.tasks(name) or scene.queue(name).exhausted)
    return is_failing(scene, name) and is_left


def is_stopped(scene: Scene, name: str) -> bool:
    queue = scene.queue(name)
    is_zero = queue.is_push and not queue.settings.effective_rate
    return queue.state is not QueueState.RUNNING or is_zero


def age_usec(scene: Scene, task: Task) -> int:
    return scene.clock.now_usec() - task.eta_usec


def _disabled(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    assert scene.queue(name).state is QueueState.DISABLED
    assert int(found["tasks"] or 0) == len(scene.tasks(name))


def _stopped(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    if cause.reason == "paused":
        assert scene.queue(name).state is QueueState.PAUSED
    else:
        assert not scene.queue(name).settings.effective_rate
    queue, running = scene.queue(name), len(scene.running(name))
    if queue.is_push and cause.reason == "paused":
        free = queue.settings.effective_concurrent_requests - running
        starts = len(scene.due(name)) if "all can start" in cause.text else int(found["can"] or 0)
        assert starts <= min(free, scene.delivery.threads)
        assert ("others when attempts end" in cause.text) <= (starts < len(scene.due(name)))
    assert int(found["due"] or 0) == cause.count == len(scene.due(name))


def _kept(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    settings = scene.queue(name).settings
    tasks = scene.due(name) or scene.tasks(name)
    kept = [each for each in tasks if scene.state.push_to.missing(each, settings)]
    assert kept
    assert int(found["kept"] or 0) in (0, len(kept))
    assert int(found["of"] or 0) in (0, len(tasks))
    if found["some"] == "tasks":
        assert len(kept) == len(tasks)


def _failed(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    if _has_counted(scene, name):
        return
    failed, ended = failures(scene, name), ended_attempts(scene, name)
    named = found["failed"] or found["all"] or found["earlier"] or "1"
    assert int(named) == cause.count == len(failed)
    assert int(found["ended"] or named) == len(ended)
    assert is_error(scene, name) is (cause.severity == "error")
    if since := found["since"] or found["start"]:
        assert is_failing(scene, name)
        today = f"{scene.clock.now():%Y-%m-%d}"
        time = datetime.fromisoformat(f"{since if ' ' in since else f'{today} {since}'}+00:00")
        after = _ended_since(scene, name, to_usec(time))
        assert {each.kind for each in after} == {EventKind.ATTEMPT_FAILED}
        assert len(after) == len(ended) or found["since"]
    results = Counter(each.result for each in failed)
    if cause.reason == "no response":
        own = [each for each in results if each and each.fault is None]
        assert own
        assert len(ended) == len(failed)
        assert not any(each.status for each in own)
    if "results" in found.groupdict() and found["results"]:
        check_results(found["results"], results)
    elif cause.reason == "no response":
        [only] = results
        assert only is not None
        assert found["why"] == only.reason
        assert bool(found["address"]) is (only.reason or "").endswith(": connection refused")
    if cause.reason == "no response" and found["address"]:
        _check_listening(scene, name, found)


def _check_listening(scene: Scene, name: str, found: Found) -> None:
    """Check the address at which nothing listens, and whether retries end."""
    assert found["why"] == f"{found['address']}: connection refused"
    if found["limit"]:
        address = scene.state.push_to.of((found["target"] or "").removesuffix("=") or None)
        assert address is not None
        assert address.netloc == found["address"]
        retry = scene.queue(name).settings.retry_parameters
        assert (found["limit"] == "no") is (retry is None or retry.task_retry_limit is None)


def check_results(text: str, results: Counter[AttemptResult | None]) -> None:
    """Check what failed attempts are said to have had, against what their history says."""
    total, left = results.total(), results.copy()
    for part in re.split(r", (?=\d+ (?:x|by|others?))", text):
        if found := re.fullmatch(r"(\d+) others?", part):
            assert int(found[1]) == left.total()
            return
        found = re.fullmatch(r"(?:(\d+) )?(?:(?:by )?fault (\d+) \((.*)\)|(?:x )?(.*))", part)
        assert found is not None
        count, fault, _, name = found.groups()
        same = [each for each in left if each and _is_named(each, fault, name)]
        assert sum(left[each] for each in same) == int(count or total)
        for each in same:
            del left[each]
    assert not left.total()


def _is_named(result: AttemptResult, fault: str | None, name: str | None) -> bool:
    if fault is not None:
        return result.fault == int(fault)
    status = f"status {result.status}" if result.status else "no response"
    reason = result.reason or ""
    names = (status, f"{status} ({reason})", f"{status} ({find_pattern(reason)})")
    return result.fault is None and name in names


def _slowed(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    rate = scene.delivery.dispatcher.enforced_rate(scene.queue(name))
    assert f"{rate:.3g}" == found["to"]
    assert rate < scene.queue(name).settings.effective_rate
    assert int(found["bucket"]) == scene.queue(name).settings.effective_bucket_size
    statuses = {each.status for each in scene.queue(name).events() if each.result}
    assert any(is_overload(status, is_http_target=True) for status in statuses)


def _concurrency(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    running = len(scene.running(name))
    assert int(found["running"] or 1) == running == int(found["slots"])
    assert scene.queue(name).settings.effective_concurrent_requests == running
    _due_wait(scene, name, cause, found)


def _shared(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    assert int(found["threads"]) == scene.delivery.threads
    named = re.findall(r'(\d+) of "(.*?)"', found["of"])
    for count, other in named:
        assert int(count) == len(scene.running(other))
    if "others" not in found["of"]:
        running = sum(int(count) for count, _ in named)
        assert int(found["kept"] or 0) + running == scene.delivery.threads
    assert len(scene.running(name)) < scene.queue(name).settings.effective_concurrent_requests
    _due_wait(scene, name, cause, found)


def _due_wait(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    assert int(found["due"]) == cause.count == len(scene.due(name))
    assert not is_stopped(scene, name)


def _rate(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    retried = [task for task in scene.waiting(name) if task.retry_count]
    assert int(found["later"] or 0) == len(retried)
    _due_wait(scene, name, cause, found)


def _running(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    assert int(found["running"]) == cause.count == len(scene.running(name))
    now_usec = scene.clock.now_usec()
    started = [
        task.attempts.dispatched_usec or now_usec
        for task in scene.tasks(name)
        if task.name in scene.running(name)
    ]
    longest_usec = now_usec - min(started)
    assert found["span"] == format_span(longest_usec / _SECOND)
    assert cause.severity == ("info" if longest_usec < _MINUTE else "warning")


def _calls(scene: Scene, name: str) -> list[Any]:
    since_usec = scene.clock.now_usec() - _MINUTE
    path = LEASE.format(name)
    return [
        each
        for each in scene.state.requests.latest()
        if each.path == path and _usec(each.time) > since_usec
    ]


def _usec(time: str) -> int:
    return to_usec(datetime.fromisoformat(time))


def _is_by_operator(event: Event) -> bool:
    return event.origin is not None and event.origin.interface == "control"


def _by_workers(scene: Scene, name: str, kind: EventKind) -> int:
    """Return how many tasks workers have leased or deleted in the last minute."""
    return sum(not _is_by_operator(each) for each in scene.recent(name, kind))


def _expired(scene: Scene, name: str) -> int:
    """Return how many leases of workers have expired in the last minute."""
    since_usec, leases, expired = scene.clock.now_usec() - _MINUTE, dict[str, Event](), 0
    for each in scene.queue(name).events():
        if each.kind is EventKind.LEASED:
            leases[each.task_name] = each
        if each.kind is EventKind.LEASE_EXPIRED and each.usec > since_usec:
            expired += not _is_by_operator(leases[each.task_name])
    return expired


def _unleased(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    assert int(found["due"] or 1) == cause.count == len(scene.due(name))
    assert not is_stopped(scene, name)
    if cause.reason in ("no worker", "leases fail"):
        assert not _by_workers(scene, name, EventKind.LEASED)


def _leases_fail(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    _unleased(scene, name, cause, found)
    calls = _calls(scene, name)
    failed = [each for each in calls if each.fault is not None or each.status >= 400]
    assert (int(found["failed"]), int(found["calls"])) == (len(failed), len(calls))
    results: Counter[AttemptResult | None] = Counter(
        AttemptResult(each.status, each.reason or None, each.fault) for each in failed
    )
    check_results(found["results"], results)


def _limited(scene: Scene, name: str) -> int:
    """Return how many leases of the last minute got nothing because of the lease rate."""
    since_usec = scene.clock.now_usec() - _MINUTE
    return sum(usec > since_usec for usec in scene.limited)


def _lease_rate(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    assert cause.count == len(scene.due(name)) > 0
    assert not is_stopped(scene, name)
    assert int(found["limited"]) == _limited(scene, name)
    assert int(found["calls"]) == len(_calls(scene, name))


def _no_worker(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    _unleased(scene, name, cause, found)
    assert not any(each.fault is not None or each.status >= 400 for each in _calls(scene, name))
    asked = {tag for each in _calls(scene, name) for tag in each.lease_tags}
    if asked and None not in asked:
        assert {task.tag for task in scene.due(name)} & asked


def _other_tag(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    _unleased(scene, name, cause, found)
    asked = set(re.findall(r'"(.*?)"', found["tags"]))
    assert {tag for each in _calls(scene, name) for tag in each.lease_tags} == asked
    assert not {task.tag for task in scene.due(name)} & asked


def _few(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    _unleased(scene, name, cause, found)
    deleted = _leased_and_deleted(scene, name, found)
    assert found["span"] == (format_span(60 * cause.count / deleted) if deleted else None)


def _leased_and_deleted(scene: Scene, name: str, found: Found) -> int:
    """Check what workers did in the last minute; return how many tasks they have deleted."""
    assert int(found["leased"] or 0) == _by_workers(scene, name, EventKind.LEASED)
    deleted = _by_workers(scene, name, EventKind.DELETED)
    assert int(found["deleted"].replace("none", "0")) == deleted
    return deleted


def _expire(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    deleted = _leased_and_deleted(scene, name, found)
    assert int(found["expired"]) == cause.count == _expired(scene, name) > deleted


def _faults(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    numbers = {int(each) for each in re.findall(r"fault (\d+)", found["faults"])}
    active = {each.number: each for each in scene.state.faults.list(active=True)}
    by_fault = {each.result.fault for each in failures(scene, name) if each.result}
    assert numbers <= active.keys() - by_fault
    for number in numbers:
        fault = to_builtins(active[number])
        assert fault["call"] == "attempt"
        assert name in fault.get("queues", [name])
        assert fault.get("url") != "/nothing"


def _exhausted(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    assert int(found["exhausted"]) == cause.count == len(scene.queue(name).exhausted)
    assert cause.severity == "warning"
    assert found["queue"] == name


def _leased(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    leased = [task for task in scene.waiting(name) if task.retry_count]
    assert int(found["leased"]) == cause.count == len(leased)
    _then(scene, leased, found)


def _retrying(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    retrying = [task for task in scene.waiting(name) if task.retry_count]
    assert int(found["tasks"]) == cause.count == len(retrying)
    _then(scene, retrying, found)
    first = min(retrying)
    last = [each for each in scene.queue(name).history(first) if each.result][-1]
    if not _has_counted(scene, name):
        assert bool(found["after"]) is not bool(failures(scene, name))
    if found["after"]:
        check_results(found["after"], Counter([last.result]))


def _not_due(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    is_stuck = found["advance"] is None
    tasks = [task for task in scene.waiting(name) if is_stuck or not task.retry_count]
    assert int(found["tasks"] or 1) == cause.count == len(tasks)
    assert bool(found["kind"]) is (len(tasks) < len(scene.tasks(name)))
    _then(scene, tasks, found)


def _then(scene: Scene, tasks: list[Task], found: Found) -> None:
    """Check that the first of some tasks changes after the time that is named."""
    seconds = (min(task.eta_usec for task in tasks) - scene.clock.now_usec()) / _SECOND
    assert found["span"] == format_span(seconds)
    if found["advance"]:
        assert int(found["advance"]) - 1 <= seconds <= int(found["advance"])


def _due(scene: Scene, name: str, cause: Cause, found: Found) -> None:
    _due_wait(scene, name, cause, found)
    assert found["span"] == format_span(age_usec(scene, scene.due(name)[0]) / _SECOND)


_OPERATORS = r"(?: \(operators leased \d+\))?"
_DELETED = r"(?P<deleted>none|\d+) (?:was|were) deleted"
_AVAILABLE = r"(?P<due>\d+) tasks? (?:is|are) available"
SPECIFICATION: Final[Mapping[str, Statement]] = {
    "disabled": Statement(
        r"(?:it is no longer in \S+|\S+, applied after it was created, does not have it)"
        r"(?:: (?P<tasks>\d+) tasks? kept until it is (?:there again, or )?resumed)?",
        _disabled,
    ),
    "paused": Statement(
        rf"it is paused(?:: {_WAIT} until it is resumed(?:, then (?:(?P<can>\d+) can start, "
        rf"and )?(?:workers can lease (?:it|them)|all can start|it starts|{_ADVICE} sends "
        rf"(?:it|all)|(?:the others|it starts|all start) when attempts end|about {_SPAN} at the "
        r"rate of \S+))?)?",
        _stopped,
    ),
    "rate 0": Statement(
        rf"its rate is 0(?:: {_WAIT} until queue.yaml has another rate)?", _stopped
    ),
    "not listening": Statement(
        r"(?P<some>tasks|some tasks|(?P<kept>\d+) of (?P<of>\d+) tasks?) (?:is|are) kept, not "
        r"delivered: the server waits for the app to listen at \S+",
        _kept,
    ),
    "no address": Statement(
        r"(?P<some>tasks|some tasks|(?P<kept>\d+) of (?P<of>\d+) tasks?) (?:is|are) kept, not "
        r"delivered: .+",
        _kept,
    ),
    "run only": Statement(
        rf"{_WAIT} for `POST /_emulator/run`, or for a clock that is advanced with `deliver`",
        _due_wait,
    ),
    "no response": Statement(
        rf"the app does not respond(?: \((?P<why>.*?)\))?: {_ATTEMPTS}(?:: (?:start what "
        r"listens at (?P<address>[^ ,]+)(?:, or `pullqueue push-to (?P<target>\S*=)?URL` \(retries "
        rf"have (?P<limit>no|a) limit\))?|{_RESULTS}))?",
        _failed,
    ),
    "failing": Statement(rf"{_ATTEMPTS}: {_RESULTS}", _failed),
    "some failed": Statement(rf"{_ATTEMPTS}: {_RESULTS}", _failed),
    "slowed": Statement(
        r"slowed from (?P<from>\S+)/\S+ to (?P<to>\S+)/s on average, with bursts of up to "
        r"(?P<bucket>\d+), by responses that report overload: status 503, of HTTP targets also 429 "
        r"and 5xx",
        _slowed,
    ),
    "concurrency": Statement(
        rf"{_WAIT} for (?:the running attempt|one of (?P<running>\d+) running attempts) to "
        rf"end: max_concurrent_requests is (?P<slots>\d+){_PACE}",
        _concurrency,
    ),
    "shared slots": Statement(
        rf"{_WAIT} for a slot: this server makes at most (?P<threads>\d+) attempts? at the same "
        rf"time(?: and keeps (?P<kept>\d+) of them for other queues)?; (?P<of>.+) are running"
        rf"{_PACE}",
        _shared,
    ),
    "rate": Statement(
        rf"{_WAIT} for the rate of \S+: {_ADVICE} sends (?:it|all|(?:this|these); (?P<later>\d+) "
        r"more (?:is|are) retried later)",
        _rate,
    ),
    "running": Statement(
        rf"(?P<running>\d+) attempts? (?:has been running|are running, the longest) for "
        rf"(?P<span>{_SPAN}), its deadline is in {_SPAN}",
        _running,
    ),
    "leases fail": Statement(
        rf"{_AVAILABLE}, workers leased none in the last minute{_OPERATORS}: (?P<failed>\d+) "
        rf"of (?P<calls>\d+) lease calls? got none: {_RESULTS}",
        _leases_fail,
    ),
    "lease rate": Statement(
        r"(?P<limited>\d+) of (?P<calls>\d+) lease calls of the last minute got none because "
        rf"of the lease rate of 10 a second: {_ADVICE}, or start the server with "
        r"--no-lease-rate-limit",
        _lease_rate,
    ),
    "other tag": Statement(
        r"in the last minute workers asked only for the (?P<tags>tags? .+), which (?:the available "
        r"task does not have|none of (?P<due>\d+) available has)",
        _other_tag,
    ),
    "no worker": Statement(
        rf"no worker has leased in the last minute{_OPERATORS}: {_AVAILABLE}", _no_worker
    ),
    "leases expire": Statement(
        rf"(?:workers leased (?P<leased>\d+) in the last minute{_OPERATORS}, )?(?P<expired>\d+) "
        rf"leases? expired(?: in the last minute{_OPERATORS})?, {_DELETED}: see why workers do not "
        r"finish, or lease for longer",
        _expire,
    ),
    "few leased": Statement(
        rf"{_AVAILABLE}, workers leased (?P<leased>\d+) in the last minute{_OPERATORS}, {_DELETED}"
        rf"(?:: about (?P<span>{_SPAN}) for (?:it|all) at this rate)?",
        _few,
    ),
    "leased": Statement(
        rf"(?P<leased>\d+) tasks? (?:is|are) leased, none is available: (?:its|the first) "
        rf"lease ends in (?P<span>{_SPAN}) \({_ADVICE}\)",
        _leased,
    ),
    "retrying": Statement(
        rf"(?P<tasks>\d+) tasks? waits? for (?:its|their) next attempt(?:, the first)? in "
        rf"(?P<span>{_SPAN}) \({_ADVICE}\)(?: after (?P<after>.+))?",
        _retrying,
    ),
    "not due": Statement(
        rf"nothing is due: (?:its only|the first of (?P<tasks>\d+)) (?P<kind>scheduled )?tasks? is "
        rf"due in (?P<span>{_SPAN})(?: \({_ADVICE}\))?",
        _not_due,
    ),
    "due": Statement(rf"(?P<due>\d+) tasks? (?:is|are) due, the first for (?P<span>{_SPAN})", _due),
    "exhausted": Statement(
        r"(?P<exhausted>\d+) tasks? (?:is|are) exhausted, and not tried again until `pullqueue "
        r"tasks requeue (?P<queue>\S+) --all` adds (?:it|them)",
        _exhausted,
    ),
    "faults": Statement(
        r"(?P<faults>fault .+?)(?: and (?P<others>\d+) more)? can trigger on the next attempts",
        _faults,
    ),
}
"""By cause, in the order in which they are shown."""


def parse(cause: Cause) -> Found:
    """Return the parts of a cause's text."""
    found = re.fullmatch(SPECIFICATION[cause.reason].pattern, cause.text)
    assert found is not None, f"{cause.reason}: {cause.text}"
    return found


def check_queue(scene: Scene, name: str, queue: QueueResource) -> None:
    """Check the sentence of a queue: what it says, that it leaves nothing out, and that the numbers
    that are shown beside it agree.
    """
    progress = queue.progress
    for cause in progress.causes:
        SPECIFICATION[cause.reason].check(scene, name, cause, parse(cause))
    reasons = [each.reason for each in progress.causes]
    assert progress.text == "; ".join(each.text for each in progress.causes)
    assert progress.reason == next(iter(reasons), None)
    _check_severity(scene, name, progress)
    assert ("exhausted" in reasons) is bool(scene.queue(name).exhausted)
    if scene.queue(name).is_push:
        assert progress.done == len(scene.recent(name, EventKind.ATTEMPT_SUCCEEDED))
    else:
        assert progress.done == _by_workers(scene, name, EventKind.DELETED)
        assert progress.leased == queue.leased_last_minute
        if re.search("leased [^,:]*in the last minute", progress.text):
            named = re.findall(r"leased (\d+)", progress.text)
            assert sum(map(int, named)) == progress.leased
    if is_stopped(scene, name):
        assert {"paused", "rate 0", "disabled"} & set(reasons)
    etas = [task.eta_usec for task in scene.waiting(name)]
    next_usec = _usec(progress.next) if progress.next else None
    assert next_usec == min(etas, default=None) or "rate" in reasons
    if "rate" in reasons:
        assert next_usec is not None
        assert scene.clock.now_usec() < next_usec <= min(etas, default=next_usec)
    due = scene.due(name)
    is_pull = not scene.queue(name).is_push
    can_lease = is_pull and due and not is_stopped(scene, name)
    assert ("lease rate" in reasons) is bool(can_lease and _limited(scene, name))
    if due and age_usec(scene, due[0]) >= _MINUTE:
        assert progress.text
    for task in scene.tasks(name):
        is_running = task.name in scene.running(name)
        if is_running and scene.clock.now_usec() - (task.attempts.dispatched_usec or 0) >= _MINUTE:
            assert "running" in reasons
    if scene.tasks(name) and not due and not scene.running(name):
        assert progress.text  # nothing moves


def _check_severity(scene: Scene, name: str, progress: Progress) -> None:
    """An error is what fails in half of the attempts or more, and leaves tasks: nothing else."""
    if _has_counted(scene, name):
        return
    assert (progress.severity == "error") is is_error(scene, name)
    reasons = {each.reason for each in progress.causes}
    has_failed = bool(failures(scene, name))
    assert has_failed is bool({"no response", "failing", "some failed"} & reasons)


def check_advice(scene: Scene, name: str, cause: Cause) -> None:
    """Follow the advice of a cause, and check that the tasks have moved as it says."""
    found = parse(cause)
    if "advance" not in found.groupdict() or not found["advance"]:
        return
    seconds, queue = int(found["advance"]), scene.queue(name)
    assert bool(found["deliver"]) is queue.is_push
    due, started = scene.due(name), scene.clock.now_usec()
    waiting = scene.waiting(name)
    slower = scene.delivery.dispatcher.enforced_rate(queue) if queue.is_push else 0
    if cause.reason == "paused":
        scene.resume(name)
        scene.settle()
    if queue.is_push:
        if cause.reason == "rate" and seconds > 1:  # a second less is not enough
            scene.deliver(seconds - 1)
            moved, seconds = scene.attempted_since(name, started), 1
            is_faster = scene.delivery.dispatcher.enforced_rate(queue) > slower
            # Attempts at an address that refuses connections are counted without the rate.
            is_counted = any(task.request and task.request.target for task in due)
            assert is_faster or is_counted or not {task.name for task in due} <= moved
        scene.deliver(seconds)
    else:
        scene.jump(seconds)
    scene.settle()
    if scene.clock.now_usec() < started + int(found["advance"]) * _SECOND:
        return  # an attempt that is held stops the clock
    if cause.reason in ("paused", "rate"):
        if scene.delivery.dispatcher.enforced_rate(queue) >= slower:
            moved = scene.attempted_since(name, started)
            assert {task.name for task in due} <= moved
    elif cause.reason == "lease rate":
        scene.clear_faults()
        leased = len(scene.leased)
        scene.lease(name, 1, 10)
        assert len(scene.leased) == leased + 1
    elif cause.reason in ("retrying", "not due", "leased"):
        is_first = lambda task: (task.eta_usec, task.sequence)  # noqa: E731
        expected = [
            task for task in waiting if (cause.reason == "not due") is (task.retry_count == 0)
        ]
        first = min(expected, key=is_first)
        left = {task.name: task for task in queue.list_tasks(10_000)}
        assert (
            left.get(first.name) != first
            or first.state_at(scene.clock.now_usec()) is TaskState.AVAILABLE
        )
