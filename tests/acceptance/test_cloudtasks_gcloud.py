"""gcloud on Cloud Tasks: the requests that its commands send, as its REST client builds them.

`tests/release/clients/test_convert_gcloud.py` runs gcloud itself, where it is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from served import Served, serving

LOCATION = "projects/my-app/locations/us-central1"
QUEUE = f"{LOCATION}/queues/mail"
TASK = f"{QUEUE}/tasks/one"
PULL = f"{LOCATION}/queues/videos"
AGENT = "google-cloud-sdk gcloud/480.0.0 command/gcloud.tasks"
HTTP = {"url": "https://api.example.com/work", "httpMethod": "POST"}

COMMANDS: tuple[tuple[str, str, str, Any], ...] = (
    (
        "queues create mail --http-uri-override=host:api.example.com",
        "POST",
        f"v2/{LOCATION}/queues",
        {"name": QUEUE, "httpTarget": {"uriOverride": {"host": "api.example.com"}}},
    ),
    ("queues list", "GET", f"v2/{LOCATION}/queues?pageSize=100", None),
    ("queues describe mail", "GET", f"v2/{QUEUE}", None),
    (
        "queues update mail --max-dispatches-per-second=5",
        "PATCH",
        f"v2/{QUEUE}?updateMask=rateLimits.maxDispatchesPerSecond",
        {"name": QUEUE, "rateLimits": {"maxDispatchesPerSecond": 5.0}},
    ),
    ("queues pause mail", "POST", f"v2/{QUEUE}:pause", {}),
    (
        "create-http-task one --queue=mail",
        "POST",
        f"v2/{QUEUE}/tasks",
        {"task": {"name": TASK, "httpRequest": HTTP}},
    ),
    (
        "create-app-engine-task --queue=mail",
        "POST",
        f"v2/{QUEUE}/tasks",
        {"task": {"appEngineHttpRequest": {"relativeUri": "/work"}}},
    ),
    ("buffer --queue=mail", "POST", f"v2/{QUEUE}/tasks/:buffer", {}),
    ("buffer --queue=mail --task-id=two", "POST", f"v2/{QUEUE}/tasks/two:buffer", {}),
    ("list --queue=mail", "GET", f"v2/{QUEUE}/tasks?pageSize=1000", None),
    ("describe one --queue=mail --response-view=full", "GET", f"v2/{TASK}?responseView=FULL", None),
    ("delete one --queue=mail", "DELETE", f"v2/{TASK}", None),
    ("queues purge mail", "POST", f"v2/{QUEUE}:purge", {}),
    ("queues resume mail", "POST", f"v2/{QUEUE}:resume", {}),
    ("queues get-iam-policy mail", "POST", f"v2/{QUEUE}:getIamPolicy", {}),
    ("queues delete mail", "DELETE", f"v2/{QUEUE}", None),
    ("locations list", "GET", "v2/projects/my-app/locations?pageSize=100", None),
    (
        "beta tasks queues create videos --type=pull",
        "POST",
        f"v2beta3/{LOCATION}/queues",
        {"name": PULL, "type": "PULL"},
    ),
    (
        "v2beta3's CreateTask of a pull task, for which gcloud has no command",
        "POST",
        f"v2beta3/{PULL}/tasks",
        {"task": {"pullMessage": {"payload": "d29yaw==", "tag": "red"}}},
    ),
    (
        "alpha tasks lease --queue=videos --tag=red",
        "POST",
        f"v2beta2/{PULL}/tasks:lease",
        {"filter": 'tag="red"', "leaseDuration": "60s", "maxTasks": 1, "responseView": "FULL"},
    ),
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "queue.yaml").write_text("queue: []\n")
    with serving("--project", "my-app", "--location", "us-central1", folder=folder) as served:
        yield served


def test_the_commands_of_a_session_succeed(served: Served) -> None:
    answers = {}
    for command, verb, path, body in COMMANDS:
        response = requests.request(
            verb,
            f"{served.url}/{path}{'&' if '?' in path else '?'}alt=json",
            json=body,
            headers={"User-Agent": AGENT, "Accept": "application/json"},
            timeout=60,
        )
        assert response.status_code == 200, (command, response.text)
        answers[command] = response.json()

    assert answers["queues list"]["queues"][0]["name"] == QUEUE
    buffered = answers["buffer --queue=mail --task-id=two"]["task"]
    assert buffered["httpRequest"]["url"] == "https://api.example.com"
    assert len(answers["list --queue=mail"]["tasks"]) == 4
    assert answers["beta tasks queues create videos --type=pull"]["type"] == "PULL"
    [leased] = answers["alpha tasks lease --queue=videos --tag=red"]["tasks"]
    assert leased["pullMessage"] == {"payload": "d29yaw==", "tag": "red"}
    assert answers["locations list"]["locations"][0]["locationId"] == "us-central1"
