"""A small shop on App Engine: each order is mailed, counted and invoiced by tasks."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import asdict

import invoices
from flask import Flask, abort, request
from google.appengine.api import taskqueue, wrap_wsgi_app
from google.appengine.ext import deferred
from orders import Order, count_sale, orders, sold

app = Flask(__name__)
app.wsgi_app = wrap_wsgi_app(app.wsgi_app, use_deferred=True)  # type: ignore[method-assign]


@app.post("/orders/<item>")
def order(item: str) -> tuple[str, int]:
    """Take an order. Its tasks do the rest."""
    number = len(orders) + 1
    orders[number] = Order(item=item)
    taskqueue.add(queue_name="mails", url="/tasks/mail", params={"order": number})
    deferred.defer(count_sale, item)
    taskqueue.add(queue_name="invoices", method="PULL", payload=str(number))
    return f"order {number}\n", 202


@app.post("/tasks/mail")
def mail() -> tuple[str, int]:
    """Mail an invoice. Until it is written, the status 503 makes App Engine try again."""
    if "X-AppEngine-QueueName" not in request.headers:
        abort(403)
    placed = orders[int(request.form["order"])]
    if not placed.invoice:
        return "the invoice is not written yet", 503
    placed.mails += 1
    return "", 204


@app.get("/")
def state() -> dict[str, object]:
    """Return all orders and the numbers of items sold."""
    return {"orders": {number: asdict(each) for number, each in orders.items()}, "sold": sold}


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    threading.Thread(target=invoices.run, daemon=True).start()
    app.run(port=int(os.environ.get("PORT", "8080")))
