"""Write the fidelity table from `fidelity.csv` into `reference/fidelity.md`.

python docs/fidelity.py            write it
python docs/fidelity.py --check    fail if the page is out of date
"""

from __future__ import annotations

import csv
import sys
from itertools import groupby
from pathlib import Path

DOCS = Path(__file__).parent
PAGE = DOCS / "reference" / "fidelity.md"
START, END = "<!-- fidelity: begin -->", "<!-- fidelity: end -->"


def rows() -> list[dict[str, str]]:
    """Return the rows of the table."""
    with (DOCS / "fidelity.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def table() -> str:
    """Return the table as Markdown, one part for each area."""
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
    """Return the page with the present table between its two marks."""
    head, _, rest = text.partition(START)
    _, _, tail = rest.partition(END)
    return f"{head}{START}\n{table()}\n{END}{tail}"


def main(arguments: list[str]) -> int:
    """Write or check the page and return the exit status."""
    text = PAGE.read_text("utf-8")
    if updated(text) == text:
        return 0
    if "--check" in arguments:
        print(f"{PAGE.name}: the fidelity table is out of date: run python docs/fidelity.py")
        return 1
    PAGE.write_text(updated(text), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
