"""Which files `pullqueue lint` checks, with which settings, and what it compares them with."""

from __future__ import annotations

import json
import os
import re
from dataclasses import fields
from pathlib import Path

import pytest
from linting import BAD, GOOD, ZERO_RATE, committed, found, git, run, write
from programs import completed
from tables import each_row

from pullqueue.lint.options import FileOptions


def files(*arguments: str) -> list[str]:
    return [file for file, _ in found(*arguments)]


def settings(text: str, path: str = "pyproject.toml") -> None:
    write(path, f"[tool.pullqueue.lint]\n{text}\n")


def test_the_documentation_has_a_row_for_each_setting() -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "lint.md"
    text = page.read_text()
    settings = [field.name.replace("_", "-") for field in fields(FileOptions)]

    missing = [name for name in settings if not re.search(rf"(?m)^\|[^|]*`{name}`", text)]
    assert not missing, f"add to the table of settings in {page}: a row for each of {missing}"


def test_gitignore_is_read_as_git_does(folder: Path) -> None:
    write(".gitignore", "build*\n!build-2\n/top/\n")
    write("app/.gitignore", "!build\nlocal/queue.yaml\n")
    for name in ("build", "build-1", "build-2", "top", "app/build", "app/top", "app/local"):
        write(f"{name}/queue.yaml", BAD)
    without_git = sorted(files())
    git("init", "-q")
    listed = completed(["git", "ls-files", "--others", "--exclude-standard", "*.yaml"], check=True)
    assert sorted(files()) == without_git == sorted(listed.stdout.split())
    assert len(files()) == 3
    assert files("build") == ["build/queue.yaml"]


def test_exclude_leaves_out_trees_by_patterns_of_gitignore(folder: Path) -> None:
    write("vendor/deep/below/queue.yaml", BAD)
    write("vendor/queue.yaml", BAD)
    write("app/sandbox-queue.yaml", GOOD)
    trees = ("vendor", "vendor/", "/vendor", "vendor/*", "vendor/**", "**/vendor/**")
    for pattern in (*trees, "**/queue.yaml"):
        assert files("--exclude", pattern) == ["app/sandbox-queue.yaml"], pattern
    again = files("--exclude", "vendor/*", "--exclude", "!vendor/queue.yaml")
    assert again == ["app/sandbox-queue.yaml", "vendor/queue.yaml"]


def test_named_files_are_excluded_when_asked_for(folder: Path) -> None:
    settings('exclude = ["vendor/"]')
    write("vendor/a/queue.yaml", BAD)
    write("queue.yaml", GOOD)
    assert files("vendor/a/queue.yaml") == ["vendor/a/queue.yaml"]
    assert files("vendor/a/queue.yaml", "queue.yaml", "--force-exclude") == []
    done = run("vendor/a/queue.yaml", "--force-exclude")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    (folder / "app").mkdir()
    os.chdir("app")
    assert files("../vendor/a/queue.yaml", "--force-exclude") == []


def test_pyproject_is_found_upward_and_options_of_the_command_win(folder: Path) -> None:
    settings(
        'fail-on = "info"\nignore = ["push-key-on-pull"]\nexclude = ["old/*"]\nprofile = "rest"\n'
        'strict = true\nseverity = { acl-missing = "warning" }'
    )
    write("sub/queue.yaml", BAD)
    os.chdir("sub")
    done = run("--format", "jsonl")
    (item,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.exit_code, item["rule"], item["severity"]) == (1, "acl-missing", "warning")
    assert run("--profile", "gcloud", "--severity", "acl-missing=off").exit_code == 0
    assert run("--fail-on", "error").exit_code == 0


@each_row(
    ("setting", "options", "rules"),
    [
        ("severity = {push-key-on-pull = 'warning'}", ["--select", "name-format"], ["name-format"]),
        ("select = ['QY3']", ["--select", "name-format"], ["name-format"]),
        ("ignore = ['name-format']", ["--select", "name-format"], ["name-format"]),
        ("per-file-ignores = {'*' = ['all']}", ["--select", "name-format"], ["name-format"]),
        ("severity = {name-format = 'off'}", ["--select", "name-format"], ["name-format"]),
        ("ignore = ['all']", ["--severity", "name-format=error"], ["name-format"]),
        ("severity = {name-format = 'error'}", ["--ignore", "name-format"], ["push-key-on-pull"]),
    ],
)
def test_selection_of_the_command_wins_over_every_setting(
    folder: Path, setting: str, options: list[str], rules: list[str]
) -> None:
    settings(setting)
    write("queue.yaml", f"{BAD}- name: a_b\n  rate: 1/s\n")
    assert [rule for _, rule in found(*options)] == rules


