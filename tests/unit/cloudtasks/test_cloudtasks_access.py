"""Cloud Tasks: who may call what with `--auth acl`, and the policies of IAM."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cloudtasks_api import LOCATION, MADE, PULL, PUSH, ApiRefused, Call, GrpcApi, RestApi, refused
from tables import each_row
from werkzeug.test import Client

from pullqueue import Emulator, ManualClock, SystemClock
from pullqueue.api.tokens import SCOPES as TASKQUEUE_SCOPES
from pullqueue.api.tokens import Tokens
from pullqueue.cloudtasks.access import AUDIENCE
from pullqueue.cloudtasks.versions import V2, V2BETA2, Version
from pullqueue.config.model import AclEntry, QueueSettings
from pullqueue.server.app import create_app
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
CLOSED = f"{LOCATION}/queues/closed"
WORKER, WRITER, OTHER = "worker@example.com", "writer@example.com", "other@example.com"
PLATFORM = frozenset({"https://www.googleapis.com/auth/cloud-platform"})
ADMIN, ENQUEUER = "roles/cloudtasks.admin", "roles/cloudtasks.enqueuer"
BINDINGS = [{"role": ADMIN, "members": [f"user:{OTHER}"]}]
PERMISSIONS = frozenset(
    {"queues.get", "queues.setIamPolicy", "queues.update"}
    | {f"tasks.{name}" for name in ("create", "delete", "fullView", "get", "run")}
)
NO_POLICY = b64encode(b"\x00\x20\x01").decode()
NEW_QUEUE = {"name": MADE, "pullTarget": {}}
PUSH_TASK = {"httpRequest": {"url": "https://api.example.com"}}

CallAs = Callable[[str], Call]


def uploaded(text: str) -> dict[str, Any]:
    """Return the fields of an upload of a queue.yaml."""
    return {"appId": "app", "httpBody": {"data": b64encode(text.encode()).decode()}}


@pytest.fixture
def emulator(clock: ManualClock) -> Emulator:
    """Return an emulator whose queue has an acl."""
    return Emulator.from_text(QUEUE_YAML, clock=clock)


@pytest.fixture
def tokens(clock: ManualClock) -> Tokens:
    return Tokens(clock)


@pytest.fixture
def client(emulator: Emulator, tokens: Tokens) -> Client:
    """Return a client of an application that requires tokens."""
    return Client(create_app(emulator, tokens=tokens, acl=True))


@pytest.fixture
def call_as(client: Client, tokens: Tokens, version: Version) -> CallAs:
    """Return what calls methods as the holder of an e-mail address."""
    return lambda email: RestApi(client, tokens.issue(email, PLATFORM).text, version=version)


class TestTokens:
    def test_nothing_can_be_called_without_a_token(self, client: Client) -> None:
        for path in (PULL, "projects/app/locations"):
            with refused("UNAUTHENTICATED", "Login Required") as caught:
                RestApi(client).send("GET", path)
            assert caught.value.advice.startswith("the request has no access token: send one in")
            challenge = client.get(f"/v2beta2/{path}").headers["WWW-Authenticate"]
            assert challenge.startswith("Bearer realm=")

    def test_tokens_for_the_platform_and_for_cloud_tasks_are_accepted(
        self, client: Client, tokens: Tokens
    ) -> None:
        """Over REST in the query, too."""

        def call(*scopes: str) -> dict[str, Any]:
            token = tokens.issue(WORKER, frozenset(scopes)).text
            return RestApi(client, token)("GetQueue", name=PULL)

        assert call("https://www.googleapis.com/auth/cloud-tasks")["name"] == PULL
        with refused("PERMISSION_DENIED: Insufficient Permission"):
            call(*TASKQUEUE_SCOPES)
        for name in ("access_token", "oauth_token"):
            query = f"{name}={tokens.issue(WORKER, PLATFORM).text}"
            assert RestApi(client).send("GET", f"{PULL}?{query}")["name"] == PULL

    def test_a_token_that_is_not_valid_is_refused_even_if_it_looks_signed(
        self, client: Client
    ) -> None:
        for text in ("a.b.c", "x"):
            with refused("UNAUTHENTICATED", "Invalid Credentials"):
                RestApi(client, text)("GetQueue", name=PULL)

    def test_a_token_signed_by_its_holder_is_for_the_owner_of_the_key(self, client: Client) -> None:
        key = client.post("/_emulator/credentials", json={"email": WORKER}).get_json()
        now = SystemClock().now_usec() // 1_000_000
        claims = {"iss": WORKER, "aud": AUDIENCE, "iat": now, "exp": now + 60}

        def call(**changes: object) -> dict[str, Any]:
            headers = {"kid": key["private_key_id"]}
            text = jwt.encode(claims | changes, key["private_key"], "RS256", headers)
            return RestApi(client, text)("GetQueue", name=PULL)

        assert call()["name"] == call(sub=WORKER)["name"] == PULL
        for changes in ({"sub": OTHER}, {"scope": 17}, {"aud": "https://elsewhere.example/"}):
            with refused("UNAUTHENTICATED"):
                call(**changes)


class TestAccess:
    @pytest.mark.parametrize("version", [V2BETA2, V2], ids=["v2beta2", "v2"])
    def test_a_writer_may_create_tasks_and_nothing_else(
        self, call_as: CallAs, version: Version, emulator: Emulator
    ) -> None:
        acl = (AclEntry(writer_email=WRITER),)
        emulator.create_queue(QueueSettings(name="push", acl=acl))
        call, queue, new = call_as(WRITER), PUSH, PUSH_TASK
        if version is V2BETA2:
            queue, new = PULL, {}
        task = call("CreateTask", parent=queue, task=new, responseView="FULL")

        free = {method.name for method in version.methods if not method.permission}
        location_methods = {"ListLocations", "GetLocation"}
        assert free == {"CreateQueue", "ListQueues", "TestIamPermissions", *location_methods}
        for method in version.methods:
            if not method.permission or method.permission == "tasks.create":
                continue
            name = task["name"] if method.resource.endswith("<task>") else queue
            fields: dict[str, Any] = {method.field: name}
            if method.name == "UpdateQueue":
                fields = {"queue": {"name": queue}}
            elif method.name == "UploadQueueYaml":
                fields = uploaded("queue: []")
            permission = f"cloudtasks.{method.permission}"
            with refused("PERMISSION_DENIED", f"no permission {permission} on queue"):
                call(method.name, **fields)

    @pytest.mark.parametrize("version", [V2], ids=["v2"])
    def test_tasks_of_a_push_queue_without_a_policy_are_open_to_all(self, call_as: CallAs) -> None:
        """The queue and its policy are not."""
        call, queue = call_as(OTHER), f"{LOCATION}/queues/default"

        call("DeleteTask", name=call("CreateTask", parent=queue, task=PUSH_TASK)["name"])
        assert call("GetQueue", name=queue)["state"] == "RUNNING"
        for method in ("PauseQueue", "DeleteQueue", "PurgeQueue"):
            with refused("PERMISSION_DENIED"):
                call(method, name=queue)

    def test_whoever_has_a_token_may_list_queues_and_locations(self, call_as: CallAs) -> None:
        call = call_as(OTHER)

        assert len(call("ListQueues", parent=LOCATION)["queues"]) == 2
        assert call("GetLocation", name=LOCATION)["locationId"] == "us-central1"

    @pytest.mark.parametrize("method", ["CreateQueue", "UpdateQueue"])
    def test_who_creates_a_queue_has_all_permissions_on_it(
        self, call_as: CallAs, method: str
    ) -> None:
        """Until its policy says otherwise, and nobody else has any."""
        location = {"parent": LOCATION} if method == "CreateQueue" else {}
        call_as(OTHER)(method, queue=NEW_QUEUE, **location)

        with refused("PERMISSION_DENIED"):
            call_as(WORKER)("PauseQueue", name=MADE)
        with refused("PERMISSION_DENIED"):
            call_as(WORKER)("UpdateQueue", queue=NEW_QUEUE)
        assert call_as(OTHER)("GetIamPolicy", resource=MADE)["bindings"] == BINDINGS
        assert call_as(OTHER)("DeleteQueue", name=MADE) == {}

    @pytest.mark.parametrize("method", ["CreateQueue", "UpdateQueue"])
    def test_creating_a_queue_again_grants_no_rights_on_it(
        self, call_as: CallAs, method: str
    ) -> None:
        """Neither an existing queue nor the name of one just deleted becomes the caller's."""
        fields: dict[str, Any] = {"queue": {"name": PULL, "pullTarget": {}}}
        if method == "CreateQueue":
            fields["parent"] = LOCATION
        with refused("ALREADY_EXISTS" if method == "CreateQueue" else "PERMISSION_DENIED"):
            call_as(WRITER)(method, **fields)
        call_as(WORKER)("DeleteQueue", name=PULL)
        with refused("ALREADY_EXISTS"):
            call_as(WRITER)(method, **fields)

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
    def test_an_upload_needs_the_permission_for_each_queue_that_it_changes(
        self, call_as: CallAs, emulator: Emulator, text: str, denied: str
    ) -> None:
        call_as(OTHER)("CreateQueue", parent=LOCATION, queue=NEW_QUEUE)
        before = emulator.config

        if not denied:
            assert call_as(WORKER)("UploadQueueYaml", **uploaded(text)) == {}
            assert emulator.config != before or text == QUEUE_YAML
        else:
            of = f'cloudtasks.queues.update" for the resource "{LOCATION}/queues/{denied}" '
            with refused("PERMISSION_DENIED", of):
                call_as(WORKER)("UploadQueueYaml", **uploaded(text))
            assert emulator.config is before

    def test_a_refused_upload_names_a_queue_with_its_own_location(
        self, clock: ManualClock, tokens: Tokens
    ) -> None:
        text = f"queue:\n- name: default\n  rate: 1/s\n  acl:\n  - user_email: {WORKER}\n"
        emulator = Emulator.from_text(text, clock=clock)
        emulator.create_queue(QueueSettings(name="made@europe-west1"))
        client = Client(create_app(emulator, tokens=tokens, acl=True))
        call = RestApi(client, tokens.issue(WORKER, PLATFORM).text)

        with refused("PERMISSION_DENIED", '"projects/app/locations/europe-west1/queues/made"'):
            call("UploadQueueYaml", **uploaded(f"total_storage_limit: 1M\n{text}"))

    def test_an_upload_of_the_same_file_needs_it_where_it_undoes_something(
        self, call_as: CallAs
    ) -> None:
        same = uploaded(QUEUE_YAML)
        assert call_as(OTHER)("UploadQueueYaml", **same) == {}
        call_as(WORKER)("PauseQueue", name=PULL)
        with refused("PERMISSION_DENIED"):
            call_as(OTHER)("UploadQueueYaml", **same)
        assert call_as(WORKER)("UploadQueueYaml", **same) == {}
        call_as(WORKER)("SetIamPolicy", resource=PULL, policy={"bindings": BINDINGS})
        with refused("PERMISSION_DENIED"):
            call_as(WRITER)("UploadQueueYaml", **same)

    def test_an_unknown_queue_is_not_found_rather_than_denied(self, call_as: CallAs) -> None:
        with refused("NOT_FOUND"):
            call_as(OTHER)("LeaseTasks", parent=MADE)


