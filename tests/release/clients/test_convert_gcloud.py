"""Google's gcloud runs the script of `convert`, lists queues for `plan`, and grants roles."""

from __future__ import annotations

import json
import os
from pathlib import Path

from linting import run_pullqueue, write
from programs import completed
from served import serving

QUEUE_YAML = "queue:\n- name: mail\n  rate: 30/m\n  target: v2.worker\n"


def environment_of(url: str, folder: Path) -> dict[str, str]:
    """Return the environment of a gcloud that calls a server."""
    return os.environ | {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDTASKS": f"{url}/",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "1",
        "CLOUDSDK_CONFIG": str(folder / "gcloud"),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
    }


def test_gcloud_makes_the_queues_and_the_plan_finds_only_the_burst_changed(tmp_path: Path) -> None:
    write(tmp_path / "served" / "queue.yaml", "queue: []\n")
    write(tmp_path / "queue.yaml", QUEUE_YAML)
    place = ("--project", "my-app", "--location", "us-central1")
    file = str(tmp_path / "queue.yaml")
    script = run_pullqueue("convert", "--to", "gcloud", *place, file).stdout
    with serving(folder=tmp_path / "served") as served:
        environment = environment_of(served.url, tmp_path)
        completed(["sh", "-c", script], env=environment, check=True)
        command = ["gcloud", "tasks", "queues", "list", *place, "--format=json"]
        listed = completed(command, env=environment, check=True).stdout
    write(tmp_path / "deployed.json", listed)
    done = run_pullqueue("plan", file, "--deployed", str(tmp_path / "deployed.json"), "--json")
    plans = {each["name"]: each for each in json.loads(done.stdout)["queues"]}

    assert [change["key"] for change in plans["mail"]["changes"]] == ["bucket_size"]


def test_gcloud_grants_roles_that_are_enforced_and_roles_that_are_not(tmp_path: Path) -> None:
    """As a script for production does; each is in the policy that it reads back."""
    grants = {
        "roles/cloudtasks.taskRunner": "serviceAccount:runner@my-app.iam.gserviceaccount.com",
        "roles/cloudtasks.viewer": "allUsers",
        "projects/my-app/roles/sender": "group:team@example.com",
    }
    write(tmp_path / "served" / "queue.yaml", "queue: [{name: mail, rate: 1/s}]\n")
    with serving(folder=tmp_path / "served") as served:
        environment = environment_of(served.url, tmp_path)
        queue = ("mail", "--project", "my-app", "--location", "us-central1")
        for role, member in grants.items():
            change = ["add-iam-policy-binding", *queue, f"--member={member}", f"--role={role}"]
            completed(["gcloud", "tasks", "queues", *change], env=environment, check=True)
        command = ["gcloud", "tasks", "queues", "get-iam-policy", *queue, "--format=json"]
        policy = json.loads(completed(command, env=environment, check=True).stdout)

    assert {each["role"]: each["members"] for each in policy["bindings"]} == {
        role: [member] for role, member in grants.items()
    }