def test_selection_of_the_command_keeps_severities_of_the_file(folder: Path) -> None:
    settings("severity = {QY3 = 'info'}")
    write("queue.yaml", BAD)
    assert '"severity": "info"' in run("--select", "QY301", "--format", "jsonl").stdout


TABLE = "[tool.pullqueue.lint]\n"


@each_row(
    ("toml", "message"),
    [
        (f"{TABLE}selct = []", 'unknown setting "selct"'),
        (f'{TABLE}profile = "gcp"', 'profile is "gcp": use gcloud, sdk, java, rest, migration'),
        (f'{TABLE}select = "x"', 'select is "x": use a list of strings'),
        (f"{TABLE}severity = []", "severity is []: use a table"),
        (
            f"{TABLE}severity = {{ QY3 = 'off', QY301 = 'warnng' }}",
            'severity.QY301 is "warnng": use error, warning, info, off',
        ),
        (f"{TABLE}per-file-ignores = {{ a = 'QY3' }}", 'per-file-ignores.a is "QY3": use a list'),
        (f"{TABLE}strict = 1", "strict is 1: use true or false"),
        (f"{TABLE}baseline = 1", "baseline is 1: use a string"),
        (
            "[tool.pullqueue.lnt]\nstrict = true",
            "unknown table [tool.pullqueue.lnt]: use [tool.pullqueue.lint]",
        ),
        ("[tool.pullqueue]\nlint = 1", "tool.pullqueue.lint must be a table"),
        (f'{TABLE}ignore = ["zzz"]', 'unknown rule "zzz"'),
        (f"{TABLE}severity = {{ zzz = 'off' }}", 'unknown rule "zzz"'),
        (f"{TABLE}per-file-ignores = {{ a = ['zzz'] }}", 'unknown rule "zzz"'),
        (f"{TABLE}per-file-ignores = {{ '[z-a]' = [] }}", 'invalid pattern "[z-a]"'),
        (f"{TABLE}per-file-ignores = {{ 'a\\' = ['QY3'] }}", "invalid pattern"),
        (f"{TABLE}exclude = ['[z-a]']", 'invalid pattern "[z-a]"'),
        (f"{TABLE}exclude = ['a\\']", "invalid pattern"),
        (f"{TABLE}exclude = ['{'*a' * 9}']", "invalid pattern"),
        ("[tool.pullqueue.lint", "not valid TOML: "),
        ("tool = 3 # tool.pullqueue", ""),
        ('tool.pullqueue = "x"', ""),
        ("a.tool.pullqueue = " + "[" * 100_000, ""),
    ],
)
def test_wrong_settings_are_refused(folder: Path, toml: str, message: str) -> None:
    write("settings.toml", toml)
    write("queue.yaml", BAD)
    done = run("queue.yaml", "--config", "settings.toml")
    assert done.exit_code == 2
    assert re.fullmatch(r"pullqueue: settings\.toml: .+\n", done.stderr)
    assert message in done.stderr


def test_settings_may_be_written_in_every_way_of_toml(folder: Path) -> None:
    write("queue.yaml", BAD)
    for text in (
        '[tool]\npullqueue.lint.ignore = ["all"]\n',
        '[tool."pullqueue".lint]\nignore = ["all"]\n',
        '[ tool . pullqueue . lint ]\nignore = ["all"]\n',
    ):
        write("pyproject.toml", text)
        assert run().exit_code == 0


