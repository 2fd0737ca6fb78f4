"""Reads the journals of a soak run and says what went wrong."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from soak_workers import LEASE_SECONDS

Line = dict[str, Any]


class Verdict(NamedTuple):
    """What the journals show."""

    added: int
    leases: int
    deleted: int
    by_interface: dict[str, int]
    """How many leases there were through each interface."""
    faults: list[str]
    """One sentence for each broken promise."""


def check_journals(
    journals: Iterable[Path], *, gone: set[str], there: set[str], most_leases: int
) -> Verdict:
    """Replay the journals.

    `gone` are tasks that used up their leases, `there` those still in a queue; `most_leases` is the
    highest retry limit that "limited" ever had.
    """
    by_task: defaultdict[str, list[Line]] = defaultdict(list)
    by_interface: Counter[str] = Counter()
    for journal in journals:
        for line in _lines(journal):
            by_task[line["name"]].append(line)
            by_interface[journal.name.partition("-")[0]] += line["what"] == "leased"
    faults: list[str] = []
    for name, lines in by_task.items():
        done = {what: [line for line in lines if line["what"] == what] for what in _WHATS}
        faults += _delivery(name, done, gone | there)
        faults += _exclusion(name, done)
        faults += _deletion(name, done, there)
        faults += _limits(name, done, most_leases)
    faults += [f"{name} is there and was never added" for name in there - by_task.keys()]
    whats = Counter(line["what"] for lines in by_task.values() for line in lines)
    return Verdict(whats["added"], whats["leased"], whats["deleted"], dict(by_interface), faults)


_WHATS = ("adding", "added", "leased", "extended", "releasing", "deleting", "deleted")


def _lines(journal: Path) -> Iterator[Line]:
    for text in journal.read_text("utf-8").splitlines():
        try:
            yield json.loads(text)
        except ValueError:  # the last line of a worker that was killed while it wrote
            continue


def _delivery(name: str, done: dict[str, list[Line]], accounted: set[str]) -> Iterator[str]:
    if done["added"] and not done["deleting"] and name not in accounted:
        yield f"{name} was added, never deleted, and is not there"
    if done["leased"] and not done["adding"]:
        yield f"{name} was delivered and never added"


def _exclusion(name: str, done: dict[str, list[Line]]) -> Iterator[str]:
    """Two leases of a task never overlap, by the emulator's clock."""
    ends = {line["n"]: line["eta"] for line in done["leased"]}
    if len(ends) < len(done["leased"]):
        yield f"{name}: one lease was given to two workers"
        return
    for line in done["extended"]:
        ends[line["n"]] = line["eta"]
    for line in done["releasing"]:
        ends[line["n"]] = 0  # released at a time that is not known
    latest = 0
    for line in sorted(done["leased"], key=lambda line: int(line["n"])):
        start = line["eta"] - LEASE_SECONDS * 1_000_000
        if start < latest:
            yield f"{name}: lease {line['n']} began {latest - start} us before the end of another"
        latest = ends[line["n"]]


def _deletion(name: str, done: dict[str, list[Line]], there: set[str]) -> Iterator[str]:
    if not done["deleted"]:
        return
    deleted = min(line["at"] for line in done["deleted"])
    if name in there or any(line["asked"] > deleted for line in done["leased"]):
        yield f"{name} came back after it was deleted"


def _limits(name: str, done: dict[str, list[Line]], most_leases: int) -> Iterator[str]:
    for line in done["leased"]:
        if line["queue"] == "limited" and line["n"] > most_leases:
            yield f"{name} was leased {line['n']} times: the limit is {most_leases}"
        if line["got"] > line["count"]:
            yield f"{line['got']} tasks came where {line['count']} were asked for"
