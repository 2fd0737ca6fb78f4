"""Runs what a Markdown document shows: its files, its Python, its tests and its commands.

A fenced block whose first line is a comment with a file's name is written to that file. Test
modules are run with pytest, consecutive ones together; a `text` block after them is the output of
pytest. All other Python blocks of a document are run in one interpreter, so that a block can
continue the previous one. In `console` blocks the lines after `$ ` are run by bash, and exported
variables are kept. The output must be what the `console` block, or a `text` block after a Python
block, shows; `...` matches anything, and a command that shows nothing else must succeed. The
commands in files of CI services and pre-commit are run at once, and must succeed.

The ports that documents show, the default one among them, are free ones while they are run, so that
neither another document nor a server that somebody uses is in the way.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import yaml
from forking import APP_PROGRAMS, PROGRAMS, write_script
from programs import completed

README = Path(__file__).parents[2] / "README.md"
DOCS = README.parent / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
_QUEUE_YAML = README.parent / "samples" / "quickstart" / "queue.yaml"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE_NAME = re.compile(r"^(?:#|//|<!--) ([\w./-]+\.\w+)(?: -->)?$")
_HOOKS = README.parent / ".pre-commit-hooks.yaml"
_INSTALLING = re.compile(r"^\s*pip install .*\n?|pipx run --spec \S+ ", re.MULTILINE)
_READY = "pullqueue listening on "
_PORTS = ("8124", "8125", "8126", "8127", "8080")
"""The ports that documents show; the first is the default one."""
_FIRST_PORT, _PORT_COUNT = 20_000, 12_000
"""The ports that are used in their place, below those that systems choose for programs."""
_SHOWN_PORT = re.compile(rf"\b({'|'.join(_PORTS)})\b")
_KEEPING_EXPORTS = """
source "$EXPORTS_FILE"
(exit {status})
{command}
status=$?
export -p > "$EXPORTS_FILE"
exit $status
"""


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    language: str
    text: str
    line: int

    @property
    def file_name(self) -> str | None:
        """The file that the block is shown as."""
        match = _FILE_NAME.match(self.text.partition("\n")[0])
        return match and match.group(1)


def blocks_of(document: Path) -> list[Block]:
    """Return the fenced blocks of a document."""
    text = document.read_text("utf-8")
    return [
        Block(match.group(1), match.group(2), text.count("\n", 0, match.start()) + 1)
        for match in _BLOCK.finditer(text)
    ]


def is_foreign(document: Path) -> bool:
    """Return whether a document has blocks in other languages than Python."""
    return not {block.language for block in blocks_of(document)}.isdisjoint({"js", "go", "java"})


RUN = [page for page in [*PAGES, README] if blocks_of(page) and not is_foreign(page)]
"""The pages whose blocks can be run here."""


def name_of(page: Path) -> str:
    """Return a page's path below the folder of documents."""
    return page.relative_to(page.parent if page == README else DOCS).as_posix()


def run_document(document: Path, folder: Path, **variables: str) -> None:
    """Run a document's blocks in a folder, with more variables; the quickstart's, if it says so."""
    if "samples/quickstart" in document.read_text("utf-8"):
        shutil.copy(_QUEUE_YAML, folder)
    runner = DocumentRunner(folder, variables)
    try:
        for block in blocks_of(document):
            runner.run(block)
        runner.run_tests()
    finally:
        runner.close()


