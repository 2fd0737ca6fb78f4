"""Why tasks failed: groups of those whose reasons differ only in ids, numbers and the like."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Literal, NamedTuple, get_args

from msgspec import UNSET

from pullqueue.clock import from_usec
from pullqueue.engine.events import EventKind
from pullqueue.engine.queue import Queue, walk
from pullqueue.observe.patterns import pattern_of
from pullqueue.resources.models import EXHAUSTED
from pullqueue.resources.operations import operation
from pullqueue.resources.task_lists import Limit, TaskFilter, chosen_queues, failed_usec, select
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Count, Maybe, Model, Time, about
from pullqueue.tasks import Task, TaskState

_PAGE = 1_000
_READ = 5_000
"""How many failed tasks of a queue in one state are read to group them."""
_MAX_DUE_TASKS = 20_000
"""How many tasks that became due since the first failure are read to find those that failed."""
_EXAMPLES = 5

FailedState = Literal["exhausted", "retrying", "available"]


class FailureQuery(TaskFilter):
    """Which failed tasks to group."""

    queue: Annotated[Maybe[str], about("Only tasks of this queue.")] = UNSET
    state: Annotated[
        Maybe[FailedState],
        about(
            "Only failed tasks in this state. Of those that are available, those are "
            "found that are among the first 20,000 tasks that became due since one failed."
        ),
    ] = UNSET
    limit: Limit = 100


class FailureExample(Model):
    """A task of a group."""

    task: str
    reason: Annotated[
        str | None, about("First line of the last response, or why there was none; null: unknown.")
    ]
    time: Annotated[Time, about("When it failed.")]


class FailureGroup(Model):
    """Tasks of a queue whose last attempts failed with a status, for reasons of one pattern."""

    queue: str
    state: Annotated[
        FailedState,
        about("retrying: they are sent again later; available: as soon as they may be."),
    ]
    status: Annotated[
        Count | None, about("Status of the last attempt; 0: no response; null: it was leased.")
    ]
    pattern: Annotated[
        str,
        about(
            "The reason, with … for numbers, ids, addresses, paths and quoted texts, "
            "in which reasons of one pattern differ."
        ),
    ]
    reason: Annotated[
        str | None, about("The reason, if all have the same; null: none, or several.")
    ]
    tasks: Count
    examples: Annotated[list[FailureExample], about("The tasks that failed last, 5 at most.")]


class Failures(Model):
    """Groups of failed tasks, the largest first."""

    failures: list[FailureGroup]
    total: Annotated[Count, about("How many groups there are.")]
    is_complete: Annotated[
        bool,
        about(
            "Whether all failed tasks are in the groups: of each queue 5,000 in each "
            "state are read."
        ),
    ]


class _Failure(NamedTuple):
    """What tasks of a group have in common."""

    queue: str
    state: FailedState
    status: int | None
    pattern: str


@operation("GET", "/failures")
def list_failures(state: ServerState, query: FailureQuery) -> Failures:
    """Group the tasks that failed by queue, state, status and the pattern of the reason."""
    found: defaultdict[_Failure, list[Task]] = defaultdict(list)
    is_complete = True
    for queue in chosen_queues(state, query.queue):
        for each in get_args(FailedState) if query.state is UNSET else (query.state,):
            tasks = reversed(queue.exhausted) if each == EXHAUSTED else _failed_tasks(queue, each)
            read = list(islice(tasks, _READ + 1))
            is_complete &= len(read) <= _READ
            for task in select(iter(read[:_READ]), query, queue.now_usec()):
                status, pattern = task.attempts.status, pattern_of(task)
                found[_Failure(queue.name, each, status, pattern)].append(task)
    groups = sorted(found.items(), key=lambda item: len(item[1]), reverse=True)
    return Failures(
        failures=[_group(*item) for item in groups[: query.limit]],
        total=len(groups),
        is_complete=is_complete,
    )


def _group(failure: _Failure, tasks: list[Task]) -> FailureGroup:
    latest = sorted(tasks, key=failed_usec, reverse=True)[:_EXAMPLES]
    examples = [
        FailureExample(task.name, task.attempts.reason, from_usec(failed_usec(task)).isoformat())
        for task in latest
    ]
    reasons = {task.attempts.reason for task in tasks}
    reason = reasons.pop() if len(reasons) == 1 else None
    return FailureGroup(*failure, reason=reason, tasks=len(tasks), examples=examples)


def _failed_tasks(queue: Queue, state: FailedState) -> Iterator[Task]:
    """Yield tasks that failed and will be sent again: once they are due, or the rate permits."""
    if not queue.is_push:
        return iter(())
    tasks = walk(queue, page=_PAGE, state=TaskState.RETRYING)
    if state == TaskState.AVAILABLE.value:
        # They are behind all that were never sent: SQLite reads 45,000 a second.
        flow = queue.flow(since_usec=0).items()
        first_usec = min(
            (usec for usec, kinds in flow if EventKind.ATTEMPT_FAILED in kinds), default=0
        )
        due = walk(queue, page=_PAGE, state=TaskState.AVAILABLE, after=(first_usec - 1, 0))
        tasks = islice(due, _MAX_DUE_TASKS)
    return (task for task in tasks if task.attempts.status is not None)
