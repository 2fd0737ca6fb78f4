"""What the tasks of a queue did in the last minute, and one sentence: why they do not move."""

from __future__ import annotations

from typing import Annotated

from pullqueue.engine.events import EventKind
from pullqueue.engine.queue import Queue
from pullqueue.engine.store import QueueStatistics
from pullqueue.runtime.causes import Cause, Reason, find_causes
from pullqueue.runtime.situation import Severity, Situation
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Count, Model, Time, about, iso_usec

_SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")


class Progress(Model):
    """What the tasks of a queue did in the last minute, and what they wait for."""

    leased: Annotated[Count, about("Tasks leased in the last minute.")]
    done: Annotated[
        Count,
        about(
            "Tasks finished in the last minute: those that workers deleted, not "
            "operators, or the attempts that succeeded."
        ),
    ]
    delivered: Annotated[Count, about("Attempts that succeeded in the last minute.")]
    failed: Annotated[Count, about("Attempts that failed in the last minute.")]
    failing_since: Annotated[
        Time | None,
        about(
            "The minute, in the last day, since which all attempts fail. Null if one "
            "succeeded in the last minute, or none failed in it and no task that failed waits."
        ),
    ]
    causes: Annotated[
        list[Cause], about("Why tasks do not move; empty if they do, or there are none.")
    ]
    reason: Annotated[Reason | None, about("The first of the causes.")]
    severity: Annotated[Severity, about("That of the most severe cause.")]
    text: Annotated[str, about("The causes as a sentence; empty if there are none.")]
    next: Annotated[
        Time | None,
        about(
            "When time alone changes the state of a task, or the rate permits the next "
            "attempt; null: never."
        ),
    ]


def find_progress(state: ServerState, queue: Queue, numbers: QueueStatistics) -> Progress:
    """Return what a queue with some statistics did in the last minute, and what it waits for."""
    now = Situation(state, queue, numbers)
    causes, delivered = find_causes(now), now.counts[EventKind.ATTEMPT_SUCCEEDED]
    return Progress(
        leased=now.counts[EventKind.LEASED],
        done=delivered if queue.is_push else now.deleted,
        delivered=delivered,
        failed=now.counts[EventKind.ATTEMPT_FAILED],
        failing_since=iso_usec(now.failing_usec),
        causes=causes,
        reason=causes[0].reason if causes else None,
        severity=max((each.severity for each in causes), key=_SEVERITIES.index, default="info"),
        text="; ".join(each.text for each in causes),
        next=iso_usec(now.next_usec),
    )
