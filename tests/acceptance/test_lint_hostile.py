"""Linting a tree that an attacker wrote: nothing is run, read outside or left half written."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from pathlib import Path
from resource import RLIMIT_FSIZE

import pytest
from linting import ZERO_RATE, committed, found, git, run, run_pullqueue, write
from programs import completed
from rlimits import limited

from pullqueue.lint.reporters import FORMATS

BAD = "queue:\n- name: jobs\n  mode: pull\n- name: mail\n  rate: 0\n"
FIXED = BAD.replace("rate: 0", "rate: 0/s")


def bare_repository_with_monitor(sub: Path, command: str) -> None:
    """Write files that git takes for a repository whose file monitor is a command."""
    write(sub / "queue.yaml", BAD)
    write(sub / "HEAD", "ref: refs/heads/x\n")
    write(sub / "objects" / ".k", "")
    write(sub / "refs" / "heads" / ".k", "")
    write(
        sub / "config",
        "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\n"
        f'fsmonitor = "{command}; false"\n',
    )


PARTIAL_CLONE = """\
[core]
repositoryformatversion = 1
worktree = .
sshCommand = "{command}; false"
[extensions]
partialClone = origin
[remote "origin"]
url = ssh://127.0.0.1/x
promisor = true
"""


def partial_clone_that_lacks_a_file(repository: Path, command: str) -> None:
    """Write a repository with a commit whose file must be fetched, by a command."""
    bare = ("--git-dir", str(repository))
    git(*bare, "init", "-q", "--bare", "--template=")
    tree = git(*bare, "mktree", "--missing", stdin=f"100644 blob {'1' * 40}\tqueue.yaml\n")
    git(*bare, "update-ref", "HEAD", git(*bare, "commit-tree", "-m", "x", tree))
    write(repository / "config", PARTIAL_CLONE.format(command=command))


@pytest.mark.parametrize("inside", [False, True])
def test_hidden_repository_runs_no_file_monitor(folder: Path, *, inside: bool) -> None:
    """A folder that is a bare repository with `core.fsmonitor` is only searched for files."""
    git("init", "-q")
    bare_repository_with_monitor(folder / "sub", f"touch {folder / 'PWNED'}")
    if inside:
        os.chdir("sub")
    assert [rule for _, rule in found("." if inside else "sub")] == ["rate-bare-zero"]
    assert not (folder / "PWNED").exists()


@pytest.mark.parametrize("inside", [False, True])
def test_hidden_repository_is_not_compared_with(folder: Path, *, inside: bool) -> None:
    """`--against` reads the user's own repository, not a partial clone within the tree."""
    sub = folder / "sub"
    partial_clone_that_lacks_a_file(sub, f"touch {folder / 'PWNED'}")
    committed("sub/queue.yaml", text=f"{BAD}- name: gone\n  rate: 1/s\n")
    write(sub / "queue.yaml", BAD)
    if inside:
        os.chdir("sub")
    rules = [rule for _, rule in found("--against", "HEAD")]
    assert rules == ["queue-removed", "rate-bare-zero"]
    assert not (folder / "PWNED").exists()


def test_partial_clone_fetches_nothing(folder: Path) -> None:
    git("init", "-q")
    partial_clone_that_lacks_a_file(folder / ".git", f"touch {folder / 'PWNED'}")
    write(folder / "queue.yaml", BAD)
    done = run("--against", "HEAD", "--format", "concise")
    assert not (folder / "PWNED").exists()
    assert "rate-bare-zero" in done.stdout
    assert 'not compared with "HEAD": "queue.yaml" is new, was moved, or is not in' in done.stderr


COMMANDS_OF_GIT = {
    "core": "fsmonitor sshCommand pager editor askPass gitProxy alternateRefsCommand",
    'filter "evil"': "smudge clean process",
    'diff "evil"': "textconv command",
    'merge "evil"': "driver",
    "diff": "external",
    "credential": "helper",
    "gpg": "program",
    "uploadpack": "packObjectsHook",
    **dict.fromkeys(("alias", "pager"), "cat-file rev-parse"),
}
"""Where git's configuration can name a command."""


def test_configured_commands_of_the_own_repository_are_not_run(folder: Path) -> None:
    write(folder / ".gitattributes", "*.yaml filter=evil diff=evil merge=evil\n")
    committed("queue.yaml", text=BAD.replace("mail", "gone"))
    write(folder / "queue.yaml", BAD)
    command = f"touch {folder / 'PWNED'}; false"
    git_folder = folder / ".git"
    with (git_folder / "config").open("a") as config:
        for section, keys in COMMANDS_OF_GIT.items():
            config.write(f"[{section}]\n")
            sign = "!" if section == "alias" else ""
            config.writelines(f'{key} = "{sign}{command}"\n' for key in keys.split())
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        write(git_folder / "hooks" / hook, f"#!/bin/sh\n{command}\n")
        (git_folder / "hooks" / hook).chmod(0o755)
    rules = [rule for _, rule in found("--against", "HEAD")]
    assert rules == ["queue-removed", "rate-bare-zero"]
    assert not (folder / "PWNED").exists()


