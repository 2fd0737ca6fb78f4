"""The clock beside freezers that a test brings along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatch
from typing import Any

import pytest
import time_machine as tm
from forking import forked
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory

from pullqueue import Emulator, SystemClock
from pytest_pullqueue import FixtureClock

QUEUE_YAML = "queue:\n- name: pull-queue\n  mode: pull\n"

pytestmark = pytest.mark.pullqueue(config=QUEUE_YAML)

Run = Callable[..., pytest.RunResult]

now = SystemClock().now
"""Returns the time that the process sees."""


class TestFreezegun:
    @freeze_time("2012-01-14", auto_tick_seconds=10)
    def test_time_that_ticks_ends_leases(
        self, pullqueue_emulator: Emulator, pullqueue_clock: FixtureClock
    ) -> None:
        queue = pullqueue_emulator.queue("pull-queue")
        queue.add()
        [first] = queue.lease_tasks(5, 1)
        [again] = queue.lease_tasks(5, 1)
        assert again.eta > first.eta

    @pytest.fixture
    def frozen(self) -> Iterator[FrozenDateTimeFactory]:
        with freeze_time("2013-01-14") as frozen:
            assert isinstance(frozen, FrozenDateTimeFactory)
            yield frozen

    def test_a_fixture_that_has_frozen_time_decides_and_moves_it(
        self, frozen: FrozenDateTimeFactory, pullqueue_emulator: Emulator, pullqueue_clock: Any
    ) -> None:
        assert pullqueue_emulator.clock.now().year == 2013
        frozen.move_to("2014-01-01")
        assert pullqueue_clock.now().year == 2014


class TestPytestFreezer:
    def test_its_fixture_and_the_clock_move_the_same_time(
        self, freezer: FrozenDateTimeFactory, pullqueue_clock: Any, pullqueue_emulator: Emulator
    ) -> None:
        before = pullqueue_clock.now()
        freezer.tick(timedelta(hours=1))
        assert pullqueue_emulator.clock.now() == before + timedelta(hours=1)
        pullqueue_clock.advance(0.000001)
        assert freezer().microsecond == pullqueue_clock.now().microsecond

    def test_the_order_of_fixtures_does_not_matter(
        self, pullqueue_clock: Any, pullqueue_emulator: Emulator, freezer: FrozenDateTimeFactory
    ) -> None:
        freezer.move_to("2031-01-01")
        assert pullqueue_clock.now().year == pullqueue_emulator.clock.now().year == 2031

    @pytest.mark.freeze_time("2017-05-21")
    def test_its_marker_decides_the_time(self, pullqueue_clock: FixtureClock) -> None:
        assert pullqueue_clock.now() == datetime(2017, 5, 21, tzinfo=UTC)


class TestTimeMachine:
    def test_the_clock_starts_its_fixture_and_both_move_the_time(
        self, pullqueue_clock: FixtureClock, time_machine: Any, pullqueue_emulator: Emulator
    ) -> None:
        assert now() == pullqueue_clock.now() == datetime(2026, 1, 1, tzinfo=UTC)
        pullqueue_clock.advance(60)
        time_machine.shift(1)
        assert now() == pullqueue_clock.now() == datetime(2026, 1, 1, 0, 1, 1, tzinfo=UTC)
        time_machine.move_to(datetime(2040, 1, 1, tzinfo=UTC))
        assert pullqueue_emulator.clock.now().year == 2040
        pullqueue_clock.move_to(datetime(2041, 1, 1, tzinfo=UTC))
        assert now().year == 2041

    @pytest.mark.pullqueue(start="2030-01-01T00:00Z")
    def test_it_starts_at_the_start_of_the_clock(
        self, time_machine: Any, pullqueue_clock: FixtureClock
    ) -> None:
        assert pullqueue_clock.now() == datetime(2030, 1, 1, tzinfo=UTC)

    @pytest.mark.time_machine("2017-05-21T00:00+00:00", tick=False)
    def test_its_marker_decides_the_time_and_the_clock_moves_it(
        self, pullqueue_clock: FixtureClock, pullqueue_emulator: Emulator
    ) -> None:
        assert pullqueue_clock.now() == datetime(2017, 5, 21, tzinfo=UTC)
        queue = pullqueue_emulator.queue("pull-queue")
        queue.add()
        queue.lease_tasks(60, 1)
        assert (
            pullqueue_clock.advance_to_next_event()
            == now()
            == datetime(2017, 5, 21, 0, 1, tzinfo=UTC)
        )
        assert len(queue.lease_tasks(60, 1)) == 1

    def test_without_the_clock_fixture(self, pullqueue_emulator: Emulator) -> None:
        with tm.travel("2012-01-14T00:00:00+00:00", tick=False):
            pullqueue_emulator.clock.advance(1)  # type: ignore[attr-defined] # a movable one
            assert now() == datetime(2012, 1, 14, 0, 0, 1, tzinfo=UTC)


class TestFixtureOfTheSameName:
    @pytest.fixture
    def freezer(self) -> str:
        return "keeps food"

    def test_a_fixture_freezer_of_a_suite_leaves_time_frozen(
        self, freezer: str, pullqueue_clock: FixtureClock
    ) -> None:
        assert now() == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_fixture_without_its_freezer_names_what_to_install(
    run: Run, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest("import sys; sys.modules['freezegun'] = None")
    pytester.makeini("[pytest]\naddopts = -p no:freezer")

    result = run("""
        import sys
        import pytest

        @pytest.mark.pullqueue(freezer="freezegun")
        def test_freezegun(pullqueue_clock): pass

        @pytest.mark.time_machine("2027-01-01", tick=False)
        def test_own_freezer(pullqueue_clock):
            assert pullqueue_clock.now().year == 2027

        @pytest.fixture
        def missing(monkeypatch):
            monkeypatch.setitem(sys.modules, "time_machine", None)

        @pytest.mark.pullqueue(freezer="time-machine")
        def test_time_machine(missing, pullqueue_clock): pass
    """)

    result.assert_outcomes(errors=2, passed=1)
    result.stdout.fnmatch_lines(
        [
            "pullqueue_clock: freezing time needs freezegun: pip install freezegun",
            "pullqueue_clock: freezing time needs time-machine: pip install time-machine",
        ]
    )


def test_time_goes_on_after_a_request_to_a_wrapped_app(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`wrap_wsgi_app` replaces the environment, where time-machine would look for its TZ."""
    monkeypatch.delenv("TZ", raising=False)
    pytester.makefile(".yaml", queue=QUEUE_YAML)
    pytester.makepyfile(
        """
        from datetime import datetime
        from flask import Flask
        from google.appengine.api import wrap_wsgi_app

        app = Flask(__name__)
        app.wsgi_app = wrap_wsgi_app(app.wsgi_app)
        app.add_url_rule("/", view_func=lambda: "done")

        def test_request(pullqueue_sdk, pullqueue_clock):
            assert app.test_client().get("/").text == "done"
            assert datetime.now() == datetime(2026, 1, 1)

        def test_own_freezer(pullqueue_sdk, time_machine, pullqueue_clock):
            assert datetime.now() == datetime(2026, 1, 1)
            test_request(None, None)

        def test_next():
            assert datetime.now() > datetime(2026, 1, 1)
        """
    )

    # In a process of its own, whose environment is replaced.
    done = pytester.run(forked("pytest"), "-p", "no:cacheprovider", "-p", "no:randomly")
    done.assert_outcomes(passed=3)


