"""The command `pullqueue plan`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pullqueue.cli._output import STDIN, read_config, read_content, say
from pullqueue.cli._words import Choice
from pullqueue.config import loads
from pullqueue.config.findings import InvalidQueueConfigError
from pullqueue.config.project import work_tree
from pullqueue.error_codes import EXIT_FAILURE, EXIT_REFUSED
from pullqueue.text import escaped

if TYPE_CHECKING:
    from pullqueue.lint.deployment import DeployedQueue
    from pullqueue.lint.git import Earlier
    from pullqueue.lint.plan_report import FilePlan

_EXIT_CHANGES = 2
_MAX_DEPLOYED_BYTES = 64 * 1_048_576


class _Plan(click.Command):
    """A command whose status 2 means that something would change, and never wrong usage."""

    usage_status = EXIT_FAILURE
    """The exit status of wrong usage."""


@click.command(cls=_Plan)
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option(
    "--deployed",
    metavar="JSON",
    help="Compare with the queues in this file, or `-`: the output of `gcloud beta tasks queues "
    "list --location=LOCATION --format=json` (without `beta` it has no pull queues).",
)
@click.option(
    "--against", metavar="REV|FILE", help="Compare with a git revision, or with another file."
)
@click.option(
    "--detailed-exitcode", is_flag=True, help="Exit with 2 if the deployment would do something."
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "--format",
    "output_format",
    type=Choice(["text", "json", "github", "gitlab"]),
    help="Output format. Default: text; github and gitlab are Markdown for a comment.",
)
def plan(
    *,
    files: tuple[str, ...],
    deployed: str | None,
    against: str | None,
    detailed_exitcode: bool,
    as_json: bool,
    output_format: str | None,
) -> int:
    """Show what a deployment of queue.yaml would change.

    FILE is queue.yaml by default, and `-` is standard input; each FILE has a plan of its own, and
    with several --json prints an array. Values are compared as they are deployed: a default that is
    written out is not a change. Exit status: 0 done, 1 a file is not valid, or a queue has another
    mode, which breaks it, 2 (only with --detailed-exitcode) something would change, 3 a file cannot
    be read, or an argument is not valid.
    """
    from pullqueue.lint.errors import InvalidOptionError
    from pullqueue.lint.git import Earlier
    from pullqueue.lint.plan_report import REPORTERS

    if (deployed is None) == (against is None):
        raise click.UsageError("pass --deployed JSON or --against REV|FILE, one of them")
    if as_json and output_format:
        raise click.UsageError("pass --json or --format, one of them")
    names = files or ("queue.yaml",)
    if [*names, deployed].count(STDIN) > 1:
        raise click.UsageError("standard input can be read once: pass `-` for one file")
    if deployed is not None:
        states = _deployed(deployed)
        compared = "standard input" if deployed == STDIN else deployed
        plans = [_plan_file(name, states, compared) for name in names]
    else:
        try:
            earlier = Earlier(against or "", Path.cwd())
        except InvalidOptionError as error:
            raise click.UsageError(str(error)) from None
        if STDIN in names and earlier.is_revision:
            raise click.UsageError(
                f"standard input has no version in `{against}`: pass a file as --against"
            )
        plans = [_plan_against(name, earlier, against or "") for name in names]
    output_format = "json" if as_json else output_format or "text"
    is_comment = output_format in ("github", "gitlab")
    shown = [each for each in plans if output_format != "text" or not each.problems]
    if shown:
        click.echo(REPORTERS[output_format](shown).encode(errors="replace"), nl=False)
    if not is_comment and (problems := [found for each in plans for found in each.problems]):
        raise InvalidQueueConfigError(problems)
    if any(each.problems or each.plan.is_refused for each in plans):
        return EXIT_REFUSED
    return _EXIT_CHANGES if detailed_exitcode and any(p.plan.has_changes for p in plans) else 0


def _plan_file(name: str, states: dict[str, DeployedQueue], compared: str) -> FilePlan:
    from pullqueue.lint.loading import load_view
    from pullqueue.lint.plan import make_plan
    from pullqueue.lint.plan_report import FilePlan

    shown, file = ("<stdin>", "<stdin>") if name == STDIN else (_in_repository(name), name)
    report = FilePlan(shown, escaped(compared))
    try:
        view = load_view(read_config(name), file=file, profile="gcloud")
    except InvalidQueueConfigError as error:
        return report._replace(problems=error.problems)
    return report._replace(plan=make_plan(view, states))


def _plan_against(name: str, earlier: Earlier, compared: str) -> FilePlan:
    """Return the plan of a file against its earlier version, or why there is none."""
    from pullqueue.lint.plan import deployed_queues
    from pullqueue.lint.plan_report import FilePlan

    data = earlier.content(Path(name))
    if data and earlier.is_revision and not os.path.lexists(name):
        note = "the file was removed: nothing is deployed, the queues stay"
        return FilePlan(_in_repository(name), escaped(compared), note=note)
    if not data:
        report = _plan_file(name, {}, compared)
        say(f'pullqueue: "{name}" is not in "{compared}": everything is new', err=True)
        return report
    try:
        before = loads(data, file=f"{compared}:{name}")
    except InvalidQueueConfigError:
        if not earlier.is_revision:
            raise
        report = _plan_file(name, {}, compared)
        note = f'not compared with "{escaped(compared)}": the file is not valid there'
        return report if report.problems else FilePlan(report.file, report.compared, note=note)
    return _plan_file(name, deployed_queues(before), compared)


def _in_repository(name: str) -> str:
    """Return a path from the repository's root, or as it is outside of one."""
    root = work_tree(Path.cwd())
    path = Path(os.path.abspath(name))  # noqa: PTH100 - a link is not followed
    inside = root is not None and path.is_relative_to(root)
    return escaped(path.relative_to(root).as_posix() if root and inside else name)


def _deployed(name: str) -> dict[str, DeployedQueue]:
    from pullqueue.config.files import read_project_file
    from pullqueue.lint.plan import DeployedError, read_deployed

    try:
        is_pipe = name == STDIN or Path(name).is_relative_to("/dev")
        most = _MAX_DEPLOYED_BYTES
        data = read_content(Path(name)) if is_pipe else read_project_file(name, max_bytes=most)
        states = read_deployed(data, file=name)
    except DeployedError as error:
        raise click.ClickException(str(error)) from None
    if not states:
        say("pullqueue: the list is empty: check project and location", err=True)
    return states
