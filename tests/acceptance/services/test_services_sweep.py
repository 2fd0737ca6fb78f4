"""Transactional tasks that the SDK itself stages in the datastore, to send them to Cloud Tasks."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from executing import forked_exec, on_sdk
from programs import completed
from served import serving

from pullqueue.sdk.imports import cloudtask

pytestmark = pytest.mark.skipif(
    cloudtask is None or find_spec("google.cloud.tasks_v2") is None,
    reason="needs appengine-python-standard 3.1.0 and google-cloud-tasks",
)

COMMIT_AND_DIE = """
import os, signal
from google.appengine.api import apiproxy_stub_map, taskqueue
from google.appengine.ext import ndb

class Order(ndb.Model):
    pass

@ndb.transactional(xg=True)
def place():
    Order(id="tea").put()
    taskqueue.add(url="/tasks/mail", params={"item": "tea"}, transactional=True)

def die(service, call, request, response):
    if call == "Commit":
        os.kill(os.getpid(), signal.SIGKILL)

apiproxy_stub_map.apiproxy.GetPostCallHooks().Append("die", die, "datastore_v3")
place()
"""

SWEEP = """
from datetime import datetime, timedelta, timezone
import time_machine
from google.appengine.api import taskqueue, wrap_wsgi_app
from google.appengine.ext import ndb
from werkzeug.test import Client

class Order(ndb.Model):
    pass

def sweep(**options):
    app = wrap_wsgi_app(lambda *_: [])
    response = Client(app).get("/_ah/cloudtask/sweep", **options)
    return response.status_code, taskqueue.Queue("default").fetch_statistics().tasks

print(Order.get_by_id("tea") is not None, sweep())
cron = {"X-Appengine-Cron": "true"}
print(sweep(headers=cron))
with time_machine.travel(datetime.now(timezone.utc) + timedelta(seconds=61)):
    print(sweep(headers=cron))
    print(sweep(headers=cron))
"""


def test_a_task_whose_process_died_after_the_commit_is_swept(tmp_path: Path) -> None:
    """A minute later, by the request that a cron job of the app makes; and only once."""
    (tmp_path / "queue.yaml").write_text("queue: []\n")
    with serving("--data", "data", folder=tmp_path) as served:
        address = served.url.removeprefix("http://")
        switch = ("env", "APPENGINE_USE_CLOUDTASK_PUSH_QUEUE=true")
        exec_ = (*switch, *forked_exec(), "--url", address)
        died = completed([*exec_, *on_sdk(COMMIT_AND_DIE)], cwd=tmp_path)
        swept = completed([*exec_, *on_sdk(SWEEP)], cwd=tmp_path)

    assert died.returncode == 128 + 9, died.stderr
    assert swept.stdout.splitlines() == ["True (403, 0)", "(200, 0)", "(200, 1)", "(200, 1)"], (
        swept.stderr
    )
