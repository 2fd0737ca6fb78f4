"""`pullqueue convert --to`: what is written parses, behaves as queue.yaml does, and loses nothing
without a remark.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cloudtasks_api import RestApi
from google.cloud.tasks_v2 import Queue
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st
from linting import run_pullqueue, write
from programs import completed, program
from tables import each_row
from werkzeug.test import Client

from pullqueue import Emulator, ManualClock
from pullqueue.cloudtasks.versions import V2
from pullqueue.config.model import QueueConfig, QueueSettings
from pullqueue.config.schema import QUEUE, RETRY, TOP, keys_at
from pullqueue.lint.convert import WRITERS, Place, convert_view, hcl_string
from pullqueue.lint.deployment import FIELDS, LOST, DeployedQueue
from pullqueue.lint.loading import build_config, load_view
from pullqueue.push.request import PushRequest
from pullqueue.server.app import create_app
from pullqueue.tasks import HttpRequest
from pullqueue.testing import run_tasks
from pullqueue.text import decimal

QUEUE_YAML = """\
queue:
- name: mail
  rate: 100/m
  max_concurrent_requests: 20
  target: v2.worker
  retry_parameters:
    task_retry_limit: 3
    task_age_limit: 1.5h
    min_backoff_seconds: 0.25
    max_backoff_seconds: 90
    max_doublings: 2
- name: plain
  rate: 5/s
- name: 2-daily
  rate: 1/d
- name: -stopped
  rate: 0/s
"""
SERVED = Place("my-app", "us-central1")


def converted(text: str, to: str, place: Place = SERVED) -> str:
    """Return a queue.yaml in another form."""
    return convert_view(load_view(text, file="q.yaml", profile="gcloud"), to=to, place=place).text


def queues_in(text: str) -> dict[str, dict[str, Any]]:
    """Return the queues in JSON by their ids."""
    return {queue["name"].rpartition("/")[2]: queue for queue in json.loads(text)}


def test_every_key_of_a_queue_is_mapped_or_reported() -> None:
    mapped = {field.key for field in FIELDS} | LOST.keys() | {"name", "retry_parameters", "queue"}

    assert {*keys_at(TOP), *keys_at(QUEUE), *keys_at(RETRY)} == mapped | {"application"}


@pytest.mark.parametrize("level", [TOP, QUEUE], ids=["top", "queue"])
def test_every_key_that_is_lost_is_reported(
    level: tuple[str | int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is added to the table, too: here `application` and `target`."""
    key, text = ("application", "application: a-b-c-d\n") if level == TOP else ("target", "")
    monkeypatch.setitem(LOST, key, ("lost", "test"))
    view = load_view(text + QUEUE_YAML, file="q.yaml", profile="sdk")

    assert [
        r.message for r in convert_view(view, to="json", place=SERVED).remarks if r.is_loss
    ] == [f"`{key}` is lost"]


def test_json_has_the_fields_of_cloud_tasks_with_exact_units() -> None:
    """Defaults of a deployment that are not those of Cloud Tasks are written out."""
    queues = queues_in(converted(QUEUE_YAML, "json"))

    assert queues["mail"] == {
        "name": "projects/my-app/locations/us-central1/queues/mail",
        "rateLimits": {"maxDispatchesPerSecond": 1.666666667, "maxConcurrentDispatches": 20},
        "appEngineRoutingOverride": {"service": "worker", "version": "v2"},
        "retryConfig": {
            "maxAttempts": 4,
            "maxRetryDuration": "5400s",
            "minBackoff": "0.25s",
            "maxBackoff": "90s",
            "maxDoublings": 2,
        },
        "state": "RUNNING",
    }
    assert queues["plain"]["retryConfig"]["maxAttempts"] == -1
    assert queues["plain"]["rateLimits"]["maxDispatchesPerSecond"] == 5
    assert queues["-stopped"]["state"] == "PAUSED"
    assert "maxDispatchesPerSecond" not in queues["-stopped"]["rateLimits"]
    for queue in queues.values():
        message = Queue.pb(Queue())
        ParseDict(queue, message)
        assert message.name == queue["name"]


