"""cron.yaml: from its text to jobs; every fault is reported with its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, tzinfo
from os import PathLike
from typing import TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pullqueue.clock import from_usec, to_usec
from pullqueue.config.document import Mapping, Node, Place, Scalar, Sequence, describe
from pullqueue.config.files import read_bytes
from pullqueue.config.findings import Report, Reports, Severity, UnreadableError
from pullqueue.config.programs import xml_message
from pullqueue.config.reader import ParseResult, decode, read_tree
from pullqueue.config.settings import Settings
from pullqueue.config.values import as_integer, as_number, is_deployable_age, parse_age_limit
from pullqueue.config.view import Entry, Section
from pullqueue.cron.schedule import Interval, Schedule, next_time, parse_schedule
from pullqueue.errors import InvalidCronError
from pullqueue.tasks import RetryParameters
from pullqueue.text import closest, did_you_mean, quoted

_T = TypeVar("_T")

_JOB_KEYS = ("url", "schedule", "description", "timezone", "target", "retry_parameters")
_RETRY_KEYS = (
    "job_retry_limit",
    "job_age_limit",
    "min_backoff_seconds",
    "max_backoff_seconds",
    "max_doublings",
)
_MOST_RETRIES = 5
"""Documented: `job_retry_limit` is at most 5."""
_DEFAULT_MIN_BACKOFF_SECONDS = 5.0
_DEFAULT_MAX_BACKOFF_SECONDS = 3600.0
_DEFAULT_DOUBLINGS = 5
"""Those of Cloud Scheduler, which runs the jobs of App Engine. Its default of `job_retry_limit` is
0: without it, a run is repeated only until the `job_age_limit`, if there is one."""
_MOST_JOBS = 250
"""Documented: a paid application has up to 250 jobs."""
_DESCRIPTION_CHARACTERS = 499
_TARGET = re.compile(r"(?:(?!-)[a-z\d-]{1,63}:)?(?!-)[a-z\d-]{1,100}")
_REFUSED = {"attempt_deadline": "remove it, a request has 10 minutes (gcloud refuses the key)"}
"""Keys of a job that only Google's development server accepts, and what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CronJob:
    """One job of a cron.yaml."""

    number: int
    """Its place in the file, from 1."""
    url: str
    """A path, with a query or without."""
    schedule_text: str
    schedule: Schedule
    description: str = ""
    zone: tzinfo = UTC
    """That of the times of the day in its schedule; as text its name."""
    target: str | None = None
    """The service that is called; None: the default one."""
    retry: RetryParameters | None = None
    """When a run that failed is repeated; None: it is not."""

    @property
    def name(self) -> str:
        """Its description, or else its URL."""
        return self.description or self.url

    @property
    def is_interval(self) -> bool:
        """True if it runs a while after the run before has ended, at whatever time of the day."""
        return isinstance(self.schedule, Interval) and self.schedule.between is None

    def next_usec(self, after_usec: int) -> int:
        """Return when it runs next after a time, both in microseconds since the epoch.

        That is the end of its last run if it is an interval, or else any time.
        """
        return to_usec(next_time(self.schedule, from_usec(after_usec), self.zone))


def load_cron(path: PathLike[str]) -> tuple[CronJob, ...]:
    """Return the jobs of a cron.yaml.

    Raises:
        ConfigFileError: it cannot be read.
        InvalidCronError: it is not valid; the message has each fault with its line.
    """
    return parse_cron(read_bytes(path), file=str(path))


def parse_cron(text: bytes | str, *, file: str = "cron.yaml") -> tuple[CronJob, ...]:
    """Return the jobs in the text of a cron.yaml.

    Raises:
        InvalidCronError: it is not valid; the message has each fault with its line.
    """
    from pullqueue.lint.check import check_parsed  # noqa: PLC0415 - most servers have no cron.yaml

    reader = _Reader(text, file)
    jobs = tuple(reader.jobs())
    settings = Settings(at_least=Severity.ERROR, loading=True)
    if findings := check_parsed(reader.result, settings).findings:
        raise InvalidCronError("\n".join(map(str, findings)))
    return jobs


