"""One run of the linter: files in, results out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pullqueue.config.check import Checked, check
from pullqueue.config.files import read_bytes
from pullqueue.config.settings import Settings
from pullqueue.config.text import escaped
from pullqueue.errors import ConfigFileError
from pullqueue.lint.against import Earlier
from pullqueue.lint.results import FileResult
from pullqueue.lint.search import Input, misnamed


class Job(NamedTuple):
    """What is to be done with each file."""

    settings: Settings = Settings()
    against: Earlier | None = None
    """What to compare with."""
    fix: bool = False
    """Whether to mend what can be mended."""
    unsafe: bool = False
    """Whether to mend also where the result may mean something else."""


class Outcome(NamedTuple):
    """What became of one file."""

    result: FileResult
    before: str = ""
    """The text before it was mended; empty where nothing was."""
    after: str = ""
    """The mended text."""
    mended: int = 0
    """How many fixes were made."""

    def diff(self) -> str:
        """Give the fixes as a unified diff."""
        from difflib import unified_diff  # noqa: PLC0415 - seldom asked for

        name = escaped(self.result.file)
        lines = unified_diff(
            self.before.splitlines(keepends=True), self.after.splitlines(keepends=True), name, name
        )
        return "".join(
            line if line.endswith(("\n", "\r")) else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        )


class Run(NamedTuple):
    """What became of the files of one run."""

    outcomes: list[tuple[Path, Outcome]]
    failures: list[str]
    """Messages on files that cannot be read."""
    notes: list[str]
    """Messages on files that were not compared."""


def lint_files(inputs: Iterable[Input], job: Job) -> Run:
    """Check files; a file that cannot be read does not stop the others."""
    outcomes, failures, notes = [], [], []
    for item in inputs:
        try:
            data = read_bytes(item.path, max_bytes=job.settings.max_bytes)
        except ConfigFileError as error:
            failures.append(str(error))
            continue
        settings = job.settings._replace(misnamed=item.searched and misnamed(item.path))
        if job.against is not None:
            names = job.against.names(item.path)
            settings = settings._replace(previous_names=names or ())
            if names is None:
                file = escaped(str(item.path))
                notes.append(f'"{file}" was not compared: "{job.against.name}" has no such file')
        job_here = job._replace(settings=settings)
        outcomes.append((item.path, lint_data(data, file=str(item.path), job=job_here)))
    return Run(outcomes, failures, notes)


def lint_data(data: bytes, *, file: str, job: Job) -> Outcome:
    """Check a file's content, and mend it if that is asked for."""
    checked = check(data, file=file, settings=job.settings)
    if not job.fix or not any(_may_mend(checked, job)):
        return Outcome(FileResult(file, checked.source, checked.findings))
    from pullqueue.lint.fixes import mend  # noqa: PLC0415 - not every run mends

    text = data.decode()  # a fix is offered only for a text that could be decoded
    mended = mend(
        text, lambda text: check(text, file=file, settings=job.settings), unsafe=job.unsafe
    )
    left = mended.checked
    return Outcome(FileResult(file, left.source, left.findings), text, mended.text, mended.applied)


def _may_mend(checked: Checked, job: Job) -> Iterable[bool]:
    return (
        finding.fix is not None and (finding.fix.safe or job.unsafe) for finding in checked.findings
    )
