"""The fixtures that replace App Engine: the SDK, the server, intercepted requests."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

QUEUE_YAML = """\
queue:
- name: pull-queue
  mode: pull
  acl:
  - user_email: worker@example.com
  - writer_email: producer@example.com
"""

Run = Callable[..., pytest.RunResult]


def test_sdk(run: Run) -> None:
    """The SDK uses the test's emulator, agrees on the time, and is put back afterwards."""
    result = run("""
        import time

        def test_lease(pullqueue_sdk, pullqueue_clock, pullqueue_emulator):
            from google.appengine.api import taskqueue
            queue = taskqueue.Queue("pull-queue")
            queue.add(taskqueue.Task(payload="parse1", method="PULL", tag="parse"))
            [task] = queue.lease_tasks(3600, 100)
            assert task.eta_posix == time.time() + 3600
            pullqueue_clock.advance(0.000001)
            assert queue.lease_tasks(3600, 100) == []
            pullqueue_clock.expire_leases()
            [again] = queue.lease_tasks_by_tag(3600, 100)
            assert (again.name, again.retry_count) == (task.name, 2)
            assert again.eta_posix == round(time.time() + 3600, 6)
            assert pullqueue_emulator.queue("pull-queue").get_task(task.name).tag == "parse"

        def test_gone():
            from google.appengine.api import apiproxy_stub_map
            assert apiproxy_stub_map.apiproxy.GetStub("taskqueue") is None
    """)

    result.assert_outcomes(passed=2)


def test_sdk_in_use_by_another_emulator(run: Run) -> None:
    """`pullqueue_sdk` in a class with `emulation(sdk=True)`, or the reverse, is refused."""
    result = run("""
        import pytest
        from pullqueue.testing import emulation

        @pytest.fixture(scope="class")
        def emulated():
            with emulation(queues=["of-class"], sdk=True) as emulated:
                yield emulated

        def test_fixture_inside(emulated, pullqueue_sdk):
            pass

        def test_emulation_inside(pullqueue_sdk):
            with emulation(queues=["of-class"], sdk=True):
                pass
    """)

    result.assert_outcomes(errors=1, failed=1)
    result.stdout.fnmatch_lines_random(
        [
            "App Engine's SDK uses Emulator(*'of-class'*) already: use that emulator*",
            "E *SdkInUseError: App Engine's SDK uses Emulator(*'pull-queue'*) already: use that *",
        ]
    )


def test_sdk_is_missing(pytester: pytest.Pytester) -> None:
    """Without the SDK the fixture names the extra to install, and shows no traceback."""
    pytester.makeconftest("""
        import sys

        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name == "google.appengine":
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Missing())
    """)

    pytester.makepyfile("def test_sdk(pullqueue_sdk): pass")
    result = pytester.runpytest_subprocess()

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*pip install *[[]appengine]*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_server(run: Run) -> None:
    """The server answers from the test's emulator, with its time and its acl."""
    result = run("""
        import pytest
        import requests

        QUEUE = "/taskqueue/v1beta2/projects/s~app/taskqueues/pull-queue"

        def test_lease(pullqueue_server, pullqueue_clock, pullqueue_emulator):
            pullqueue_emulator.queue("pull-queue").add("work")
            lease = pullqueue_server.url + QUEUE + "/tasks/lease?leaseSecs=60&numTasks=10"
            [item] = requests.post(lease).json()["items"]
            assert item["leaseTimestamp"] == str(pullqueue_clock.now_usec() + 60_000_000)
            assert "items" not in requests.post(lease).json()
            pullqueue_clock.advance(60)
            assert requests.post(lease).json()["items"][0]["retry_count"] == 2

        @pytest.mark.pullqueue(acl=True)
        def test_acl(pullqueue_server):
            url = pullqueue_server.url + QUEUE + "/tasks"
            assert requests.get(url).status_code == 401
            for email, status in (("worker@example.com", 200), ("producer@example.com", 403)):
                token = pullqueue_server.token(email)
                answer = requests.get(url, headers={"Authorization": "Bearer " + token})
                assert answer.status_code == status

        def test_addresses(pullqueue_server):
            discovery = pullqueue_server.discovery_url
            url = discovery.format(api="taskqueue", apiVersion="v1beta2")
            assert requests.get(url).json()["rootUrl"] == pullqueue_server.url + "/"
            host = pullqueue_server.env["PULLQUEUE_EMULATOR_HOST"]
            assert pullqueue_server.url == "http://" + host
            assert pullqueue_server.env["API_PORT"] == host.rpartition(":")[2]
    """)

    result.assert_outcomes(passed=3)


