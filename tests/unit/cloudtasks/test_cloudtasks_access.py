"""Cloud Tasks: who may call what with `--auth acl`, and the policies of IAM."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import jwt
import pytest
from cloudtasks_api import LOCATION, PULL, ApiRefused, Call, GrpcApi, RestApi, refused
from control_client import ControlClient

from pullqueue import Emulator, ManualClock, SystemClock
from pullqueue.api.tokens import SCOPES as TASKQUEUE_SCOPES
from pullqueue.cloudtasks.access import AUDIENCE
from pullqueue.cloudtasks.versions import V2, V2BETA2, Version
from pullqueue.config.model import AclEntry, QueueSettings
from pullqueue.server.lifecycle import Server

QUEUE_YAML = """
queue:
- name: pull
  mode: pull
  acl:
  - user_email: worker@example.com
  - writer_email: writer@example.com
- name: closed
  mode: pull
"""
PUSH = f"{LOCATION}/queues/push"
CLOSED = f"{LOCATION}/queues/closed"
LOCATION_METHODS = {"ListLocations", "GetLocation"}
MADE = f"{LOCATION}/queues/made"
WORKER, WRITER, OTHER = "worker@example.com", "writer@example.com", "other@example.com"
PLATFORM = frozenset({"https://www.googleapis.com/auth/cloud-platform"})
BINDINGS = [{"role": "roles/cloudtasks.admin", "members": [f"user:{OTHER}"]}]
NO_POLICY = b64encode(b"\x00\x20\x01").decode()

CallAs = Callable[[str | None], Call]


def _uploaded(text: str) -> dict[str, str]:
    return {"data": b64encode(text.encode()).decode()}


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    """Return an emulator whose queue has an acl."""
    return Emulator.from_text(QUEUE_YAML, clock=clock)


@pytest.fixture
def server(emulator: Emulator) -> Iterator[Server]:
    """Serve the emulator, and require tokens."""
    with Server(emulator, acl=True) as server:
        yield server


@pytest.fixture(params=["rest", "grpc"])
def call_as(request: pytest.FixtureRequest, server: Server, version: Version) -> Iterator[CallAs]:
    """Return what calls methods as the holder of an e-mail address, or without a token."""
    channels: list[grpc.Channel] = []

    def call_as(email: str | None) -> Call:
        token = None if email is None else server.tokens.issue(email, PLATFORM).text
        if request.param == "rest":
            api: RestApi | GrpcApi = RestApi(server, token, version=version)
        else:
            api = GrpcApi(server, token, version=version)
            channels.append(api.channel)
        return lambda method, /, **fields: api.call(method, fields)

    yield call_as
    for channel in channels:
        channel.close()


class TestAccess:
    def test_without_a_token(self, call_as: CallAs) -> None:
        """Nothing can be called."""
        for method, fields in (
            ("GetQueue", {"name": PULL}),
            ("ListLocations", {"name": "projects/app"}),
        ):
            with refused("UNAUTHENTICATED", "Login Required"):
                call_as(None)(method, **fields)

    def test_a_user(self, call_as: CallAs, emulator: Emulator) -> None:
        """May do everything with the queue."""
        call = call_as(WORKER)
        task = call("CreateTask", parent=PULL, task={}, responseView="FULL")
        (held,) = call("LeaseTasks", parent=PULL, leaseDuration="60s")["tasks"]
        call("AcknowledgeTask", name=task["name"], scheduleTime=held["scheduleTime"])
        call("UpdateQueue", queue={"name": PULL}, updateMask="taskTtl")
        call("PauseQueue", name=PULL)

        assert emulator.queue("pull").list_tasks() == []

    @pytest.mark.parametrize("version", [V2BETA2, V2], ids=["v2beta2", "v2"])
    def test_a_writer(self, call_as: CallAs, version: Version, emulator: Emulator) -> None:
        """May create tasks, and nothing else."""
        acl = (AclEntry(writer_email=WRITER),)
        emulator.create_queue(QueueSettings(name="push", acl=acl))
        call, queue = call_as(WRITER), PULL if version is V2BETA2 else PUSH
        new = {} if version is V2BETA2 else {"httpRequest": {"url": "https://api.example.com"}}
        task = call("CreateTask", parent=queue, task=new, responseView="FULL")

        free = {method.name for method in version.methods if not method.permission}
        assert free == {"CreateQueue", "ListQueues", "TestIamPermissions", *LOCATION_METHODS}
        for method in version.methods:
            if not method.permission or method.permission == "tasks.create":
                continue
            name = task["name"] if method.resource.endswith("<task>") else queue
            fields: dict[str, Any] = {method.field: name}
            if method.name == "UpdateQueue":
                fields = {"queue": {"name": queue}}
            elif method.name == "UploadQueueYaml":
                fields = {"appId": "app", "httpBody": _uploaded("queue: []")}
            permission = f"cloudtasks.{method.permission}"
            with refused("PERMISSION_DENIED", f"no permission {permission} on queue"):
                call(method.name, **fields)

    def test_somebody_else(self, call_as: CallAs) -> None:
        """May do nothing with the queue, not even create tasks."""
        with refused("PERMISSION_DENIED", "add it as user_email or writer_email to the queue's"):
            call_as(OTHER)("CreateTask", parent=PULL, task={})
        with refused("PERMISSION_DENIED"):
            call_as(WORKER)("GetQueue", name=CLOSED)

    @pytest.mark.parametrize("version", [V2], ids=["v2"])
    def test_a_push_queue_without_a_policy(self, call_as: CallAs) -> None:
        """Its tasks are open to every caller with a token; the queue and its policy are not."""
        call, queue = call_as(OTHER), f"{LOCATION}/queues/default"
        task = {"httpRequest": {"url": "https://api.example.com"}}

        call("DeleteTask", name=call("CreateTask", parent=queue, task=task)["name"])
        assert call("GetQueue", name=queue)["state"] == "RUNNING"
        for method in ("PauseQueue", "DeleteQueue", "PurgeQueue"):
            with refused("PERMISSION_DENIED"):
                call(method, name=queue)

    def test_what_no_acl_is_about(self, call_as: CallAs) -> None:
        """Whoever has a token may list queues and locations, and create queues."""
        call = call_as(OTHER)

        assert len(call("ListQueues", parent=LOCATION)["queues"]) == 3
        assert call("GetLocation", name=LOCATION)["locationId"] == "us-central1"
        call("UpdateQueue", queue={"name": MADE, "pullTarget": {}})

    @pytest.mark.parametrize("method", ["CreateQueue", "UpdateQueue"])
    def test_the_creator_of_a_queue(self, call_as: CallAs, method: str) -> None:
        """Has all permissions on it, until its policy says otherwise, and nobody else has any."""
        queue = {"name": MADE, "pullTarget": {}}
        location = {"parent": LOCATION} if method == "CreateQueue" else {}
        call_as(OTHER)(method, queue=queue, **location)

        with refused("PERMISSION_DENIED"):
            call_as(WORKER)("PauseQueue", name=MADE)
        with refused("PERMISSION_DENIED"):
            call_as(WORKER)("UpdateQueue", queue=queue)
        assert call_as(OTHER)("GetIamPolicy", resource=MADE)["bindings"] == BINDINGS
        assert call_as(OTHER)("DeleteQueue", name=MADE) == {}

    @pytest.mark.parametrize("method", ["CreateQueue", "UpdateQueue"])
    def test_creating_a_queue_of_somebody_else(
        self, call_as: CallAs, emulator: Emulator, method: str
    ) -> None:
        """Neither an existing queue nor the name of one just deleted becomes the caller's."""
        location = {"parent": LOCATION} if method == "CreateQueue" else {}
        for expected in ("PERMISSION_DENIED|ALREADY_EXISTS", "ALREADY_EXISTS"):
            with refused(f"({expected})"):
                call_as(WRITER)(method, queue={"name": PULL, "pullTarget": {}}, **location)
            if "pull" in [queue.name for queue in emulator.queues]:
                call_as(WORKER)("DeleteQueue", name=PULL)

    @pytest.mark.parametrize(
        ("text", "denied"),
        [
            (QUEUE_YAML, ""),
            (f"{QUEUE_YAML}- name: another\n  mode: pull\n", ""),
            (QUEUE_YAML.replace(WRITER, OTHER), ""),
            (QUEUE_YAML.replace("- name: closed\n  mode: pull\n", ""), "closed"),
            (f"{QUEUE_YAML}  acl:\n  - user_email: {WORKER}\n", "closed"),
            (f"{QUEUE_YAML}- name: made\n  mode: pull\n", "made"),
            (f"{QUEUE_YAML}- name: default\n  rate: 1/s\n", "default"),
            (f"total_storage_limit: 1M\n{QUEUE_YAML}", "closed"),
        ],
    )
    def test_an_upload(self, call_as: CallAs, emulator: Emulator, text: str, denied: str) -> None:
        """It needs the permission to update each queue that it changes; otherwise nothing does."""
        queue = {"name": MADE, "pullTarget": {}}
        call_as(OTHER)("CreateQueue", parent=LOCATION, queue=queue)
        before = emulator.config

        if not denied:
            assert call_as(WORKER)("UploadQueueYaml", appId="app", httpBody=_uploaded(text)) == {}
            assert emulator.config != before or text == QUEUE_YAML
        else:
            with refused("PERMISSION_DENIED", f'cloudtasks.queues.update on queue "{denied}"'):
                call_as(WORKER)("UploadQueueYaml", appId="app", httpBody=_uploaded(text))
            assert emulator.config is before

    def test_an_upload_of_the_same_file(self, call_as: CallAs) -> None:
        """It needs the permission where it undoes a policy or a pause."""
        body = _uploaded(QUEUE_YAML)
        assert call_as(OTHER)("UploadQueueYaml", appId="app", httpBody=body) == {}
        call_as(WORKER)("PauseQueue", name=PULL)
        with refused("PERMISSION_DENIED"):
            call_as(OTHER)("UploadQueueYaml", appId="app", httpBody=body)
        assert call_as(WORKER)("UploadQueueYaml", appId="app", httpBody=body) == {}
        call_as(WORKER)("SetIamPolicy", resource=PULL, policy={"bindings": BINDINGS})
        with refused("PERMISSION_DENIED"):
            call_as(WRITER)("UploadQueueYaml", appId="app", httpBody=body)

    def test_an_unknown_queue(self, call_as: CallAs) -> None:
        """It is not found, as over v1beta2."""
        with refused("NOT_FOUND"):
            call_as(OTHER)("LeaseTasks", parent=MADE)

    @pytest.mark.parametrize(
        ("scopes", "code"),
        [
            (TASKQUEUE_SCOPES, "PERMISSION_DENIED"),
            (["https://www.googleapis.com/auth/cloud-tasks"], None),
        ],
    )
    def test_scopes(self, server: Server, scopes: list[str], code: str | None) -> None:
        """That of the platform or of Cloud Tasks."""
        api = RestApi(server, server.tokens.issue(WORKER, frozenset(scopes)).text)

        if code is None:
            assert api.call("GetQueue", {"name": PULL})["name"] == PULL
        else:
            with refused(code, "Insufficient Permission"):
                api.call("GetQueue", {"name": PULL})

    def test_a_token_that_is_not_valid(self, server: Server, clock: ManualClock) -> None:
        """Unknown, or expired."""
        token = server.tokens.issue(WORKER, PLATFORM).text
        clock.advance(3600)
        for text in (token, "a.b.c", "x"):
            with refused("UNAUTHENTICATED", "Invalid Credentials"):
                RestApi(server, text).call("GetQueue", {"name": PULL})

    @pytest.mark.parametrize(
        ("changes", "valid"),
        [
            ({}, True),
            ({"sub": WORKER}, True),
            ({"sub": OTHER}, False),
            ({"scope": 17}, False),
            ({"aud": "https://elsewhere.example/"}, False),
        ],
    )
    def test_a_token_that_its_holder_signed(
        self, server: Server, changes: dict[str, object], *, valid: bool
    ) -> None:
        """It is for Cloud Tasks, and for nobody else than the owner of the key."""
        key = ControlClient(server).post("/credentials", {"email": WORKER}).body
        now = SystemClock().now_usec() // 1_000_000
        claims = {"iss": WORKER, "aud": AUDIENCE, "iat": now, "exp": now + 60, **changes}
        headers = {"kid": key["private_key_id"]}
        api = RestApi(server, jwt.encode(claims, key["private_key"], "RS256", headers))

        if valid:
            assert api.call("GetQueue", {"name": PULL})["name"] == PULL
        else:
            with refused("UNAUTHENTICATED"):
                api.call("GetQueue", {"name": PULL})

    def test_the_details(self, server: Server) -> None:
        """They are about fields of a request, which a token is not."""
        status, answer = RestApi(server).send("GET", PULL)

        assert status == 401
        assert "details" not in answer["error"]

    def test_the_query_and_the_challenge(self, server: Server) -> None:
        """REST takes the token as a parameter, too."""
        token = server.tokens.issue(WORKER, PLATFORM).text
        status, _ = RestApi(server).send("GET", f"{PULL}?access_token={token}")
        client = server.state.requests.latest()[0]

        assert (status, client.caller, client.query) == (200, WORKER, "access_token=(hidden)")
        assert (client.interface, client.method, client.queue) == (
            *("Cloud Tasks REST", "projects.locations.queues.get"),
            "pull",
        )


