"""The run of `pullqueue lint`: read files, have them checked, print the findings."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pullqueue.cli._output import STDIN
from pullqueue.config.files import read_project_file, read_stamp, replace_project_file
from pullqueue.config.programs import is_cron_yaml
from pullqueue.config.project import real_path, work_tree
from pullqueue.config.settings import MAX_BYTES
from pullqueue.error_codes import EXIT_FAILURE, EXIT_REFUSED, EXIT_USAGE
from pullqueue.errors import ConfigFileError
from pullqueue.lint.baseline import Baseline, refuse_other_file, write_baseline
from pullqueue.lint.errors import InvalidOptionError, InvalidSettingsError
from pullqueue.lint.options import Arguments
from pullqueue.lint.report import FileReport, LintOptions, RunReport, lint_data
from pullqueue.lint.reporters import reporter
from pullqueue.lint.reporters.text import summary
from pullqueue.lint.search import Input, Inputs, absolute, find_inputs
from pullqueue.lint.selection import Selection
from pullqueue.text import counted, escaped

if TYPE_CHECKING:
    from pullqueue.lint.git import Earlier

POLL_SECONDS = 0.5

_ROOT_VARIABLES = {
    "github": ("GITHUB_WORKSPACE",),
    "gitlab": ("CI_PROJECT_DIR",),
    "sarif": ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"),
}
"""The formats whose paths are relative to the repository, and the variables with its root."""
_FOR_PEOPLE = frozenset({"full", "concise"})


def run(arguments: Arguments) -> int:
    """Check the files, print the findings and return the exit status.

    Raises:
        InvalidOptionError: the arguments are invalid.
        InvalidSettingsError: the project's settings are.
        ConfigFileError: a path does not exist.
    """
    _refuse_empty(arguments)
    if STDIN in arguments.paths and (len(arguments.paths) > 1 or arguments.watch):
        raise InvalidOptionError("`-` cannot be used with other paths or --watch")
    if arguments.unsafe_fixes and not (arguments.fix or arguments.diff):
        raise InvalidOptionError("--unsafe-fixes needs --fix or --diff")
    if arguments.diff and arguments.format and arguments.format not in _FOR_PEOPLE:
        raise InvalidOptionError(f"--diff prints a diff: leave out --format {arguments.format}")
    if arguments.write_baseline and (STDIN in arguments.paths or arguments.watch):
        raise InvalidOptionError("--write-baseline cannot be used with `-` or --watch")
    if arguments.write_baseline == STDIN:
        raise InvalidOptionError("--write-baseline cannot be `-`: name a file")
    if arguments.write_baseline:
        refuse_other_file(Path(arguments.write_baseline))
    linter = _Linter(arguments)
    if arguments.paths == (STDIN,):
        return linter.check_stdin()
    return linter.watch() if arguments.watch else linter.check_files()


def _refuse_empty(arguments: Arguments) -> None:
    """Refuse empty arguments, as of a variable that is not set: one means the current folder."""
    if "" in arguments.paths:
        raise InvalidOptionError("an argument is empty: name a file or a folder")
    for field in fields(arguments):
        if getattr(arguments, field.name) == "":
            option = f"--{field.name.replace('_', '-')}"
            raise InvalidOptionError(f"{option} is empty: pass a value, or leave it out")


class _Linter:
    """Reads files, has them checked, and prints what is found."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._selection = Selection(arguments)
        self._against: Earlier | None = None
        if arguments.against is not None:
            from pullqueue.lint.git import Earlier

            self._against = Earlier(arguments.against, Path.cwd())
        path = None if arguments.write_baseline else self._selection.baseline
        self._baseline = Baseline(path) if path else None
        self._writes = arguments.fix and not arguments.diff

    @property
    def _paths(self) -> tuple[str, ...]:
        return self._arguments.paths or (".",)

    def _inputs(self) -> Inputs:
        return find_inputs(
            self._paths,
            exclude=self._selection.exclude,
            force_exclude=self._arguments.force_exclude,
        )

    def _lint(self, data: bytes, path: Path, notes: list[str], *, misnamed: bool) -> FileReport:
        settings = self._selection.settings(absolute(path))._replace(misnamed=misnamed)
        is_cron = path.stem == "cron" or (
            path.stem != "queue" and is_cron_yaml(data.decode(errors="replace"))
        )
        if self._against is not None and not is_cron:
            settings = settings._replace(previous_modes=self._against.modes(path, notes))
        options = LintOptions(
            settings=settings,
            fix=self._arguments.fix or self._arguments.diff,
            unsafe=self._arguments.unsafe_fixes,
            known=self._baseline.known_in(path) if self._baseline else {},
        )
        if is_cron:
            from pullqueue.cron.file import read_cron

            options = options._replace(read=read_cron)
        return lint_data(data, file=str(path), options=options)

    def check_stdin(self) -> int:
        """Check standard input; with --fix, write the fixed text to standard output."""
        path = Path(self._arguments.stdin_filename)
        real_path(path.parent)  # its settings are read
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        notes: list[str] = []
        report = self._lint(data, path, notes, misnamed=False)
        _say(notes)
        if self._writes:
            click.echo(report.after.encode() if report.fixed else data, nl=False)
        return self._finish([report])

    def check_files(self) -> int:
        """Check files; one that cannot be read or written does not stop the others."""
        files, notes = self._inputs()
        reports: list[FileReport] = []
        failures = self._empty_folders(files)
        for path, searched in files:
            misnamed = searched and path.stem != "queue"
            try:
                report = self._lint(read_project_file(path), path, notes, misnamed=misnamed)
                if self._writes and report.fixed:
                    replace_project_file(path, report.after.encode())
                reports.append(report)
            except (ConfigFileError, InvalidSettingsError) as error:
                failures.append(error)
        stale = self._baseline.stale_note(reports) if self._baseline else None
        _say((*notes, *([stale] if stale else ()), *map(str, failures)))
        if self._arguments.write_baseline:
            return self._write_baseline(Path(self._arguments.write_baseline), reports)
        status = self._finish(reports)
        if any(isinstance(failure, ConfigFileError) for failure in failures):
            return EXIT_FAILURE
        return EXIT_USAGE if failures else status

    def _empty_folders(self, files: list[Input]) -> list[Exception]:
        """Report folders that were searched in vain: a slip in CI must not look like success."""
        return [
            ConfigFileError(
                f'no queue.yaml found in "{escaped(name)}": name the file, or a folder that has one'
            )
            for name in self._paths
            if Path(name).is_dir() and not any(item.path.is_relative_to(name) for item in files)
        ]

    def _write_baseline(self, path: Path, reports: list[FileReport]) -> int:
        write_baseline(path, reports)
        count = sum(len(report.findings) for report in reports)
        _say([f'wrote {counted(count, "finding")} to "{escaped(str(path))}"'])
        return 0

    def watch(self) -> int:
        """Check the files now and whenever one of them changes, until Ctrl-C."""

        def paths() -> list[Path]:
            try:
                return [item.path for item in self._inputs().files]
            except ConfigFileError:  # a named file may be missing while an editor writes it
                return []

        try:
            for _ in changes(paths, threading.Event().wait):  # pragma: no branch - endless
                try:
                    self.check_files()
                except (ConfigFileError, InvalidSettingsError) as error:
                    _say([str(error)])
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
        return 0

    def _finish(self, files: list[FileReport]) -> int:
        """Print what was found and return the exit status."""
        arguments = self._arguments
        report = RunReport(files, self._selection.threshold, _wants_colour(arguments.color))
        is_github = os.environ.get("GITHUB_ACTIONS") == "true"
        name = arguments.format or ("github" if is_github else "full")
        to_stderr = arguments.paths == (STDIN,) and arguments.fix
        if arguments.diff:
            _echo("".join(file.diff() for file in files if file.fixed))
        else:
            _echo(reporter(name)(_in_repository(report, name)), err=to_stderr)
        fixed = sum(file.fixed for file in files)
        if name in _FOR_PEOPLE and files:
            done = f"; {fixed} {'could be fixed' if arguments.diff else 'fixed'}" if fixed else ""
            fix = arguments.fix or arguments.diff
            summed = summary(report, fix=fix, unsafe_fixes=arguments.unsafe_fixes)
            click.echo(f"{summed}{done}", err=True)
        has_failed = any(report.fails(finding) for finding in report.findings)
        return EXIT_REFUSED if has_failed or (arguments.diff and fixed) else 0


def changes(paths: Callable[[], Iterable[Path]], wait: Callable[[float], object]) -> Iterator[None]:
    """Yield now, and again whenever one of some files has changed."""
    before: object = None
    while True:
        now = {path: read_stamp(path) for path in paths()}
        if now != before:
            before = now
            yield
        wait(POLL_SECONDS)


def _say(messages: Iterable[str]) -> None:
    for message in messages:
        click.echo(f"pullqueue: {message}", err=True)


def _echo(text: str, *, err: bool = False) -> None:
    """Write UTF-8, whatever the encoding of the terminal."""
    if text:
        click.echo(text.encode(errors="replace"), nl=False, err=err)


def _in_repository(report: RunReport, name: str) -> RunReport:
    """Return a report with the paths that a service expects which shows it in the repository.

    They are relative to the root of git's work tree, or else to the folder of the service.
    """
    if name not in _ROOT_VARIABLES:
        return report
    variables = (os.environ.get(variable, "") for variable in _ROOT_VARIABLES[name])
    root = work_tree(Path.cwd()) or next((Path(text).resolve() for text in variables if text), None)
    return report if root is None else report.relative_to(root)


def _wants_colour(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()
