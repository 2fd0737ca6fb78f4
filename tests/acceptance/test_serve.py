"""`pullqueue serve`, run as a user runs it."""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import requests
from cloudtasks_interface import grpc_client
from forking import forked
from linting import run_pullqueue
from programs import running
from served import FIRST_WORDS, Served, free_port, serve_here, serving
from services_client import APP, Client, RefusedError, datastore_pb
from tables import each_row

from pullqueue import Emulator, NewTask
from pullqueue.stores import open_store

QUEUE_YAML = """\
queue:
- name: pull-queue
  mode: pull
- name: three-times
  mode: pull
  retry_parameters:
    task_retry_limit: 3
- name: default
  rate: 1/s
"""
TASK = {"payloadBase64": "aGVsbG8="}
TASKS = "taskqueue/v1beta2/projects/p/taskqueues/pull-queue/tasks"
OPTIONS = (
    *("--watch", "--allow-host", "queues", "--max-tasks", "2"),
    *("--log-format", "json", "--log-level", "debug"),
)
"""Options of `served`."""


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    (folder / "queue.yaml").write_text(QUEUE_YAML)
    return folder


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("serve") / "queue.yaml"
    file.write_text(QUEUE_YAML)
    return file


@pytest.fixture(scope="module")
def served(file: Path) -> Iterator[Served]:
    with serving(*OPTIONS, folder=file.parent) as served:
        yield served


def call(url: str, verb: str = "GET", body: object = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, method=verb), timeout=60) as response:  # noqa: S310
        return dict(json.load(response))


PROJECT_OFF, ACCOUNTS_OFF, RULES_OFF = (
    "project (--project ID --strict-project)",
    "service accounts (--service-account EMAIL)",
    "queue.yaml (--profile gcloud), lease rate (--lease-rate-limit)",
)
FACTS_OFF = f"location (--location REGION), {ACCOUNTS_OFF}"
NAMED = "--service-account worker@app.iam.gserviceaccount.com"