@pytest.mark.parametrize("revision", ["--output=PWNED", "--batch", "-x"])
def test_revision_is_not_taken_for_an_option(folder: Path, revision: str) -> None:
    git("init", "-q")
    write(folder / "queue.yaml", BAD)
    done = run(f"--against={revision}")
    assert done.exit_code == 2
    assert "no git revision and no file" in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == [".git", "queue.yaml"]


def test_search_does_not_leave_the_tree_by_a_link(folder: Path) -> None:
    tree = folder / "tree"
    write(folder / "outside" / "queue.yaml", BAD)
    write(tree / "shared" / "queues-a.yaml", BAD)
    for name, target in {
        "a/queue.yaml": "../../outside/queue.yaml",
        "b/queue.yaml": "/proc/self/environ",
        "c/queue.yaml": "nowhere",
        "d/queue.yaml": "queue.yaml",
        "e": "../outside",
        "f/queue.yaml": "../shared/queues-a.yaml",
    }.items():
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).symlink_to(target)
    os.chdir(tree)
    assert [file for file, _ in found()] == ["f/queue.yaml"]
    assert run("--format", "json").stderr.splitlines() == [
        f'pullqueue: skipped "{name}/queue.yaml": it is a link to no file of the project'
        for name in "abcd"
    ]


@pytest.mark.parametrize("name", ["queue.yaml", "folder/queue.yaml"])
def test_fix_writes_the_file_of_the_project_that_a_link_leads_to(folder: Path, name: str) -> None:
    git("init", "-q")
    write(folder / "real" / "target.yaml", ZERO_RATE)
    (folder / "queue.yaml").symlink_to("real/target.yaml")
    (folder / "real" / "queue.yaml").symlink_to("target.yaml")
    (folder / "folder").symlink_to("real")
    done = run(name, "--fix")
    assert done.exit_code == 0
    assert "1 fixed" in done.stderr
    assert (folder / "real" / "target.yaml").read_text() == ZERO_RATE.replace("0\n", "0/s\n")
    assert (folder / name).is_symlink()


def test_special_files_are_refused_at_once(folder: Path) -> None:
    os.mkfifo("fifo")
    write(folder / "sub" / "other" / "queue.yaml", BAD)
    os.mkfifo("sub/queue.yaml")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for name, kind in {
            "fifo": "a FIFO",
            "sub": "a FIFO",
            "socket": "a socket",
            "/dev/zero": "a device",
        }.items():
            done = run(name)
            assert done.exit_code == 3
            assert f"is {kind}, not a regular file" in done.stderr
            assert ("rate-bare-zero" in done.stdout) == (name == "sub")


def test_special_files_are_not_read_as_settings(folder: Path) -> None:
    write(folder / "queue.yaml", BAD)
    os.mkfifo(".gitignore")
    assert "rate-bare-zero" in run().stdout
    (folder / ".gitignore").unlink()
    (folder / ".gitignore").symlink_to("/dev/zero")
    assert "rate-bare-zero" in run().stdout


def test_bad_patterns_of_gitignore_are_left_out(folder: Path) -> None:
    write(folder / ("a" * 200) / "queue.yaml", BAD)
    for pattern in ("*a" * 20 + "b", "\\", "a\\", "[z-a]", "[", "!", "/", "a[[:x:]]"):
        write(folder / ".gitignore", f"{pattern}\n")
        assert "rate-bare-zero" in run().stdout, pattern


CONTROL = "\x1b[31m\x07\r\n\x7f\x85\x9b"
CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]|\n::stop")


def test_control_characters_of_names_are_escaped(folder: Path) -> None:
    """A file's name steers no terminal and forges no line, whatever the format."""
    path = f"a{CONTROL}\n::stop-commands::x/queue.yaml"
    write(folder / path, f"{BAD}- name: a_b\n  rate: 1/s\n")
    for name in (*FORMATS, "diff"):
        done = run(".", *(["--diff"] if name == "diff" else ["--format", name]))
        assert done.exit_code == 1, name
        assert not CONTROLS.search(done.stdout + done.stderr), name
        assert re.search(r"\\x1b|\\u001b|%1B", done.stdout), name
        if name in {"json", "gitlab", "sarif"}:
            json.loads(done.stdout)


