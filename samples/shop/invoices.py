"""The pull worker: writes the invoices."""

from __future__ import annotations

import logging
import time

from google.appengine.api import taskqueue
from orders import Order


def work() -> int:
    """Write the invoices of one lease, and return their number."""
    queue = taskqueue.Queue("invoices")
    tasks = queue.lease_tasks(lease_seconds=60, max_tasks=10)
    for task in tasks:
        order = Order.get_by_id(int(task.payload))
        order.invoice = f"invoice: 1 {order.item}"
        order.put()
        queue.delete_tasks(task)
    return len(tasks)


def run() -> None:
    """Work until the program ends."""
    while True:
        try:
            written = work()
        except taskqueue.Error:
            logging.getLogger(__name__).exception("the invoices have to wait")
            written = 0
        if not written:
            time.sleep(1)  # noqa: TID251 - a real worker waits for real orders
