"""`pullqueue exec` with a server that runs already."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from executing import QUEUE_YAML, SHOW_ENVIRONMENT, USE_QUEUE, Execute, forked_exec, on_sdk
from linting import run_pullqueue
from odd_servers import always_answering
from tables import each_row

from pullqueue import Emulator
from pullqueue.cli import main
from pullqueue.server.lifecycle import Server


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(Emulator.from_text(QUEUE_YAML)) as server:
        yield server


class TestAnotherServer:
    """One that runs at the usual address, and was not named."""

    @pytest.fixture
    def lines(
        self, app_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> Callable[[str], list[str]]:
        """Return a function that runs exec with a usual address and returns its lines."""
        monkeypatch.delenv("PULLQUEUE_EMULATOR_HOST", raising=False)

        def lines(usual: str) -> list[str]:
            monkeypatch.setattr("pullqueue.cli.exec.DEFAULT_ADDRESS", usual)
            assert main(["exec", "--", "true"]) == 0
            return capfd.readouterr().err.splitlines()

        return lines

    def test_it_is_hinted_at(self, server: Server, lines: Callable[[str], list[str]]) -> None:
        usual = server.url.removeprefix("http://")
        listening, _, hint = lines(usual)

        assert listening.startswith("pullqueue listening")
        assert hint.startswith(f"pullqueue: a server runs at {usual}, which this command does not")
        assert hint.endswith(f" use: pass --url {usual} to use it")

    def test_nothing_is_reported_of_other_servers(self, lines: Callable[[str], list[str]]) -> None:
        assert len(lines("127.0.0.1:1")) == 2
        answers: tuple[object, ...] = ("no", 3, {})
        for answer in answers:
            with always_answering(answer) as usual:
                assert len(lines(usual)) == 2


class TestJoining:
    def test_its_queues_are_used(self, server: Server, execute: Execute) -> None:
        address = server.url.removeprefix("http://")

        assert execute(*on_sdk(USE_QUEUE), PULLQUEUE_EMULATOR_HOST=address) == (0, "['mine']\n", "")
        assert server.emulator.queue("pull").get_task("mine").retry_count == 1

    def test_a_command_inside_a_command(self, execute: Execute) -> None:
        status, output, errors = execute("--", *forked_exec(), *on_sdk(SHOW_ENVIRONMENT))

        assert status == 0
        assert errors.count("listening") == 1
        assert json.loads(output)["PULLQUEUE_EMULATOR_HOST"] in errors

    @pytest.mark.parametrize(
        ("address", "status", "reason"),
        [
            ("127.0.0.1:1", 3, "no pullqueue responds at http://127.0.0.1:1"),
            ("nonsense", 2, '"nonsense" is not a valid address: use HOST:PORT, such as localhost:'),
            ("http://127.0.0.1:1", 2, "is not a valid address: use HOST:PORT"),
            ("127.0.0.1:99999", 2, "is not a valid address: use HOST:PORT"),
        ],
    )
    def test_nothing_is_run_where_no_server_answers(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, address: str, status: int, reason: str
    ) -> None:
        named = run_pullqueue("exec", "--url", address, "--", "touch", "ran")
        monkeypatch.setenv("PULLQUEUE_EMULATOR_HOST", address)
        usual = run_pullqueue("exec", "--", "touch", "ran")

        assert named.exit_code == usual.exit_code == status
        assert reason in named.stderr
        assert reason in usual.stderr
        assert not (folder / "ran").exists()

    def test_a_variable_that_names_no_server_is_said_to_be_set(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PULLQUEUE_EMULATOR_HOST", "127.0.0.1:1")
        done = run_pullqueue("exec", "--push-to", "http://localhost:8080", "--", "touch", "ran")

        assert done.exit_code == 3
        assert "PULLQUEUE_EMULATOR_HOST is set to 127.0.0.1:1, so exec uses" in done.stderr
        assert "but no pullqueue responds at http://127.0.0.1:1" in done.stderr
        assert done.stderr.endswith(": unset PULLQUEUE_EMULATOR_HOST to start one\n")
        assert not (folder / "ran").exists()

    def test_a_server_of_another_kind_is_not_joined(self) -> None:
        with always_answering({}) as address:
            done = run_pullqueue("exec", "--url", address, "--", "true")

        assert done.exit_code == 3
        assert f"the server at {address} is not a pullqueue: pass another --url" in done.stderr

    @each_row(
        ("arguments", "advice"),
        [
            (["queue.yaml"], 'has a queue.yaml of its own: leave "queue.yaml" out'),
            *(
                ([option, value], f"has settings of its own: pass {option} to it, or leave out")
                for option, value in (
                    *(("--clock", "manual"), ("--data", "data"), ("--location", "europe-west1")),
                    *(("--push-to", "http://a"), ("--services", "none"), ("--store", "memory")),
                )
            ),
        ],
    )
    def test_settings_beside_a_running_server_are_refused(
        self, arguments: list[str], advice: str
    ) -> None:
        done = run_pullqueue("exec", *arguments, "--url", "127.0.0.1:1", "--", "true")

        assert done.exit_code == 2
        assert advice in done.stderr