class DocumentRunner:
    """Runs blocks one after the other in one folder."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self.folder = folder
        self.variables = variables
        self.exports = folder.parent / f"{folder.name}.exports"
        self.exports.touch()
        self.ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
        self.programs = folder.parent / f"{folder.name}.bin"
        self.programs.mkdir()
        for name in (*PROGRAMS, *APP_PROGRAMS):
            write_script(self.programs, name, port=self.ports[_PORTS[0]])
        self.processes: list[subprocess.Popen[str]] = []
        self.interpreter: subprocess.Popen[str] | None = None
        self.tests: list[str] = []
        self.last_status = 0
        self.last_output = ""

    def run(self, block: Block) -> None:
        """Run a block and check that its output is the one shown."""
        block = replace(block, text=_SHOWN_PORT.sub(lambda m: self.ports[m[0]], block.text))
        if block.file_name:
            self._write(block, block.file_name)
        elif block.language == "python":
            self.run_tests()
            self._python(block)
        elif block.language == "text":
            self.run_tests()
            message = f"line {block.line}:\n{self.last_output}\nis not\n{block.text}"
            assert _matches(block.text, self.last_output), message
        elif block.language == "console":
            for line, expected in _commands(block.text):
                self._command(line, expected)

    def run_tests(self) -> None:
        """Run the test modules that were written and not yet run."""
        if not self.tests:
            return
        asynchronous = any(
            "mark.asyncio" in (self.folder / name).read_text() for name in self.tests
        )
        plugins = ["-p", "pytest_asyncio.plugin"] if asynchronous else []
        done = completed(
            [self.programs / "pytest", "-q", "-p", "no:cacheprovider", *plugins, *self.tests],
            cwd=self.folder,
            env=self._environment(),
        )
        self.tests.clear()
        self.last_output = done.stdout + done.stderr
        assert done.returncode == 0, self.last_output

    def close(self) -> None:
        for process in self.processes:
            process.terminate()
            process.communicate(timeout=60)

    def _write(self, block: Block, name: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, "utf-8")
        if path.name.startswith("test_"):
            self.tests.append(name)
        for script in _scripts_of(path):
            self._script(script)

    def _python(self, block: Block) -> None:
        if self.interpreter is None:
            self.interpreter = self._start([str(self.programs / "python-blocks")])
        assert self.interpreter.stdin is not None
        self.interpreter.stdin.write(json.dumps(block.text) + "\n")
        self.interpreter.stdin.flush()
        failed, self.last_output = json.loads(_line(self.interpreter.stdout))
        assert not failed, f"line {block.line}:\n{self.last_output}"

    def _command(self, command: str, expected: str) -> None:
        if _READY in expected:
            server = self._start(["bash", "-c", f"exec env {command}"])
            first = _line(server.stdout)
            assert _matches(expected.partition("\n")[0], first), first
            return
        done = subprocess.run(
            ["bash", "-c", _KEEPING_EXPORTS.format(status=self.last_status, command=command)],
            check=False,
            cwd=self.folder,
            env={**self._environment(), "EXPORTS_FILE": str(self.exports)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        self.last_status = done.returncode
        if expected.strip() == "...":
            assert done.returncode == 0, f"$ {command}\n{done.stdout}"
        assert _matches(expected, done.stdout), f"$ {command}\n{done.stdout}\nis not\n{expected}"

    def _script(self, script: str) -> None:
        """Run a script as a CI service does, and end what it left running."""
        with subprocess.Popen(
            ["bash", "-e", "-c", script],
            cwd=self.folder,
            env={**self._environment(), "RUNNER_TEMP": str(self.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            status = process.wait(timeout=120)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            assert process.stdout is not None
            assert status == 0, f"{script}\n{process.stdout.read()}"

    def _environment(self) -> dict[str, str]:
        """Return an environment with the commands under test, wherever pytest was started.

        Neither coverage nor other plugins of pytest are loaded: they take longer than what is
        shown.
        """
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
        folders = [str(self.programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        return {
            **inherited,
            **self.variables,
            "PATH": os.pathsep.join(folders),
            "COLUMNS": "80",
            "NO_COLOR": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": "pytest_pullqueue.plugin",
        }

    def _start(self, command: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(process)
        return process


def run_blocks() -> None:
    """Run blocks of Python, one JSON string on each line; print whether it failed, and output."""
    warnings.simplefilter("error")
    names = {"__name__": "__main__"}
    for line in sys.stdin:
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            try:
                exec(compile(json.loads(line), "<block>", "exec"), names)  # noqa: S102
                failed = False
            except BaseException:  # noqa: BLE001 - it is reported
                failed = True
                traceback.print_exc()
        sys.stdout.write(json.dumps([failed, printed.getvalue()]) + "\n")
        sys.stdout.flush()


def _free_ports(count: int) -> list[str]:
    """Return ports that nothing listens on, and that nobody gets who asks for any free one.

    A document may use a port only after a while; servers of other tests have been started by then.
    """
    ports = (_FIRST_PORT + (os.getpid() * 13 + n) % _PORT_COUNT for n in itertools.count())
    free: list[str] = []
    with ExitStack() as stack:
        while len(free) < count:
            port = next(ports)
            with suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                free.append(str(port))
    return free


def _line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().rstrip("\n")


def _commands(text: str) -> list[tuple[str, str]]:
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [_command_and_output(part) for part in parts]


def _command_and_output(part: str) -> tuple[str, str]:
    """Split a command, with lines that continue after a backslash, from its output."""
    match = re.match(r"(?:.*\\\n)*.*", part)
    assert match is not None
    return match.group(), part[match.end() :].removeprefix("\n")


def _matches(expected: str, actual: str) -> bool:
    pattern = ".*?".join(re.escape(part) for part in expected.strip().split("..."))
    return re.fullmatch(pattern, actual.strip(), re.DOTALL) is not None


def _scripts_of(path: Path) -> list[str]:
    """Return the scripts of a file, as they are where everything is installed; none of others."""
    for ending, read in _READERS.items():
        if path.as_posix().endswith(ending) or ending in path.parent.as_posix():
            scripts = read(yaml.safe_load(path.read_text("utf-8")))
            return [_INSTALLING.sub("", script) for script in scripts]
    return []


def _of_github(workflow: Mapping[str, Any]) -> Iterator[str]:
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        for step in job["steps"]:
            assert "run" in step or re.fullmatch(r"[\w/-]+@v\d+(\.\d+\.\d+)?", step["uses"]), step
            yield step.get("run", "")


def _of_gitlab(jobs: Mapping[str, Any]) -> Iterator[str]:
    for job in jobs.values():
        yield "\n".join(job["script"])


def _of_precommit(config: Mapping[str, Any]) -> Iterator[str]:
    ours = {hook["id"]: hook for hook in yaml.safe_load(_HOOKS.read_text("utf-8"))}
    for repository in config["repos"]:
        for hook in repository["hooks"]:
            assert re.search(ours[hook["id"]]["files"], "queue.yaml"), hook
            yield f"{ours[hook['id']]['entry']} {' '.join(ours[hook['id']]['args'])} queue.yaml"


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    ".github/workflows": _of_github,
    ".gitlab-ci.yml": _of_gitlab,
    ".pre-commit-config.yaml": _of_precommit,
}
