"""An app on App Engine: workers write one receipt for each order."""

from __future__ import annotations

import json
import logging
import time

from google.appengine.api import taskqueue

QUEUE = "receipts"
LEASE_SECONDS = 60
BATCH = 2

receipts: dict[int, str] = {}
"""The database: receipts by the number of their order."""


def take_order(number: int, *, country: str) -> None:
    """Add a task for a worker to write a receipt."""
    payload = json.dumps({"order": number, "country": country})
    taskqueue.Queue(QUEUE).add(taskqueue.Task(payload=payload, method="PULL", tag=country))


def hasty_worker() -> None:
    """Do one batch. The tasks are deleted first: after a crash their receipts are never written."""
    queue = taskqueue.Queue(QUEUE)
    tasks = queue.lease_tasks(LEASE_SECONDS, BATCH)
    queue.delete_tasks(tasks)
    for task in tasks:
        write_receipt(task.payload)


def careful_worker() -> None:
    """Do one batch. A task is deleted after its receipt is written."""
    queue = taskqueue.Queue(QUEUE)
    for task in queue.lease_tasks(LEASE_SECONDS, BATCH):
        write_receipt(task.payload)
        queue.delete_tasks(task)


def run_forever() -> None:
    """Do batches forever; sleep after errors and when no task is available."""
    queue = taskqueue.Queue(QUEUE)
    while True:
        try:
            careful_worker()
        except taskqueue.TransientError:
            logging.getLogger(__name__).info("the task queue is down, trying again soon")
        if not queue.fetch_statistics().tasks:
            time.sleep(30)  # noqa: TID251 - what workers do
        else:
            time.sleep(1)  # noqa: TID251


def write_receipt(payload: str) -> None:
    """Write a receipt; writing it again changes nothing."""
    order = json.loads(payload)
    receipts[order["order"]] = f"order {order['order']} to {order['country']}"