def test_tokens_are_verified_in_time_that_freezegun_freezes(pytester: pytest.Pytester) -> None:
    """cryptography keeps the class `datetime` of its first use, which has to be the real one."""
    pytester.makefile(".yaml", queue="queue:\n- name: mails\n  rate: 5/s\n")
    pytester.makepyfile(
        """
        import datetime
        import requests
        from google.auth.credentials import AnonymousCredentials
        from google.auth.transport.requests import Request
        from google.cloud.tasks_v2 import CloudTasksClient
        from google.oauth2 import id_token
        from pullqueue.testing import run_tasks

        URL = "https://example.com/"
        QUEUE = "projects/my-app/locations/us-central1/queues/mails"

        def test_token(
            pullqueue_server, pullqueue_clock, pullqueue_responses, pullqueue_emulator
        ):
            assert type(datetime.datetime.now()).__name__ == "FakeDatetime"
            certs = requests.get(pullqueue_server.url + "/oauth2/v1/certs")
            assert (certs.status_code, len(certs.json())) == (200, 1)

            client = CloudTasksClient(transport="rest", credentials=AnonymousCredentials())
            token = {"service_account_email": "a@my-app.iam.gserviceaccount.com"}
            task = {"http_request": {"url": URL, "oidc_token": token}}
            client.create_task(parent=QUEUE, task=task)

            def send(request):
                text = request.headers["Authorization"].removeprefix("Bearer ")
                claims = id_token.verify_oauth2_token(text, Request(), URL)
                return 200 if claims["email"] == token["service_account_email"] else 403

            [attempt] = run_tasks(pullqueue_emulator, send=send)
            assert attempt.status == 200

        def test_later_in_real_time(pullqueue_server):
            certs = requests.get(pullqueue_server.url + "/oauth2/v1/certs")
            assert certs.status_code == 200
        """
    )

    result = pytester.run(
        forked("pytest"),
        *("-p", "no:cacheprovider", "-p", "no:randomly", "-o", "pullqueue_freezer=freezegun"),
    )

    result.assert_outcomes(passed=2)


