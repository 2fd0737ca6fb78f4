"""Operations on who did what: actions, failures, and clients with what they have leased."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import groupby

from pullqueue.clock import USEC_PER_SECOND, from_usec
from pullqueue.engine.events import MINUTE_USEC, EventKind
from pullqueue.observe.activity import IN_PROCESS
from pullqueue.observe.models import Action, Failure, Worker
from pullqueue.resources.models import NOT_RECORDED, Since, parse_since
from pullqueue.resources.operations import operation
from pullqueue.resources.queues import list_shown_queues
from pullqueue.resources.task_lists import Limit, failed_usec
from pullqueue.runtime.situation import MINUTE
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Model, iso_usec
from pullqueue.tasks import count_tasks


class ActivityQuery(Model):
    """Which actions and failures to return."""

    limit: Limit = 100
    since: Since = ""


class Activity(Model):
    """What operators did, and what failed, each the latest first."""

    actions: list[Action]
    failures: list[Failure]


@operation("GET", "/activity")
def list_activity(state: ServerState, query: ActivityQuery) -> Activity:
    """List what operators did, and what failed from a time on, the latest first.

    Requests that fail in the same way are one failure. Another begins more than a minute after the
    last of them, if a request of the same kind succeeded meanwhile. Exhausted tasks are counted by
    the minute. A reset deletes none but these.
    """
    start = parse_since(query.since, state.emulator.now_usec())
    actions = [each for each in state.activity.actions() if _time(each.time) >= start]
    failures = [each for each in state.activity.failures() if _time(each.last) >= start]
    recorded = Counter(each.failure for each in state.requests.latest())
    for each in failures:
        each.recorded = recorded[each.number]
    failures += [each for each in _exhausted(state) if start - _time(each.last) < MINUTE]
    failures.sort(key=lambda each: _time(each.last))
    last = slice(None, -query.limit - 1, -1)
    return Activity(actions[last], failures[last])


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _exhausted(state: ServerState) -> Iterator[Failure]:
    """Yield how many tasks of each queue were exhausted, those of adjacent minutes together."""
    for queue in list_shown_queues(state):
        flow = queue.flow(since_usec=0).items()
        counts = {
            usec // MINUTE_USEC: n for usec, kinds in flow if (n := kinds.get(EventKind.EXHAUSTED))
        }
        tasks = queue.exhausted if counts else []
        kept = Counter(failed_usec(task) // MINUTE_USEC for task in tasks)
        # Of adjacent minutes the difference from their place is the same.
        for _, adjacent in groupby(enumerate(counts), key=lambda each: each[1] - each[0]):
            minutes = [minute for _, minute in adjacent]
            count = sum(counts[each] for each in minutes)
            recorded = sum(kept[each] for each in minutes)
            text = f"{count_tasks(count)} of queue {queue.name} exhausted"
            if count > max(1, recorded):  # one that was requeued may count again
                text = f"tasks of queue {queue.name} exhausted {count} times"
            if recorded < count:
                text += f", {recorded or 'none'} of them still"
            first, last = (
                from_usec(each * MINUTE_USEC).isoformat() for each in (minutes[0], minutes[-1])
            )
            yield Failure(first, last, count, queue.name, recorded=recorded, text=text)


@operation("GET", "/workers", key="workers")
def list_workers(state: ServerState) -> list[Worker]:
    """List the clients of the queues with their leases; the one that called last is first."""
    workers = state.activity.workers()
    known, now_usec = {*workers}, state.emulator.now_usec()
    expired, expired_usec = Counter[str](), Counter[str]()

    def find(name: str, queue: str) -> Worker:
        """Return a client; what is known of its queues are the calls, or else the leases."""
        worker = workers.setdefault(name, Worker(name))
        if name not in known and queue not in worker.queues:
            worker.queues = sorted((*worker.queues, queue))
        return worker

    for queue in state.emulator.queues:
        if queue.is_push:
            continue
        counts = queue.count_leases()
        for client, each in counts.items():
            name = client or IN_PROCESS
            if each.first_usec is not None:
                worker = find(name, queue.name)
                worker.leased += each.leased
                seconds = (now_usec - each.first_usec) / USEC_PER_SECOND
                worker.longest_seconds = max(seconds, worker.longest_seconds or 0)
                # Times of one clock are in the order of their texts.
                worker.until = max(iso_usec(each.until_usec) or "", worker.until or "") or None
            expired[name] += each.expired
            expired_usec[name] = max(expired_usec[name], each.expired_usec or 0)
        missing = queue.fetch_statistics().leased - sum(each.leased for each in counts.values())
        if missing > 0:
            find(NOT_RECORDED, queue.name).leased += missing
    for worker in workers.values():
        worker.expired = expired[worker.client]
        if worker.expired and worker.last is not None:
            worker.silent = _time(worker.last) < from_usec(expired_usec[worker.client])
    return list(workers.values())
