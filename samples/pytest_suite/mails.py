"""The part of the app that App Engine calls: it mails receipts."""

from __future__ import annotations

import flask
from google.appengine.api import taskqueue
from receipts import receipts

app = flask.Flask(__name__)
sent: dict[str, str] = {}
"""What was mailed, by the name of its task, so that nothing is mailed twice."""


def mail_receipt(number: int) -> None:
    """Add a task to mail a receipt."""
    taskqueue.add(queue_name="mails", url="/tasks/mail", params={"order": number})


@app.post("/tasks/mail")
def mail() -> tuple[str, int]:
    """Mail a receipt; until it is written, App Engine is to try again."""
    receipt = receipts.get(int(flask.request.form["order"]))
    if receipt is None:
        return "not written yet", 503
    sent.setdefault(flask.request.headers["X-AppEngine-TaskName"], receipt)
    return "", 204