def test_reports_say_what_to_do_about_known_errors(run: Run) -> None:
    suite = """
        import flask
        import freezegun
        import pytest
        import time_machine as tm
        from datetime import datetime
        from google.appengine.api import apiproxy_stub_map, app_identity, datastore_types
        from google.appengine.api import memcache, taskqueue
        from google.appengine.runtime import default_api_stub as stub
        from pullqueue.testing import emulation

        pytestmark = pytest.mark.pullqueue(freezer="freezegun")

        @pytest.fixture(scope="module")
        def shop(pullqueue_emulator):
            return pullqueue_emulator

        def test_scope(shop):
            pass

        @pytest.fixture
        def frozen():
            with freezegun.freeze_time("2012-01-14"):
                yield

        @pytest.mark.pullqueue(start="2026-01-01T00:00Z")
        def test_start(frozen, pullqueue_clock):
            pass

        @pytest.fixture(scope="class")
        def emulated():
            with emulation(queues=["of-class"], sdk=True) as emulated:
                yield emulated

        def test_sdk_in_use(emulated, pullqueue_sdk):
            pass

        @tm.travel("2012-01-14T00:00:00+00:00", tick=False)
        def test_decorator(pullqueue_clock):
            pass

        def test_type(pullqueue_clock):
            raise ValueError(f"unsupported type {type(datetime.now())}")

        def test_by_name(request):
            request.getfixturevalue("pullqueue_clock")
            raise ValueError(f"unsupported type {type(datetime.now())}")

        def test_assertion(pullqueue_clock):
            assert datetime.now() == 1      # shows a FakeDatetime, too

        @freezegun.freeze_time("2012-01-14")
        def test_own_freezer(pullqueue_emulator):
            raise ValueError(f"unsupported type {type(datetime.now())}")

        def test_service(pullqueue_sdk):
            stub.Register(stub.DefaultApiStub())    # as wrap_wsgi_app does
            app_identity.get_service_account_name()

        @pytest.mark.parametrize("default", [stub.DefaultApiStub(), None])
        def test_taskqueue(default, monkeypatch):
            stubs = apiproxy_stub_map.APIProxyStubMap(default)
            monkeypatch.setattr(apiproxy_stub_map, "apiproxy", stubs)
            taskqueue.add(url="/")

        def test_memcache(monkeypatch):
            stubs = apiproxy_stub_map.APIProxyStubMap()
            monkeypatch.setattr(apiproxy_stub_map, "apiproxy", stubs)
            memcache.get("key")

        @pytest.mark.parametrize("test", [test_type, test_memcache, test_taskqueue, None])
        def test_client(test, pullqueue_clock, monkeypatch):
            app = flask.Flask("shop")

            @app.get("/")
            def handle():
                {
                    test_type: lambda: test_type(pullqueue_clock),
                    test_memcache: lambda: test_memcache(monkeypatch),
                    test_taskqueue: lambda: test_taskqueue(None, monkeypatch),
                }.get(test, lambda: datastore_types.ResolveAppId(""))()

            assert app.test_client().get("/").status_code == 200
    """
    result = run(suite, "-rN")  # in CI, the summary has all of the messages again

    result.assert_outcomes(errors=3, failed=13)
    for hint, tests in {
        "in a fixture of a wider scope use `with pullqueue.testing.emulation(": 1,
        "the start of pullqueue_clock is set, but the test freezes time itself: remove one of": 1,
        "'of-class'*) already: use that emulator": 1,
        "use the fixture `time_machine` or @pytest.mark.time_machine(...) instead": 1,
        "set `pullqueue_freezer = time-machine` in the ini file": 3,
        "the test freezes time itself, so do that with time-machine": 1,
        "test: add it to the ini option, pullqueue_services": 1,
        "test: use the fixture pullqueue_sdk, and add it to the ini option, pullqueue_serv": 2,
        "taskqueue has no stub in this test: use the fixture pullqueue_sdk": 3,
        "App Engine has no application id in this test: use the fixture pullqueue_sdk": 1,
    }.items():
        assert sum(fnmatch(line, f"*{hint}*") for line in result.outlines) == tests, hint


def test_a_report_shows_the_time_that_the_test_has_seen(run: Run) -> None:
    """Its own decorator has ended when the report is made; the lease is still shown as current."""
    result = run("""
        import freezegun
        import time_machine

        @freezegun.freeze_time("2012-01-14 12:00")
        def test_freezegun(pullqueue_emulator):
            queue = pullqueue_emulator.queue("pull-queue")
            queue.add(name="one")
            queue.lease_tasks(60, 1)
            assert False

        @time_machine.travel("2013-01-14 12:00Z", tick=False)
        def test_time_machine(pullqueue_emulator):
            test_freezegun.__wrapped__(pullqueue_emulator)
    """)

    result.assert_outcomes(failed=2)
    for year in (2012, 2013):
        result.stdout.fnmatch_lines(
            [f"the time is {year}-01-14T12:00:00+00:00", 'queue "pull-queue": 1 leased']
        )
