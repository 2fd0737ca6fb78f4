"""A web app that counts votes: each one becomes a task, and a worker adds them up.

Many votes for one thing are added up at once, since a lease takes all tasks of one tag.
"""

from __future__ import annotations

import os

import counts
from flask import Flask
from google.appengine.api import taskqueue, wrap_wsgi_app

app = Flask(__name__)
app.wsgi_app = wrap_wsgi_app(app.wsgi_app)  # type: ignore[method-assign]


@app.post("/votes/<thing>")
def vote(thing: str) -> tuple[str, int]:
    """Add a vote; it is counted later."""
    task = taskqueue.Task(payload="1", method="PULL", tag=thing)
    taskqueue.Queue("counts").add(task)
    return f"thank you, this was {task.name}\n", 202


@app.get("/")
def result() -> dict[str, int]:
    """Return the counts so far."""
    return counts.read()


if __name__ == "__main__":
    app.run(port=int(os.environ.get("PORT", "8080")))
