"""A small shop on App Engine: each order is mailed, counted and invoiced by tasks."""

from __future__ import annotations

import logging
import os
import threading

import invoices
from flask import Flask, abort, request
from google.appengine.api import taskqueue, wrap_wsgi_app
from google.appengine.ext import deferred, ndb
from orders import Order, Sales, count_sale

app = Flask(__name__)
app.wsgi_app = wrap_wsgi_app(app.wsgi_app, use_deferred=True)  # type: ignore[method-assign]


@app.post("/orders/<item>")
@ndb.transactional()  # type: ignore[untyped-decorator]
def order(item: str) -> tuple[str, int]:
    """Take an order. Its tasks, which are stored with it or not at all, do the rest."""
    number = Order(item=item).put().id()
    taskqueue.add(
        queue_name="mails", url="/tasks/mail", params={"order": number}, transactional=True
    )
    deferred.defer(count_sale, item, _transactional=True)
    taskqueue.add(queue_name="invoices", method="PULL", payload=str(number), transactional=True)
    return f"order {number}\n", 202


@app.post("/tasks/mail")
def mail() -> tuple[str, int]:
    """Mail an invoice. Until it is written, the status 503 makes App Engine try again."""
    if "X-AppEngine-QueueName" not in request.headers:
        abort(403)
    placed = Order.get_by_id(int(request.form["order"]))
    if not placed.invoice:
        return "the invoice is not written yet", 503
    placed.mails += 1
    placed.put()
    return "", 204


@app.get("/")
def state() -> dict[str, object]:
    """Return all orders and the numbers of items sold."""
    return {
        "orders": [placed.to_dict() for placed in Order.query()],
        "sold": {sales.key.id(): sales.count for sales in Sales.query()},
    }


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    threading.Thread(target=invoices.run, daemon=True).start()
    app.run(port=int(os.environ.get("PORT", "8080")))