@each_row(
    ("number", "deployed", "remarks"),
    [
        (-1, 1, ["`max_concurrent_requests` is deployed as 1, the minimum"]),
        (0, 1000, ["`max_concurrent_requests` is 0, which is deployed as 1000"]),
        (1, 1, []),
        (5000, 5000, []),
        (5001, 5000, ["`max_concurrent_requests` is deployed as 5000, the maximum"]),
    ],
)
def test_max_concurrent_requests_is_what_gcloud_deploys(
    number: int, deployed: int, remarks: list[str]
) -> None:
    """In the emulator, too, where a negative one would send nothing."""
    text = f"queue: [{{name: mail, rate: 5/s, max_concurrent_requests: {number}}}]"
    view = load_view(text, file="q.yaml", profile="gcloud")
    done = convert_view(view, to="json", place=SERVED)

    assert queues_in(done.text)["mail"]["rateLimits"]["maxConcurrentDispatches"] == deployed
    assert [remark.message for remark in done.remarks] == remarks
    settings = Emulator(build_config(view)).queue("mail").settings
    assert settings.effective_concurrent_requests == deployed


def test_json_names_no_place_that_is_not_given() -> None:
    """The API refuses what is there instead."""
    queues = json.loads(converted("queue: [{name: mail, rate: 5/s}]", "json", Place()))

    assert [queue["name"] for queue in queues] == [
        "projects/PROJECT_ID/locations/LOCATION_ID/queues/mail"
    ]


@each_row(
    ("retry", "backoffs"),
    [
        ("min_backoff_seconds: 7200", ("7200s", "7200s")),
        ("max_backoff_seconds: 0.05", ("0.05s", "0.05s")),
        ("min_backoff_seconds: 0", ("0.1s", "3600s")),
        ("min_backoff_seconds: 2", ("2s", "3600s")),
    ],
)
def test_a_backoff_that_is_set_wins_over_a_default(retry: str, backoffs: tuple[str, str]) -> None:
    text = f"queue:\n- name: mail\n  rate: 5/s\n  retry_parameters:\n    {retry}\n"
    config = queues_in(converted(text, "json"))["mail"]["retryConfig"]

    assert (config["minBackoff"], config["maxBackoff"]) == backoffs


def attempts_of(emulator: Emulator, name: str) -> list[tuple[float, int]]:
    """Return when a queue sends four tasks that always fail, and the number of each attempt."""
    clock = emulator.clock
    start = clock.now_usec()
    for number in range(4):
        emulator.queue(name).add(name=f"t{number}", request=HttpRequest("/work"))
    sent = []

    def fail(request: PushRequest) -> int:
        sent.append(((clock.now_usec() - start) / 1e6, request.attempt))
        return 500

    run_tasks(
        emulator, send=fail, queues=[name], rates=True, until=timedelta(hours=2), max_attempts=5000
    )
    return sent


@pytest.mark.slow
def test_queues_made_from_the_json_send_and_retry_as_those_of_queue_yaml() -> None:
    text = QUEUE_YAML.replace("  rate: 100/m\n", "  rate: 100/m\n  bucket_size: 10\n")
    of_file = Emulator.from_text(text, clock=ManualClock())
    made = Emulator(QueueConfig(), clock=ManualClock())
    api = RestApi(Client(create_app(made)), version=V2)
    parent = "projects/my-app/locations/us-central1"
    for queue in json.loads(converted(text, "json")):
        api("CreateQueue", parent=parent, queue=queue)

    for name in ("mail", "2-daily"):
        expected = DeployedQueue.of(replace(of_file.queue(name).settings, bucket_size=None)).values
        values = DeployedQueue.of(replace(made.queue(name).settings, bucket_size=None)).values
        assert values == pytest.approx(expected)
    sent, expected_sent = attempts_of(made, "mail"), attempts_of(of_file, "mail")
    assert [number for _, number in sent] == [number for _, number in expected_sent]
    assert [time for time, _ in sent] == pytest.approx([t for t, _ in expected_sent], abs=0.001)
    assert len(sent) > 100