def test_settings_are_those_nearest_to_each_file(folder: Path) -> None:
    """Rules follow the file; what concerns the whole run follows the working directory."""
    settings('select = ["QY3"]\nfail-on = "never"')
    settings('ignore = ["QY3"]\nfail-on = "info"', "a/pyproject.toml")
    write("a/b/pyproject.toml", "[tool.other]\n")
    settings('profile = "rest"\nexclude = ["queue.yaml"]', "c/pyproject.toml")
    for name in ("a/b", "c", "d"):
        write(f"{name}/queue.yaml", BAD)
    assert found() == [
        ("c/queue.yaml", "acl-missing"),
        ("c/queue.yaml", "push-key-on-pull"),
        ("d/queue.yaml", "push-key-on-pull"),
    ]
    assert run().exit_code == 0
    done = run("-", "--stdin-filename", "c/queue.yaml", "--format", "concise", stdin=GOOD)
    assert "acl-missing" in done.stdout


def test_rules_can_be_ignored_per_file(folder: Path) -> None:
    settings('[tool.pullqueue.lint.per-file-ignores]\n"legacy/" = ["QY3"]\n"*.yml" = ["file-name"]')
    write("legacy/deep/queue.yaml", BAD)
    write("app/queue.yml", BAD)
    assert found() == [("app/queue.yml", "push-key-on-pull")]
    os.chdir("legacy")
    assert found("../app", "deep") == [("../app/queue.yml", "push-key-on-pull")]


def test_config_names_the_only_settings(folder: Path) -> None:
    settings('ignore = ["all"]')
    settings('severity = { QY301 = "info" }\nexclude = ["b"]', "lint.toml")
    write("a/queue.yaml", BAD)
    write("b/queue.yaml", BAD)
    done = run("--config", "lint.toml", "--format", "json")
    assert [(item["file"], item["severity"]) for item in json.loads(done.stdout)] == [
        ("a/queue.yaml", "info")
    ]
    write("empty.toml", "")
    for name, status, message in (
        ("nowhere.toml", 3, 'cannot read "nowhere.toml": no such file or directory'),
        ("empty.toml", 2, "empty.toml: the table [tool.pullqueue.lint] is missing"),
    ):
        done = run("--config", name)
        assert done.exit_code == status
        assert message in done.stderr


def test_an_ignore_comment_that_is_not_used_can_be_ignored_too(folder: Path) -> None:
    write("queue.yaml", f"# queue-lint: ignore-file[QY2, zzz]\n{GOOD}")
    assert [rule for _, rule in found("queue.yaml")] == ["unused-ignore", "unknown-rule"]
    assert found("queue.yaml", "--ignore", "QY9") == []
    write("queue.yaml", f"# queue-lint: ignore-file[QY9]\n# queue-lint: ignore[QY2, zzz]\n{GOOD}")
    assert found("queue.yaml") == []


def test_baseline_hides_what_was_there_before(folder: Path) -> None:
    two = "queue:\n- {name: a, mode: pull, rate: 1/s}\n- {name: b, mode: pull, rate: 1/s}\n"
    write("app/queue.yaml", two)
    done = run("--write-baseline", "ci/baseline.json")
    assert done.exit_code == 3
    assert 'cannot write "ci/baseline.json": no such file' in done.stderr
    (folder / "ci").mkdir()
    done = run("--write-baseline", "ci/baseline.json")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == 'pullqueue: wrote 2 findings to "ci/baseline.json"\n'
    assert found("--baseline", "ci/baseline.json") == []

    first, second = two.splitlines()[1:]
    third = first.replace("name: a", "name: c")
    write("app/queue.yaml", f"# moved\nqueue:\n{second}\n{third}\n{first}\n")
    done = run("--baseline", "ci/baseline.json", "--format", "concise")
    assert done.exit_code == 1
    assert done.stdout.startswith("app/queue.yaml:4:25: error[QY301]")
    assert len(done.stdout.splitlines()) == 1

    settings('baseline = "ci/baseline.json"')
    os.chdir("app")
    assert len(found("queue.yaml")) == 1
    write("none.json", '{"findings": []}')
    assert len(found("queue.yaml", "--baseline", "none.json")) == 3