class TestGreeting:
    def test_address_queues_and_a_line_to_try(self) -> None:
        done, url = serve_here(use=lambda url: call(f"{url}/{TASKS}", "POST", TASK) and url)

        assert done.stdout.splitlines()[:8] == [
            f"{FIRST_WORDS}{url}",
            "queue.yaml: 2 pull queues, 1 push queue",
            "  pull-queue",
            "  three-times (each task can be leased 3 times)",
            "  default (push)",
            "Add a task:",
            f"  curl -d '{json.dumps(TASK)}' {url}/{TASKS.replace('/p/', '/my-app/')}",
            "Tasks are stored in memory, until the server stops",
        ]
        assert done.stdout.endswith(f"Console: {url}/console/, from this machine only\n")
        assert done.exit_code == 0
        assert done.stderr.startswith(
            "pullqueue: 1 task was left and is deleted with this server; to keep"
        )

    def test_push_queues_are_shown_with_what_is_not_sent(self, folder: Path) -> None:
        (folder / "queue.yaml").write_text("queue: []")
        default, _ = serve_here()
        (folder / "queue.yaml").unlink()
        (folder / "queue.yml").write_text(
            "queue: [{name: default, rate: 1/s}, {name: web, rate: 0/s}]"
        )
        two, _ = serve_here()

        assert default.stdout.splitlines()[1] == 'queue.yaml: only the queue "default"'
        assert two.stdout.splitlines()[1:4] == [
            "queue.yml: 2 push queues",
            "  default (push)",
            "  web (push; not sent: rate is 0)",
        ]

    @pytest.mark.parametrize(
        ("options", "off"),
        [
            ("", f"indexes (--strict), {PROJECT_OFF}, {FACTS_OFF}, permissions (--auth acl)"),
            (
                "--project shop --profile sdk --no-lease-rate-limit --auth acl --services none",
                f"{RULES_OFF}, {PROJECT_OFF}, {FACTS_OFF}",
            ),
            (
                "--project shop --clock manual --profile sdk --auth acl",
                f"{RULES_OFF}, indexes (--strict), {PROJECT_OFF}, {FACTS_OFF}",
            ),
            ("--project shop --strict --auth acl", FACTS_OFF),
            ("--project shop --strict --auth acl --location here", ACCOUNTS_OFF),
            (f"--project shop --strict --auth acl --location here {NAMED}", ""),
        ],
    )
    def test_the_greeting_shows_which_checks_are_off(self, options: str, off: str) -> None:
        done, _ = serve_here(*options.split())

        lines = [line for line in done.stdout.splitlines() if "unlike in production" in line]
        assert lines == ([f"Not checked, unlike in production: {off}"] if off else [])

    def test_a_strict_server_begins_no_project(self) -> None:
        """One that is begun has no queues of the file."""
        others = "v2/projects/other/locations/us-central1/queues"
        paths = (others, TASKS, TASKS.replace("/p/", "/e~shop/"))

        def statuses(url: str) -> list[int]:
            return [requests.get(f"{url}/{path}", timeout=60).status_code for path in paths]

        assert serve_here("--project", "shop", use=statuses)[1] == [200, 404, 200]
        assert serve_here("--project", "shop", "--strict", use=statuses)[1] == [403, 404, 200]

    @pytest.mark.parametrize(
        ("options", "before", "outcome"),
        [
            ("", "missing", "answered, missing"),
            ("--index-yaml index.yaml", "missing", "answered, there"),
            ("--index-yaml index.yaml", "there", "answered, there"),
            ("--strict", "missing", "refused, missing"),
            ("--strict", "there", "answered, there"),
            ("--strict --index-yaml other.yaml", "there", "refused, there"),
            ("--strict --services memcache", "missing", "refused, missing"),
        ],
    )
    def test_a_query_needs_its_composite_index(
        self, folder: Path, options: str, before: str, outcome: str
    ) -> None:
        """What each option makes of a query by two properties."""
        entry = "- kind: Vote\n  properties:\n  - name: a\n  - name: b\n"
        path = folder / "index.yaml"
        if before == "there":
            path.write_text(f"indexes:\n{entry}")

        def result(url: str) -> str:
            query = datastore_pb.Query(app=APP, kind="Vote")
            query.order.add(property="a")
            query.order.add(property="b")
            try:
                Client(url).datastore("RunQuery", query, datastore_pb.QueryResult())
            except RefusedError as error:
                assert error.code in (None, datastore_pb.Error.NEED_INDEX)
                return "refused"
            return "answered"

        answer = serve_here(*options.split(), use=result)[1]
        assert f"{answer}, {'there' if path.exists() else 'missing'}" == outcome

    def test_the_greeting_shows_the_store_as_given(self) -> None:
        """Also a file with an @ in its name."""
        done, _ = serve_here("--store", "sqlite:///a@b.db")

        assert "Tasks are stored in sqlite:///a@b.db\n" in done.stdout

    def test_what_a_store_has_that_is_not_in_queue_yaml(self, folder: Path) -> None:
        """Tasks whose queue was removed, and projects, of which there may be thousands."""
        store = open_store("sqlite:///tasks.db")
        with closing(Emulator.from_text("queue:\n- {name: old, mode: pull}\n", store=store)) as old:
            old.queue("old").add_many([NewTask(), NewTask()])
            old.store.add_project("one", "{}")

        done, shown = serve_here(
            *("--store", "sqlite:///tasks.db"),
            use=lambda url: run_pullqueue("queues", "--url", url).output,
        )

        assert (
            'warning: the store has 2 tasks of queue "old", which is not in queue.yaml: add the '
            "queue to use or purge them"
        ) in done.stderr
        assert "tasks of queues that are not in queue.yaml: 2 in old" in shown
        assert "1 other project in the store\n" in done.stdout

    def test_which_push_tasks_are_kept_and_which_delivered(self, folder: Path) -> None:
        (folder / "queue.yaml").write_text("queue: [{name: default, rate: 1/s}]")
        kept, _ = serve_here()
        delivered, _ = serve_here("--push-to", "http://localhost:9")

        assert "Push tasks of App Engine are kept, not delivered: pass --push-to" in kept.stdout
        assert "tasks with an HTTP target on this machine are delivered\n" in kept.stdout
        assert "Push tasks are delivered to http://localhost:9\n" in delivered.stdout
        assert "kept" not in delivered.stdout

    def test_a_warning_where_others_can_reach_it(self) -> None:
        done, _ = serve_here("--host", "0.0.0.0")

        assert re.match(r"pullqueue listening on http://0\.0\.0\.0:\d+\n", done.stdout)
        assert done.stderr == (
            "warning: 0.0.0.0 can be reached from other machines, and whoever reaches it can use "
            "every queue\n"
        )

    def test_the_greeting_shows_grpc_second(self, folder: Path) -> None:
        port, grpc_port = free_port(), free_port()
        options = ("--port", str(port), "--grpc-port", str(grpc_port))
        with running(forked("pullqueue"), "serve", *options, cwd=folder) as process:
            waited = run_pullqueue("wait", "--url", f"127.0.0.1:{port}")
            with socket.create_connection(("127.0.0.1", grpc_port), timeout=60):
                pass
            with grpc_client(f"127.0.0.1:{grpc_port}") as client:
                queues = list(client.list_queues(parent="projects/p/locations/us-central1"))
            process.terminate()
            output, errors = process.communicate(timeout=60)

        assert waited.exit_code == 0
        assert output.splitlines()[1] == f"gRPC listening on 127.0.0.1:{grpc_port}"
        assert len(queues) == 3
        assert (process.returncode, errors) == (0, "")


