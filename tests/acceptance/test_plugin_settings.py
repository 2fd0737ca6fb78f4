"""Where the configuration of a test's queues comes from, and the errors of a bad one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_pullqueue.settings import SettingsError, read_settings

PULL_QUEUE = "queue:\n- name: pull-queue\n  mode: pull\n"
LISTS_QUEUES = """
def test_queues(pullqueue_emulator):
    assert [queue.name for queue in pullqueue_emulator.queues] == {names!r} + ["default"]
"""
A_TEST = "def test_it(pullqueue_emulator): pass"

Run = Callable[..., pytest.RunResult]


def test_nearest_file_above_the_test(run: Run, pytester: pytest.Pytester) -> None:
    near = pytester.mkdir("near")
    (near / "tests").mkdir()
    (pytester.mkdir("far") / "test_far.py").write_text(LISTS_QUEUES.format(names=["top"]))
    (near / "tests" / "test_near.py").write_text(LISTS_QUEUES.format(names=["nested"]))
    (near / "queue.yaml").write_text(PULL_QUEUE.replace("pull-queue", "nested"))
    pytester.path.joinpath("queue.yaml").write_text(PULL_QUEUE.replace("pull-queue", "top"))
    pytester.makeini("[pytest]")

    run().assert_outcomes(passed=2)
    # So do tests outside pytest's root directory.
    run("", f"--rootdir={pytester.mkdir('elsewhere')}").assert_outcomes(passed=2)


def test_without_a_file_there_is_the_default_queue(run: Run, pytester: pytest.Pytester) -> None:
    empty = pytester.mkdir("empty")
    (empty / "queue.yaml").write_text("total_storage_limit: 1M\n")
    (empty / "test_empty.py").write_text(
        "def test_it(pullqueue_emulator): pullqueue_emulator.queue('mails')"
    )

    result = run("""
        import pytest

        def test_default(pullqueue_emulator):
            pullqueue_emulator.queue("default").add()

        def test_other(pullqueue_emulator):
            pullqueue_emulator.queue("mails")

        @pytest.mark.pullqueue(queues=["jobs"])
        def test_named(pullqueue_emulator):
            pullqueue_emulator.queue("mails")
    """)

    result.assert_outcomes(passed=1, failed=3)
    no_queues = "the only queue is `default`, since */empty/queue.yaml has no queues: *"
    result.stdout.fnmatch_lines([no_queues])
    hint = "the only queue is `default`, since there is no queue.yaml in */test_without* or above *"
    result.stdout.fnmatch_lines([hint])
    result.stdout.no_fnmatch_line(hint.replace("test_without", "test_named"))
    assert result.stdout.str().count("the only queue is `default`") == 2


def test_ini_options_apply_unless_a_marker_says_none(run: Run, pytester: pytest.Pytester) -> None:
    pytester.mkdir("app").joinpath("queue.yaml").write_text("queue: [{name: mine, mode: pull}]")
    pytester.path.joinpath("queue.yaml").write_text(PULL_QUEUE)
    pytester.makeini(
        "[pytest]\npullqueue_config = app/queue.yaml\npullqueue_project = shop\n"
        "pullqueue_start = 2030-01-01T00:00Z\npullqueue_lease_rate_limit = true\n"
    )

    result = run("""
        import pytest
        from freezegun import freeze_time

        def test_ini(pullqueue_emulator, pullqueue_clock):
            assert pullqueue_emulator.queue("mine")
            assert pullqueue_emulator.project == "shop"
            assert pullqueue_emulator.limits.leases_per_second == 10
            assert pullqueue_clock.now().isoformat() == "2030-01-01T00:00:00+00:00"

        @pytest.mark.pullqueue(
            config=None, queues=None, project=None, start=None, lease_rate_limit=None
        )
        @freeze_time("2031-05-17")
        def test_none(pullqueue_emulator, pullqueue_clock):
            assert pullqueue_emulator.queue("pull-queue")
            assert pullqueue_emulator.project is None
            assert pullqueue_emulator.limits.leases_per_second is None
            assert pullqueue_clock.now().year == 2031
    """)

    result.assert_outcomes(passed=2)


def test_a_typo_in_the_location_fails_if_the_tests_name_one(
    run: Run, pytester: pytest.Pytester
) -> None:
    pytester.makeini("[pytest]\npullqueue_location = us-central1\n")

    result = run("""
        import pytest
        import requests

        QUEUES = "v2/projects/app/locations/{}/queues"

        def listed(server, location):
            return requests.get(f"{server.url}/{QUEUES.format(location)}", timeout=60)

        @pytest.mark.pullqueue(queues=["mail"])
        def test_ini(pullqueue_server):
            assert listed(pullqueue_server, "us-central1").status_code == 200
            refused = listed(pullqueue_server, "us-centra1").json()["error"]["message"]
            assert refused.startswith("Location 'us-centra1' is not a valid location.")

        @pytest.mark.pullqueue(queues=["mail"], location="europe-west1")
        def test_marker(pullqueue_server):
            assert listed(pullqueue_server, "europe-west1").status_code == 200
            assert listed(pullqueue_server, "us-central1").status_code == 400
    """)

    result.assert_outcomes(passed=2)


def test_an_overridden_fixture_goes_before_the_ini(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\npullqueue_config = nowhere.yaml\n")
    pytester.path.joinpath("other.yaml").write_text(PULL_QUEUE)

    result = run(f"""
        import pytest
        from pullqueue.config import loads

        TEXT = {PULL_QUEUE!r}

        @pytest.fixture(scope="session", params=["other.yaml", TEXT, loads(TEXT)],
                        ids=["path", "text", "config"])
        def pullqueue_config(request):
            return request.param

        def test_overridden(pullqueue_emulator):
            assert pullqueue_emulator.queue("pull-queue")
    """)

    result.assert_outcomes(passed=3)


def test_the_nearest_marker_applies(run: Run, pytester: pytest.Pytester) -> None:
    tests = pytester.mkdir("tests")
    tests.joinpath("mine.yaml").write_text(PULL_QUEUE.replace("pull-queue", "mine"))
    tests.joinpath("test_marker.py").write_text("""