def test_entries_of_a_baseline_that_no_longer_occur_are_reported(folder: Path) -> None:
    write("queue.yaml", "queue:\n- {name: mail, rate: 0}\n- {name: a, mode: pull, rate: 1/s}\n")
    write("old/queue.yaml", BAD)
    done = run("old", "--write-baseline", "baseline.json")
    assert done.stderr == 'pullqueue: wrote 1 finding to "baseline.json"\n'
    run("--write-baseline", "baseline.json")
    assert "no longer" not in run("--baseline", "baseline.json", "--fix").stderr
    assert "rate: 0}" in Path("queue.yaml").read_text()  # what is not reported is not fixed

    write("queue.yaml", "queue:\n- {name: a, mode: pull, rate: 1/s}\n")
    note = (
        'pullqueue: the baseline "baseline.json" has findings that no longer occur '
        "(rate-bare-zero at queue[mail].rate in queue.yaml): write it again with --write-baseline\n"
    )
    done = run("--baseline", "baseline.json")
    assert done.exit_code == 0
    assert done.stderr.startswith(note)
    assert "no longer" not in run("--baseline", "baseline.json", "old").stderr
    assert "no longer" not in run("--baseline", "baseline.json", "--select", "QY301").stderr

    Path("old/queue.yaml").unlink()
    done = run("--baseline", "baseline.json", "queue.yaml")
    assert "push-key-on-pull at queue[jobs].rate in old/queue.yaml" in done.stderr


ENDLESS = '{"findings": [{"file": "a", "rule": "b", "key": "c", "count": 1e999}]}'


def test_other_files_are_refused_as_a_baseline(folder: Path) -> None:
    write("queue.yaml", BAD)
    others = ("", "[]", "{}", '{"findings": [{}]}', '{"findings": 1}', ENDLESS, "[" * 100_000)
    for text in others:
        write("baseline.json", text)
        done = run("--baseline", "baseline.json")
        assert done.exit_code == 2, text[:99]
        assert '"baseline.json" is not a baseline: write it with --write-baseline' in done.stderr


@pytest.mark.parametrize("text", ["", '{"findings": [{}]}', ZERO_RATE])
def test_only_a_baseline_is_overwritten_by_a_baseline(folder: Path, text: str) -> None:
    write("queue.yaml", ZERO_RATE)
    write("other.yaml", text)
    done = run("queue.yaml", "--write-baseline", "other.yaml", "--fix")
    assert done.exit_code == 2
    assert (
        '--write-baseline: "other.yaml" exists and is not a baseline: name another file, or '
        "delete this one first\n"
    ) in done.stderr
    assert Path("other.yaml").read_text() == text
    assert Path("queue.yaml").read_text() == ZERO_RATE

    write("other.yaml", '{"findings": []}')
    assert run("queue.yaml", "--write-baseline", "other.yaml").exit_code == 0
    assert found("queue.yaml", "--baseline", "other.yaml") == []


EARLIER = f"{GOOD}- name: mail\n  rate: 5/s\n"


def test_removed_queue_is_found_against_a_file_and_against_git(folder: Path) -> None:
    committed("app/queue.yaml", text=EARLIER)
    Path("before.yaml").write_bytes(Path("app/queue.yaml").read_bytes())
    write("app/queue.yaml", GOOD)
    message = (
        'app/queue.yaml:1:1: warning[QY509] queue-removed: removed: "mail"; a deployment stops'
    )
    for against in ("before.yaml", "HEAD", "HEAD~0", "@{0}"):
        done = run("app/queue.yaml", "--against", against, "--format", "concise")
        assert done.exit_code == 0
        assert done.stdout.startswith(message)
    done = run("-", "--stdin-filename", "app/queue.yaml", "--against", "HEAD", stdin=GOOD)
    assert "QY509" in done.stdout
    os.chdir("app")
    assert found("--against", "HEAD") == [("queue.yaml", "queue-removed")]
    write("queue.yaml", "total_storage_limit: 1M\n")
    assert ("queue.yaml", "queue-removed") in found("queue.yaml", "--against", "HEAD")


def test_a_changed_mode_is_an_error_against_an_earlier_version(folder: Path) -> None:
    committed("queue.yaml", text=EARLIER)
    write("queue.yaml", f"{GOOD}- name: mail\n  mode: pull\n")
    done = run("--against", "HEAD", "--format", "concise")
    assert done.exit_code == 1
    assert done.stdout == (
        'queue.yaml:5:9: error[QY510] mode-changed: queue "mail" was a push queue and is now a '
        "pull queue: add the pull queue under a new name, and remove this one when it is empty\n"
    )
    write("queue.yaml", "queue:\n- name: jobs\n  rate: 5/s\n- name: mail\n  rate: 5/s\n")
    assert found("--against", "HEAD") == [("queue.yaml", "mode-changed")]