def queue_states(served: Served) -> dict[str, str]:
    queues = served.control.call("GET", "/queues")["queues"]
    return {queue["name"]: queue["state"] for queue in queues}


class TestRunning:
    def test_changes_of_queue_yaml_are_applied(self, file: Path, served: Served) -> None:
        file.write_text(f"{QUEUE_YAML}- {{name: new, mode: pull}}\n")
        assert "added new" in served.log_line("is applied")
        names = queue_states(served)

        file.write_text("queue:\n- name: a b\n")
        assert "queue.yaml:2:9" in served.log_line("is not applied")
        assert "queue.yaml:2:9" in served.control.call("GET", "/config")["problem"]
        assert queue_states(served) == names

        file.write_text(QUEUE_YAML)
        assert "disabled new" in served.log_line("is applied")

    def test_a_hang_up_reloads(self, served: Served) -> None:
        """As service managers ask for it; the file is also read if it has not changed."""
        served.process.send_signal(signal.SIGHUP)

        assert "nothing changed" in served.log_line("is applied")

    def test_json_logs_have_one_object_a_line(self, served: Served) -> None:
        call(f"{served.url}/{TASKS}")

        line = json.loads(served.log_line('"verb": "GET"'))

        assert line["logger"] == "pullqueue.requests"
        assert (line["verb"], line["path"], line["status"]) == ("GET", f"/{TASKS}", 200)
        assert set(line) == {"time", "level", "logger", "message", "verb", "path", "status"}

    def test_other_names_in_host_are_refused_unless_allowed(self, served: Served) -> None:
        allowed, other = (
            Request(f"{served.url}/_emulator/health", headers={"Host": name})  # noqa: S310
            for name in ("queues:80", "elsewhere")
        )

        urlopen(allowed, timeout=60).close()  # noqa: S310
        with pytest.raises(OSError, match="403"):
            urlopen(other, timeout=60)  # noqa: S310

    def test_more_tasks_than_there_may_be_are_refused(self, served: Served) -> None:
        url = f"{served.url}/_emulator/queues/pull-queue/tasks"
        call(url, "POST", {"tasks": [{}, {}]})
        with pytest.raises(OSError, match="403"):
            call(url, "POST", {"tasks": [{}, {}]})

        assert call(url)["total"] == 2


def test_ctrl_c_stops_it(folder: Path) -> None:
    with serving(folder=folder) as served:
        served.process.send_signal(signal.SIGINT)
        _, errors = served.process.communicate(timeout=60)

    assert (served.process.returncode, errors) == (0, "")


