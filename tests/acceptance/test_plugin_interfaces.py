"""The fixtures that replace App Engine: the SDK, the server, intercepted requests."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from textwrap import dedent
from typing import NoReturn

import pytest
import requests
from forking import forked
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import RefreshError, TransportError
from google.auth.transport.requests import AuthorizedSession
from google.cloud import tasks_v2
from google.oauth2.service_account import Credentials

from pullqueue import Emulator
from pullqueue.sdk.imports import taskqueue
from pullqueue.testing import Faults, run_tasks
from pytest_pullqueue import FixtureClock, InterceptedRequests, LiveServer

QUEUE_YAML = """\
queue:
- name: pull-queue
  mode: pull
  acl:
  - user_email: worker@example.com
  - writer_email: producer@example.com
"""
GOOGLE = "https://www.googleapis.com"
TASKS = "/taskqueue/v1beta2/projects/s~app/taskqueues/pull-queue/tasks"
LEASE = {"leaseSecs": 60, "numTasks": 10}

pytestmark = pytest.mark.pullqueue(config=QUEUE_YAML)

Run = Callable[..., pytest.RunResult]


def session_of(key: dict[str, object]) -> AuthorizedSession:
    scopes = ["https://www.googleapis.com/auth/taskqueue"]
    credentials = Credentials.from_service_account_info(key, scopes=scopes)  # type: ignore[no-untyped-call]
    return AuthorizedSession(credentials)  # type: ignore[no-untyped-call]


def test_the_sdk_uses_the_emulator_and_its_time(
    pullqueue_sdk: object, pullqueue_clock: FixtureClock, pullqueue_emulator: Emulator
) -> None:
    queue = taskqueue.Queue("pull-queue")
    queue.add(taskqueue.Task(payload="parse1", method="PULL", tag="parse"))
    [task] = queue.lease_tasks(3600, 100)
    assert task.eta_posix == pullqueue_clock.now().timestamp() + 3600
    pullqueue_clock.advance(0.000001)
    assert queue.lease_tasks(3600, 100) == []
    pullqueue_clock.expire_leases()
    [again] = queue.lease_tasks_by_tag(3600, 100)
    assert (again.name, again.retry_count) == (task.name, 2)
    assert pullqueue_emulator.queue("pull-queue").get_task(task.name).tag == "parse"


def test_a_missing_sdk_is_reported_with_the_extra_to_install(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        import sys

        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name == "google.appengine":
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Missing())
    """)

    pytester.makepyfile("def test_sdk(pullqueue_sdk): pass")
    result = pytester.run(forked("python"), "-m", "pytest")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*pip install *[[]appengine]*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_warnings_of_the_sdk(pytester: pytest.Pytester) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "sdk-tests.md"
    [block] = re.findall(
        r"```toml\n# pyproject\.toml\n(.*?)```", page.read_text("utf-8"), re.DOTALL
    )
    pytester.path.joinpath("pyproject.toml").write_text(block)
    pytester.makepyfile("""
        import sys
        import warnings
        from pathlib import Path

        def test_imports():
            warnings.warn_explicit("old", DeprecationWarning, "sdk.py", 1, "google.appengine.api.x")

        def test_compilation():
            for name, module in [*sys.modules.items()]:
                if name.startswith("google.appengine.") and module.__spec__.has_location:
                    text = Path(module.__file__).read_text()
                    if "\\\\" in text:  # of an escape that is not valid
                        compile(text, module.__file__, "exec")
    """)

    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_the_server_answers_from_the_emulator_by_its_clock(
    pullqueue_server: LiveServer, pullqueue_clock: FixtureClock, pullqueue_emulator: Emulator
) -> None:
    pullqueue_emulator.queue("pull-queue").add("work")
    url = f"{pullqueue_server.url}{TASKS}/lease"
    with requests.Session() as session:  # its connection survives the clock
        for number in (1, 2, 3):
            [item] = session.post(url, params=LEASE, timeout=60).json()["items"]
            assert item["leaseTimestamp"] == str(pullqueue_clock.now_usec() + 60_000_000)
            assert item["retry_count"] == number
            pullqueue_clock.advance(3600)


@pytest.mark.pullqueue(acl=True)
def test_acl_of_the_server(pullqueue_server: LiveServer) -> None:
    url = pullqueue_server.url + TASKS
    assert requests.get(url, timeout=60).status_code == 401
    for email, status in (("worker@example.com", 200), ("producer@example.com", 403)):
        headers = {"Authorization": f"Bearer {pullqueue_server.token(email)}"}
        assert requests.get(url, headers=headers, timeout=60).status_code == status