def test_files_that_cannot_be_compared_are_checked(folder: Path) -> None:
    write("broken/queue.yaml", "queue: [\n")
    committed("old/queue.yaml", text=GOOD)
    write("broken/queue.yaml", BAD)
    write("new/queue.yaml", BAD)
    (folder / "moved").mkdir()
    Path("old/queue.yaml").rename("moved/queue.yaml")
    done = run("--against", "HEAD", "--format", "jsonl")
    assert done.exit_code == 1
    assert files("--against", "HEAD") == ["broken/queue.yaml", "new/queue.yaml"]
    missing = "is new, was moved, or is not in this clone"
    assert done.stderr.splitlines() == [
        'pullqueue: not compared with "HEAD": "broken/queue.yaml" is not valid there',
        f'pullqueue: not compared with "HEAD": "moved/queue.yaml" {missing}',
        f'pullqueue: not compared with "HEAD": "new/queue.yaml" {missing}',
    ]
    outside = folder.parent / "outside.yaml"
    outside.write_text(GOOD)
    done = run(str(outside), "--against", "HEAD")
    assert f'"{outside}" {missing}' in done.stderr


def test_git_hook_can_compare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While git runs a hook, its variables name the repository; the files are found anyway."""
    committed("app/queue.yaml", text=EARLIER)
    write("app/queue.yaml", GOOD)
    monkeypatch.setenv("GIT_DIR", ".git")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")
    os.chdir("app")
    assert found("--against", "HEAD") == [("queue.yaml", "queue-removed")]


def test_linked_work_trees_can_be_compared(folder: Path) -> None:
    """In a second work tree `.git` is a file."""
    (folder / "main").mkdir()
    os.chdir("main")
    committed("queue.yaml", text=EARLIER)
    git("worktree", "add", "-q", "../other")
    os.chdir("../other")
    write("queue.yaml", GOOD)
    assert found("--against", "HEAD") == [("queue.yaml", "queue-removed")]


def test_git_that_is_missing_is_a_usage_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git("init", "-q")
    write("queue.yaml", GOOD)
    monkeypatch.setenv("PATH", "/nowhere")
    done = run("--against", "HEAD")
    assert done.exit_code == 2
    assert "cannot run git: No such file or directory" in done.stderr


def test_a_search_leaves_out_files_of_other_programs_with_a_note(folder: Path) -> None:
    manifest = "apiVersion: v1\nkind: Service\nmetadata:\n  name: queue\n"
    write("k8s/queue.yaml", manifest)
    write("app/queue.yaml", GOOD)
    done = run()
    assert (done.exit_code, done.stdout) == (0, "")
    note, summary = done.stderr.splitlines()
    looks = "it looks like a Kubernetes manifest"
    assert note == f'pullqueue: skipped "k8s/queue.yaml": {looks}'
    assert summary == "1 file checked, nothing found"
    assert found("k8s/queue.yaml") == [("k8s/queue.yaml", "other-program")]
    write("k8s/queue.yaml", f"{manifest}queue:\n- name: mail\n  rate: 5/s\n")
    assert {rule for _, rule in found()} == {"unknown-key"}


@pytest.mark.parametrize("text", ["metadata:\n  a: b\ntargets: [c]\n", "jobs:\n- cmd: make\n"])
def test_a_search_leaves_out_files_that_have_no_key_of_the_format(folder: Path, text: str) -> None:
    write("ci/queue.yaml", text)
    write("app/queue.yaml", GOOD)
    done = run()
    assert (done.exit_code, done.stdout) == (0, "")
    looks = "it looks like a file of another program"
    assert done.stderr.splitlines()[0] == f'pullqueue: skipped "ci/queue.yaml": {looks}'
    assert found("ci/queue.yaml") == [("ci/queue.yaml", "other-program")]
    for ours, rule in (
        ("resume_paused_queues: true\n", "unknown-key"),
        ("queeu:\n- name: a\n", "unknown-key"),
        ("queue: [", "yaml-syntax"),
    ):
        write("ci/queue.yaml", text + ours)
        assert rule in {each for _, each in found()}
