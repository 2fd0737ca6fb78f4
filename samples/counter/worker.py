"""The worker: adds up votes, all for one thing at a time, until it is stopped."""

from __future__ import annotations

import time

import counts
from google.appengine.api import taskqueue
from google.appengine.runtime import apiproxy_errors


def work() -> str | None:
    """Count the votes for the thing that has waited longest; None where there are none."""
    queue = taskqueue.Queue("counts")
    try:
        tasks = queue.lease_tasks_by_tag(lease_seconds=60, max_tasks=1000)
    except (taskqueue.TransientError, apiproxy_errors.DeadlineExceededError):
        return None
    if not tasks:
        return None
    thing, votes = tasks[0].tag, sum(int(task.payload) for task in tasks)
    counts.add(thing, votes)
    queue.delete_tasks(tasks)
    return f"{thing}: {votes}"


if __name__ == "__main__":
    while True:
        if counted := work():
            print(counted, flush=True)
        else:
            time.sleep(0.2)  # noqa: TID251 - a real worker waits for real votes
