"""Write the tables of the reference into its pages.

They are made from `fidelity.csv`, `conformance.yaml` and `recordings.csv`; those of limits, errors,
checks and deployments, from the code. The README has the score of recordings.

python docs/fidelity.py            write them into their pages
python docs/fidelity.py --check    fail if a page is out of date
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml
from generated import checks_table, deployment_table, errors_table, limits_table

DOCS = Path(__file__).parent
START, END = "<!-- table: begin -->", "<!-- table: end -->"


def rows() -> list[dict[str, str]]:
    """Return the rows of the fidelity table."""
    with (DOCS / "fidelity.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def fidelity() -> str:
    """Return the fidelity table as Markdown, one part for each area."""
    parts = []
    for area, group in groupby(rows(), key=lambda row: row["area"]):
        title = area if "." in area else area[0].upper() + area[1:]
        lines = [f"## {title}", "", "| what | verdict | how | source |", "|---|---|---|---|"]
        lines += [
            f"| {_item(row)} | {row['verdict']} | {row['note']} | {row['source']} |"
            for row in group
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _item(row: dict[str, str]) -> str:
    """Return what a row is about: a name as code, words as they are."""
    item, names = row["item"], row["area"] in ("queue.yaml field", "bundled service")
    return item if " " in item or (item.isalpha() and item.islower() and not names) else f"`{item}`"


def recordings() -> list[dict[str, str]]:
    """Return the rows of what single witnesses have recorded."""
    with (DOCS / "recordings.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def score() -> str:
    """Return how many of the recordings of production are the same here: `120 of 154`.

    Each is counted once: a row that a fact proves is counted with the fact, and a witness that
    disagrees with a fact counts as different. Documentation, and the JSON parser in other products
    of Google, do not count.
    """
    data = yaml.safe_load((DOCS / "conformance.yaml").read_text("utf-8"))
    facts = [fact for fact in data["facts"] if fact["witness"] not in data["documentation"]]
    verdicts = [
        row["verdict"]
        for row in recordings()
        if row["date"] not in ("docs", "reference")
        and row["subject"] != "REST parser"
        and (row["verdict"] != "same" or not row["proof"].startswith("fact: "))
    ]
    same = sum("ours" not in fact for fact in facts) + verdicts.count("same")
    disagreeing = sum("disagrees" in fact for fact in facts)
    return f"{same} of {len(facts) + disagreeing + len(verdicts)}"


def conformance() -> str:
    """Return the score, and each fact that was recorded, with its witness."""
    data = yaml.safe_load((DOCS / "conformance.yaml").read_text("utf-8"))
    facts, witnesses = data["facts"], data["witnesses"]
    what = "answers and deliveries that were recorded of production are the same here"
    lines = [f"**{score()}** {what}.", ""]
    for title, same in (("different here", False), ("the same here", True)):
        lines += [f"## What is {title}", "", "| call | verdict | production | witness |"]
        lines.append("|---|---|---|---|")
        for fact in facts:
            if ("ours" not in fact) is not same:
                continue
            answer = _answer(fact)
            if not same:
                answer += f"; here {_answer(fact['ours'])}: {fact['why']}"
            witness = witnesses[fact["witness"]]
            if other := fact.get("disagrees"):
                witness += f"; {witnesses[other['witness']]} disagrees: {_answer(other)}"
            verdict = "same" if same else "differs"
            lines.append(f"| `{fact['call']}`: {fact['when']} | {verdict} | {answer} | {witness} |")
        lines.append("")
    return "\n".join([*lines, *_recordings()])


def _recordings() -> Iterator[str]:
    """Yield the table of what single witnesses have recorded, with what differs first."""
    yield "## What single witnesses have recorded"
    yield ""
    yield "| call | verdict | production | here | witness |"
    yield "|---|---|---|---|---|"
    order = ["differs", "not supported", "same"]
    for row in sorted(recordings(), key=lambda row: order.index(row["verdict"])):
        cells = [row["call"], row["verdict"], row["recorded"], row["note"] or "the same"]
        shown = [cell.replace("|", "/").replace("<", "&lt;") for cell in cells]
        witness = f"[{row['date']}]({row['witness']})"
        yield f"| {row['subject']}: {' | '.join(shown)} | {witness} |"


def _answer(fact: dict[str, Any]) -> str:
    """Return what was answered, or sent, in one cell."""
    parts = []
    if "code" in fact or fact.get("call", "delivery") != "delivery":
        parts.append(f"`{fact.get('code', 'OK')}`")
    if "text" in fact:
        # A line can break before each part of a name.
        parts.append(fact["text"].replace("/<", "/&#8203;<").replace("<", "&lt;"))
    if "details" in fact:
        kinds = [detail["@type"].rpartition(".")[2] for detail in fact["details"]]
        parts.append(f"(details: {', '.join(kinds)})")
    parts += [f"`{name}`: {value};" for name, value in _flat(fact.get("shows", {}))]
    if "wait" in fact:
        parts.append(f"the next attempt is {fact['wait']} s after the response")
    for name, values in fact.get("headers", {}).items():
        shown = ", ".join("none" if value is None else value or "empty" for value in values)
        parts.append(f"`{name}`: {shown};")
    return " ".join(parts).rstrip(";")


def _flat(fields: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield each field of a message with its path; long names in one piece would widen the page."""
    for name, value in fields.items():
        if isinstance(value, dict) and name != "headers":
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, dict):
            yield f"{prefix}{name}", ", ".join(f"{key}: {each}" for key, each in value.items())
        else:
            yield f"{prefix}{name}", {None: "absent", "any": "set"}.get(value, str(value))


PAGES: dict[str, Callable[[], str]] = {
    "reference/fidelity.md": fidelity,
    "reference/conformance.md": conformance,
    "reference/checks.md": checks_table,
    "reference/errors.md": errors_table,
    "reference/limits.md": limits_table,
    "moving/leave-queues.md": deployment_table,
}
"""Pages, and what writes their tables."""


def updated(text: str, table: str) -> str:
    """Return a page with a table between its two marks."""
    head, _, rest = text.partition(START)
    _, _, tail = rest.partition(END)
    return f"{head}{START}\n{table}\n{END}{tail}"


def with_score(text: str, score: str) -> str:
    """Return the README with the present score."""
    return re.sub(r"\d+ of \d+ the same", f"{score} the same", text)


def main(arguments: list[str]) -> int:
    """Write or check the pages and return the exit status."""
    status = 0
    pages = [(DOCS / name, updated, table()) for name, table in PAGES.items()]
    for page, update, generated in [*pages, (DOCS.parent / "README.md", with_score, score())]:
        text = page.read_text("utf-8")
        new = update(text, generated)
        if new == text:
            continue
        if "--check" in arguments:
            print(f"{page.name} is out of date: run python docs/fidelity.py")
            status = 1
        else:
            page.write_text(new, "utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
