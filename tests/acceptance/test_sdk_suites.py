"""Suites of apps that know nothing of pullqueue, run with the fixture and nothing else changed."""

from __future__ import annotations

import pytest
import sdk_calls  # noqa: F401 - a run in this process unloads what it imports

QUEUE_YAML = """
queue:
- name: pull-queue
  mode: pull
- name: background
  rate: 5/s
"""

CONFTEST = """
import pytest

@pytest.fixture(autouse=True)
def _queues(pullqueue_sdk):
    pass
"""

GUIDE = """
from google.appengine.api import taskqueue

def test_adding_tasks():
    q = taskqueue.Queue('pull-queue')
    tasks = []
    payload_str = 'hello world'
    tasks.append(taskqueue.Task(payload=payload_str, method='PULL'))
    q.add(tasks)
    assert tasks[0].was_enqueued

def test_a_transient_error_is_caught(pullqueue_faults):
    from google.appengine.runtime import apiproxy_errors
    from pullqueue import TransientError
    pullqueue_faults.fail('lease_tasks_by_tag', TransientError, times=1)
    q = taskqueue.Queue('pull-queue')
    try:
        q.lease_tasks_by_tag(3600, 1000, deadline=60)
    except (taskqueue.TransientError, apiproxy_errors.DeadlineExceededError) as error:
        caught = error
    assert isinstance(caught, taskqueue.TransientError)
"""

TESTBED = """
import os
import unittest
import warnings

with warnings.catch_warnings():
    warnings.simplefilter('ignore')
    from google.appengine.api import taskqueue
    from google.appengine.ext import testbed

class AppTest(unittest.TestCase):
    def setUp(self):
        self.testbed = testbed.Testbed()
        self.testbed.activate()
        self.addCleanup(self.testbed.deactivate)
        self.testbed.init_taskqueue_stub(root_path=os.path.dirname(__file__))
        self.stub = self.testbed.get_stub(testbed.TASKQUEUE_SERVICE_NAME)

    def test_pull_tasks_are_named(self):
        tasks = taskqueue.Queue('pull-queue').add(
            [taskqueue.Task(payload='x', method='PULL') for _ in range(100)])
        self.assertEqual([t.name for t in tasks[:2]], ['task1', 'task2'])
        self.assertTrue(all(t.name for t in tasks))

    def test_each_test_begins_empty(self):
        self.assertEqual(self.stub.get_filtered_tasks(), [])
        task = taskqueue.Queue('pull-queue').add(taskqueue.Task(payload='x', method='PULL'))
        self.assertEqual(task.name, 'task1')
"""

FROZEN = """
import datetime
from freezegun import freeze_time
from google.appengine.api import taskqueue

def test_a_lease_runs_out():
    with freeze_time('2026-05-04 12:00:00') as frozen:
        q = taskqueue.Queue('pull-queue')
        q.add(taskqueue.Task(payload='x', method='PULL'))
        (task,) = q.lease_tasks(60, 1)
        assert task.eta.isoformat() == '2026-05-04T12:01:00+00:00'
        assert q.lease_tasks(60, 1) == []
        frozen.tick(datetime.timedelta(seconds=60))
        (again,) = q.lease_tasks(60, 1)
        assert again.retry_count == 2

def test_the_clock_of_the_fixture(pullqueue_clock):
    q = taskqueue.Queue('pull-queue')
    q.add(taskqueue.Task(payload='x', method='PULL', countdown=3600))
    assert q.lease_tasks(60, 1) == []
    pullqueue_clock.advance(3600)
    assert len(q.lease_tasks(60, 1)) == 1
"""


def test_suites(pytester: pytest.Pytester) -> None:
    """One that follows App Engine's guide, one with a testbed and one with freezegun pass."""
    (pytester.path / "queue.yaml").write_text(QUEUE_YAML)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_guide=GUIDE, test_testbed=TESTBED, test_frozen=FROZEN)

    result = pytester.runpytest("-p", "no:cacheprovider")

    result.assert_outcomes(passed=6)