def test_the_script_is_valid_and_calls_gcloud_with_each_setting(tmp_path: Path) -> None:
    script = tmp_path / "queues.sh"
    script.write_text(converted(QUEUE_YAML, "gcloud"))
    shell = program("sh", package="dash")
    assert completed([shell, "-n", str(script)]).stderr == ""
    fake = tmp_path / "bin" / "gcloud"
    write(fake, '#!/bin/sh\n[ "$3" = describe ] && exit 1\nprintf "%s\\n" "$*"\n')
    fake.chmod(0o755)
    done = completed([shell, str(script)], env={"PATH": f"{fake.parent}:/usr/bin:/bin"}, check=True)
    calls = done.stdout.splitlines()
    parent = "projects/my-app/locations/us-central1/queues"

    assert calls[0] == (
        f"tasks queues create {parent}/mail --project=my-app "
        "--max-dispatches-per-second=1.666666667 --max-concurrent-dispatches=20 "
        "--routing-override=service:worker,version:v2 --max-attempts=4 "
        "--max-retry-duration=5400s --min-backoff=0.25s --max-backoff=90s --max-doublings=2"
    )
    assert "--max-dispatches-per-second=0.000011574" in calls[2]
    assert calls[3].startswith(f"tasks queues create {parent}/-stopped")
    assert calls[4] == f"tasks queues pause {parent}/-stopped --project=my-app --quiet"
    write(fake, '#!/bin/sh\nprintf "%s\\n" "$3"\n')  # each queue exists
    done = completed([shell, str(script)], env={"PATH": f"{fake.parent}:/usr/bin:/bin"}, check=True)
    assert done.stdout.split() == ["update", "update", "update", "update", "pause"]


@pytest.mark.parametrize("name", ["PROJECT", "LOCATION"])
def test_the_script_refuses_to_run_without_a_place(name: str) -> None:
    text = converted(QUEUE_YAML, "gcloud", Place())
    places = {"PROJECT": "p", "LOCATION": "l"}
    del places[name]
    done = completed([program("sh", package="dash")], input=text, env=places)

    assert done.returncode != 0
    assert f"{name}: is not set: set it, or pass --{name.lower()} to pullqueue conv" in done.stderr


def parsed_hcl(text: str) -> Any:
    """Return HCL as python-hcl2 reads it."""
    return pytest.importorskip("hcl2", reason="python-hcl2 is not installed").loads(text)


def resources_in(text: str) -> dict[str, Any]:
    """Return the resources of queues in HCL, by their labels without quotes."""
    kinds = parsed_hcl(text)["resource"]
    return {
        label.strip('"'): value
        for kind in kinds
        for label, value in kind['"google_cloud_tasks_queue"'].items()
    }


@pytest.mark.slow
def test_terraform_has_a_resource_for_each_queue() -> None:
    resources = resources_in(converted(QUEUE_YAML, "terraform"))

    assert list(resources) == ["mail", "plain", "queue_2-daily", "queue_-stopped"]
    (limits,), (retry,) = resources["mail"]["rate_limits"], resources["mail"]["retry_config"]
    (routing,) = resources["mail"]["app_engine_routing_override"]
    assert (limits["max_dispatches_per_second"], retry["max_attempts"]) == (1.666666667, 4)
    assert (retry["min_backoff"], retry["max_backoff"]) == ('"0.25s"', '"90s"')
    assert (routing["service"], routing["version"]) == ('"worker"', '"v2"')
    assert resources["queue_-stopped"]["desired_state"] == '"PAUSED"'
    [state] = re.findall("desired_state.*", converted(QUEUE_YAML, "terraform"))
    assert state == 'desired_state = "PAUSED" # needs hashicorp/google 7.2 or newer'
    assert resources["mail"]["project"] == '"my-app"'


@pytest.mark.slow
def test_terraform_asks_for_a_place_that_is_not_given() -> None:
    text = converted(QUEUE_YAML, "terraform", Place(location="europe-west1"))
    document = parsed_hcl(text)

    assert [*document["variable"][0]] == ['"project"']
    assert "default" not in document["variable"][0]['"project"']
    assert resources_in(text)["mail"]["project"] == "${var.project}"


@given(st.text())
def test_no_text_breaks_out_of_a_string_of_hcl(text: str) -> None:
    written = hcl_string(text)
    inner = written[1:-1].replace("$${", "").replace("%%{", "")
    assert not any(mark in inner for mark in ("${", "%{", "\n", "\r", "\x7f"))
    assert json.loads(written.replace("$${", "${").replace("%%{", "%{")) == text


@given(st.from_regex(r"[A-Za-z0-9-]{1,100}", fullmatch=True))
def test_every_valid_name_is_one_word_of_each_form(name: str) -> None:
    queue = QueueSettings(name=name)
    words = shlex.split(WRITERS["gcloud"]([queue], SERVED).partition("apply ")[2])
    assert name in words
    label = WRITERS["terraform"]([queue], SERVED).split('"')[3]
    assert label in (name, f"queue_{name}")
    assert label[0].isalpha()