class TestRefusals:
    def test_a_bad_file_with_all_its_problems(self, folder: Path) -> None:
        (folder / "queue.yaml").write_text("queue:\n- name: a b\n  mode: pul\n")

        done, _ = serve_here()

        assert (done.exit_code, done.stdout) == (1, "")
        assert [line.split(": ")[0] for line in done.stderr.splitlines()] == [
            "queue.yaml:2:9",
            "queue.yaml:3:9",
        ]

    def test_without_a_file_the_queues_are_those_that_are_created(self, folder: Path) -> None:
        """A server for producers on Cloud Tasks needs none; there is none to reload."""
        (folder / "queue.yaml").unlink()

        with serving(folder=folder) as served:
            queues = call(f"{served.url}/_emulator/queues")["queues"]
            location = f"{served.url}/v2/projects/p/locations/us-central1/queues"
            made = call(location, "POST", {"name": "projects/p/locations/us-central1/queues/made"})
            with pytest.raises(HTTPError) as unknown:
                call(f"{location}/unknown")
            with pytest.raises(HTTPError) as reload:
                call(f"{served.url}/_emulator/reload", "POST")

        assert [queue["name"] for queue in queues] == ["default"]
        assert made["name"].endswith("/made")
        assert 'unknown\\" was not created: the queues are' in unknown.value.read().decode()
        assert "not started from a queue.yaml" in reload.value.read().decode()

    @pytest.mark.parametrize(
        ("option", "message"),
        [
            ("--port", "port {} is in use: stop the process using it, or pass --port\n"),
            (
                "--grpc-port",
                "gRPC cannot listen on 127.0.0.1:{}: stop the process using the port, ",
            ),
        ],
    )
    def test_a_taken_port_is_one_line_and_status_3(
        self, folder: Path, option: str, message: str
    ) -> None:
        """The store is closed, with no side file of SQLite."""
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = str(other.getsockname()[1])
            done, _ = serve_here(option, port, "--store", "sqlite:///tasks.db")

        assert (done.exit_code, done.stdout) == (3, "")
        assert done.stderr.startswith(f"pullqueue: {message.format(port)}")
        assert done.stderr.count("\n") == 1
        assert [path.name for path in folder.glob("tasks.db*")] == ["tasks.db"]

    @each_row(
        ("options", "status", "reason"),
        [
            ("--prot 1", 2, "there is no option `--prot`: did you mean `--port`?"),
            ("--project 'a b'", 2, '"a b" is not a valid project id: use letters, digits and'),
            ("--project ''", 2, '"" is not a valid project id'),
            ("--queue-yaml-for a", 2, '"a" is not a project and a file: use PROJECT='),
            ("--queue-yaml-for =x.yaml", 2, '"=x.yaml" is not a project and a file: use PROJECT='),
            ("--queue-yaml-for 'a b=x.yaml'", 2, '"a b=x.yaml" is not a project and a file'),
            ("--queue-yaml-for my-app=x.yaml", 2, 'the server\'s own project "my-app": pass'),
            ("--queue-yaml-for a=x --queue-yaml-for s~a=y", 2, 'project "a" has two files'),
            ("--queue-yaml-for a=gone.yaml", 3, 'cannot read "gone.yaml"'),
            ("--queue-yaml-for a=index.yaml", 1, "index.yaml:1:1"),
            ("gone.yaml", 3, 'pullqueue: cannot read "gone.yaml": no such file or directory'),
            ("--allow-host 'a b'", 2, '"a b" is not a valid host name: use one without a port'),
            ("--allow-host queues:8124", 2, '"queues:8124" is not a valid host name: use one'),
            ("--api-upstream foo", 2, '"foo" is not a valid address: use HOST:PORT'),
            ("--api-upstream foo:0", 2, '"foo:0" is not a valid address: use HOST:PORT'),
            ("--push-to foo:80", 2, '"foo:80": it must begin with http:// or https://; use'),
            ("--push-to http://a --push-to http://b", 2, "two addresses without a target"),
            ("--store foo", 2, 'store "foo" is unknown: use memory, sqlite:///FILE or postgresql'),
            ("--service-account worker", 2, '"worker" is not an e-mail address'),
            *(
                (f"--strict {option}", 2, f"--strict excludes {option}: leave one of them out")
                for option in ("--no-lease-rate-limit", "--profile sdk", "--keep-created-queues")
            ),
            ("--index-yaml index.yaml", 3, '"index.yaml" is not a valid index.yaml: '),
            ("--strict --index-yaml index.yaml", 3, '"index.yaml" is not a valid index.yaml: '),
            ("--index-yaml no/index.yaml", 3, '"no/index.yaml" cannot be used: create its folder'),
        ],
    )
    def test_what_cannot_be_used_is_refused_at_the_start(
        self, folder: Path, options: str, status: int, reason: str
    ) -> None:
        (folder / "index.yaml").write_text("indices:\n")

        done = run_pullqueue("serve", "--port", "0", *shlex.split(options))

        assert (done.exit_code, done.stdout) == (status, "")
        assert reason in " ".join(done.stderr.split())