def read_cron(text: bytes | str, file: str) -> ParseResult:
    """Return what is wrong in the text of a cron.yaml, as the linter takes it."""
    reader = _Reader(text, file)
    for _ in reader.jobs():
        pass
    return reader.result


class _Reader:
    """Reads one file, and collects what is wrong with it."""

    def __init__(self, text: bytes | str, file: str) -> None:
        self._reports: Reports = {}
        source = decode(text, file, self._reports)
        self._root: Node | None = None
        if not self._reports:
            with suppress(UnreadableError):
                self._root = read_tree(source, self._reports)
        self.result = ParseResult(source, None, self._reports, [])
        """What is wrong with it; there is no root on which the rules of queue.yaml apply."""

    def jobs(self) -> Iterator[CronJob]:
        """Yield the jobs, as far as they are valid."""
        if self._root is None and self._reports:
            return
        if not isinstance(self._root, Mapping) or self._root.pair("cron") is None:
            place = self._root.place if self._root is not None else Place(0, 0)
            message = xml_message(self.result.source.text) or (
                "there is no `cron:`: write it, and the jobs as a list under it"
            )
            self._report(Report(place, message))
            return
        section = Section(self._root)
        self._check_keys(section, ("cron", "application"), of="cron.yaml")
        if application := section.get("application"):
            message = "gcloud refuses `application`, since the deployment sets the project: "
            self._report(application.report_key(f"{message}remove it"))
        jobs = section.get("cron")
        if jobs is None:
            return
        if not isinstance(jobs.value, Sequence):
            message = f"`cron` is {describe(jobs.value)}: it must be a list of jobs"
            self._report(jobs.report(message))
            return
        if (count := len(jobs.value.items)) > _MOST_JOBS:
            self._report(jobs.report(f"there are {count} jobs; the maximum is {_MOST_JOBS}"))
        for number, node in enumerate(jobs.value.items, start=1):
            path = ("cron", number - 1)
            if not isinstance(node, Mapping):
                message = f"a job is {describe(node)}: it must have `url` and `schedule`"
                self._report(Report(node.place, message, path))
            elif (job := self._job(Section(node, path), number)) is not None:
                yield job

    def _job(self, section: Section, number: int) -> CronJob | None:
        name = f"job {number}"
        self._check_keys(section, _JOB_KEYS, of=name)
        url = self._read(section, "url", _url)
        schedule = self._read(section, "schedule", _schedule)
        zone = self._read(section, "timezone", _zone)
        description = self._read(section, "description", _description)
        target = self._read(section, "target", _target)
        retry = section.get("retry_parameters")
        parameters = None if retry is None else self._retry(retry, name)
        misspelt = {closest(key, _JOB_KEYS) for key in section.entries if key not in _JOB_KEYS}
        required = [key for key in ("url", "schedule") if section.get(key) is None]
        if missing := [f"no `{key}`" for key in required if key not in misspelt]:
            advice = "add one" if len(missing) == 1 else "add them"
            message = f"{name} has {' and '.join(missing)}: {advice}"
            self._report(Report(section.node.place, message, section.path))
        if url is None or schedule is None:
            return None
        return CronJob(
            number=number,
            url=url,
            schedule_text=schedule[0],
            schedule=schedule[1],
            description=description or "",
            zone=zone or UTC,
            target=target,
            retry=parameters,
        )

    def _retry(self, entry: Entry, job: str) -> RetryParameters | None:
        if not isinstance(entry.value, Mapping):
            message = f"`retry_parameters` is {describe(entry.value)}: it must have keys such as "
            self._report(entry.report(f"{message}`job_retry_limit`"))
            return None
        section = Section(entry.value, entry.path)
        self._check_keys(section, _RETRY_KEYS, of=f"retry_parameters of {job}")
        limit = self._read(section, "job_retry_limit", _retry_limit)
        age_seconds = self._read(section, "job_age_limit", _age_limit)
        most = self._read(section, "max_backoff_seconds", _seconds)
        least = self._read(section, "min_backoff_seconds", _seconds)
        doublings = self._read(section, "max_doublings", _count)
        most = _DEFAULT_MAX_BACKOFF_SECONDS if most is None else most
        if least is not None and least > most:
            message = f"min_backoff_seconds is {least:g}, and max_backoff_seconds is {most:g}: "
            self._report(entry.report(f"{message}it must not be less"))
        return RetryParameters(
            task_retry_limit=0 if limit is None and age_seconds is None else limit,
            task_age_limit_seconds=age_seconds,
            min_backoff_seconds=min(_DEFAULT_MIN_BACKOFF_SECONDS, most) if least is None else least,
            max_backoff_seconds=most,
            max_doublings=_DEFAULT_DOUBLINGS if doublings is None else doublings,
        )

    def _check_keys(self, section: Section, known: tuple[str, ...], *, of: str) -> None:
        for key, entry in section.entries.items():
            if key not in known:
                advice = _REFUSED.get(key) or did_you_mean(key, known)
                self._report(entry.report_key(f"{of} has no key {quoted(key)}: {advice}"))

    def _read(self, section: Section, key: str, parse: Callable[[Scalar], _T]) -> _T | None:
        entry = section.get(key)
        if entry is None:
            return None
        if not isinstance(entry.value, Scalar):
            message = f"`{key}` is {describe(entry.value)}: it must be a single value"
            self._report(entry.report(message))
            return None
        try:
            return parse(entry.value)
        except ValueError as error:
            self._report(entry.report(f"{key} {quoted(entry.value.text)}: {error}"))
            return None

    def _report(self, report: Report) -> None:
        self._reports.setdefault("invalid-cron", []).append(report)


