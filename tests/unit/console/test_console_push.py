"""The console's pages of push queues, their tasks, and cron jobs, without a browser."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from console_client import ConsoleClient
from push_app import PushApp, push_app, until

from pullqueue import AttemptRecord, Emulator, HttpRequest, ManualClock, Queue
from pullqueue.cron.file import parse_cron
from pullqueue.engine.attempts import finish_attempt, start_attempt
from pullqueue.push.addresses import PushAddresses
from pullqueue.runtime.state import ServerState

CONFIG = """\
queue:
- {name: mail, rate: 20/m, bucket_size: 7, max_concurrent_requests: 3, target: mail}
- {name: jobs, rate: 5/s, target: worker}
- {name: pull, mode: pull}
"""


class Console(ConsoleClient):
    """The console of a server that sends the tasks of `mail`, and keeps those of `jobs`."""

    def __init__(self, app: PushApp) -> None:
        emulator = Emulator.from_text(CONFIG, clock=ManualClock())
        super().__init__(ServerState(emulator, push_to=PushAddresses([f"mail={app.url}"])))

    def retry(self, parameters: str) -> None:
        config = CONFIG.replace("}", f", retry_parameters: {{{parameters}}}}}", 1)
        self.emulator.reconfigure(Emulator.from_text(config).config)

    def fail(self, path: str = "/status/500", name: str = "a") -> Queue:
        """Add a task whose attempts fail, and run it."""
        queue = self.emulator.queue("mail")
        queue.add(name=name, request=HttpRequest(path))
        self.run(name)
        return queue

    def run(self, name: str) -> str:
        """Run a task of `mail` now, wait for the end of the attempt, and return the page."""
        before = len(self.state.requests.latest())
        page = self.send(f"/queues/mail/tasks/{name}/run")
        until(lambda: len(self.state.requests.latest()) > before)
        return page


@pytest.fixture
def console() -> Iterator[Console]:
    with push_app() as app:
        console = Console(app)
        yield console
        console.state.stop()


def test_the_page_of_an_empty_queue_shows_how_to_add_a_task(console: Console) -> None:
    """A command that adds a push task."""
    command = '<code>pullqueue tasks add mail --request "POST /path"</code>'

    assert command in console.page("/queues/mail")
    console.state.url = "http://127.0.0.1:8125"
    assert command.replace("</", f" --url {console.state.url}</") in console.page("/queues/mail")


def test_commands_in_a_sentence_are_code_and_the_rest_is_text(console: Console) -> None:
    console.emulator.queue("jobs").add(name="kept", request=HttpRequest("/<b>"))

    for page in ("/queues/jobs", "/"):
        assert "<code>pullqueue push-to" in console.page(page)
        assert "`" not in console.text(page)
    later = console.emulator.clock.now() + timedelta(seconds=30)
    console.emulator.queue("jobs").add(eta=later)
    [line] = re.findall("<li>(jobs: .*)</li>", console.send("/clock", by="1", unit="m"))
    assert "run <code>pullqueue push-to" in line
    assert "`" not in line


def test_a_fault_links_to_the_requests_on_which_it_triggered(console: Console) -> None:
    """To these and no others; a search for their reason finds them, too."""
    for name in ("fine", "faulty"):
        console.emulator.queue("mail").add(name=name)
    console.run("fine")
    console.send("/faults", kind="fail", call="attempt", status="503")
    console.run("faulty")

    [path] = re.findall(r'href="/console([^"]+)">1 of 1 calls', console.page("/faults"))

    for found in (path, "/requests?search=answered by fault 1"):
        assert re.findall('id="task-of-.*?>(.*?)</a>', console.page(found)) == ["faulty"]


def test_the_page_of_a_queue_shows_its_settings_and_statuses(console: Console) -> None:
    """Rate, bucket, concurrency, and the statuses of the latest attempts, with links."""
    console.emulator.queue("mail").add(name="done")
    console.run("done")
    console.fail("/status/503")

    text, page = console.text("/queues/mail"), console.page("/queues/mail")

    assert "Rate 20/m, 0.333/s enforced" not in text
    assert "Rate 20/m" in text
    assert '"rate": "20/m"' in text
    assert "Bucket 7 Max concurrent 3 Latest attempts 503 200" in text
    assert 'href="/console/requests/2" aria-label="Request 2: 503"' in page
    assert "POST /status/503" in text
    assert re.search(r"retrying 1 503 0 B", text)
    assert "done" not in re.findall('id="task-(.*?)"', page)


def test_running_tasks_count_as_leased_and_retried_as_scheduled(console: Console) -> None:
    queue = console.fail()
    start_attempt(queue, queue.add(), lease_seconds=60, attempts=AttemptRecord())

    numbers = re.findall(r'data-label="(.*?)" class="number">(\d+)<', console.page("/"))[:4]

    assert dict(numbers) == {
        "Tasks": "2",
        "Available": "0",
        "Leased, running": "1",
        "Scheduled, retrying": "1",
    }


def test_a_rate_that_is_lowered_is_shown_beside_the_configured_one(console: Console) -> None:
    """While the app is overloaded."""
    console.emulator.reconfigure(Emulator.from_text(CONFIG.replace("20/m", "8/s")).config)
    console.fail("/status/503")

    assert "Rate 8/s, 4/s enforced" in console.text("/queues/mail")


def test_the_page_of_a_task_shows_request_attempts_and_history(console: Console) -> None:
    """Each attempt has its status and request."""
    request = HttpRequest("/status/500", "PUT", (("X-Mine", "7"), ("X-Other", "8")), "mail")
    console.emulator.queue("mail").add(b"the body", name="a", request=request)
    assert "No attempt yet." in console.page("/queues/mail/tasks/a")
    assert "An attempt of task a was started." in console.run("a")

    page, text = console.page("/queues/mail/tasks/a"), console.text("/queues/mail/tasks/a")

    assert "PUT /status/500 X-Mine: 7 X-Other: 8" in text
    assert "Target: mail" in text
    assert "the body" in text
    assert re.search(r"Attempts 1 Last status 500", text)
    assert '<a id="request-1" href="/console/requests/1"' in page
    assert re.search(r'id="last-response"[^>]*>no /status/500\nat all\n</pre>', page)
    assert "To http://" in console.text("/requests/1")
    assert "attempt 1 started" in text
    assert "attempt 1 failed 500 no /status/500 next 2026-01-01" in text


def test_a_deferred_call_is_shown_as_function_and_types(console: Console) -> None:
    """In the list, and on the page of the task above its bytes."""
    payload = pickle.dumps((HttpRequest, ("ada",), {}))
    console.emulator.queue("mail").add(payload, name="a")

    assert "<code>pullqueue.tasks.HttpRequest(str)</code>" in console.page("/queues/mail")
    assert "pullqueue.tasks.HttpRequest(str) 00000000 " in console.text("/queues/mail/tasks/a")


def test_tasks_that_are_kept_say_how_to_deliver_them(console: Console) -> None:
    """Queue and task, which cannot be run."""
    console.emulator.queue("jobs").add(name="a")
    option = "run `pullqueue push-to worker=http://localhost:80"

    for path in ("/queues/jobs", "/queues/jobs/tasks/a"):
        page = console.page(path)

        assert f"kept, not delivered: {option}" in page or "delivered: there is no address" in page
        assert option in page
        assert "/run" not in page
    assert "not delivered" in console.text("/")


def test_a_task_is_added(console: Console) -> None:
    """With method, URL, headers and body; a line that is not a header is refused."""
    fields = {"url": "/x?y=1", "method": "PUT", "target": "jobs", "payload": "[1]"}

    refused = console.send("/queues/mail/add", headers="X-Mine 7", **fields)
    assert '"X-Mine 7" is not a header: write a name, a colon and a value' in refused
    console.send("/queues/mail/add", headers="X-Mine: 7\r\nX-Other: a:b", name="a", **fields)

    task = console.emulator.queue("mail").get_task("a")
    request = HttpRequest("/x?y=1", "PUT", (("X-Mine", "7"), ("X-Other", "a:b")), "jobs")
    assert (task.request, task.payload) == (request, b"[1]")


def test_an_exhausted_task_is_listed_requeued_and_downloaded(console: Console) -> None:
    """With request, end and status of its last attempt."""
    console.retry("task_retry_limit: 0")
    queue = console.fail()

    assert "No tasks are left. 1 is exhausted" in console.text("/queues/mail")
    assert "Task a is exhausted after 1 attempt." in console.page("/queues/mail/tasks/a")
    assert re.search(
        r"POST /status/500 .*\bnow mail 500 no /status/500 1", console.text("/failures")
    )
    assert '"request":{"url":"/status/500"' in console.page("/exhausted.jsonl")
    console.send("/change", action="requeue", state="exhausted", all="1")
    assert queue.get_task("a").request == HttpRequest("/status/500")


def test_attempts_from_before_a_requeue_are_marked(console: Console) -> None:
    """Their numbers begin again, so a line is above them, and none above those of an exhausted
    task, which has no others.
    """
    console.retry("task_retry_limit: 1")
    queue = console.emulator.queue("mail")
    queue.pause()  # only `run` sends
    queue.add(name="a", request=HttpRequest("/status/500"))
    console.run("a")
    console.run("a")

    assert attempts(console) == ["2", "1"]
    assert "<dt>Added (UTC)</dt>" in console.page("/queues/mail/tasks/a")
    queue.requeue(["a"])
    assert "<dt>Requeued (UTC)</dt>" in console.page("/queues/mail/tasks/a")
    line = "Before the task was added again"
    assert attempts(console) == [line, "2", "1"]
    console.run("a")
    assert attempts(console) == ["1", line, "2", "1"]
    console.run("a")
    assert attempts(console) == ["2", "1", line, "2", "1"]


def attempts(console: ConsoleClient) -> list[str]:
    """Return the heads of the rows of attempts on the page of a task."""
    page = console.page("/queues/mail/tasks/a")
    return re.findall('<th scope="row(?:group" colspan="5" class="quiet)?">(.*?)</th>', page)


def test_attempts_without_a_response_are_one_row() -> None:
    emulator = Emulator.from_text(CONFIG, clock=ManualClock())
    console = ConsoleClient(ServerState(emulator, push_to=PushAddresses(["http://127.0.0.1:9"])))
    queue = emulator.queue("mail")
    queue.pause()
    queue.add(name="a")
    for _ in range(2):
        console.send("/queues/mail/tasks/a/run")
        until(lambda: queue.fetch_statistics().retrying)
    console.state.stop()

    assert attempts(console) == ["2"]


def test_attempts_that_were_only_counted_are_one_step_of_the_history(console: Console) -> None:
    queue = console.emulator.queue("mail")
    task = queue.add(name="a")
    for first, last in ((1, 1), (2, 10), (11, 12)):
        count, record = last - first + 1, AttemptRecord(last, status=0, reason="connection refused")
        task = start_attempt(queue, task, lease_seconds=0, attempts=record, counted=count)
        task = finish_attempt(queue, task, attempts=record, backoff_seconds=60, counted=count)

    text = console.text("/queues/mail/tasks/a")

    for which in ("attempt 1", "attempts 2 to 10", "attempts 11 to 12"):
        assert f"{which} started" in text
        assert f"{which} failed no response connection refused next 2026" in text
    assert "Its attempts are not among the latest requests; the history has them." in text


def test_what_operators_look_for_is_two_links_away(console: Console) -> None:
    console.retry("task_retry_limit: 0")
    console.fail()
    console.emulator.queue("pull").add(name="held")
    for queue in ("pull", "pul"):
        path = f"/taskqueue/v1beta2/projects/p/taskqueues/{queue}/tasks/lease"
        console.http.post(f"{path}?leaseSecs=60&numTasks=1")
    console.send("/faults", kind="fail", call="purge")

    for links, shown in (
        (["to-failures", "latest-1"], "at all"),
        (["to-failures", "task-mail-a"], "Requeue"),
        (["exhausted-mail-a"], "Requeue"),
        (["to-workers", "leased-1"], "held"),
        (["to-activity"], "1 call of tasks.lease on queue pul failed: status 404"),
        (["to-activity"], "set fault 1: fail"),
        (["to-requests"], "all failed"),
        (["to-faults"], "0 of 0"),
    ):
        assert shown in console.text(console.follow("/", *links)), links


def test_tasks_that_failed_for_one_reason_are_requeued_together(console: Console) -> None:
    console.retry("task_retry_limit: 0")
    console.fail()
    console.fail("/status/404", "b")
    queue = console.fail("/status/500/c", "c")

    page = console.text("/failures")
    assert re.search(
        r"2 exhausted 500 no /status/500/c and the like: no … .* mail c now Requeue these "
        "1 exhausted 404",
        page,
    )
    assert "Requeued 2 tasks." in console.press("/failures", "requeue-group-1")
    assert [task.name for task in queue.exhausted] == ["b"]
    assert "a" not in re.findall(
        r'id="task-mail-(\w+)"', console.page("/failures?search=STATUS/404")
    )


def test_an_exhausted_task_is_requeued_with_changes(console: Console) -> None:
    """The form has what the task has; what is not valid is reported beside its field."""
    console.retry("task_retry_limit: 0")
    queue = console.emulator.queue("mail")
    request = HttpRequest("/status/500", headers=(("X-A", "1"), ("X-B", "2")))
    queue.add("to=<ada>", name="a", request=request)
    console.run("a")
    path = "/queues/mail/tasks/a"

    page = console.page(path)
    wrong = console.send(f"{path}/requeue", back=f"/console{path}", url="/x", headers="nothing")
    fields = {"url": "/mail", "method": "PUT", "headers": "X-B: 3", "payload": "to=bob"}
    done = console.send(f"{path}/requeue", **fields)

    assert re.search(r'<textarea id="headers"[^>]*>\nX-A: 1\nX-B: 2</textarea>', page)
    assert re.search(r'<textarea id="payload"[^>]*>\nto=<ada></textarea>', page)
    assert 'name="url" value="/status/500"' in page
    assert '"nothing" is not a header' in wrong
    assert "Task a was requeued." in done
    task = queue.get_task("a")
    assert (task.payload, task.request) == (b"to=bob", HttpRequest("/mail", "PUT", (("X-B", "3"),)))


@pytest.mark.parametrize(
    ("payload", "text", "format_"),
    [
        (b"a\nb", "a\nb", "text"),
        (b"a\r\nb", "YQ0KYg==", "base64"),
        (b"\xff", "/w==", "base64"),
        (b"x" * 65_536, "x" * 65_536, "text"),
        (b"x" * 65_537, None, None),
    ],
    ids=["text", "CR", "bytes", "at the limit", "above"],
)
def test_what_a_form_cannot_keep_is_edited_as_base64_or_replaced_by_a_file(
    console: Console, payload: bytes, text: str | None, format_: str | None
) -> None:
    """And the task is not changed by a form that was not filled in."""
    console.retry("task_retry_limit: 0")
    queue = console.emulator.queue("mail")
    queue.add(payload, name="a", request=HttpRequest("/status/500"))
    console.run("a")

    page = console.page("/queues/mail/tasks/a")
    found = re.search(r'<textarea id="payload"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    checked = re.search(r'name="format" value="(\w+)" checked', page)
    fields = {} if found is None else {"payload": found[1], "format": str(format_)}
    console.send("/queues/mail/tasks/a/requeue", url="/status/500", method="POST", **fields)

    assert (found and found[1], checked and checked[1]) == (text, format_)
    assert queue.get_task("a").payload == payload


def test_a_task_from_before_its_queue_was_a_push_queue_is_listed() -> None:
    """Such a task has no request, so that it cannot be run."""
    emulator = Emulator.from_text("queue: [{name: mail, mode: pull}]")
    emulator.queue("mail").add(name="old")
    emulator.reconfigure(Emulator.from_text("queue: [{name: mail, rate: 1/s}]").config)
    page = ConsoleClient(ServerState(emulator)).page("/queues/mail")
    assert "row-old" in page
    assert "run-old" not in page


def test_due_tasks_that_are_held_up_are_available(console: Console) -> None:
    """Of a paused queue no time of a next attempt is shown; the chart has attempts, no leases."""
    queue = console.emulator.queue("mail")
    for place in range(50):
        queue.add(name=f"t{place}")

    page = console.page("/queues/mail")
    assert "43 due tasks wait for the rate of" in page
    assert "</a>: 43 due tasks wait for the rate of" in console.page("/queues/mail/tasks/t0")
    assert '<span class="state available">available</span>' in page
    assert re.search(r"Tasks per min over the last 15 min: 50 added, 0 delivered, 0 failed", page)
    queue.pause()
    assert ">when resumed</time>" in console.page("/queues/mail")
    assert "when the queue is resumed" in console.page("/queues/mail/tasks/t0")


def test_attempts_past_the_retry_limit_are_explained(console: Console) -> None:
    console.retry("task_retry_limit: 1, task_age_limit: 1d")
    console.fail()
    console.run("a")
    console.run("a")

    page = console.text("/queues/mail/tasks/a")
    assert "Attempts 3 retry limit 1, but the age limit of 1 d is not over" in page


def test_a_queue_whose_attempts_fail_is_red_with_its_result(console: Console) -> None:
    console.fail()

    page = console.page("/")
    assert '<span class="why error">its only attempt in the last minute failed' in page
    assert '<span class="alarm">1</span>' in page
    text = console.text("/queues/mail")
    assert "Its only attempt in the last minute failed: status 500 (no /status/500)" in text


JOBS = """\
cron:
- {description: daily, url: /daily, schedule: "every day 09:00", timezone: Europe/Berlin}
- {url: /status/503, schedule: every 1 hours, target: worker}
"""


def test_the_page_of_cron_shows_each_job_and_runs_it(clock: ManualClock) -> None:
    """With its schedule, next time and last status. Without jobs there is no link to it, and it
    says how to have some.
    """
    emulator = Emulator.from_text("queue: []", clock=clock)
    none = ConsoleClient(ServerState(emulator))
    assert 'id="to-cron"' not in none.page("/clock")
    assert "--cron cron.yaml" in none.page("/cron")
    with push_app() as app:
        state = ServerState(emulator, push_to=PushAddresses([app.url]), cron=parse_cron(JOBS))
        console = ConsoleClient(state)

        page = console.page("/cron")
        assert "daily <code>/daily</code>" in page
        assert "every day 09:00" in page
        assert "(Europe/Berlin)" in page
        assert '<time datetime="2026-01-01T08:00:00+00:00">2026-01-01 08:00:00' in page

        assert "Job 2 is started." in console.send("/cron", job="2")
        assert state.cron.settle(60)
        assert app.paths() == ["/status/503"]
        assert "status 503 (no /status/503)" in console.page("/cron")
        assert "there is no cron job" in console.send("/cron", job="7")
        state.stop()
