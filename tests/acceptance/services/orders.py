"""An app with ndb: an order is stored with the task that mails it, in one transaction."""

from __future__ import annotations

import os
import signal
import sys
from itertools import count

from flask import Flask, request
from google.appengine.api import taskqueue, wrap_wsgi_app
from google.appengine.ext import ndb

app = Flask(__name__)
app.wsgi_app = wrap_wsgi_app(app.wsgi_app)  # type: ignore[method-assign]


class Order(ndb.Model):  # type: ignore[misc]  # not typed
    mails = ndb.IntegerProperty(default=0)


@ndb.transactional()  # type: ignore[untyped-decorator]
def place(item: str, *, crash: bool = False) -> None:
    """Store an order, and a task for it; a crash comes before the commit."""
    Order(id=item).put()
    taskqueue.add(url="/tasks/mail", params={"item": item}, transactional=True)
    if crash:
        os.kill(os.getpid(), signal.SIGKILL)


@app.post("/orders/<item>")
def order(item: str) -> tuple[str, int]:
    place(item, crash="crash" in request.args)
    return "", 202


@app.post("/tasks/mail")
def mail() -> str:
    @ndb.transactional()  # type: ignore[untyped-decorator]
    def count_mail() -> None:
        placed = Order.get_by_id(request.form["item"])
        placed.mails += 1
        placed.put()

    count_mail()
    return ""


@app.get("/")
def state() -> dict[str, int]:
    return {placed.key.id(): placed.mails for placed in Order.query()}


def write() -> None:
    """Store numbers with a pull task for each, and print those that were acknowledged."""

    @ndb.transactional()  # type: ignore[untyped-decorator]
    def store(number: str) -> None:
        Order(id=number).put()
        taskqueue.Queue("pull").add(
            taskqueue.Task(payload=number, method="PULL"), transactional=True
        )

    for number in count():
        name = f"{sys.argv[2]}-{number}"
        store(name)
        print(name, flush=True)


def check() -> None:
    """Print the orders, and the payloads of the pull tasks."""
    queue, payloads = taskqueue.Queue("pull"), []
    while leased := queue.lease_tasks(3600, 1000):
        payloads += [task.payload.decode() for task in leased]
    print(*sorted(key.id() for key in Order.query().iter(keys_only=True)))
    print(*sorted(payloads))


if __name__ == "__main__":
    modes = {"write": write, "check": check}
    mode = modes.get(sys.argv[1]) if sys.argv[1:] else None
    mode() if mode else app.run(port=int(os.environ["PORT"]))
