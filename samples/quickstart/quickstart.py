"""The history of a task, from being added to being deleted, with a clock that the program moves."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pullqueue import Emulator, EventKind, ManualClock, TaskLeaseExpiredError

HOUR = 3600


def main() -> list[str]:
    """Lease, expire and delete some tasks, and print what happened."""
    lines: list[str] = []
    clock = ManualClock()
    emulator = Emulator.from_file(Path(__file__).with_name("queue.yaml"), clock=clock)
    queue = emulator.queue("pull-queue")

    # A task has a payload, and a tag by which it can be leased.
    for number in (1, 2):
        queue.add(payload=f"parse{number}", tag="parse")
    queue.add(payload="render1", tag="render")

    # A worker leases tasks for an hour: until then nobody else gets them.
    tasks = queue.lease_tasks(lease_seconds=HOUR, max_tasks=100)
    lines.append(f"leased {', '.join(task.payload.decode() for task in tasks)}")
    lines.append(f"left for others: {len(queue.lease_tasks(HOUR, 100))}")

    # The worker deletes a task that is done, and extends the lease of another.
    done, late, unfinished = tasks
    queue.delete_tasks(done)
    late = queue.modify_task_lease(late, 2 * HOUR)

    # An hour later the lease that was not extended has expired ...
    clock.advance(timedelta(hours=1))
    again = queue.lease_tasks_by_tag(HOUR, 100, tag="render")
    lines.append(f"leased again: {again[0].payload.decode()}, lease {again[0].retry_count}")

    # ... and the first worker can no longer change it.
    try:
        queue.modify_task_lease(unfinished, HOUR)
    except TaskLeaseExpiredError as error:
        lines.append(f"too late: {error.task_name == unfinished.name}")

    # task_retry_limit is 3: after its third lease a task is exhausted.
    clock.advance(HOUR)
    queue.delete_tasks(late)
    queue.lease_tasks_by_tag(HOUR, 100, tag="render")
    clock.advance(HOUR)
    lines.append(f"exhausted: {[task.payload.decode() for task in queue.exhausted]}")
    history = [event.kind for event in queue.history(unfinished)]
    lines.append(f"expired leases: {history.count(EventKind.LEASE_EXPIRED)}")
    lines.append(f"tasks left: {queue.fetch_statistics().tasks}")
    return lines


if __name__ == "__main__":
    print("\n".join(main()))
