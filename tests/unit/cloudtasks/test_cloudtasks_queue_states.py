"""Cloud Tasks: queues that are paused or purged, uploads, locations; of v2beta2 by default."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from cloudtasks_api import LOCATION, MADE, PULL, Call, RestApi, ids, refused
from werkzeug.test import Client

from pullqueue import Emulator
from pullqueue.config.model import QueueConfig
from pullqueue.runtime.config_file import ConfigFile
from pullqueue.runtime.state import ServerState
from pullqueue.server.app import create_app

NOW = "2026-01-01T00:00:00Z"
LOCATED = (
    ("ListQueues", "parent", ""),
    ("GetQueue", "name", "/queues/pull"),
    ("GetLocation", "name", ""),
)
"""Methods, the field that names a location, and what follows it in the name."""
TEXT = b"queue:\n- name: new\n  mode: pull\n"


def create(call: Call, **fields: Any) -> dict[str, Any]:
    return call("CreateQueue", parent=LOCATION, queue={"name": MADE, **fields})


class TestPause:
    @pytest.mark.parametrize("name", ["pull", "push"])
    def test_pause_and_resume_return_the_queue(self, call: Call, name: str) -> None:
        queue = f"{LOCATION}/queues/{name}"

        assert call("PauseQueue", name=queue)["state"] == "PAUSED"
        assert ids(call("ListQueues", parent=LOCATION, filter="state=PAUSED")) == [name]
        assert call("ResumeQueue", name=queue)["state"] == "RUNNING"

    def test_a_lease_from_a_paused_queue_is_a_failed_precondition(self, call: Call) -> None:
        call("PauseQueue", name=PULL)
        with refused("FAILED_PRECONDITION", 'queue "pull" is paused'):
            call("LeaseTasks", parent=PULL, leaseDuration="60s")

    def test_a_queue_that_left_queue_yaml_is_disabled_until_it_is_resumed(
        self, call: Call, emulator: Emulator
    ) -> None:
        emulator.reconfigure(QueueConfig())

        assert call("GetQueue", name=PULL)["state"] == "DISABLED"
        with refused("FAILED_PRECONDITION", "is disabled, since it is no longer in"):
            call("LeaseTasks", parent=PULL, leaseDuration="60s")
        assert call("ResumeQueue", name=PULL)["state"] == "RUNNING"


class TestUpload:
    def test_an_upload_disables_what_it_does_not_list(self, call: Call) -> None:
        create(call, pullTarget={})
        body = {"data": b64encode(TEXT).decode()}

        assert call("UploadQueueYaml", appId="app", httpBody=body) == {}
        running = ids(call("ListQueues", parent=LOCATION, filter="state=RUNNING"))
        disabled = ids(call("ListQueues", parent=LOCATION, filter="state=DISABLED"))
        assert (running, disabled) == (["new"], ["limited", "made", "pull", "push"])
        why = "without it was applied after it was created: resume it; --keep-created-queues leaves"
        with refused("FAILED_PRECONDITION", why):
            call("LeaseTasks", parent=MADE, leaseDuration="60s")
        assert call("ResumeQueue", name=MADE)["state"] == "RUNNING"

    @pytest.mark.parametrize("keep", [False, True])
    def test_an_upload_to_a_server_with_a_file_does_as_a_reload_of_that(
        self, tmp_path: Path, emulator: Emulator, *, keep: bool
    ) -> None:
        """With its profile, and with what was created kept or not."""
        file = ConfigFile(tmp_path / "queue.yaml", profile="sdk", keep_created=keep)
        call = RestApi(Client(create_app(emulator, state=ServerState(emulator, config_file=file))))
        create(call, pullTarget={})
        text = TEXT + b"  retry_parameters:\n    task_age_limit: 1d\n"

        call("UploadQueueYaml", appId="app", httpBody={"data": b64encode(text).decode()})

        assert call("GetQueue", name=MADE)["state"] == ("RUNNING" if keep else "DISABLED")

    @pytest.mark.parametrize("path", ["api/queue/update", "v2beta2/api/queue/update"])
    def test_an_upload_can_be_the_file_itself(
        self, client: Client, emulator: Emulator, path: str
    ) -> None:
        """As `curl --data-binary @queue.yaml` sends it, also to the URL without a version."""
        kind = "application/x-www-form-urlencoded"

        assert client.post(f"/{path}?appId=app", data=TEXT, content_type=kind).data == b"{}\n"
        assert next(queue.name for queue in emulator.queues) == "new"


class TestOtherMethods:
    def test_a_purge_deletes_all_tasks(self, call: Call, emulator: Emulator) -> None:
        emulator.queue("pull").add()

        assert call("PurgeQueue", name=PULL)["purgeTime"] == NOW
        assert emulator.queue("pull").list_tasks() == []

    def test_one_location_is_listed_and_any_region_can_be_used(
        self, call: Call, client: Client
    ) -> None:
        """Google's definition of their service of locations names v1."""
        listed = call("ListLocations", name="projects/app")

        labels = {"cloud.googleapis.com/region": "us-central1"}
        location = {"name": LOCATION, "locationId": "us-central1", "labels": labels}
        assert listed == {"locations": [location]}
        assert client.get("/v1/projects/app/locations").get_json() == listed
        other = "projects/app/locations/me-west1"
        assert call("GetLocation", name=other)["locationId"] == "me-west1"
        name = f"{other}/queues/pull"
        assert call("GetQueue", name=name)["name"] == name


class TestProjectAndLocation:
    @pytest.fixture
    def emulator(self) -> Emulator:
        """Return an emulator of one project in one location."""
        text = "queue:\n- name: pull\n  mode: pull\n"
        return Emulator.from_text(text, project="s~app", location="us-central1")

    def test_another_project_is_denied_as_in_production(self, call: Call) -> None:
        assert call("GetQueue", name=PULL)["name"] == PULL
        denied = "Permission denied on resource project other. .*is not served here, only"
        with refused("PERMISSION_DENIED", denied) as caught:
            call("ListQueues", parent="projects/other/locations/us-central1")
        info, localized, _, advice = caught.value.details
        assert info["metadata"]["consumer"] == "projects/other"
        assert localized["message"] == caught.value.message
        assert advice["message"] == 'project "other" is not served here, only "s~app"'

    def test_the_location_of_another_app_is_refused_with_its_own(self, call: Call) -> None:
        """As recorded; a name that is not a location of App Engine gets another text."""
        text = "Location must equal us-central1 because the App Engine app that is associated with"
        with refused("INVALID_ARGUMENT", f"{text} this project is located in us-central1"):
            call("ListQueues", parent="projects/app/locations/europe-west1")

    def test_another_location_is_not_valid(self, call: Call) -> None:
        text = r"Location 'us-centra1' is not a valid location\. Use ListLocations to list valid "
        for method, field, below in LOCATED:
            name = f"projects/app/locations/us-centra1{below}"
            advice = f'{field} is "{name}": use the location us-central1'
            with refused("INVALID_ARGUMENT", rf"{text}locations.*\({advice}"):
                call(method, **{field: name})


def test_a_name_that_is_not_a_region_is_a_location_where_the_server_has_it() -> None:
    emulator = Emulator.from_text("queue:\n- name: pull\n  mode: pull\n", location="here")
    call = RestApi(Client(create_app(emulator)))
    name = "projects/app/locations/here/queues/pull"

    assert call("GetQueue", name=name)["name"] == name
