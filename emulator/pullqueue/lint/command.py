"""What `pullqueue lint` does with its arguments."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from pullqueue.config.files import replace_file
from pullqueue.config.findings import Severity
from pullqueue.config.settings import Settings
from pullqueue.config.text import escaped, reason_of
from pullqueue.errors import ConfigFileError
from pullqueue.lint.against import Earlier
from pullqueue.lint.project import NEVER, Project, find_project
from pullqueue.lint.reporters import reporter
from pullqueue.lint.reporters.text import report_full, summary
from pullqueue.lint.results import FileResult
from pullqueue.lint.runner import Job, Outcome, lint_data, lint_files
from pullqueue.lint.search import Input, Inputs, find_inputs
from pullqueue.lint.selection import levels

EXIT_FOUND = 1
EXIT_USAGE = 2

_STDIN = "-"
_FOR_PEOPLE = frozenset({"full", "concise"})


class Arguments(NamedTuple):
    """The command's arguments, as they were given."""

    paths: tuple[str, ...] = ()
    profile: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: tuple[str, ...] = ()
    fail_on: str | None = None
    output_format: str | None = None
    colour: str = "auto"
    fix: bool = False
    unsafe_fixes: bool = False
    diff: bool = False
    against: str | None = None
    strict: bool | None = None
    exclude: tuple[str, ...] = ()
    watch: bool = False
    stdin_filename: str = "<stdin>"


def run(arguments: Arguments) -> int:
    """Check what the arguments name, print what is found and give the exit status.

    Raises:
        click.UsageError: the arguments, or the project's settings, make no sense.
        ConfigFileError: a path does not exist.
    """
    if _STDIN in arguments.paths and (len(arguments.paths) > 1 or arguments.watch):
        raise click.UsageError("`-` stands alone, and cannot be watched")
    if arguments.unsafe_fixes and not (arguments.fix or arguments.diff):
        raise click.UsageError("--unsafe-fixes goes with --fix or --diff")
    project = find_project(Path.cwd())
    job = _job(arguments, project)
    if arguments.paths == (_STDIN,):
        return _run_stdin(arguments, project, job)
    if arguments.watch:
        return _watch(arguments, project, job)
    return _run_files(arguments, project, job)


def _job(arguments: Arguments, project: Project) -> Job:
    profile = arguments.profile or project.profile
    settings = Settings(
        profile=profile,
        levels=levels(
            profile=profile,
            selected=_names(arguments.select) or project.select,
            ignored=(*project.ignore, *_names(arguments.ignore)),
            severities={**project.severity} | _severities(arguments.severity),
        ),
        strict=project.strict if arguments.strict is None else arguments.strict,
    )
    return Job(
        settings=settings,
        against=None if arguments.against is None else Earlier(arguments.against),
        fix=arguments.fix or arguments.diff,
        unsafe=arguments.unsafe_fixes,
    )


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.strip() for part in given for name in part.split(",") if name.strip())


def _severities(given: Sequence[str]) -> dict[str, str]:
    pairs = [name.partition("=") for name in _names(given)]
    for name, equals, _ in pairs:
        if not equals:
            raise click.UsageError(f'"{name}" is not RULE=LEVEL, such as acl-missing=warning')
    return {name: level for name, _, level in pairs}


def _run_stdin(arguments: Arguments, project: Project, job: Job) -> int:
    data = sys.stdin.buffer.read(job.settings.max_bytes + 1)
    if job.against is not None:
        raise click.UsageError("--against needs a file to compare")
    outcome = lint_data(data, file=arguments.stdin_filename, job=job)
    if arguments.fix and not arguments.diff:
        click.echo(outcome.after.encode() if outcome.mended else data, nl=False)
    return _report([outcome], arguments, project, to_stderr=arguments.fix)


def _run_files(arguments: Arguments, project: Project, job: Job) -> int:
    inputs = _inputs(arguments, project)
    outcomes, failures, notes = lint_files(inputs.files, job)
    failures += _without_file(_paths(arguments), inputs.files)
    if arguments.fix and not arguments.diff:
        failures += _write(outcomes)
    for message in (*inputs.notes, *notes, *failures):
        click.echo(f"pullqueue: {message}", err=True)
    status = _report([outcome for _, outcome in outcomes], arguments, project)
    return EXIT_USAGE if failures else status


def _inputs(arguments: Arguments, project: Project) -> Inputs:
    exclude = (*project.exclude, *arguments.exclude)
    return find_inputs(_paths(arguments), exclude=exclude)


def _paths(arguments: Arguments) -> tuple[str, ...]:
    return arguments.paths or (".",)


def _without_file(paths: Sequence[str], inputs: Sequence[Input]) -> list[str]:
    """Tell of the folders that were searched in vain: a slip in CI must not look like success."""
    return [
        f'no queue.yaml found in "{escaped(name)}": name the file, or a folder that has one'
        for name in paths
        if Path(name).is_dir() and not any(item.path.is_relative_to(name) for item in inputs)
    ]


def _write(outcomes: Sequence[tuple[Path, Outcome]]) -> list[str]:
    failures = []
    for path, outcome in outcomes:
        if outcome.mended:
            try:
                replace_file(path, outcome.after.encode())
            except OSError as error:
                failures.append(f'cannot write "{escaped(str(path))}": {reason_of(error)}')
    return failures


def _watch(arguments: Arguments, project: Project, job: Job) -> int:
    from pullqueue.lint.watch import changes  # noqa: PLC0415 - seldom asked for

    def paths() -> list[Path]:
        try:
            return [item.path for item in _inputs(arguments, project).files]
        except ConfigFileError:  # a named file may be gone while an editor writes it
            return []

    try:
        for _ in changes(paths, threading.Event().wait):  # pragma: no branch - never ends
            _run_files(arguments, project, job)
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
    return 0


def _report(
    outcomes: Sequence[Outcome],
    arguments: Arguments,
    project: Project,
    *,
    to_stderr: bool = False,
) -> int:
    results = [outcome.result for outcome in outcomes]
    name = arguments.output_format or _default_format()
    if arguments.diff:
        _echo("".join(outcome.diff() for outcome in outcomes if outcome.mended))
    elif name == "full":
        _echo(report_full(results, colour=_wants_colour(arguments.colour)), err=to_stderr)
    else:
        _echo(reporter(name)(results), err=to_stderr)
    if name in _FOR_PEOPLE and results:
        mended = sum(outcome.mended for outcome in outcomes)
        word = "could be mended" if arguments.diff else "mended"
        done = f"; {mended} {word}" if mended else ""
        click.echo(f"{summary(results)}{done}", err=True)
    if arguments.diff and any(outcome.mended for outcome in outcomes):
        return EXIT_FOUND
    return _status(results, arguments.fail_on or project.fail_on)


def _echo(text: str, *, err: bool = False) -> None:
    """Write UTF-8, whatever the terminal says it speaks."""
    if text:
        click.echo(text.encode(errors="replace"), nl=False, err=err)


def _status(results: Sequence[FileResult], fail_on: str) -> int:
    if fail_on == NEVER:
        return 0
    threshold = Severity(fail_on)
    found = (finding.severity for result in results for finding in result.findings)
    return EXIT_FOUND if any(severity.reaches(threshold) for severity in found) else 0


def _default_format() -> str:
    return "github" if os.environ.get("GITHUB_ACTIONS") == "true" else "full"


def _wants_colour(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()