def test_control_characters_of_contents_are_escaped(folder: Path) -> None:
    for content in (
        "queue:\n- name: a\x1b[31m\n",
        "queue:\n- name: a\x9b\n",
        'queue:\n- name: "a\\e[31m\\x9b\\x7f"\n',
        'queue:\n- name: a\n  "\\e[31m\\x9b\\x7f": 1\n',
        "queue:\n- name: a\n  rate: 1/s # queue-lint: ignore[a\x7fb]\n",
        "queue: !<tag:\x1b> a\n",
    ):
        write(folder / "queue.yaml", content)
        for name in FORMATS:
            done = run("queue.yaml", "--format", name)
            assert done.exit_code == 1, (content, name)
            assert not CONTROLS.search(done.stdout + done.stderr), (content, name)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["lint", f"no{CONTROL}"], 3),
        (["lint", f"no{CONTROL}", "--against", "HEAD"], 2),
        (["lint", "queue.yaml", "--against", f"no{CONTROL}"], 2),
        (["lint", "queue.yaml", "--select", f"no{CONTROL}"], 2),
        (["lint", f"fifo{CONTROL}"], 3),
        (["lint", f"folder{CONTROL}"], 3),
        (["lint", f"link{CONTROL}", "--fix"], 0),
        (["lint", "queue.yaml", "--stdin-filename", f"no{CONTROL}"], 1),
        (["convert", f"no{CONTROL}"], 3),
        (["convert", "queue.yaml"], 1),
        (["convert", f"x{CONTROL}.xml", "-o", f"no{CONTROL}/queue.yaml"], 3),
        (["convert", f"x{CONTROL}.xml", "-o", f"link{CONTROL}"], 1),
    ],
)
def test_control_characters_are_escaped_in_error_messages(
    folder: Path, arguments: list[str], status: int
) -> None:
    write(folder / "queue.yaml", BAD)
    write(folder / f"x{CONTROL}.xml", "<queue-entries></queue-entries>")
    os.mkfifo(f"fifo{CONTROL}")
    (folder / f"folder{CONTROL}").mkdir()
    (folder / f"link{CONTROL}").symlink_to("queue.yaml")
    done = run_pullqueue(*arguments)
    assert done.exit_code == status
    assert not CONTROLS.search(done.stdout + done.stderr)


@pytest.mark.parametrize(
    "command", ["lint --fix queue.yaml", "convert queue.xml --force -o queue.yaml"]
)
def test_file_that_cannot_be_written_whole_keeps_its_content(folder: Path, command: str) -> None:
    before = BAD + "# a comment\n" * 800
    write(folder / "queue.yaml", before)
    queues = "<queue><name>a</name><rate>1/s</rate></queue>" * 400
    write(folder / "queue.xml", f"<queue-entries>{queues}</queue-entries>")
    with limited(RLIMIT_FSIZE, 8192):
        done = run_pullqueue(*command.split())
    assert done.exit_code == 3
    assert 'cannot write "queue.yaml": file too large' in done.stderr
    assert (folder / "queue.yaml").read_text() == before
    assert sorted(path.name for path in folder.iterdir()) == ["queue.xml", "queue.yaml"]


KILLED = """
import json, os, signal, sys
from pathlib import Path
from pullqueue.cli import main
from pullqueue.config import files
import pullqueue.cli._linter, pullqueue.lint.fixes

replace_file = files.replace_file

def fix_and_die_in_call(number):
    calls = iter(range(1, 20))
    def count(event, arguments):
        if event in ("open", "os.rename", "os.chmod", "os.remove") and next(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
    def begin(frame, event, argument):
        if frame.f_code is replace_file.__code__:
            sys.setprofile(None)
            sys.addaudithook(count)
    sys.setprofile(begin)
    os._exit(main(["lint", "--fix", "queue.yaml"]))

path, seen = Path("queue.yaml"), []
before = path.read_text()
while not seen or seen[-1][0] == -signal.SIGKILL:
    path.write_text(before)
    child = os.fork()
    if not child:
        fix_and_die_in_call(len(seen) + 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    seen.append((status, path.read_text()))
print(json.dumps(seen))
"""


def test_killed_at_any_time_the_file_is_whole(folder: Path) -> None:
    write(folder / "queue.yaml", BAD)
    done = completed([sys.executable, "-c", KILLED], check=True)
    *killed, last = json.loads(done.stdout.splitlines()[-1])
    assert last == [0, FIXED]
    assert [text for _, text in killed if text not in (BAD, FIXED)] == []
    assert len(killed) >= 3


def test_mode_and_line_ends_are_kept(folder: Path) -> None:
    path = folder / "queue.yaml"
    write(path, BAD.replace("\n", "\r\n"))
    path.chmod(0o640)
    assert run("queue.yaml", "--fix").exit_code == 0
    assert path.read_bytes() == FIXED.replace("\n", "\r\n").encode()
    assert path.stat().st_mode & 0o7777 == 0o640
    write(folder / "queue.xml", "<queue-entries></queue-entries>")
    assert run_pullqueue("convert", "queue.xml", "-o", "new.yaml").exit_code == 0
    write(folder / "other", "")
    assert (folder / "new.yaml").stat().st_mode == (folder / "other").stat().st_mode