class TestPolicies:
    def test_the_acl_is_the_policy(self, call_as: CallAs) -> None:
        """Two bindings; none where there is no acl."""
        policy = call_as(WORKER)("GetIamPolicy", resource=PULL)

        assert policy["bindings"] == [
            {"role": "roles/cloudtasks.admin", "members": [f"user:{WORKER}"]},
            {"role": "roles/cloudtasks.enqueuer", "members": [f"user:{WRITER}"]},
        ]

    def test_a_policy_is_the_acl(self, call_as: CallAs, emulator: Emulator) -> None:
        """Until the next deployment."""
        robot = "robot@app.iam.gserviceaccount.com"
        bindings = [
            {"role": "roles/cloudtasks.admin", "members": [f"serviceAccount:{robot}"]},
            {"role": "roles/cloudtasks.enqueuer", "members": [f"user:{OTHER}"]},
        ]

        policy = call_as(WORKER)("SetIamPolicy", resource=PULL, policy={"bindings": bindings})

        assert policy == call_as(robot)("GetIamPolicy", resource=PULL)
        assert policy["bindings"] == bindings
        call_as(OTHER)("CreateTask", parent=PULL, task={})
        with refused("PERMISSION_DENIED"):
            call_as(WORKER)("ListTasks", parent=PULL)
        emulator.reconfigure(emulator.config)
        call_as(WORKER)("ListTasks", parent=PULL)

    def test_a_queue_made_at_run_time(self, call_as: CallAs, emulator: Emulator) -> None:
        """A deployment leaves its policy; without one, nobody has a permission any more."""
        call = call_as(WORKER)
        call("CreateQueue", parent=LOCATION, queue={"name": MADE, "pullTarget": {}})
        call("SetIamPolicy", resource=MADE, policy={"bindings": BINDINGS})
        emulator.reconfigure(emulator.config)

        assert call_as(OTHER)("GetIamPolicy", resource=MADE)["bindings"] == BINDINGS
        assert call_as(OTHER)("SetIamPolicy", resource=MADE, policy={}) == {"etag": NO_POLICY}
        with refused("PERMISSION_DENIED", "as user_email to the queue's acl in queue.yaml"):
            call_as(OTHER)("SetIamPolicy", resource=MADE, policy={"bindings": BINDINGS})

    def test_somebody_else_was_faster(self, call_as: CallAs) -> None:
        """A policy with another etag is not set."""
        call = call_as(WORKER)
        policy = call("GetIamPolicy", resource=PULL)
        call("SetIamPolicy", resource=PULL, policy={**policy, "bindings": policy["bindings"][:1]})

        with refused("ABORTED", "changed since it was read"):
            call("SetIamPolicy", resource=PULL, policy=policy)

    @pytest.mark.parametrize(
        ("binding", "text"),
        [
            ({"role": "roles/owner", "members": [f"user:{OTHER}"]}, 'role is "roles/owner": use '),
            ({"role": "roles/cloudtasks.admin", "members": ["allUsers"]}, 'member is "allUsers"'),
            ({"role": "roles/cloudtasks.admin", "members": ["user:"]}, "use user:EMAIL or"),
            (
                {"role": "roles/cloudtasks.admin", "members": [], "condition": {"title": "x"}},
                "conditions are not supported",
            ),
        ],
    )
    def test_a_policy_that_is_not_valid(
        self, call_as: CallAs, binding: dict[str, Any], text: str
    ) -> None:
        """Nothing changes."""
        call = call_as(WORKER)
        before = call("GetIamPolicy", resource=PULL)

        with refused("INVALID_ARGUMENT", text):
            call("SetIamPolicy", resource=PULL, policy={"bindings": [binding]})
        assert call("GetIamPolicy", resource=PULL) == before

    def test_without_a_policy(self, call_as: CallAs) -> None:
        """It is required: a request without a body does not remove the acl."""
        call = call_as(WORKER)
        before = call("GetIamPolicy", resource=PULL)

        with refused("INVALID_ARGUMENT", "policy is missing"):
            call("SetIamPolicy", resource=PULL)
        assert call("GetIamPolicy", resource=PULL) == before

    @pytest.mark.parametrize(
        ("email", "held"),
        [
            (WORKER, ["tasks.create", "tasks.lease", "queues.delete"]),
            (WRITER, ["tasks.create"]),
            (OTHER, []),
        ],
    )
    def test_permissions(self, call_as: CallAs, email: str, held: list[str]) -> None:
        """Those of some that the caller has."""
        asked = [f"cloudtasks.{name}" for name in ("tasks.create", "tasks.lease", "queues.delete")]

        answer = call_as(email)("TestIamPermissions", resource=PULL, permissions=asked)

        assert answer.get("permissions", []) == [f"cloudtasks.{name}" for name in held]