@given(st.floats(min_value=0, max_value=1e6, allow_nan=False))
def test_numbers_are_written_without_an_exponent(number: float) -> None:
    assert "e" not in decimal(number)
    assert float(decimal(number)) == pytest.approx(number, abs=1e-9)


LOSSES = """\
total_storage_limit: 1M
resume_paused_queues: true
queue:
- name: mail
  rate: 5/s
  bucket_size: 40
  max_concurrent_requests: 9000
  retry_parameters:
    max_doublings: 0
- name: jobs
  mode: pull
  acl:
  - user_email: a@example.com
- name: plain
  rate: 5/s
  bucket_size: 0
  acl: []
"""


@pytest.mark.parametrize("length", [100, 101])
def test_a_queue_whose_name_cloud_tasks_cannot_have_is_left_out(length: int) -> None:
    """A script would fail at it, after it has made others."""
    text = f"queue:\n- name: mail\n  rate: 5/s\n- name: {'q' * length}\n  rate: 5/s\n"
    view = load_view(text, file="q.yaml", profile="gcloud")
    done = convert_view(view, to="json", place=SERVED)

    assert len(queues_in(done.text)) == (2 if length == 100 else 1)
    if length > 100:
        assert done.remarks == [
            (4, 3, "queue name has 101 characters; Cloud Tasks permits 100: left out", True)
        ]


def test_what_is_not_carried_over_is_reported_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "queue.yaml"
    write(path, LOSSES)
    done = run_pullqueue("convert", "--to", "json", str(path))

    assert done.exit_code == 1
    assert [*queues_in(done.stdout)] == ["mail", "plain"]
    lines = [line.removeprefix(f"{path}:") for line in done.stderr.splitlines()]
    assert lines == [
        f"1:1: `total_storage_limit` is {LOST['total_storage_limit'][0]}",
        f"2:1: `resume_paused_queues` is {LOST['resume_paused_queues'][0]}",
        f"6:3: `bucket_size` is {LOST['bucket_size'][0]}",
        "7:3: note: `max_concurrent_requests` is deployed as 5000, the maximum",
        "9:5: note: `max_doublings` is 0, which is deployed as 16",
        f'11:3: queue "jobs" is {LOST["mode"][0]}',
        f"12:3: `acl` is {LOST['acl'][0]}",
        "16:3: note: `bucket_size` is 0, which is deployed as 5",
        "17:3: note: `acl` has no effect on a push queue: left out",
    ]


def test_a_file_that_loses_nothing_is_converted_with_status_0(tmp_path: Path) -> None:
    text = f"{QUEUE_YAML}resume_paused_queues: false\n"
    write(tmp_path / "queue.yaml", text)
    for to in WRITERS:
        done = run_pullqueue("convert", "--to", to, str(tmp_path / "queue.yaml"))
        assert done.exit_code == 0
        assert done.stderr.endswith(
            "queue.yaml:17:3: note: `rate` is 0/s, which Cloud Tasks cannot have: the queue is "
            "paused instead; set a rate before you resume it\n"
        )
        assert len(done.stderr.splitlines()) == 1
        assert done.stdout == converted(text, to, Place())


@each_row(
    ("arguments", "status", "message"),
    [
        (["--to", "json", "bad.yaml"], 1, "QY301 push-key-on-pull"),
        (["--to", "json", "none.yaml"], 3, 'cannot read "none.yaml": no such file'),
        (["--to", "json", "--project", "a;b", "bad.yaml"], 2, "use lower-case letters"),
        (["--project", "my-app", "bad.yaml"], 2, "--project and --location need --to"),
        (["bad.yaml", "-o", ""], 2, '"." is a folder: pass the path of the file to write'),
        (["bad.yaml"], 1, "to convert a queue.yaml, pass --to gcloud, terraform, json"),
    ],
)
def test_what_cannot_be_converted_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], status: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write("bad.yaml", "queue:\n- name: jobs\n  mode: pull\n  rate: 5/s\n")
    done = run_pullqueue("convert", *arguments)

    assert (done.exit_code, done.stdout) == (status, "")
    assert message in done.stderr
