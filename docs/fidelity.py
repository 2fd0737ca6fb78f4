"""Writes the table of what behaves as production did from `fidelity.csv` into the documents.

python docs/fidelity.py            write it
python docs/fidelity.py --check    fail where a document is out of date
"""

from __future__ import annotations

import csv
import sys
from itertools import groupby
from pathlib import Path

DOCS = Path(__file__).parent
DOCUMENTS = (DOCS.parent / "README.md",)
START, END = "<!-- fidelity: begin -->", "<!-- fidelity: end -->"


def rows() -> list[dict[str, str]]:
    """Give the rows of the table."""
    with (DOCS / "fidelity.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def table() -> str:
    """Give the table as Markdown, one part for each area."""
    parts = []
    for area, group in groupby(rows(), key=lambda row: row["area"]):
        lines = [f"| {area} | | how | source |", "|---|---|---|---|"]
        lines += [
            f"| `{row['item']}` | {row['verdict']} | {row['note']} | {row['source']} |"
            for row in group
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def updated(text: str) -> str:
    """Give a document with the table of today between its two marks."""
    head, _, rest = text.partition(START)
    _, _, tail = rest.partition(END)
    return f"{head}{START}\n{table()}\n{END}{tail}"


def main(arguments: list[str]) -> int:
    """Write or check the documents and give the exit status."""
    stale = [
        path for path in DOCUMENTS if updated(path.read_text("utf-8")) != path.read_text("utf-8")
    ]
    if "--check" in arguments:
        for path in stale:
            print(f"{path.name}: the fidelity table is out of date: run python docs/fidelity.py")
        return 1 if stale else 0
    for path in stale:
        path.write_text(updated(path.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
