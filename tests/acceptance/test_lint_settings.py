"""Which files `pullqueue lint` checks, with which settings, and what it compares them with."""

from __future__ import annotations

import json
import os
import re
from dataclasses import fields
from pathlib import Path

import pytest
from linting import BAD, GOOD, committed, found, git, run, run_pullqueue, stopped, write
from programs import completed

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
    done = run("--format", "json")
    (item,) = json.loads(done.stdout)
    assert (done.exit_code, item["rule"], item["severity"]) == (1, "acl-missing", "warning")
    assert run("--profile", "gcloud", "--severity", "acl-missing=off").exit_code == 0
    assert run("--fail-on", "error").exit_code == 0


@pytest.mark.parametrize(
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
    assert '"severity": "info"' in run("--select", "QY301", "--format", "json").stdout


TABLE = "[tool.pullqueue.lint]\n"


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        (f"{TABLE}selct = []", 'unknown setting "selct"'),
        (f'{TABLE}profile = "gcp"', 'profile is "gcp": use gcloud, sdk, java, rest'),
        (f'{TABLE}select = "x"', 'select is "x": use a list of strings'),
        (f"{TABLE}severity = []", "severity is []: use a table"),
        (
            f"{TABLE}severity = {{ QY3 = 'off', QY301 = 'warnng' }}",
            'severity.QY301 is "warnng": use error, warning, info, off',
        ),
        (f"{TABLE}per-file-ignores = {{ a = 'QY3' }}", 'per-file-ignores.a is "QY3": use a list'),
        (f"{TABLE}strict = 1", "strict is 1: use true or false"),
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


EARLIER = f"{GOOD}- name: mail\n  rate: 5/s\n"


def test_git_hook_can_compare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While git runs a hook, its variables name the repository; the files are found anyway."""
    committed("app/queue.yaml", text=EARLIER)
    write("app/queue.yaml", GOOD)
    monkeypatch.setenv("GIT_DIR", ".git")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")
    os.chdir("app")
    assert stopped() == ["mail"]


def test_linked_work_trees_can_be_compared(folder: Path) -> None:
    """In a second work tree `.git` is a file."""
    (folder / "main").mkdir()
    os.chdir("main")
    committed("queue.yaml", text=EARLIER)
    git("worktree", "add", "-q", "../other")
    os.chdir("../other")
    write("queue.yaml", GOOD)
    assert stopped() == ["mail"]


def test_git_that_is_missing_is_a_usage_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git("init", "-q")
    write("queue.yaml", GOOD)
    monkeypatch.setenv("PATH", "/nowhere")
    done = run_pullqueue("plan", "--against", "HEAD")
    assert done.exit_code == 3
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
