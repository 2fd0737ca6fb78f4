"""Google's gcloud runs the script of `convert`, and lists queues as `plan` reads them."""

from __future__ import annotations

import json
import os
from pathlib import Path

from linting import run_pullqueue, write
from programs import completed
from served import serving

QUEUE_YAML = "queue:\n- name: mail\n  rate: 30/m\n  target: v2.worker\n"


def test_gcloud_makes_the_queues_and_the_plan_finds_only_the_burst_changed(tmp_path: Path) -> None:
    write(tmp_path / "served" / "queue.yaml", "queue: []\n")
    write(tmp_path / "queue.yaml", QUEUE_YAML)
    place = ("--project", "my-app", "--location", "us-central1")
    file = str(tmp_path / "queue.yaml")
    script = run_pullqueue("convert", "--to", "gcloud", *place, file).stdout
    with serving(folder=tmp_path / "served") as served:
        environment = os.environ | {
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDTASKS": f"{served.url}/",
            "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "1",
            "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        }
        completed(["sh", "-c", script], env=environment, check=True)
        command = ["gcloud", "tasks", "queues", "list", *place, "--format=json"]
        listed = completed(command, env=environment, check=True).stdout
    write(tmp_path / "deployed.json", listed)
    done = run_pullqueue("plan", file, "--deployed", str(tmp_path / "deployed.json"), "--json")
    plans = {each["name"]: each for each in json.loads(done.stdout)["queues"]}

    assert [change["key"] for change in plans["mail"]["changes"]] == ["bucket_size"]