def _url(scalar: Scalar) -> str:
    if not re.fullmatch(r"/[!-~]*", scalar.text):
        raise ValueError("use a path of the app, such as /tasks/summary")
    return scalar.text


def _schedule(scalar: Scalar) -> tuple[str, Schedule]:
    return scalar.text, parse_schedule(scalar.text)


def _zone(scalar: Scalar) -> tzinfo:
    try:
        return ZoneInfo(scalar.text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            "there is no such time zone: use a name of the tz database, such as Europe/Berlin (on "
            "a machine without one, pip install tzdata)"
        ) from None


def _description(scalar: Scalar) -> str:
    if len(scalar.text) > _DESCRIPTION_CHARACTERS:
        raise ValueError(
            f"it has {len(scalar.text)} characters; the maximum is {_DESCRIPTION_CHARACTERS}"
        )
    return " ".join(scalar.text.split())


def _target(scalar: Scalar) -> str:
    if not _TARGET.fullmatch(scalar.text):
        raise ValueError("use the name of a service or a version, such as worker")
    return scalar.text.replace(":", ".")


def _retry_limit(scalar: Scalar) -> int:
    limit = _count(scalar)
    if limit > _MOST_RETRIES:
        raise ValueError(f"the maximum is {_MOST_RETRIES}")
    return limit


def _age_limit(scalar: Scalar) -> int:
    seconds = parse_age_limit(scalar.text) if is_deployable_age(scalar.text) else None
    if not seconds:
        raise ValueError("use a number with a unit, of at least a second, such as 30m, 12h or 2d")
    return seconds


def _seconds(scalar: Scalar) -> float:
    number = as_number(scalar)
    if number is None or number < 0:
        raise ValueError("use a number of seconds, 0 or more")
    return number


def _count(scalar: Scalar) -> int:
    number = as_integer(scalar)
    if number is None or number < 0:
        raise ValueError("use a whole number, 0 or more")
    return number