def test_all_addresses_of_the_server_lead_to_one_port(pullqueue_server: LiveServer) -> None:
    url = pullqueue_server.discovery_url.format(api="taskqueue", apiVersion="v1beta2")
    assert requests.get(url, timeout=60).json()["rootUrl"] == pullqueue_server.url + "/"
    host = pullqueue_server.env["PULLQUEUE_EMULATOR_HOST"]
    assert pullqueue_server.url == "http://" + host
    assert pullqueue_server.env["API_PORT"] == host.rpartition(":")[2]
    grpc_host, _, port = pullqueue_server.grpc_address.rpartition(":")
    socket.create_connection((grpc_host, int(port)), timeout=60).close()


class TestResponses:
    @pytest.fixture(autouse=True)
    def _no_socket(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> NoReturn:
            raise AssertionError("a socket is opened")

        monkeypatch.setattr(socket, "socket", refuse)

    def test_requests_to_google_are_answered_in_process(
        self, pullqueue_responses: InterceptedRequests, pullqueue_clock: FixtureClock
    ) -> None:
        task = {"queueName": "pull-queue", "payloadBase64": "d29yaw=="}
        name = requests.post(GOOGLE + TASKS, json=task, timeout=60).json()["id"]
        lease = requests.post(f"{GOOGLE}{TASKS}/lease", params=LEASE, timeout=60)
        [item] = lease.json()["items"]
        assert item["leaseTimestamp"] == str(pullqueue_clock.now_usec() + 60_000_000)
        assert requests.delete(f"{GOOGLE}{TASKS}/{name}", timeout=60).status_code == 204
        agent = {"User-Agent": "worker (gzip)"}
        assert requests.get(GOOGLE + TASKS, headers=agent, timeout=60).json()["kind"]
        parts = iter([b'{"payloadBase64":', b'"YQ=="}'])
        assert requests.post(GOOGLE + TASKS, data=parts, timeout=60).status_code == 200
        for url in (
            f"{GOOGLE}/discovery/v1/apis/taskqueue/v1beta2/rest",
            "https://taskqueue.googleapis.com/$discovery/rest?version=v1beta2",
        ):
            assert requests.get(url, timeout=60).json()["id"] == "taskqueue:v1beta2"

    def test_other_addresses_are_refused_unless_the_test_adds_them(
        self, pullqueue_responses: InterceptedRequests
    ) -> None:
        for address in ("https://example.com/", "http://127.0.0.1@example.com/"):
            with pytest.raises(requests.RequestException, match="refused by Responses"):
                requests.get(address, timeout=60)
        pullqueue_responses.mock.get("https://example.com/", body="hello")
        assert requests.get("https://example.com/", timeout=60).text == "hello"

    @pytest.mark.pullqueue(acl=True)
    def test_a_key_gets_new_tokens_as_the_clock_moves(
        self, pullqueue_responses: InterceptedRequests, pullqueue_clock: FixtureClock
    ) -> None:
        assert requests.get(GOOGLE + TASKS, timeout=60).status_code == 401
        with session_of(pullqueue_responses.credentials("worker@example.com")) as session:
            for _ in range(2):
                assert session.get(GOOGLE + TASKS).status_code == 200
                pullqueue_clock.advance(7200)
        query = {"access_token": pullqueue_responses.token("worker@example.com")}
        info = requests.get("https://oauth2.googleapis.com/tokeninfo", params=query, timeout=60)
        assert info.json()["email"] == "worker@example.com"

    def test_a_key_that_the_fixture_did_not_make_gets_no_token(
        self, pullqueue_responses: InterceptedRequests
    ) -> None:
        """The error says how to make one; other requests at the address are refused without it."""
        google = pullqueue_responses.credentials("worker@example.com") | {"private_key_id": "g"}
        other = pullqueue_responses.credentials("worker@example.com")
        other["token_uri"] = "https://example.com/token"
        wrong = (
            r"issues no tokens at https://example.com/token, the token_uri of the key: "
            r"make a key with pullqueue_responses.credentials\(email\)"
        )
        with session_of(other) as session, pytest.raises(TransportError, match=wrong):
            session.get(GOOGLE + TASKS)
        made = "in a test by credentials"
        with session_of(google) as session, pytest.raises(RefreshError, match=made):
            session.get(GOOGLE + TASKS)
        bodies: tuple[str | Iterable[bytes], ...] = ("{}", [b"{}"])
        for body in bodies:
            with pytest.raises(requests.ConnectionError) as refused:
                requests.post("https://example.com/token", data=body, timeout=60)
            assert "issues no tokens" not in str(refused.value)

    def test_the_rest_client_for_cloud_tasks_is_answered(
        self, pullqueue_responses: InterceptedRequests, pullqueue_emulator: Emulator
    ) -> None:
        """Its tasks with a token: test_plugin_freezers.py."""
        anonymous = AnonymousCredentials()  # type: ignore[no-untyped-call]
        tasks = tasks_v2.CloudTasksClient(transport="rest", credentials=anonymous)
        task = tasks_v2.Task(http_request={"url": "https://api.example.com/work"})
        queue = "projects/app/locations/us-central1/queues/default"
        tasks.create_task(parent=queue, task=task)

        assert len(pullqueue_emulator.queue("default").list_tasks()) == 1


def test_requests_to_this_machine_pass_through_unless_the_test_adds_their_address(
    pullqueue_server: LiveServer,
    pullqueue_responses: InterceptedRequests,
    pullqueue_emulator: Emulator,
) -> None:
    pullqueue_emulator.queue("pull-queue").add()
    port = pullqueue_server.url.rpartition(":")[2]
    for root in (
        pullqueue_server.url,
        GOOGLE,
        f"http://LOCALHOST:{port}",
        f"http://me@127.0.0.1:{port}",
    ):
        assert len(requests.get(root + TASKS, timeout=60).json()["items"]) == 1
    for host, refused in (("127.0.0.2", "127.0.0.2"), ("[::1]", "NewConnectionError|::1")):
        with pytest.raises(requests.ConnectionError, match=refused):  # by the machine
            requests.get(f"http://{host}:1/", timeout=60)
    pullqueue_responses.mock.get(pullqueue_server.url + "/mine", body="mine")
    assert requests.get(pullqueue_server.url + "/mine", timeout=60).text == "mine"
    assert requests.get(pullqueue_server.url + "/other", timeout=60).status_code == 404
    with session_of(pullqueue_server.credentials("worker@example.com")) as session:
        assert session.get(pullqueue_server.url + TASKS).status_code == 200


@pytest.mark.usefixtures("pullqueue_sdk", "pullqueue_clock", "pullqueue_responses")
def test_the_sdk_on_cloud_tasks(
    pullqueue_emulator: Emulator, pullqueue_faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APPENGINE_USE_CLOUDTASK_PUSH_QUEUE", "true")
    queue = taskqueue.Queue("default")
    queue.add([taskqueue.Task(url="/later", countdown=60), taskqueue.Task(url="/now")])
    assert queue.fetch_statistics().tasks == 2
    attempts = run_tasks(pullqueue_emulator, send=lambda _: 200, until="empty")
    assert [attempt.request.url for attempt in attempts] == ["/now", "/later"]
    pullqueue_faults.fail("add")
    with pytest.raises(taskqueue.TransientError, match="injected by a fault"):
        queue.add(taskqueue.Task(url="/now"))


def test_errors_inside_the_server_fail_the_test(run: Run) -> None:
    result = run("""
        import pytest
        import requests
        from pullqueue.engine import verbs

        @pytest.mark.parametrize("fixture", ["pullqueue_server", "pullqueue_responses"])
        def test_broken(fixture, request, monkeypatch):
            def broken(*args, **kwargs):
                raise ZeroDivisionError("a bug in the server")
            monkeypatch.setattr(verbs, "lease", broken)
            root = getattr(request.getfixturevalue(fixture), "url", "https://www.googleapis.com")
            url = root + "/taskqueue/v1beta2/projects/s~a/taskqueues/pull-queue/tasks/lease"
            answer = requests.post(url + "?leaseSecs=60&numTasks=10")
            assert answer.status_code == 500
    """)

    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines(["*ZeroDivisionError: a bug in the server"] * 2)


def test_strict_faults_fail_a_test_whose_fault_was_not_hit(
    run: Run, pytester: pytest.Pytester
) -> None:
    pytester.makeini("[pytest]\npullqueue_strict_faults = true\n")

    result = run("""
        import pytest
        from pullqueue import TransientError

        def test_never_triggered(pullqueue_emulator, pullqueue_faults):
            pullqueue_faults.fail("add", TransientError, times=2)
            pullqueue_faults.empty_leases()
            pullqueue_emulator.queue("pull-queue").lease_tasks(60, 1)

        def test_removed(pullqueue_faults):
            pullqueue_faults.fail("add", TransientError).remove()
            with pullqueue_faults.fail("add", TransientError):
                pass
            pullqueue_faults.fail("purge", TransientError)
            pullqueue_faults.clear()

        def test_failed(pullqueue_faults):
            pullqueue_faults.fail("add", TransientError)
            assert False

        def test_skipped(pullqueue_faults):
            pullqueue_faults.fail("add", TransientError)
            pytest.skip("later")

        @pytest.mark.pullqueue(strict_faults=False)
        def test_not_strict(pullqueue_faults):
            pullqueue_faults.fail("add", TransientError)
    """)

    result.assert_outcomes(passed=3, failed=1, skipped=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of test_never_triggered*",
            "strict_faults: never triggered:",
            '  fail("add", TransientError, times=2): triggered on 0 of 0 calls',
        ]
    )
    result.stdout.no_fnmatch_line("  empty_leases*")


def test_the_first_response_of_each_push_task_is_lost(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\npullqueue_lose_first_response = true\n")

    result = run("""
        import pytest
        from pullqueue.testing import run_tasks

        @pytest.fixture
        def default(pullqueue_emulator):
            queue = pullqueue_emulator.queue("default")
            queue.add(name="a")
            queue.add(name="b")
            return queue

        def test_twice(default, pullqueue_clock, pullqueue_emulator):
            before = pullqueue_clock.now()
            attempts = run_tasks(pullqueue_emulator, send=lambda request: 200)
            assert sorted((a.task.name, a.number, a.status) for a in attempts) == [
                ("a", 1, None), ("a", 2, 200), ("b", 1, None), ("b", 2, 200)]
            assert pullqueue_clock.now() == before

        def test_a_handler_that_is_not_idempotent(default, pullqueue_emulator):
            seen = set()

            def handler(request):
                assert request.task_name not in seen, "twice"
                seen.add(request.task_name)
                return 200

            run_tasks(pullqueue_emulator, send=handler)

        @pytest.mark.pullqueue(lose_first_response=False)
        def test_once(default, pullqueue_emulator):
            assert len(run_tasks(pullqueue_emulator, send=lambda request: 200)) == 2
    """)

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["E*AssertionError: twice", 'fault lose_response("attempt", *'])


def test_a_test_that_leaves_due_tasks_fails(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini(
        "[pytest]\npullqueue_left_tasks = fail\npullqueue_left_tasks_ignore = ignored, unknown\n"
    )

    result = run("""
        import pytest
        from datetime import timedelta

        def test_pull(pullqueue_emulator):
            pullqueue_emulator.queue("pull-queue").add(name="left")

        def test_push(pullqueue_emulator):
            pullqueue_emulator.queue("default").add(name="unsent")

        def test_nothing_is_due(pullqueue_emulator, pullqueue_clock):
            queue = pullqueue_emulator.queue("pull-queue")
            queue.add()
            queue.lease_tasks(60, 1)
            queue.add(eta=pullqueue_clock.now() + timedelta(hours=1))
            default = pullqueue_emulator.queue("default")
            default.add()
            default.pause()

        @pytest.mark.pullqueue(queues=["ignored", "other"])
        def test_ignored(pullqueue_emulator):
            pullqueue_emulator.queue("ignored").add()

        @pytest.mark.pullqueue(queues=["ignored", "other"])
        def test_another(pullqueue_emulator):
            pullqueue_emulator.queue("ignored").add()
            pullqueue_emulator.queue("other").add()

        @pytest.mark.pullqueue(left_tasks_ignore=["pull-queue"])
        def test_marked_queue(pullqueue_emulator):
            pullqueue_emulator.queue("pull-queue").add()

        @pytest.mark.pullqueue(left_tasks_ignore=3)
        def test_wrong(pullqueue_emulator):
            pass

        @pytest.mark.pullqueue(left_tasks="ignore")
        def test_marked(pullqueue_emulator):
            pullqueue_emulator.queue("pull-queue").add()

        def test_failed(pullqueue_emulator):
            pullqueue_emulator.queue("pull-queue").add()
            assert False
    """)

    result.assert_outcomes(passed=7, failed=1, errors=4)
    result.stdout.fnmatch_lines(
        [
            "left_tasks: the test leaves due tasks:",
            'queue "pull-queue": 1 available',
            '  available "left" *',
            "left_tasks: the test leaves due tasks:",
            'queue "default": 1 available',
            '  available "unsent" *',
            'queue "other": 1 available',
            "*argument left_tasks_ignore is 3: use a list of names, or a string",
        ]
    )
    result.stdout.no_fnmatch_line('queue "ignored"*')


SERVICES = """
    import pytest
    from google.appengine.api import app_identity, memcache
    from google.appengine.ext import ndb, testbed

    class Order(ndb.Model):
        pass

    @pytest.mark.parametrize("number", [1, 2])
    def test_empty(pullqueue_sdk, number):
        assert Order.query().count() == 0
        assert memcache.get("key") is None
        Order(id="one").put()
        memcache.set("key", 1)

    @pytest.mark.pullqueue(project="my-shop")
    def test_project(pullqueue_sdk):
        assert Order(id="one").put().app() == "my-shop"
        assert app_identity.get_application_id() == "my-shop"

    @pytest.mark.pullqueue(services=[])
    def test_none(pullqueue_sdk):
        with pytest.raises(AssertionError):
            Order(id="one").put()

    @pytest.fixture
    def bed():
        bed = testbed.Testbed()
        bed.activate()
        bed.init_datastore_v3_stub()
        Order(id="mine").put(use_memcache=False)
        yield bed
        bed.deactivate()

    def test_beside_a_testbed(bed, pullqueue_sdk):
        assert [key.id() for key in Order.query().fetch(keys_only=True)] == ["mine"]
        assert memcache.set("key", 1)

    def test_before_a_testbed(pullqueue_sdk, bed):
        assert [key.id() for key in Order.query().fetch(keys_only=True)] == ["mine"]
        assert memcache.set("key", 1)
        bed.init_taskqueue_stub()

    @pytest.mark.pullqueue(services="datastore")
    def test_unknown(pullqueue_sdk):
        pass
"""


def test_services_of_google_are_set_up_on_request(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\npullqueue_services = datastore_v3 memcache\n")

    result = run(SERVICES)

    result.assert_outcomes(passed=6, errors=1)
    result.stdout.fnmatch_lines(
        ['*services: there is no service "datastore": did you mean "datastore_v3"?*']
    )


INDEXES = """
    import pytest
    from google.appengine.api.datastore_errors import NeedIndexError
    from google.appengine.ext import ndb, testbed

    class Vote(ndb.Model):
        count, time = ndb.IntegerProperty(), ndb.IntegerProperty()

    def query():
        assert Vote.query().order(-Vote.time).count() == 0
        return Vote.query(Vote.count == 1).order(-Vote.time).fetch_async(1).get_result()

    def query_nearest():
        if "with" in __file__:
            return query()
        with pytest.raises(NeedIndexError, match="recommended index is:(?s:.*)direction: desc"):
            query()

    strict = pytest.mark.pullqueue(strict=True)

    def test_off(pullqueue_sdk):
        assert query() != []        # whose report says so

    @strict
    def test_nearest(pullqueue_sdk):
        query_nearest()

    @strict
    @pytest.mark.pullqueue(config="../app/queue.yaml" if "with" in __file__ else "app/queue.yaml")
    def test_beside_the_configuration(pullqueue_sdk):
        query()

    @strict
    @pytest.mark.pullqueue(config="queue: []\\n", services=[])
    def test_of_a_testbed(pullqueue_sdk):
        bed = testbed.Testbed()
        bed.activate()
        bed.init_datastore_v3_stub()
        query_nearest()
        bed.deactivate()

    def test_off_again(pullqueue_sdk):
        query()
"""
VOTES = """\
indexes:
- kind: Vote
  properties:
  - name: count
  - name: time
    direction: desc
"""


def test_strict_queries_need_the_indexes_of_index_yaml(run: Run, pytester: pytest.Pytester) -> None:
    """Of that beside the queue.yaml that is set, or else of the nearest; without one, all."""
    pytester.makeini("[pytest]\npullqueue_services = datastore_v3\n")
    broken = """
        import pytest

        @pytest.mark.pullqueue(strict=True)
        def test_broken(pullqueue_sdk):
            pass
    """
    for name, text in {
        "app/queue.yaml": "queue: []",
        "app/index.yaml": VOTES,
        "broken/index.yaml": "indexes: 7",
        "broken/test_broken.py": dedent(broken),
        "with/index.yaml": VOTES,
        "with/test_with.py": dedent(INDEXES),
    }.items():
        path = pytester.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    result = run(INDEXES)

    result.assert_outcomes(passed=8, failed=2, errors=1)
    result.stdout.fnmatch_lines_random(
        ["*Not checked*indexes (strict=True)", '*broken/index.yaml" is not a valid index.yaml: *']
    )
