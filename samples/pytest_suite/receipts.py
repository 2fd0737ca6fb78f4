"""An app of App Engine's: orders come in, and workers write a receipt for each, once."""

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
    """Have a receipt written, some time later."""
    payload = json.dumps({"order": number, "country": country})
    taskqueue.Queue(QUEUE).add(taskqueue.Task(payload=payload, method="PULL", tag=country))


def hasty_worker() -> None:
    """Do one batch. The tasks are deleted first: the receipts of a crash are never written."""
    queue = taskqueue.Queue(QUEUE)
    tasks = queue.lease_tasks(LEASE_SECONDS, BATCH)
    queue.delete_tasks(tasks)
    for task in tasks:
        write_receipt(task.payload)


def careful_worker() -> None:
    """Do one batch. A task is deleted when its receipt is written, and no sooner."""
    queue = taskqueue.Queue(QUEUE)
    for task in queue.lease_tasks(LEASE_SECONDS, BATCH):
        write_receipt(task.payload)
        queue.delete_tasks(task)


def run_for_ever() -> None:
    """Do batch after batch, with a rest whenever there is trouble or nothing to do."""
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
    """Write a receipt; to write it again changes nothing."""
    order = json.loads(payload)
    receipts[order["order"]] = f"order {order['order']} to {order['country']}"