import pytest
from pullqueue import OverQuotaError

pytestmark = pytest.mark.pullqueue(queues=["a", {"name": "b", "rate": "1/s", "mode": "push"}])

def test_module(pullqueue_emulator):
    assert [queue.name for queue in pullqueue_emulator.queues] == ["a", "b"]

@pytest.mark.pullqueue(config="mine.yaml", total_storage_limit="1K")
def test_file(pullqueue_emulator):
    with pytest.raises(OverQuotaError):
        pullqueue_emulator.queue("mine").add(b"x" * 2000)

@pytest.mark.pullqueue(config="queue:\\n- name: inline\\n  mode: pull\\n")
def test_text(pullqueue_emulator):
    assert pullqueue_emulator.queue("inline")

@pytest.mark.pullqueue(start="2030-01-01T00:00Z")
def test_start(pullqueue_emulator):
    assert pullqueue_emulator.queue("a")
    assert pullqueue_emulator.clock.now().isoformat() == "2030-01-01T00:00:00+00:00"
""")

    run().assert_outcomes(passed=4)


BAD_MARKERS = {
    "'queue.yaml'": "@pytest.mark.pullqueue takes no positional arguments, but got*",
    "queue=['a']": "@pytest.mark.pullqueue has no argument `queue`: use one of acl, config, *",
    "auth='acl'": "@pytest.mark.pullqueue has no argument `auth`: to check callers set acl=True*",
    "config='a', queues=['b']": "@pytest.mark.pullqueue has both config and queues: *",
    "lease_rate_limit='x'": '@pytest.mark.pullqueue: argument lease_rate_limit is "x": use True*',
    "start='noon'": '@pytest.mark.pullqueue: argument start is "noon", which is not a valid *',
    "profile='strict'": '@pytest.mark.pullqueue: argument profile is "strict": use one of*',
    "total_storage_limit=1": "@pytest.mark.pullqueue: argument total_storage_limit is 1: *",
    "config=['a']": "@pytest.mark.pullqueue: argument config is [[]'a']: pass a path, *",
    "config='gone.yaml'": "*gone.yaml*",
    "config='queue:\\n- nam: x\\n'": "@pytest.mark.pullqueue(config=...):2:3: *nam*",
    "queues=[5]": "@pytest.mark.pullqueue: queues contains 5: pass a queue name, or an *",
    "queues=[{'name': object}]": "@pytest.mark.pullqueue: *not JSON serializable*",
    "queues=['a', 'a']": '@pytest.mark.pullqueue: queues[[]1].name: duplicate queue name "a": *',
    "queues=['a'], total_storage_limit='lots'": "@pytest.mark.pullqueue: total_storage_limit: *",
}


def test_an_invalid_marker_fails_its_test_in_one_line(run: Run) -> None:
    tests = [
        f"@pytest.mark.pullqueue({arguments})\ndef test_{number}(pullqueue_emulator): pass\n"
        for number, arguments in enumerate(BAD_MARKERS)
    ]

    result = run("import pytest\n" + "\n".join(tests))

    result.assert_outcomes(errors=len(BAD_MARKERS))
    result.stdout.fnmatch_lines(list(BAD_MARKERS.values()))
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*During handling*")


def test_an_invalid_ini_option_stops_the_run_before_any_test(pytester: pytest.Pytester) -> None:
    for line, message in {
        "pullqueue_confg = x": "unknown ini option `pullqueue_confg`: use one of ",
        "pullqueue_start = now": 'ini option pullqueue_start is "now", which is not',
        "pullqueue_freezer = ice": 'ini option pullqueue_freezer is "ice": use one of',
        "pullqueue_acl = x": "ini option pullqueue_acl: .*x.*: use true or false$",
    }.items():
        pytester.makeini(f"[pytest]\n{line}\n")
        with pytest.raises(pytest.UsageError, match=f"^tox.ini: {message}"):
            pytester.parseconfigure()


def test_a_flag_in_toml(pytester: pytest.Pytester) -> None:
    """A flag is a boolean where pytest reads the types of TOML, which it does from 9 on."""
    table = "tool.pytest" if pytest.version_tuple >= (9,) else "tool.pytest.ini_options"
    pytester.makepyprojecttoml(f"[{table}]\npullqueue_strict_faults = true\n")

    assert read_settings(pytester.getitem(A_TEST, "test_it"), None).strict_faults


def test_an_invalid_value_of_an_overridden_fixture_is_reported(pytester: pytest.Pytester) -> None:
    item = pytester.getitem(A_TEST, "test_it")
    value: object = {"queue": []}

    with pytest.raises(
        SettingsError, match=r"^the fixture pullqueue_config is {'queue': \[]}: pass a path"
    ):
        read_settings(item, value)  # type: ignore[arg-type] # what is tested


def test_bad_file_is_explained_once(run: Run, pytester: pytest.Pytester) -> None:
    pytester.path.joinpath("queue.yaml").write_text(f"{PULL_QUEUE}  rate: fast\n")

    result = run(A_TEST + "\ndef test_second(pullqueue_emulator): pass")

    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        [
            "*queue.yaml:4:*rate*",
            "*queue.yaml is not valid: the report of test_it.py::test_it shows why",
        ]
    )
    reports, _, _ = result.stdout.str().partition("short test summary")
    assert reports.count(f"{pytester.path}/queue.yaml:4:") == 1


def test_a_plugin_overrides_the_configuration(run: Run, pytester: pytest.Pytester) -> None:
    """A fixture in a plugin given by -p counts, unless a conftest.py has another."""
    (pytester.path / "shared.yaml").write_text(PULL_QUEUE.replace("pull-queue", "shared"))
    pytester.makepyfile(
        our_plugin="""
        import pytest

        @pytest.fixture(scope="session")
        def folder():
            return "."

        @pytest.fixture(scope="session")
        def pullqueue_config(folder):
            return folder + "/shared.yaml"
        """
    )
    (pytester.mkdir("own") / "conftest.py").write_text("""
