"""Operations on cron jobs: list them, and run one now."""

from __future__ import annotations

from typing import Annotated

from pullqueue.api.errors import ApiError
from pullqueue.clock import from_usec
from pullqueue.cron.runner import JobState
from pullqueue.resources.operations import operation
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Count, Model, Time, about
from pullqueue.text import did_you_mean, quoted


class CronRun(Model):
    """How the last run of a job ended."""

    started: Time
    status: Annotated[int | None, about("Null: there was no response.")]
    reason: Annotated[str | None, about("What the failure was; null: it succeeded.")]


class CronJobResource(Model):
    """A job of cron.yaml."""

    number: Count
    name: Annotated[str, about("Its description, or else its URL.")]
    url: str
    schedule: str
    timezone: str
    target: str | None
    next: Time
    running: bool
    retries: Annotated[Count, about("Attempts of the run that failed and is repeated.")]
    last: CronRun | None


class NewCronRun(Model):
    """The job to run."""

    job: Annotated[str, about("Its description, URL or number.")]


class CronStarted(Model):
    """Whether a run was started; if not, one is running already."""

    started: bool
    number: Annotated[Count, about("That of the job.")]


@operation("GET", "/cron", key="jobs")
def list_cron_jobs(state: ServerState) -> list[CronJobResource]:
    """List the jobs of cron.yaml, with their next and last runs."""
    return [_resource(each, state) for each in state.cron.states]


@operation("POST", "/cron/run")
def run_cron_job(state: ServerState, body: NewCronRun) -> CronStarted:
    """Run a job now, past its schedule."""
    if not state.cron.states:
        raise ApiError("the server has no cron.yaml: start it with --cron cron.yaml", status=404)
    found = _found(state.cron.states, body.job)
    if waiting := state.push_to.waiting(found.job.target):
        message = f"cron job {quoted(found.job.name)} cannot run yet: {waiting}"
        raise ApiError(message, status=409)
    started = state.cron.run_now(found)
    if started:
        state.activity.record(f"ran cron job {quoted(found.job.name)}")
    return CronStarted(started=started, number=found.job.number)


def _found(states: list[JobState], wanted: str) -> JobState:
    keys = ("name", "url", "number")
    for key in keys:
        found = [each for each in states if str(getattr(each.job, key)) == wanted]
        if len(found) == 1:
            return found[0]
        if found:
            numbers = ", ".join(str(each.job.number) for each in found)
            raise ApiError(f"several jobs have the {key} {quoted(wanted)}: use a number, {numbers}")
    names = dict.fromkeys(each.job.name for each in states)
    message = f"there is no cron job {quoted(wanted)}: {did_you_mean(wanted, names)}"
    raise ApiError(message, status=404)


def _resource(state: JobState, server: ServerState) -> CronJobResource:
    job, last = state.job, None
    if state.last is not None and not state.is_running:
        started = from_usec(state.last.started_usec).isoformat()
        reason = server.address_commands(state.last.reason)
        last = CronRun(started=started, status=state.last.status, reason=reason)
    return CronJobResource(
        number=job.number,
        name=job.name,
        url=job.url,
        schedule=job.schedule_text,
        timezone=str(job.zone),
        target=job.target,
        next=from_usec(state.next_usec).isoformat(),
        running=state.is_running,
        retries=0 if state.is_running else state.attempts,
        last=last,
    )