class TestOptions:
    def test_a_manual_clock_stands_until_it_is_moved(self) -> None:
        done, (url, *shown) = serve_here(
            *("--clock", "manual"),
            use=lambda url: (url, *(call(f"{url}/_emulator/clock") for _ in range(2))),
        )

        assert f"move it with `pullqueue clock advance 60 --url {url}`\n" in done.stdout
        assert shown[0] == shown[1]
        assert datetime.fromisoformat(shown[0]["now"]) > datetime(2026, 1, 2, tzinfo=UTC)

    @pytest.mark.parametrize(
        ("options", "own", "manual"),
        [
            ("", 10, None),
            ("--clock manual", None, None),
            ("--lease-rate-limit", 10, 10),
            ("--lease-rate-limit --clock manual", 10, 10),
            ("--no-lease-rate-limit", None, None),
            ("--strict", 10, 10),
            ("--strict --clock manual", 10, 10),
        ],
    )
    def test_leases_are_limited_as_in_production(
        self, options: str, own: int | None, manual: int | None
    ) -> None:
        """By default not where a second ends only when somebody moves the clock."""

        def rates(url: str) -> list[int | None]:
            call(f"{url}/_emulator/projects", "POST", {"name": "test", "clock": "manual"})
            paths = (f"{url}/_emulator/config{query}" for query in ("", "?project=test"))
            return [call(path)["limits"]["leases_per_second"] for path in paths]

        assert serve_here(*options.split(), use=rates)[1] == [own, manual]


class TestFilesOfProjects:
    @pytest.fixture(autouse=True)
    def billing(self, folder: Path) -> Path:
        file = folder / "billing.yaml"
        file.write_text("queue:\n- {name: invoices, mode: pull}\n")
        return file

    def test_a_project_has_the_queues_of_its_file(self) -> None:
        option = ("--queue-yaml-for", "s~billing=billing.yaml")

        def queues(url: str) -> list[int]:
            paths = (("billing", "invoices"), ("p", "invoices"), ("p", "pull-queue"))
            found = []
            for project, queue in paths:
                path = f"{url}/taskqueue/v1beta2/projects/{project}/taskqueues/{queue}"
                try:
                    call(path)
                    found.append(200)
                except HTTPError as error:
                    with error:
                        found.append(error.code)
            return found

        done, found = serve_here(*option, use=queues)

        assert found == [200, 404, 200]
        assert "Project billing, billing.yaml: invoices, default\n" in done.stdout

    def test_strict_servers_have_the_projects_of_files(self) -> None:
        options = ("--project", "shop", "--strict-project")
        path = "v2/projects/{}/locations/us-central1/queues"

        def found(url: str) -> list[int]:
            call(f"{url}/{path.format('billing')}")
            with pytest.raises(HTTPError) as refused:
                call(f"{url}/{path.format('other')}")
            refused.value.close()
            return [refused.value.code, *[1 for _ in call(f"{url}/_emulator/projects")["projects"]]]

        _, codes = serve_here(*options, "--queue-yaml-for", "billing=billing.yaml", use=found)

        assert codes == [403, 1, 1]

    def test_changes_of_each_file_are_applied(self, folder: Path, billing: Path) -> None:
        option = ("--queue-yaml-for", "billing=billing.yaml")
        with serving("--watch", *option, folder=folder) as served:
            billing.write_text("queue:\n- {name: refunds, mode: pull}\n")
            served.log_line("billing.yaml is applied: added refunds")