import pytest

@pytest.fixture(scope="session")
def pullqueue_config(pullqueue_config):
    assert pullqueue_config == "./shared.yaml"
    return "queue:\\n- {name: own, mode: pull}\\n"
""")
    (pytester.path / "own" / "test_own.py").write_text(LISTS_QUEUES.format(names=["own"]))
    pytester.syspathinsert()

    result = run(LISTS_QUEUES.format(names=["shared"]), "-p", "our_plugin")

    result.assert_outcomes(passed=2)


def test_a_plugin_whose_fixture_fails(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        our_plugin="""
        import pytest

        @pytest.fixture(scope="session")
        def pullqueue_config(no_such_fixture):
            return "shared.yaml"
        """
    )
    pytester.syspathinsert()

    result = run(A_TEST, "-p", "our_plugin")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'no_such_fixture' not found"])


def test_a_report_names_the_checks_of_production_that_are_off(run: Run) -> None:
    """Those of callers only where the test has a server; none where the report shows no queues."""
    result = run("""
        import pytest

        def test_alone(pullqueue_emulator):
            assert 0

        def test_served(pullqueue_server):
            assert 0

        @pytest.mark.pullqueue(strict=True, project="shop")
        def test_strict(pullqueue_server):
            assert pullqueue_server.emulator.limits.leases_per_second is None

        @pytest.mark.pullqueue(strict=True)
        def test_all(pullqueue_emulator):
            pullqueue_emulator.queue("default").add()
            assert pullqueue_emulator.limits.leases_per_second is None
    """)

    result.assert_outcomes(failed=4)
    lines = [line for line in result.stdout.lines if "unlike in production" in line]
    rate = "lease rate (lease_rate_limit=True)"
    caller = "location (location=REGION), service accounts (service_accounts=[EMAIL]), permissions"
    assert lines == [
        f"Not checked, unlike in production: {rate}",
        f"Not checked, unlike in production: {rate}, project (project=ID), {caller} (acl=True)",
        f"Not checked, unlike in production: {caller} (acl=True)",
    ]