def test_a_thread_that_outlives_its_test(run: Run) -> None:
    """It cannot lease the tasks of the tests that follow, over HTTP or gRPC."""
    result = run("""
        import threading
        from concurrent.futures import ThreadPoolExecutor
        import grpc
        import pytest
        import requests
        from google.cloud import tasks_v2beta2
        from google.cloud.tasks_v2beta2.services.cloud_tasks import transports
        from pullqueue.testing import assert_available

        PATH = "/taskqueue/v1beta2/projects/p/taskqueues/pull-queue/tasks/lease"
        QUERY = {"leaseSecs": 60, "numTasks": 1}
        leased, added = threading.Barrier(3, timeout=60), threading.Event()

        def rest(server):
            session, url = requests.Session(), server.url
            return lambda: session.post(url + PATH, params=QUERY, timeout=30).raise_for_status()

        def cloud_tasks(server):
            channel = grpc.insecure_channel(server.grpc_address)
            transport = transports.CloudTasksGrpcTransport(channel=channel)
            client = tasks_v2beta2.CloudTasksClient(transport=transport)
            parent = "projects/p/locations/us-central1/queues/pull-queue"
            return lambda: client.lease_tasks(parent=parent, lease_duration={"seconds": 60})

        def poll(lease):
            lease()
            leased.wait()
            added.wait(60)
            with pytest.raises(Exception) as caught:
                lease()
            return type(caught.value).__name__

        threads = ThreadPoolExecutor(2)
        pollers = []

        def test_first(pullqueue_server):
            for interface in (rest, cloud_tasks):
                pollers.append(threads.submit(poll, interface(pullqueue_server)))
            leased.wait()

        def test_second(pullqueue_emulator, pullqueue_server):
            pullqueue_server.grpc_address
            queue = pullqueue_emulator.queue("pull-queue")
            queue.add()
            added.set()
            errors = [poller.result() for poller in pollers]
            assert errors == ["ConnectionError", "ServiceUnavailable"]
            assert_available(queue, 1)
    """)

    result.assert_outcomes(passed=2)


def test_errors_inside_the_server_fail_the_test(run: Run) -> None:
    """A fault of the server itself is raised where the test can see it."""
    result = run("""
        import pytest
        import requests
        from pullqueue import Queue

        @pytest.mark.parametrize("fixture", ["pullqueue_server", "pullqueue_responses"])
        def test_broken(fixture, request, monkeypatch):
            def broken(*args, **kwargs):
                raise ZeroDivisionError("a bug in the server")
            monkeypatch.setattr(Queue, "lease", broken)
            root = getattr(request.getfixturevalue(fixture), "url", "https://www.googleapis.com")
            url = root + "/taskqueue/v1beta2/projects/s~a/taskqueues/pull-queue/tasks/lease"
            answer = requests.post(url + "?leaseSecs=60&numTasks=10")
            assert answer.status_code == 500
    """)

    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines(["*ZeroDivisionError: a bug in the server"] * 2)


