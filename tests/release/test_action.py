"""The GitHub Action, and the job for GitLab: their steps, run in a shell as the runner would."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from urllib.parse import unquote_plus

import pytest
import yaml
from forking import forked
from linting import BAD, GOOD, committed, write
from programs import completed, program
from push_app import PushApp, push_app

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")


class Runner:
    """A job's folders, and the steps that were run in it."""

    def __init__(self, folder: Path) -> None:
        self.temp = folder / "temp"
        self.workspace = folder / "workspace"
        self.outputs: dict[str, str] = {}
        self.summary = ""
        self.log = ""
        self.status = 0
        binary = self.temp / "pullqueue" / "bin" / "pullqueue"
        binary.parent.mkdir(parents=True)
        binary.symlink_to(forked("pullqueue"))
        self.workspace.mkdir()

    def run(self, **inputs: str) -> int:
        """Run the steps after the installation and return the status of the first that fails."""
        given = {name: each["default"] for name, each in ACTION["inputs"].items()}
        given |= {name.replace("_", "-"): text for name, text in inputs.items()}
        self.log, self.summary, self.outputs, self.status = "", "", {}, 0
        self._step(STEPS["Check queue.yaml"], given)
        if given["plan"]:
            self._step(STEPS["Plan the deployment"], given)
        return self.status

    def _step(self, step: Mapping[str, Any], inputs: Mapping[str, str]) -> None:
        def filled(text: str) -> str:
            return EXPRESSION.sub(lambda match: inputs[match[1].removeprefix("inputs.")], text)

        assert step["shell"] == "bash"
        assert not EXPRESSION.search(step["run"])
        script = self.temp / "step.sh"
        script.write_text(step["run"])
        files = {name: self.temp / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for path in files.values():
            path.write_text("")
        done = completed(
            [program("bash", package="bash"), "--noprofile", "--norc", "-eo", "pipefail", script],
            cwd=self.workspace / filled(step["working-directory"]),
            env={
                "PATH": "/usr/bin:/bin",
                "RUNNER_TEMP": str(self.temp),
                "GITHUB_ACTIONS": "true",
                "GITHUB_WORKSPACE": str(self.workspace),
                **{name: str(path) for name, path in files.items()},
                **{name: filled(text) for name, text in step["env"].items()},
            },
        )
        self.log += done.stdout + done.stderr
        self.status = self.status or done.returncode
        self.summary += files["GITHUB_STEP_SUMMARY"].read_text()
        for line in files["GITHUB_OUTPUT"].read_text().splitlines():
            name, _, value = line.partition("=")
            self.outputs[name] = value


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    runner = Runner(tmp_path)
    monkeypatch.chdir(runner.workspace)
    return runner


def test_inputs_reach_scripts_as_variables_only() -> None:
    for step in STEPS.values():
        assert not EXPRESSION.search(step["run"])
    assert all(each["description"] for each in ACTION["inputs"].values())
    assert all("steps.plan.outputs" in each["value"] for each in ACTION["outputs"].values())


def test_the_installation_makes_an_environment_of_its_own() -> None:
    lines = STEPS["Install pullqueue"]["run"].splitlines()
    assert lines[0] == 'python3 -m venv "$RUNNER_TEMP/pullqueue"'
    assert lines[1].endswith('-m pip install --quiet "$SOURCE"')
    assert STEPS["Install pullqueue"]["env"] == {"SOURCE": "${{ github.action_path }}"}


def test_findings_are_annotations_and_fail_the_job(runner: Runner) -> None:
    write("svc/queue.yaml", BAD)
    assert runner.run(working_directory="svc") == 1
    assert "::error file=svc/queue.yaml,line=4" in runner.log
    write("svc/queue.yaml", GOOD)
    assert runner.run() == 0


def test_paths_and_options_are_read_line_by_line(runner: Runner) -> None:
    write("a b/queue.yaml", BAD)
    write("--ignore=all/queue.yaml", BAD)
    write("other/queue.yaml", BAD)
    assert runner.run(paths="a b\n--ignore=all", options="--fail-on=never\n--profile=rest\n") == 0
    assert runner.log.count("::error") == 2
    assert runner.run(paths="$(touch hacked); x", options="") == 3
    assert not Path("hacked").exists()


def test_a_plan_is_in_the_summary_and_in_the_outputs(runner: Runner) -> None:
    committed("queue.yaml", text=f"{GOOD}- name: mail\n  rate: 5/s\n")
    assert runner.run(plan="queue.yaml", against="HEAD") == 0
    assert runner.outputs["changes"] == "false"
    write("queue.yaml", f"{GOOD}- name: mail\n  rate: 10/s\n")
    assert runner.run(plan="queue.yaml", against="HEAD") == 0
    assert runner.outputs["changes"] == "true"
    assert "`rate: 5/s -> 10/s`" in runner.summary
    assert Path(runner.outputs["comment"]).read_text() == runner.summary


def test_a_plan_is_made_against_what_is_deployed_if_that_is_given(runner: Runner) -> None:
    write("queue.yaml", GOOD)
    write("deployed.json", "[]")
    assert runner.run(plan="queue.yaml", deployed="deployed.json") == 0
    assert "| `+` | `jobs` | created |" in runner.summary


def test_a_changed_mode_and_a_bad_file_fail_the_plan(runner: Runner) -> None:
    committed("queue.yaml", text=GOOD)
    write("queue.yaml", "queue:\n- name: jobs\n  rate: 5/s\n")
    assert runner.run(plan="queue.yaml", against="HEAD", options="--ignore=mode-changed") == 1
    assert "A queue has another mode" in runner.summary
    write("queue.yaml", BAD)
    assert runner.run(plan="queue.yaml", against="HEAD", options="--fail-on=never") == 1
    assert "**Not valid, no plan**" in runner.summary
    assert "QY301" in runner.summary
    assert runner.outputs["changes"] == ""
    assert Path(runner.outputs["comment"]).read_text() == runner.summary


def test_several_files_are_planned_each_with_its_own_title(runner: Runner) -> None:
    committed("a/queue.yaml", "b/queue.yaml", text=GOOD)
    write("b/queue.yaml", f"{GOOD}- name: mail\n  rate: 5/s\n")
    assert runner.run(plan="a/queue.yaml\nb/queue.yaml\n", against="HEAD") == 0
    assert "### What a deployment of `a/queue.yaml` changes" in runner.summary
    assert "### What a deployment of `b/queue.yaml` changes" in runner.summary
    assert runner.outputs["changes"] == "true"


def test_a_plan_that_fails_early_leaves_no_comment(runner: Runner) -> None:
    write("queue.yaml", GOOD)
    assert runner.run(plan="queue.yaml", deployed="missing.json") == 3
    assert "missing.json" in runner.log
    assert runner.outputs == {"comment": "", "changes": ""}
    assert runner.summary == ""
    assert list(runner.temp.glob("*.md")) == []


def test_a_plan_needs_something_to_compare_with(runner: Runner) -> None:
    write("queue.yaml", GOOD)
    assert runner.run(plan="queue.yaml") == 2
    assert "::error::pass `against` or `deployed` to plan" in runner.log


@pytest.fixture
def gitlab() -> Iterator[PushApp]:
    with push_app() as gitlab:
        yield gitlab


def _gitlab_job(runner: Runner, address: str) -> CompletedProcess[str]:
    program("curl", package="curl")
    page = (ROOT / "docs" / "how-to" / "ci.md").read_text("utf-8")
    *_, text = re.findall(
        r"^```yaml\n(# \.gitlab-ci\.yml\n.*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    job = yaml.safe_load(text)["queues"]
    return completed(
        ["bash", "-e", "-c", "\n".join(job["script"][1:])],
        env={
            "PATH": f"{runner.temp / 'pullqueue' / 'bin'}:/usr/bin:/bin",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": "HEAD",
            "CI_MERGE_REQUEST_IID": "7",
            "CI_API_V4_URL": f"{address}/api/v4",
            "CI_PROJECT_ID": "42",
            "PLAN_TOKEN": "secret",
        },
    )


def test_the_job_for_gitlab_posts_the_plan_as_a_note(runner: Runner, gitlab: PushApp) -> None:
    committed("shop/queue.yaml", "billing/queue.yaml", text=GOOD)
    write("shop/queue.yaml", f"{GOOD}- name: mail\n  rate: 5/s\n")
    done = _gitlab_job(runner, gitlab.url)

    assert (done.returncode, done.stderr) == (0, "")
    [note] = gitlab.received
    assert note.path == "/api/v4/projects/42/merge_requests/7/notes"
    assert note.headers["PRIVATE-TOKEN"] == "secret"
    assert "| `+` | `mail` | created |" in unquote_plus(note.body.decode())
    assert json.loads(Path("gl-code-quality-report.json").read_text()) == []


def test_the_job_for_gitlab_posts_a_note_on_an_invalid_file_and_fails(
    runner: Runner, gitlab: PushApp
) -> None:
    committed("shop/queue.yaml", "billing/queue.yaml", text=GOOD)
    write("billing/queue.yaml", BAD)
    done = _gitlab_job(runner, gitlab.url)

    assert done.returncode == 1
    assert "QY301" in gitlab.received[0].body.decode()


def test_the_job_for_gitlab_posts_no_empty_note(runner: Runner, gitlab: PushApp) -> None:
    write("shop/queue.yaml", GOOD)  # there is no repository to compare with
    done = _gitlab_job(runner, gitlab.url)

    assert done.returncode == 3
    assert gitlab.received == []
