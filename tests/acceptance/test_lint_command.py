"""`pullqueue lint`, as it is called."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from linting import BAD, GOOD, ZERO_RATE, git, run, run_pullqueue, write
from tables import each_row

from pullqueue.lint.reporters import FORMATS


@each_row(
    ("text", "arguments", "status"),
    [
        (GOOD, [], 0),
        (BAD, [], 1),
        (BAD, ["--fail-on", "never"], 0),
        (ZERO_RATE, ["--profile", "sdk"], 0),
        (ZERO_RATE, ["--profile", "sdk", "--fail-on", "warning"], 1),
        (BAD, ["--ignore", "push-key-on-pull"], 0),
        (BAD, ["--ignore", "QY3"], 0),
        (BAD, ["--select", "acl-missing"], 0),
        (BAD, ["--select", "acl-missing", "--fail-on", "info"], 1),
        (BAD, ["--severity", "push-key-on-pull=warning"], 0),
        (BAD, ["--severity", "push-key-on-pull=off"], 0),
        (BAD, ["--profile", "sdk"], 0),
        (GOOD, ["--profile", "rest", "--fail-on", "info"], 1),
        (GOOD, ["--profile", "migration", "--fail-on", "info"], 1),
        ("queue:", ["--fail-on", "warning"], 0),
        ("queue:", ["--fail-on", "warning", "--strict"], 1),
        ("queue: [", ["--select", "push-key-on-pull"], 1),
        ("queue: [", ["--ignore", "all"], 1),
    ],
)
def test_the_exit_status_is_1_for_findings_at_the_threshold(
    folder: Path, text: str, arguments: list[str], status: int
) -> None:
    (folder / "queue.yaml").write_text(text)
    assert run("queue.yaml", *arguments).exit_code == status


def test_wrong_usage_is_status_2(folder: Path) -> None:
    (folder / "queue.yaml").write_text(GOOD)
    for arguments, message in (
        (["--select", "rate-fromat"], 'unknown rule "rate-fromat"'),
        (["--ignore", "QY8"], 'unknown rule "QY8"'),
        (["--severity", "QY301"], 'invalid --severity "QY301": use RULE=LEVEL'),
        (["--severity", "QY301=bad"], 'invalid severity "bad": use error, warning'),
        (["--unsafe-fixes"], "--unsafe-fixes needs --fix or --diff"),
        (["--diff", "--format", "json"], "--diff prints a diff: leave out --format json"),
        (["-", "queue.yaml"], "`-` cannot be used with other paths"),
        (["-", "--write-baseline", "b"], "--write-baseline cannot be used with `-` or --watch"),
        (["--write-baseline", "-"], "--write-baseline cannot be `-`: name a file"),
        ([""], "an argument is empty: name a file or a folder"),
        (["queue.yaml", ""], "an argument is empty: name a file or a folder"),
        (["--write-baseline", ""], "--write-baseline is empty: pass a value, or leave it out"),
        (["-", "--stdin-filename", ""], "--stdin-filename is empty: pass a value"),
        (["--baseline", ""], "--baseline is empty: pass a value, or leave it out"),
        (["--config", ""], "--config is empty: pass a value, or leave it out"),
        (["--against", ""], "--against is empty: pass a value, or leave it out"),
        (["--exclude", "a\\"], 'invalid pattern "a\\"'),
        (["--against", "nowhere"], 'no file "nowhere" here, and this folder is in no git'),
        (["--format", "html"], "Invalid value for '--format'"),
    ):
        done = run(*arguments)
        assert done.exit_code == 2, arguments
        assert message in done.stderr


CRON = "cron:\n- url: /a\n  schedule: every 5 minutes\n"
BAD_CRON = "cron:\n- url: a\n  schedule: every hour\n- {}\n"
CRON_FINDINGS = (
    'cron.yaml:2:8: error[QY021] invalid-cron: url "a": use a path of the app, such as '
    "/tasks/summary\n"
    'cron.yaml:3:13: error[QY021] invalid-cron: schedule "every hour": the number is missing: '
    "write `every 1 hours`\n"
    "cron.yaml:4:3: error[QY021] invalid-cron: job 2 has no `url` and no `schedule`: add them\n"
)


def test_faults_of_a_cron_yaml_are_findings(folder: Path) -> None:
    (folder / "queue.yaml").write_text(GOOD)
    (folder / "cron.yaml").write_text(CRON)
    both = ("queue.yaml", "cron.yaml")
    done = run(*both)
    assert (done.exit_code, done.stderr) == (0, "2 files checked, nothing found\n")
    (folder / "cron.yaml").write_text(BAD_CRON)
    done = run(*both, "--format", "concise")
    assert (done.exit_code, done.stdout) == (1, CRON_FINDINGS)
    assert done.stderr == "2 files checked: 3 errors\n"
    assert [each["line"] for each in json.loads(run(*both, "--format", "json").stdout)] == [2, 3, 4]
    assert run(*both, "--ignore", "invalid-cron").exit_code == 0
    done = run("-", "--stdin-filename", "cron.yaml", "--format", "concise", stdin=BAD_CRON)
    assert (done.exit_code, done.stdout) == (1, CRON_FINDINGS)
    assert run(*both, "--write-baseline", "known.json").exit_code == 0
    known = json.loads((folder / "known.json").read_text())["findings"]
    assert [each["key"] for each in known] == ["cron[0].schedule", "cron[0].url", "cron[1]"]
    assert run(*both, "--baseline", "known.json").exit_code == 0
    (folder / "cron.yaml").write_text(f"{BAD_CRON}# queue-lint: ignore-file[invalid-cron]\n")
    assert run("cron.yaml").exit_code == 0
    (folder / "cron.yaml").write_text(CRON.replace("- ", "-\t"))
    done = run("cron.yaml", "--fix", "--against", "queue.yaml")
    assert (done.exit_code, done.stderr) == (0, "1 file checked, nothing found; 1 fixed\n")
    assert (folder / "cron.yaml").read_text() == CRON
    (folder / "cron.yaml").write_text("#" * (2**20 + 1))
    assert "1:1: error[QY011] file-too-large" in run("cron.yaml", "--format", "concise").stdout


def test_a_cron_yaml_is_not_read_as_a_queue_yaml(folder: Path) -> None:
    (folder / "cron.yaml").write_text(CRON)
    done = run_pullqueue("exec", "cron.yaml", "--", "true")
    assert done.exit_code == 1
    assert done.stderr == (
        "cron.yaml:1:1: QY020 other-program: this looks like a cron.yaml of App Engine (`cron`), "
        "not like a queue.yaml: pass it to --cron\n"
    )
    (folder / "cron.yaml").rename("queue.yaml")
    assert "= help: name it cron.yaml, and the linter checks it" in run("queue.yaml").stdout


@pytest.mark.parametrize("name", ["cron.yml", "cron_prod.yaml", "jobs.yaml"])
def test_a_cron_yaml_with_another_name_is_checked(folder: Path, name: str) -> None:
    """Teams rename it for each environment."""
    (folder / name).write_text(BAD_CRON)
    assert run(name, "--format", "concise").stdout == CRON_FINDINGS.replace("cron.yaml", name)


def test_unreadable_files_are_status_3_and_do_not_stop_the_others(folder: Path) -> None:
    (folder / "a").symlink_to("nowhere")
    (folder / "queue.yaml").write_text(BAD)
    done = run("a", "queue.yaml", "--format", "concise")
    assert done.exit_code == 3
    assert 'pullqueue: cannot read "a": no such file or directory' in done.stderr
    assert done.stdout == (
        "queue.yaml:4:3: error[QY301] push-key-on-pull: `rate` is not allowed on a pull queue: "
        "remove it, or set `mode: push`\n"
    )


def test_summary_counts_findings_and_fixes(folder: Path) -> None:
    (folder / "queue.yaml").write_text(BAD)
    (folder / "b.yaml").write_text("queue:\n- name: a_b\n  rate: 1/min\n  bucket_size: 010\n")
    done = run("queue.yaml", "b.yaml")
    assert done.stderr == (
        "2 files checked: 3 errors, 1 warning; 1 fixable with --fix, "
        "2 more with --fix --unsafe-fixes\n"
    )
    assert run("queue.yaml", "--ignore", "QY3").stderr == "1 file checked, nothing found\n"
    (folder / "b.yaml").write_text("queue:\n- name: a\n")
    assert run("b.yaml").stderr == (
        "1 file checked: 1 error; 1 fixable with --fix --unsafe-fixes\n"
    )


def test_a_folder_is_searched_for_queue_yaml(folder: Path) -> None:
    for name, text in {
        "a/queue.yaml": GOOD,
        "b/queue.yml": GOOD,
        "b/c/queue.YAML": GOOD,
        "b/c/QUEUE.YML": GOOD,
        "b/sandbox-queue.yaml": GOOD,
        "b/message-queue.yaml": "broker: x\n",
        "b/other.yaml": GOOD,
        "node_modules/queue.yaml": BAD,
        ".hidden/queue.yaml": BAD,
        "left_out/queue.yaml": BAD,
    }.items():
        write(name, text)
    done = run("--format", "jsonl", "--exclude", "left_out/*")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(item["file"], item["rule"]) for item in found] == [
        (str(Path("b/c/QUEUE.YML")), "file-name"),
        (str(Path("b/sandbox-queue.yaml")), "file-name"),
    ]
    assert found[1]["message"].startswith('gcloud does not accept "sandbox-queue.yaml"')
    assert "file-name" not in run("b/sandbox-queue.yaml").stdout


def test_folder_searched_in_vain_is_refused(folder: Path) -> None:
    """Where no file is found nothing was checked, which must not look like success."""
    advice = "name the file, or a folder that has one\n"
    done = run()
    assert (done.exit_code, done.stderr) == (3, f'pullqueue: no queue.yaml found in ".": {advice}')
    (folder / "empty").mkdir()
    write("app/queue.yaml", BAD)
    done = run("empty", "app", "--format", "concise")
    assert done.exit_code == 3
    assert f'no queue.yaml found in "empty": {advice}' in done.stderr
    assert "app/queue.yaml" in done.stdout


def test_a_dash_reads_standard_input_and_fixes_it_to_standard_output(folder: Path) -> None:
    done = run("-", "--stdin-filename", "app/queue.yaml", "--format", "concise", stdin=BAD)
    assert done.exit_code == 1
    assert done.stdout.startswith("app/queue.yaml:4:3: error[QY301]")
    done = run("-", "--fix", "--unsafe-fixes", stdin=BAD)
    assert (done.exit_code, done.stdout) == (0, GOOD)
    assert done.stderr == "1 file checked, nothing found; 1 fixed\n"
    assert run("-", "--fix", stdin=GOOD).stdout == GOOD


def test_fix_changes_nothing_else(folder: Path) -> None:
    path = folder / "queue.yaml"
    before = (
        b"\xef\xbb\xbf# caf\xc3\xa9\r\nqueue:\r\n- name: 'jobs'   # the name\r\n  mode: pull\r\n"
        b"  rate: 5/s  # fast\r\n\r\n- name: mail\r\n  rate: 0"
    )
    path.write_bytes(before)
    done = run("queue.yaml", "--fix", "--unsafe-fixes", "--ignore", "bom")
    assert done.exit_code == 0
    assert path.read_bytes() == before.replace(b"rate: 5/s  # fast", b"# fast").replace(
        b"rate: 0", b"rate: 0/s"
    )
    run("queue.yaml", "--fix")
    assert not path.read_bytes().startswith(b"\xef")


def test_diff_shows_fixes_and_writes_nothing(folder: Path) -> None:
    path = folder / "queue.yaml"
    path.write_text("queue:\n- name: mail\n  rate: 0")
    done = run("queue.yaml", "--diff")
    assert done.exit_code == 1
    assert done.stdout == (
        "--- queue.yaml\n+++ queue.yaml\n@@ -1,3 +1,3 @@\n queue:\n - name: mail\n"
        "-  rate: 0\n\\ No newline at end of file\n+  rate: 0/s\n\\ No newline at end of file\n"
    )
    assert path.read_text() == "queue:\n- name: mail\n  rate: 0"
    assert "1 could be fixed" in done.stderr
    path.write_text(GOOD)
    assert run("queue.yaml", "--diff").exit_code == 0


def test_fixes_that_were_left_out_are_counted(folder: Path) -> None:
    """A fix that would cause another finding is not offered again to who asked for it."""
    (folder / "queue.yaml").write_text("queue:\n- name: mail\n  rat: fast\n")
    assert run("queue.yaml").stderr.endswith(": 1 error; 1 fixable with --fix --unsafe-fixes\n")
    assert run("queue.yaml", "--fix").stderr.endswith("; 1 fixable with --fix --unsafe-fixes\n")
    assert run("queue.yaml", "--fix", "--unsafe-fixes").stderr == (
        "1 file checked: 1 error; 1 not fixed, since that would cause other findings\n"
    )


@pytest.fixture
def someone() -> Iterator[None]:
    """Be somebody whose files can be read-only: everything is writable for root."""
    is_root = os.getuid() == 0
    if is_root:
        os.setreuid(65534, 0)
    yield
    if is_root:
        os.setreuid(0, 0)


def test_file_that_cannot_be_written_is_reported(folder: Path, someone: None) -> None:
    path = folder / "queue.yaml"
    path.write_text(BAD)
    path.chmod(0o444)
    done = run("queue.yaml", "--fix", "--unsafe-fixes")
    assert done.exit_code == 3
    assert 'cannot write "queue.yaml": permission denied' in done.stderr
    assert path.read_text() == BAD


def test_colour_is_used_where_it_is_asked_for_and_not_in_a_pipe(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "queue.yaml").write_text(BAD)
    assert "\x1b[" not in run("queue.yaml").stdout
    assert "\x1b[1;31merror[QY301]\x1b[0m" in run("queue.yaml", "--color", "always").stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in run("queue.yaml").stdout
    assert "\x1b[" not in run("queue.yaml", "--color", "never").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in run("queue.yaml").stdout


def test_github_actions_get_annotations(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "queue.yaml").write_text(BAD)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    done = run("queue.yaml")
    assert done.stdout.startswith("::error file=queue.yaml,line=4,endLine=4,title=QY301 ")
    assert done.stderr == ""
    assert run("queue.yaml", "--format", "full").stdout.startswith("error[QY301]")


def test_a_clean_run_is_a_well_formed_document_in_every_format(folder: Path) -> None:
    file = folder / "web" / "queue.yaml"
    file.parent.mkdir()
    file.write_text(GOOD)
    texts = {name: run("web/queue.yaml", "--format", name).stdout for name in FORMATS}
    silent = {name for name, text in texts.items() if not text}
    assert silent == {"concise", "full", "github", "jsonl"}
    suites = ET.fromstring(texts.pop("junit"))  # noqa: S314 - our own output
    assert (suites.get("failures"), suites[0][0].get("name")) == ("0", "web/queue.yaml")
    for text in filter(None, texts.values()):
        json.loads(text)


@pytest.mark.parametrize(
    ("fail_on", "failures"), [("error", 1), ("warning", 2), ("info", 3), ("never", 0)]
)
def test_junit_fails_for_what_the_run_fails_for(folder: Path, fail_on: str, failures: int) -> None:
    (folder / "queue.yaml").write_text(f"{BAD}- {{name: mail, rate: 0/s, bucket_size: 010}}\n")
    done = run("queue.yaml", "--format", "junit", "--fail-on", fail_on)
    (suite,) = suites = ET.fromstring(done.stdout)  # noqa: S314 - our own output
    assert (done.exit_code, suites.get("failures")) == (int(failures > 0), str(failures))
    assert (suite.get("failures"), suite.get("tests")) == (str(failures), "3")
    assert len(suite.findall("testcase/failure")) == failures
    assert len(suite.findall("testcase/system-out")) == 3 - failures


def file_in(text: str, output_format: str) -> str:
    """Return the file that the first finding of a report names."""
    if output_format == "github":
        return text.partition("file=")[2].partition(",")[0]
    document = json.loads(text)
    if output_format == "gitlab":
        return str(document[0]["location"]["path"])
    location = document["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    return str(location["artifactLocation"]["uri"])


VARIABLES = {"github": "GITHUB_WORKSPACE", "gitlab": "CI_PROJECT_DIR", "sarif": "GITHUB_WORKSPACE"}


@pytest.mark.parametrize("output_format", VARIABLES)
def test_annotations_name_files_from_the_root_of_the_repository(
    folder: Path, monkeypatch: pytest.MonkeyPatch, output_format: str
) -> None:
    write("svc/app/queue.yaml", BAD)
    monkeypatch.chdir("svc")

    def annotated(path: str) -> str:
        return file_in(run(path, "--format", output_format).stdout, output_format)

    assert annotated(".") == "app/queue.yaml"
    monkeypatch.setenv(VARIABLES[output_format], str(folder / "other"))
    assert annotated(".") == "app/queue.yaml"
    monkeypatch.setenv(VARIABLES[output_format], str(folder))
    assert annotated(".") == annotated(str(folder)) == annotated("app/queue.yaml")
    assert annotated(".") == "svc/app/queue.yaml"
    monkeypatch.delenv(VARIABLES[output_format])
    git("init", "-q", str(folder))
    assert annotated("app") == "svc/app/queue.yaml"
    assert run("app", "--format", "concise").stdout.startswith("app/queue.yaml:")


@pytest.mark.parametrize("names", ["[QY2]", "[all]"])
def test_a_fix_keeps_a_comment_on_rules_that_are_off(folder: Path, names: str) -> None:
    text = f"queue:\n- name: jobs  # queue-lint: ignore{names}\n  mode: pull\n"
    write("queue.yaml", text)
    run("--ignore", "QY208", "--fix")
    assert Path("queue.yaml").read_text() == text
    run("--fix")
    assert Path("queue.yaml").read_text() == "queue:\n- name: jobs\n  mode: pull\n"
