"""A soak over every interface, and proof that its checker sees what it looks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from soak import Soak
from soak_checker import check_journals
from soak_workers import LEASE_SECONDS
from stores import LONG
from tables import each_row

SECOND = 1_000_000
SECONDS = 600.0 if LONG else 0.4


@pytest.mark.long
def test_a_soak_breaks_no_promise(tmp_path: Path) -> None:
    """Workers at every interface, killed, delayed and lied to, lose nothing, hold nothing twice."""
    verdict = Soak(tmp_path, seed=1).run(SECONDS)

    assert verdict.faults == []
    assert verdict.added
    assert verdict.deleted
    assert verdict.by_interface.keys() >= {"python", "sdk", "rest", "bridge"}


def line(what: str, *, at: float = 0, **facts: Any) -> dict[str, Any]:
    """Return a line of a journal about the task `a`."""
    return {"what": what, "name": "a", "at": at, **facts}


def leased(n: int, *, start: int, asked: float = 0, **facts: Any) -> dict[str, Any]:
    """Return the line of a lease that begins at a second of the emulator's clock."""
    eta = (start + LEASE_SECONDS) * SECOND
    usual = {"queue": "limited", "count": 5, "got": 1}
    return line("leased", at=asked, n=n, eta=eta, asked=asked, **(usual | facts))


ADDED = [line("adding"), line("added")]
DONE = [*ADDED, line("deleting")]


@each_row(
    ("lines", "fault"),
    [
        ([*DONE, leased(1, start=0), leased(2, start=30)], None),
        ([*DONE, leased(1, start=0), line("releasing", n=1), leased(2, start=5)], None),
        ([*DONE, leased(1, start=0), leased(2, start=99, asked=2)], None),
        ([line("adding"), leased(1, start=0)], None),
        (ADDED, "a was added, never deleted, and is not there"),
        ([*ADDED, leased(1, start=0)], "a was added, never deleted, and is not there"),
        ([leased(1, start=0)], "a was delivered and never added"),
        ([*DONE, leased(1, start=0), leased(1, start=99)], "a: one lease was given to two workers"),
        (
            [*DONE, leased(1, start=0), leased(2, start=29)],
            "a: lease 2 began 1000000 us before the end of another",
        ),
        (
            [
                *DONE,
                leased(1, start=0),
                line("extended", n=1, eta=60 * SECOND),
                leased(2, start=59),
            ],
            "a: lease 2 began 1000000 us before the end of another",
        ),
        (
            [*DONE, leased(1, start=0), line("deleted", at=1), leased(2, start=99, asked=2)],
            "a came back after it was deleted",
        ),
        ([*DONE, leased(6, start=0)], "a was leased 6 times: the limit is 5"),
        ([*DONE, leased(1, start=0, got=6)], "6 tasks came where 5 were asked for"),
    ],
)
def test_the_checker_reports_each_broken_promise_and_nothing_else(
    lines: list[dict[str, Any]], fault: str | None, tmp_path: Path
) -> None:
    journal = tmp_path / "python-1.jsonl"
    text = "\n".join(json.dumps(line) for line in lines)
    journal.write_text(text + '\n{"what": "lea', "utf-8")

    verdict = check_journals([journal], gone=set(), there=set(), most_leases=5)

    assert verdict.faults == [fault] * bool(fault)
    unknown = check_journals([journal], gone=set("a"), there={"b"}, most_leases=5)
    assert "b is there and was never added" in unknown.faults
