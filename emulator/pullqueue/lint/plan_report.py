"""How a plan is shown: as text, as JSON, and as Markdown for a comment on a change."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from pullqueue.config.findings import Finding
from pullqueue.lint.plan import Change, Plan, QueuePlan
from pullqueue.text import escaped


class _Words(NamedTuple):
    """How an action is shown: its sign, of a queue, and in a summary after a number of queues."""

    sign: str
    done: str
    counted: str


_UNCHANGED = "unchanged"
_WORDS: dict[str, _Words] = {
    "create": _Words("+", "created", "to create"),
    "change": _Words("~", "changed", "to change"),
    "resume": _Words(">", "resumed", "to resume"),
    "pause": _Words("|", "paused: its rate is 0", "to pause"),
    "stop": _Words("-", "stopped", "to stop"),
    "refuse": _Words("!", "mode changed, which breaks it", "with another mode"),
    _UNCHANGED: _Words(" ", _UNCHANGED, _UNCHANGED),
}
_MARKER = "<!-- pullqueue plan -->"
"""By this line a job finds its comment again."""


class FilePlan(NamedTuple):
    """What a report says about one file."""

    file: str
    compared: str
    """What it is compared with."""
    plan: Plan = Plan([])
    note: str = ""
    """Why there is no plan, where nothing is wrong."""
    problems: Sequence[Finding] = ()
    """The errors for which there is no plan."""

    @property
    def title(self) -> str:
        """What the plan is about."""
        return self.title_with(self.file, self.compared)

    def title_with(self, file: str, compared: str) -> str:
        """Return the title with names as a format writes them."""
        return f"What a deployment of {file} changes, compared with {compared}"


def _sign(plan: QueuePlan) -> str:
    return _WORDS[plan.actions[0] if plan.actions else _UNCHANGED].sign


def _done(plan: QueuePlan) -> str:
    return ", ".join(_WORDS[action].done for action in plan.actions or (_UNCHANGED,))


def _summary(plan: Plan) -> str:
    counts = [f"{count} {_WORDS[name].counted}" for name, count in plan.counts.items() if count]
    return ", ".join(counts) or "no queues"


def _change_text(change: Change) -> str:
    before = "" if change.before is None else f"{change.before} -> "
    return f"{change.key}: {before}{change.after}"


def report_text(plans: Sequence[FilePlan]) -> str:
    """Return plans for a terminal: the queues that change, setting by setting, and a summary."""
    return "\n".join(map(_text, plans))


def _text(report: FilePlan) -> str:
    if report.note:
        return f"{report.title}\n\nNo plan: {report.note}.\n"
    plan = report.plan
    shown = [each for each in plan.queues if each.actions or each.notes]
    width = max((len(each.name) for each in shown), default=0)
    lines = [report.title, ""]
    for each in shown:
        lines.append(f"  {_sign(each)} {each.name:<{width}}  {_done(each)}")
        lines += [f"      {_change_text(change)}" for change in each.changes]
        lines += [f"      ({note})" for note in each.notes]
    if shown:
        lines.append("")
    prefix = "Plan" if plan.has_changes else "No changes"
    return "\n".join([*lines, f"{prefix}: {_summary(plan)}."]) + "\n"


def report_json(plans: Sequence[FilePlan]) -> str:
    """Return plans as JSON: every queue, with actions and changes, and how many there are."""
    documents = [_document(each) for each in plans]
    return json.dumps(documents if len(documents) > 1 else documents[0], indent=2) + "\n"


def _document(report: FilePlan) -> dict[str, Any]:
    queues = [
        {
            "name": each.name,
            "line": each.line or None,
            "actions": each.actions,
            "changes": [change._asdict() for change in each.changes],
            "notes": each.notes,
        }
        for each in report.plan.queues
    ]
    return {
        "file": report.file,
        "note": report.note or None,
        "problems": [str(problem) for problem in report.problems],
        "queues": queues,
        "counts": report.plan.counts,
    }


def _report_markdown(warning: str, plans: Sequence[FilePlan]) -> str:
    """Return Markdown for a comment on a change, or a job's summary."""
    return f"{_MARKER}\n" + "\n".join(_markdown(each, warning) for each in plans)


def _markdown(report: FilePlan, warning: str) -> str:
    plan = report.plan
    title = report.title_with(_literal(report.file), _literal(report.compared))
    lines = [f"### {title}", ""]
    if report.problems:
        # As Markdown's code, which no content of theirs can end.
        code = [f"    {escaped(str(each))}" for each in report.problems]
        return "\n".join([*lines, "**Not valid, no plan**:", "", *code, ""])
    if report.note:
        return "\n".join([*lines, f"**No plan**: {report.note}.", ""])
    if plan.is_refused:
        lines += [warning, ""]
    if shown := [each for each in plan.queues if each.actions]:
        lines += ["| | queue | what happens | settings |", "| --- | --- | --- | --- |"]
        for each in shown:
            sign = f"`{_sign(each)}`".replace("|", "\\|")
            details = [f"`{_change_text(change)}`" for change in each.changes] + [*each.notes]
            lines.append(f"| {sign} | `{each.name}` | {_done(each)} | {'<br>'.join(details)} |")
        lines.append("")
    notes = [(each.name, note) for each in plan.queues if not each.actions for note in each.notes]
    lines += [f"- `{name}`: {note}" for name, note in notes]
    if notes:
        lines.append("")
    prefix = "**Plan**" if plan.has_changes else "**No changes**"
    return "\n".join([*lines, f"{prefix}: {_summary(plan)}."]) + "\n"


def _literal(name: str) -> str:
    """Return a name as Markdown's code, in which nothing is a link, a mention or HTML."""
    text = escaped(name)
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"


REPORTERS: dict[str, Callable[[Sequence[FilePlan]], str]] = {
    "text": report_text,
    "json": report_json,
    "github": partial(
        _report_markdown, "> [!CAUTION]\n> A queue has another mode: adds to it fail."
    ),
    "gitlab": partial(
        _report_markdown, ":no_entry: **A queue has another mode: adds to it fail.**"
    ),
}
"""The formats of a plan."""