class TestPolicies:
    def test_users_of_the_acl_have_one_role_and_writers_another(self, call_as: CallAs) -> None:
        policy = call_as(WORKER)("GetIamPolicy", resource=PULL)

        assert len(b64decode(policy["etag"])) == 8  # as those of production
        assert policy["bindings"] == [
            {"role": ADMIN, "members": [f"user:{WORKER}"]},
            {"role": ENQUEUER, "members": [f"user:{WRITER}"]},
        ]

    def test_a_policy_replaces_the_acl_until_the_next_deployment(
        self, call_as: CallAs, emulator: Emulator
    ) -> None:
        robot = "robot@app.iam.gserviceaccount.com"
        bindings = [
            {"role": ADMIN, "members": [f"serviceAccount:{robot}"]},
            {"role": ENQUEUER, "members": [f"user:{OTHER}"]},
        ]

        policy = call_as(WORKER)("SetIamPolicy", resource=PULL, policy={"bindings": bindings})

        assert policy == call_as(robot)("GetIamPolicy", resource=PULL)
        assert policy["bindings"] == bindings
        call_as(OTHER)("CreateTask", parent=PULL, task={})
        with refused("PERMISSION_DENIED"):
            call_as(WORKER)("ListTasks", parent=PULL)
        emulator.reconfigure(emulator.config)
        call_as(WORKER)("ListTasks", parent=PULL)

    def test_a_deployment_leaves_the_policy_of_a_created_queue(
        self, call_as: CallAs, emulator: Emulator
    ) -> None:
        """Without one, nobody has a permission any more."""
        call = call_as(WORKER)
        call("CreateQueue", parent=LOCATION, queue=NEW_QUEUE)
        call("SetIamPolicy", resource=MADE, policy={"bindings": BINDINGS})
        emulator.reconfigure(emulator.config)

        assert call_as(OTHER)("GetIamPolicy", resource=MADE)["bindings"] == BINDINGS
        assert call_as(OTHER)("SetIamPolicy", resource=MADE, policy={}) == {"etag": NO_POLICY}
        advice = (
            "as user_email to the queue's acl in queue.yaml, or let one of its users call "
            r"SetIamPolicy\)$"
        )
        with refused("PERMISSION_DENIED", advice):
            call_as(OTHER)("SetIamPolicy", resource=MADE, policy={"bindings": BINDINGS})

    def test_a_policy_with_another_etag_is_not_set(self, call_as: CallAs) -> None:
        call = call_as(WORKER)
        policy = call("GetIamPolicy", resource=PULL)
        call("SetIamPolicy", resource=PULL, policy={**policy, "bindings": policy["bindings"][:1]})

        with refused(
            "ABORTED", "the policy has changed since it was read: read it again, then set it$"
        ):
            call("SetIamPolicy", resource=PULL, policy=policy)

    @pytest.mark.parametrize(
        ("binding", "text"),
        [
            # A request without a policy does not remove the acl.
            (None, "policy is missing"),
            *(
                (
                    {"role": role, "members": ["user:a@b"]},
                    f'policy.bindings have the role "{role}": use one such as {ENQUEUER}$',
                )
                for role in ("owner", "roles/")
            ),
            (
                {"role": ADMIN, "members": ["everybody"]},
                'policy.bindings have the member "everybody": use user:EMAIL',
            ),
            ({"role": ADMIN, "members": ["user:"]}, "use user:EMAIL, serviceAccount:EMAIL or"),
        ],
    )
    def test_a_policy_that_is_not_valid_changes_nothing(
        self, call_as: CallAs, binding: dict[str, Any] | None, text: str
    ) -> None:
        call = call_as(WORKER)
        before = call("GetIamPolicy", resource=PULL)
        fields = {} if binding is None else {"policy": {"bindings": [binding]}}

        with refused("INVALID_ARGUMENT", text):
            call("SetIamPolicy", resource=PULL, **fields)
        assert call("GetIamPolicy", resource=PULL) == before

    @pytest.mark.parametrize(
        ("role", "held"),
        [
            ("roles/cloudtasks.admin", PERMISSIONS),
            ("roles/cloudtasks.editor", PERMISSIONS - {"queues.setIamPolicy"}),
            ("roles/cloudtasks.enqueuer", {"tasks.create", "tasks.fullView"}),
            ("roles/cloudtasks.queueAdmin", {"queues.get", "queues.setIamPolicy", "queues.update"}),
            ("roles/cloudtasks.taskDeleter", {"tasks.delete"}),
            ("roles/cloudtasks.taskRunner", {"tasks.fullView", "tasks.run"}),
            ("roles/cloudtasks.viewer", {"queues.get", "tasks.fullView", "tasks.get"}),
            ("roles/owner", PERMISSIONS),
            ("roles/editor", PERMISSIONS - {"queues.setIamPolicy"}),
            ("roles/viewer", {"queues.get", "tasks.fullView", "tasks.get"}),
            ("projects/app/roles/sender", set()),
        ],
    )
    @pytest.mark.parametrize("queue", [PULL, PUSH])
    def test_a_role_grants_its_permissions(
        self, call_as: CallAs, emulator: Emulator, queue: str, role: str, held: set[str]
    ) -> None:
        emulator.create_queue(QueueSettings(name="push", acl=(AclEntry(user_email=WORKER),)))
        policy = {"bindings": [{"role": role, "members": [f"user:{OTHER}"]}]}
        call_as(WORKER)("SetIamPolicy", resource=queue, policy=policy)

        asked = [f"cloudtasks.{name}" for name in sorted(PERMISSIONS)]
        answer = call_as(OTHER)("TestIamPermissions", resource=queue, permissions=asked)

        granted = {name.removeprefix("cloudtasks.") for name in answer.get("permissions", [])}
        assert granted == held

    @each_row(
        ("member", "grants"),
        [
            (f"user:{OTHER}", True),
            (f"user:{OTHER.upper()}", True),
            (f"serviceAccount:{OTHER}", True),
            (f"user:{WRITER}", False),
            ("allUsers", True),
            ("allAuthenticatedUsers", True),
            ("domain:example.com", True),
            ("domain:EXAMPLE.com", True),
            ("domain:other.com", False),
            (f"group:{OTHER}", False),
            (f"deleted:user:{OTHER}?uid=1", False),
            ("principalSet://iam.googleapis.com/projects/1/group/a", False),
        ],
    )
    def test_a_member_is_matched_with_the_caller(
        self, call_as: CallAs, member: str, *, grants: bool
    ) -> None:
        binding = {"role": "roles/cloudtasks.viewer", "members": [member]}
        own = {"role": ADMIN, "members": [f"user:{WORKER}"]}

        call_as(WORKER)("SetIamPolicy", resource=PULL, policy={"bindings": [own, binding]})

        assert call_as(WORKER)("GetIamPolicy", resource=PULL)["bindings"] == [own, binding]
        if grants:
            call_as(OTHER)("GetQueue", name=PULL)
        else:
            with refused("PERMISSION_DENIED"):
                call_as(OTHER)("GetQueue", name=PULL)

    def test_a_domain_begins_after_the_last_at_sign(self, call_as: CallAs) -> None:
        binding = {"role": "roles/cloudtasks.viewer", "members": ["domain:example.com"]}
        own = {"role": ADMIN, "members": [f"user:{WORKER}"]}
        call_as(WORKER)("SetIamPolicy", resource=PULL, policy={"bindings": [own, binding]})

        assert call_as('"a@b"@example.com')("GetQueue", name=PULL)["name"] == PULL

    def test_what_is_not_enforced_is_stored_shown_and_logged(
        self, call_as: CallAs, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A role with members of several kinds is one for each in the acl, and one for the rest."""
        condition = {"expression": "request.time < timestamp('2030-01-01')", "title": "soon"}
        bindings = [
            {"role": ADMIN, "members": [f"user:{WORKER}"]},
            {"role": ADMIN, "members": ["group:team@example.com"]},
            {"role": ENQUEUER, "members": [f"user:{OTHER}"], "condition": condition},
            {"role": "roles/custom.role", "members": ["allUsers"]},
            {
                "role": "roles/cloudtasks.viewer",
                "members": [
                    "allUsers",
                    f"user:{OTHER}",
                    "domain:example.com",
                    "user:a:b",
                    "domain:a:b",
                ],
            },
        ]
        mixed = [{"role": ADMIN, "members": [f"user:{WORKER}", "group:team@example.com"]}]

        policy = call_as(WORKER)(
            "SetIamPolicy", resource=PULL, policy={"bindings": mixed + bindings[2:]}
        )

        assert policy["bindings"] == bindings
        assert policy["version"] == 3
        with refused("PERMISSION_DENIED"):
            call_as(OTHER)("CreateTask", parent=PULL, task={})
        not_enforced = {
            "group:team@example.com": ADMIN,
            f"user:{OTHER} on a condition": ENQUEUER,
            "allUsers": "roles/custom.role",
        }
        assert [each for each in caplog.messages if "policy" in each] == [
            f'the policy of queue "pull" is not enforced for {whom}: {role} is stored, and grants '
            f"nothing here"
            for whom, role in not_enforced.items()
        ]

    def test_without_an_acl_every_permission_is_granted(self, emulator: Emulator) -> None:
        """And the policy is shown nevertheless."""
        call = RestApi(Client(create_app(emulator)))
        asked = ["cloudtasks.tasks.lease"]

        held = call("TestIamPermissions", resource=CLOSED, permissions=asked)

        assert held == {"permissions": asked}
        unknown = ["cloudtasks.tasks.creat", "tasks.lease", "storage.objects.get"]
        assert call("TestIamPermissions", resource=CLOSED, permissions=unknown) == {}
        wildcard = (
            r'^INVALID_ARGUMENT: permissions have "cloudtasks.\*": name each one, such as '
            "cloudtasks.tasks.create, since wildcards are not allowed$"
        )
        with pytest.raises(ApiRefused, match=wildcard):
            call("TestIamPermissions", resource=CLOSED, permissions=[*asked, "cloudtasks.*"])
        assert call("GetIamPolicy", resource=CLOSED) == {"etag": NO_POLICY}
        assert len(call("GetIamPolicy", resource=PULL)["bindings"]) == 2


def test_a_call_over_rest_is_logged_with_its_method_queue_and_caller(emulator: Emulator) -> None:
    with Server(emulator, acl=True) as server:
        client = Client(create_app(emulator, state=server.state))
        call = RestApi(client, server.tokens.issue(WORKER, PLATFORM).text)
        call("CreateTask", parent=PULL, task={})
        call("ListQueues", parent=LOCATION)
        listed, created = server.state.requests.latest()[:2]

    assert (created.interface, created.method, created.queue, created.caller) == (
        *("Cloud Tasks REST", "projects.locations.queues.tasks.create"),
        *("pull", WORKER),
    )
    assert (listed.method, listed.queue) == ("projects.locations.queues.list", "")
    [event] = emulator.queue("pull").history(created.tasks[0])
    assert event.origin is not None
    assert event.origin[:3] == ("Cloud Tasks REST", WORKER, created.number)


def test_a_call_over_grpc_is_logged_as_json_with_its_caller(emulator: Emulator) -> None:
    with Server(emulator, acl=True) as server:
        call = GrpcApi(server, server.tokens.issue(WORKER, PLATFORM).text)
        call("CreateTask", parent=PULL, task={"pullMessage": {"tag": "red"}})
        with refused("PERMISSION_DENIED"):
            call("CreateTask", parent=CLOSED)
        call.channel.close()
        nobody = GrpcApi(server)
        with refused("UNAUTHENTICATED"):
            nobody("GetQueue", name=PULL)
        nobody.channel.close()
        unknown, denied, created = server.state.requests.latest()[:3]

    assert (created.verb, created.path, created.status, created.caller) == (
        *("POST", "/google.cloud.tasks.v2beta2.CloudTasks/CreateTask"),
        *(200, WORKER),
    )
    assert (created.interface, created.method, created.queue) == (
        *("Cloud Tasks gRPC", "projects.locations.queues.tasks.create"),
        "pull",
    )
    assert created.client.startswith("127.0.0.1:")
    assert created.agent.startswith("grpc-python/")
    assert b'"pullMessage": {"tag": "red"}' in created.body.data
    assert b'"createTime"' in created.response.data
    assert (denied.status, b"PERMISSION_DENIED" in denied.response.data) == (403, True)
    assert (unknown.status, unknown.caller) == (401, None)
    [event] = emulator.queue("pull").history(created.tasks[0])
    assert event.origin is not None
    assert event.origin[:3] == ("Cloud Tasks gRPC", WORKER, created.number)
    assert server.state.requests.counts["POST", 200] == 1


@pytest.mark.parametrize(
    ("email", "method", "fields", "permission"),
    [
        (OTHER, "CreateTask", {"parent": CLOSED, "task": {}}, "tasks.create"),
        (OTHER, "DeleteTask", {"name": f"{CLOSED}/tasks/one"}, "tasks.delete"),
        (OTHER, "CreateTask", {"parent": PULL, "task": {}}, "tasks.create"),
        (WORKER, "GetQueue", {"name": CLOSED}, "queues.get"),
    ],
)
def test_who_is_not_in_the_acl_gets_the_text_of_production(
    call_as: CallAs, email: str, method: str, fields: dict[str, Any], permission: str
) -> None:
    queue = PULL if PULL in str(fields) else CLOSED
    with refused("PERMISSION_DENIED") as error:
        call_as(email)(method, **fields)

    assert error.value.message == (
        "The principal (user or service account) lacks IAM permission "
        f'"cloudtasks.{permission}" for the resource "{queue}" (or the resource may not exist).'
    )
    assert "SetIamPolicy" in error.value.advice
    how = "user_email or writer_email" if method == "CreateTask" else "user_email"
    assert f"add it as {how} to the queue's" in error.value.advice