def test_responses(run: Run) -> None:
    """requests to Google's addresses are answered in process; others are refused, no socket."""
    result = run("""
        import socket
        import pytest
        import requests

        QUEUE = "https://www.googleapis.com/taskqueue/v1beta2/projects/s~app/taskqueues/pull-queue"

        @pytest.fixture(autouse=True)
        def no_socket(monkeypatch):
            def refuse(*args, **kwargs):
                raise AssertionError("a socket is opened")
            monkeypatch.setattr(socket, "socket", refuse)

        def test_requests(pullqueue_responses, pullqueue_clock):
            task = {"queueName": "pull-queue", "payloadBase64": "d29yaw=="}
            name = requests.post(QUEUE + "/tasks", json=task).json()["id"]
            lease = {"leaseSecs": 60, "numTasks": 10}
            [item] = requests.post(QUEUE + "/tasks/lease", params=lease).json()["items"]
            assert item["leaseTimestamp"] == str(pullqueue_clock.now_usec() + 60_000_000)
            assert requests.delete(QUEUE + "/tasks/" + name).status_code == 204
            agent = {"User-Agent": "worker (gzip)"}
            assert requests.get(QUEUE + "/tasks", headers=agent).json()["kind"]
            parts = iter([b'{"payloadBase64":', b'"YQ=="}'])
            assert requests.post(QUEUE + "/tasks", data=parts).status_code == 200

        def test_unknown_address(pullqueue_responses):
            with pytest.raises(requests.ConnectionError):
                requests.get("https://example.com/")
            pullqueue_responses.mock.get("https://example.com/", body="hello")
            assert requests.get("https://example.com/").text == "hello"

        def test_discovery(pullqueue_responses):
            for url in ("https://www.googleapis.com/discovery/v1/apis/taskqueue/v1beta2/rest",
                        "https://taskqueue.googleapis.com/$discovery/rest?version=v1beta2"):
                assert requests.get(url).json()["id"] == "taskqueue:v1beta2"

        @pytest.mark.pullqueue(acl=True)
        def test_credentials(pullqueue_responses, pullqueue_clock):
            from google.auth.transport.requests import AuthorizedSession
            from google.oauth2 import service_account
            assert requests.get(QUEUE + "/tasks").status_code == 401
            credentials = service_account.Credentials.from_service_account_info(
                pullqueue_responses.credentials("worker@example.com"),
                scopes=["https://www.googleapis.com/auth/taskqueue"])
            session = AuthorizedSession(credentials)
            for _ in range(2):
                assert session.get(QUEUE + "/tasks").status_code == 200
                pullqueue_clock.advance(7200)       # the token has expired
            token = pullqueue_responses.token("worker@example.com")
            info = requests.get("https://oauth2.googleapis.com/tokeninfo",
                                params={"access_token": token}).json()
            assert info["email"] == "worker@example.com"
    """)

    result.assert_outcomes(passed=4)


def test_responses_and_a_key_from_elsewhere(run: Run) -> None:
    """A key that was not made by the fixture is refused with the way to make one."""
    result = run("""
        import pytest
        import requests
        from google.auth.exceptions import RefreshError, TransportError
        from google.auth.transport.requests import AuthorizedSession
        from google.oauth2 import service_account

        QUEUE = "https://www.googleapis.com/taskqueue/v1beta2/projects/s~app/taskqueues/pull-queue"

        def ask(key):
            credentials = service_account.Credentials.from_service_account_info(
                key, scopes=["https://www.googleapis.com/auth/taskqueue"])
            with AuthorizedSession(credentials) as session:
                session.get(QUEUE + "/tasks")

        def test_unknown_address(pullqueue_responses):
            key = pullqueue_responses.credentials("worker@example.com")
            key["token_uri"] = "https://example.com/token"
            with pytest.raises(TransportError, match=(
                    r"issues no tokens at https://example.com/token, the token_uri of the key: "
                    r"make a key with pullqueue_responses.credentials\\(email\\)")):
                ask(key)
            for body in ("{}", iter([b"{}"])):
                with pytest.raises(requests.ConnectionError) as refused:
                    requests.post("https://example.com/token", data=body)
                assert "issues no tokens" not in str(refused.value)

        def test_unknown_key(pullqueue_responses):
            key = pullqueue_responses.credentials("worker@example.com")
            key["private_key_id"] = "google's"
            with pytest.raises(RefreshError, match="in a test by credentials"):
                ask(key)
    """)

    result.assert_outcomes(passed=2)


def test_server_and_responses_in_one_test(run: Run) -> None:
    """Requests to this machine pass through; what the test itself adds for it comes first."""
    result = run("""
        import pytest
        import requests

        PATH = "/taskqueue/v1beta2/projects/s~app/taskqueues/pull-queue/tasks"

        def test_both(pullqueue_server, pullqueue_responses, pullqueue_emulator):
            pullqueue_emulator.queue("pull-queue").add()
            port = pullqueue_server.url.rpartition(":")[2]
            for root in (pullqueue_server.url, "https://www.googleapis.com",
                         "http://localhost:" + port, "http://LOCALHOST:" + port,
                         "http://me@127.0.0.1:" + port):
                assert len(requests.get(root + PATH).json()["items"]) == 1
            with pytest.raises(requests.ConnectionError, match="127.0.0.2"):
                requests.get("http://127.0.0.2:1/")     # refused by the machine, not by responses
            with pytest.raises(requests.ConnectionError, match="NewConnectionError|::1"):
                requests.get("http://[::1]:1/")

        def test_what_the_test_adds(pullqueue_server, pullqueue_responses):
            pullqueue_responses.mock.get(pullqueue_server.url + "/mine", body="mine")
            assert requests.get(pullqueue_server.url + "/mine").text == "mine"
            assert requests.get(pullqueue_server.url + "/other").status_code == 404

        @pytest.mark.parametrize("host", [
            "localhost.example.com", "127.0.0.1.nip.io", "127.0.0.1@example.com", "notlocalhost",
            "example.com:80", "128.0.0.1", "0.0.0.0", "[::2]", "localhost.", "127.1", "127.0.0.256",
        ])
        def test_what_only_looks_like_it(pullqueue_responses, host):
            with pytest.raises(requests.RequestException) as refused:
                requests.get(f"http://{host}/")
            assert "refused by Responses" in str(refused.value)

        def test_a_key_of_the_server(pullqueue_server, pullqueue_responses):
            from google.auth.transport.requests import AuthorizedSession
            from google.oauth2 import service_account
            credentials = service_account.Credentials.from_service_account_info(
                pullqueue_server.credentials("worker@example.com"),
                scopes=["https://www.googleapis.com/auth/taskqueue"])
            with AuthorizedSession(credentials) as session:
                assert session.get(pullqueue_server.url + PATH).status_code == 200
    """)

    result.assert_outcomes(passed=14)


