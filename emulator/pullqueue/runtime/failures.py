"""What happened, as causes: attempts that failed in the last minute or since then, and how."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from msgspec import to_builtins

from pullqueue.clock import from_usec
from pullqueue.config.model import Rate
from pullqueue.engine.events import MINUTE_USEC
from pullqueue.observe.patterns import find_pattern
from pullqueue.push.http_sender import refused_at
from pullqueue.push.request import build_path, effective_request, find_target
from pullqueue.push.retry import find_retry, has_no_limit
from pullqueue.runtime.fault_registry import FaultResource
from pullqueue.runtime.situation import Found, Severity, Situation
from pullqueue.runtime.state import ServerState
from pullqueue.tasks import AttemptResult, result_text
from pullqueue.text import counted, list_first

_FAILING_SHARE: Final = 0.5
"""Share of attempts that fail from which on a queue fails as a whole."""
_RESULTS: Final = 3
"""Results of failed attempts that are named."""


def no_response(now: Situation) -> Found | None:
    """Return that no attempt got a response, and that no fault is the reason for all."""
    own = [each for each in now.failures if each.fault is None]
    if not _is_failing(now) or now.failed < now.ended or not own or any(r.status for r in own):
        return None
    text = f"{_attempts(now)}{_since(now)}"
    if len(now.failures) == 1:
        why = own[0].reason or "no reason is known"
        text = f"the app does not respond ({why}): {text}{_how_to_listen(now, why)}"
        return Found(now.failed, text, _severity(now))
    return Found(now.failed, f"the app does not respond: {text}: {_results(now)}", _severity(now))


def _how_to_listen(now: Situation, why: str) -> str:
    """Return what to do where nothing listens at an address, and whether retries end."""
    address = refused_at(why)
    if not address:
        return ""
    settings, endless = now.queue.settings, False
    targets, others = list[str](), list[str]()
    for task in now.looked_at:
        found = now.state.push_to.find(task, settings)
        if isinstance(found, str):
            continue
        if found.netloc == address:
            target = find_target(effective_request(task, settings), settings)
            targets.append(f"{target}=URL" if target else "URL")
            endless |= has_no_limit(find_retry(task, settings))
        else:
            others.append(found.netloc)
    if others and not targets:
        return f": the next attempts go to {' and '.join(dict.fromkeys(others))}"
    text = f": start what listens at {address}"
    if targets:
        text += f", or `pullqueue push-to {targets[0]}`"
        text += f" (retries have {'no' if endless else 'a'} limit)"
    return text


def failing(now: Situation) -> Found | None:
    """Return that half of the attempts, or more, have failed otherwise."""
    if not _is_failing(now) or no_response(now) is not None:
        return None
    return Found(now.failed, f"{_attempts(now)}{_since(now)}: {_results(now)}", _severity(now))


def _severity(now: Situation) -> Severity:
    """Return that it is an error, unless all tasks were done in the end."""
    return "error" if now.numbers.tasks or now.numbers.exhausted else "warning"


def some_failed(now: Situation) -> Found | None:
    """Return that fewer attempts have failed."""
    if not now.failed or _is_failing(now):
        return None
    return Found(now.failed, f"{_attempts(now)}: {_results(now)}", "warning")


def _is_failing(now: Situation) -> bool:
    return now.failed > 0 and now.failed / now.ended >= _FAILING_SHARE


def _attempts(now: Situation) -> str:
    if now.since_usec is not None:
        since = _time(now, now.since_usec)
        if now.ended == 1:
            return f"its only attempt since {since} failed"
        return f"all {now.ended} attempts since {since} failed"
    if now.failed < now.ended:
        return f"{now.failed} of {now.ended} attempts failed in the last minute"
    if now.ended == 1:
        return "its only attempt in the last minute failed"
    return f"all {now.ended} attempts failed in the last minute"


def _since(now: Situation) -> str:
    """Return since when attempts fail, where that is longer than the minute that is counted."""
    failing_usec = now.failing_usec
    if failing_usec is None or now.since_usec is not None:
        return ""
    is_long = now.now_usec - failing_usec > 2 * MINUTE_USEC
    return f" (failing since {_time(now, failing_usec)})" if is_long else ""


def _time(now: Situation, usec: int) -> str:
    time = from_usec(usec)
    is_today = time.date() == from_usec(now.now_usec).date()
    return f"{time:{'%H:%M' if is_today else '%Y-%m-%d %H:%M'}} UTC"


def _results(now: Situation) -> str:
    return name_results(now.failures, kinds_of_faults(now.state))


def name_results(results: Mapping[AttemptResult, int], kinds: Mapping[int, str]) -> str:
    """Return what failed in words, the most frequent results first.

    An example is `30 x status 500 (CMYK), 12 by fault 2 (fail)`. Reasons that have a pattern in
    common are one result. `kinds` are those of the faults that are set, by number.
    """
    groups: defaultdict[AttemptResult, Counter[AttemptResult]] = defaultdict(Counter)
    for result, count in results.items():
        common = result._replace(reason=result.reason and find_pattern(result.reason))
        groups[common][result] = count
    named: Counter[str] = Counter()
    for common, group in groups.items():
        named[name_result(common if len(group) > 1 else next(iter(group)), kinds)] += group.total()
    shown = sorted(named.items(), key=lambda each: (-each[1], each[0]))[:_RESULTS]
    if len(named) == 1:
        [name] = named
        return f"by {name}" if name.startswith("fault") else name
    parts = [f"{count} {'by' if name.startswith('fault') else 'x'} {name}" for name, count in shown]
    if others := named.total() - sum(count for _, count in shown):
        parts.append(counted(others, "other"))
    return ", ".join(parts)


def name_result(result: AttemptResult, kinds: Mapping[int, str]) -> str:
    """Return how an attempt has failed: `status 500 (CMYK)`, `fault 2 (fail)`."""
    if result.fault is not None:
        return f"fault {result.fault} ({kinds.get(result.fault, 'removed')})"
    return result_text(result.status, result.reason)


def kinds_of_faults(state: ServerState) -> dict[int, str]:
    """Return the kinds of the faults that are set, by number."""
    return {each.number: each.kind for each in state.faults.list()}


def slowed(now: Situation) -> Found | None:
    """Return the lower rate of an app that is overloaded."""
    if not (now.queue.is_push and now.is_slowed):
        return None
    rate = now.queue.settings.rate or Rate(count=now.queue.settings.effective_rate)
    text = (
        f"slowed from {rate} to {now.rate_text} on average, with bursts of up to "
        f"{now.queue.settings.effective_bucket_size}, by responses that report overload: status "
        "503, of HTTP targets also 429 and 5xx"
    )
    return Found(now.due, text, "warning")


def next_faults(now: Situation) -> Found | None:
    """Return the faults that can trigger on the next attempts of a queue that has failures."""
    if not (now.failed or now.numbers.retrying or now.is_slowed):
        return None
    named = {each.fault for each in now.failures}
    faults = [
        each
        for each in now.state.faults.list(active=True)
        if each.number not in named and _can_trigger(now, each)
    ]
    if not faults:
        return None
    names = list_first([f"fault {each.number} ({each.kind})" for each in faults], _RESULTS)
    return Found(now.numbers.tasks, f"{names} can trigger on the next attempts")


def _can_trigger(now: Situation, fault: FaultResource) -> bool:
    options = to_builtins(fault)
    queues = options.get("queues", [now.queue.name])
    if options.get("call") != "attempt" or now.queue.name not in queues:
        return False
    requests = [task.request for task in now.looked_at if task.request]
    paths = [build_path(each.url).partition("?")[0] for each in requests]
    return any(fnmatchcase(path, options.get("url", "*")) for path in paths)
