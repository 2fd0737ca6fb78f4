"""How a plan is shown: as text, as JSON, and as Markdown for a comment on a change."""

from __future__ import annotations

import json
from collections.abc import Callable

from pullqueue.lint.plan import Action, Change, Plan, QueuePlan

_SIGNS: dict[Action | None, str] = {
    "create": "+",
    "change": "~",
    "resume": ">",
    "pause": "|",
    "stop": "-",
    "refuse": "!",
    None: " ",
}
_DONE: dict[Action, str] = {
    "create": "created",
    "change": "changed",
    "resume": "resumed",
    "pause": "paused: its rate is 0",
    "stop": "stopped",
    "refuse": "mode changed, which breaks it",
}
_SUMMARY: dict[str, str] = {
    "create": "to create",
    "change": "to change",
    "resume": "to resume",
    "pause": "to pause",
    "stop": "to stop",
    "refuse": "with another mode",
    "unchanged": "unchanged",
}
_MARKER = "<!-- pullqueue plan -->"
"""By this line a job finds its comment again."""


def _first(plan: QueuePlan) -> Action | None:
    return plan.actions[0] if plan.actions else None


def _done(plan: QueuePlan) -> str:
    return ", ".join(_DONE[action] for action in plan.actions) or "unchanged"


def _summary(plan: Plan) -> str:
    counts = [f"{count} {_SUMMARY[name]}" for name, count in plan.counts.items() if count]
    return ", ".join(counts) or "no queues"


def _change_text(change: Change) -> str:
    before = "" if change.before is None else f"{change.before} -> "
    return f"{change.key}: {before}{change.after}"


def report_text(plan: Plan, *, title: str) -> str:
    """Return a plan for a terminal: the queues that change, setting by setting, and a summary."""
    shown = [each for each in plan.queues if each.actions or each.notes]
    width = max((len(each.name) for each in shown), default=0)
    lines = [title, ""]
    for each in shown:
        lines.append(f"  {_SIGNS[_first(each)]} {each.name:<{width}}  {_done(each)}")
        lines += [f"      {_change_text(change)}" for change in each.changes]
        lines += [f"      ({note})" for note in each.notes]
    if shown:
        lines.append("")
    prefix = "Plan" if plan.has_changes else "No changes"
    return "\n".join([*lines, f"{prefix}: {_summary(plan)}."]) + "\n"


def report_json(plan: Plan, *, title: str) -> str:  # noqa: ARG001 - as the others
    """Return a plan as JSON: every queue, with actions and changes, and how many there are."""
    queues = [
        {
            "name": each.name,
            "line": each.line or None,
            "actions": each.actions,
            "changes": [change._asdict() for change in each.changes],
            "notes": each.notes,
        }
        for each in plan.queues
    ]
    return json.dumps({"queues": queues, "counts": plan.counts}, indent=2) + "\n"


def _markdown(plan: Plan, title: str, warning: str) -> str:
    lines = [_MARKER, f"### {title}", ""]
    if plan.is_refused:
        lines += [warning, ""]
    if shown := [each for each in plan.queues if each.actions]:
        lines += ["| | queue | what happens | settings |", "| --- | --- | --- | --- |"]
        for each in shown:
            sign = f"`{_SIGNS[_first(each)]}`".replace("|", "\\|")
            details = [f"`{_change_text(change)}`" for change in each.changes] + [*each.notes]
            lines.append(f"| {sign} | `{each.name}` | {_done(each)} | {'<br>'.join(details)} |")
        lines.append("")
    notes = [(each.name, note) for each in plan.queues if not each.actions for note in each.notes]
    lines += [f"- `{name}`: {note}" for name, note in notes]
    if notes:
        lines.append("")
    prefix = "**Plan**" if plan.has_changes else "**No changes**"
    return "\n".join([*lines, f"{prefix}: {_summary(plan)}."]) + "\n"


def report_github(plan: Plan, *, title: str) -> str:
    """Return Markdown for a comment on a pull request, or a job's summary."""
    return _markdown(plan, title, "> [!CAUTION]\n> A queue has another mode: adds to it fail.")


def report_gitlab(plan: Plan, *, title: str) -> str:
    """Return Markdown for a note on a merge request."""
    return _markdown(plan, title, ":no_entry: **A queue has another mode: adds to it fail.**")


REPORTERS: dict[str, Callable[..., str]] = {
    "text": report_text,
    "json": report_json,
    "github": report_github,
    "gitlab": report_gitlab,
}
"""The formats of a plan."""