def test_connections_survive_the_clock(run: Run) -> None:
    """A connection that is kept open is still good after hours of the test's time."""
    result = run("""
        import requests

        PATH = "/taskqueue/v1beta2/projects/s~app/taskqueues/pull-queue/tasks"

        def test_session(pullqueue_server, pullqueue_clock):
            with requests.Session() as session:
                for _ in range(3):
                    assert session.post(pullqueue_server.url + PATH, json={
                        "queueName": "pull-queue", "payloadBase64": ""}).status_code == 200
                    pullqueue_clock.advance(3600)
    """)

    result.assert_outcomes(passed=1)


def test_strict_faults(run: Run, pytester: pytest.Pytester) -> None:
    """A test that passed fails at teardown, by ini, and the report names the fault."""
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


def test_warnings_of_the_sdk(pytester: pytest.Pytester) -> None:
    """The filters that the documents name are all that a suite with warnings as errors needs."""
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
                    compile(Path(module.__file__).read_text(), module.__file__, "exec")
    """)

    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_cloud_tasks_at_googles_address(run: Run) -> None:
    """pullqueue_responses answers Google's REST client, and has the keys of the tasks' tokens."""
    result = run("""
        from google.auth.credentials import AnonymousCredentials
        from google.auth.transport.requests import Request
        from google.cloud import tasks_v2
        from google.oauth2 import id_token
        from pullqueue.testing import run_tasks

        QUEUE = "projects/app/locations/us-central1/queues/default"
        URL = "https://api.example.com/work"

        def test_flow(pullqueue_responses, pullqueue_emulator, pullqueue_clock):
            tasks = tasks_v2.CloudTasksClient(transport="rest", credentials=AnonymousCredentials())
            token = {"service_account_email": "worker@example.com"}
            request = {"url": URL, "oidc_token": token}
            tasks.create_task(parent=QUEUE, task={"http_request": request})

            def send(request):
                token = request.headers["Authorization"].removeprefix("Bearer ")
                claims = id_token.verify_oauth2_token(token, Request(), URL)
                return 200 if claims["email"] == "worker@example.com" else 403

            [attempt] = run_tasks(pullqueue_emulator, send=send)
            assert attempt.status == 200
    """)

    result.assert_outcomes(passed=1)


def test_the_sdk_on_cloud_tasks(run: Run) -> None:
    """With the SDK's switch, its clients of Cloud Tasks work in frozen time, and without HTTP."""
    result = run("""
        import pytest
        from pullqueue.testing import run_tasks

        def test_flow(pullqueue_sdk, pullqueue_clock, pullqueue_emulator, pullqueue_responses,
                      pullqueue_faults, monkeypatch):
            from google.appengine.api import taskqueue
            monkeypatch.setenv("APPENGINE_USE_CLOUDTASK_PUSH_QUEUE", "true")
            queue = taskqueue.Queue("default")
            queue.add([taskqueue.Task(url="/later", countdown=60), taskqueue.Task(url="/now")])
            assert queue.fetch_statistics().tasks == 2
            attempts = run_tasks(pullqueue_emulator, send=lambda _: 200, until="empty")
            assert [attempt.request.url for attempt in attempts] == ["/now", "/later"]
            pullqueue_faults.fail("add")
            with pytest.raises(taskqueue.TransientError, match="injected by a fault"):
                queue.add(taskqueue.Task(url="/now"))
    """)

    result.assert_outcomes(passed=1)