def test_without_restrictions(emulator: Emulator) -> None:
    """Every permission is granted, and the policy is shown nevertheless."""
    with Server(emulator) as server:
        api = RestApi(server)
        asked = ["cloudtasks.tasks.lease"]
        held = api.call("TestIamPermissions", {"resource": CLOSED, "permissions": asked})

        assert held == {"permissions": asked}
        assert api.call("GetIamPolicy", {"resource": CLOSED}) == {"etag": NO_POLICY}
        assert len(api.call("GetIamPolicy", {"resource": PULL})["bindings"]) == 2


def test_the_request_log(server: Server) -> None:
    """A gRPC call is recorded by its method, with its caller, as JSON."""
    api = GrpcApi(server, server.tokens.issue(WORKER, PLATFORM).text)
    api.call("CreateTask", {"parent": PULL, "task": {"pullMessage": {"tag": "red"}}})
    with pytest.raises(ApiRefused):
        api.call("CreateTask", {"parent": CLOSED})
    api.channel.close()
    refused, created = server.state.requests.latest()[:2]

    assert (created.verb, created.path, created.status, created.caller) == (
        "POST",
        "/google.cloud.tasks.v2beta2.CloudTasks/CreateTask",
        200,
        WORKER,
    )
    assert (created.interface, created.method, created.queue) == (
        *("Cloud Tasks gRPC", "projects.locations.queues.tasks.create"),
        "pull",
    )
    assert created.client.startswith("127.0.0.1:")
    assert b'"tag": "red"' in created.body
    assert b'"createTime"' in created.response
    assert (refused.status, b"PERMISSION_DENIED" in refused.response) == (403, True)
    [name] = created.tasks
    [event] = server.emulator.queue("pull").history(name)
    assert event.origin is not None
    assert event.origin[:3] == ("Cloud Tasks gRPC", WORKER, created.number)
    assert created.agent.startswith("grpc-python/")
    assert server.state.requests.counts["POST", 200] == 1
