"""The text by which a schedule of `race_test` is repeated."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from pullqueue.text import quoted

REPLAY_DIFFERS = (
    "setup, the actors or the code under test have changed, or setup does not reset everything "
    "(memcache, entities, caches)"
)
"""Why a replay does not fit."""

SETS_DIFFER = "where sets of strings have another order in each process: PYTHONHASHSEED is not set"
"""Why a replay that does not fail may say nothing."""

_MOST_CHOICES = 100_000
_SEQUENCE = re.compile(r"r(\d{1,99}) ")
_RUN = re.compile(r"(\d+)(?:x(\d+))?")


def format_replay(choices: Iterable[int], sequence: int) -> str:
    """Return the choices of a schedule as text, such as `1x3 2 0 1x2`.

    Where the random numbers are not those of the first sequence, it begins with theirs, as `r7`.
    """
    runs = [(number, len(list(run))) for number, run in groupby(choices)]
    parts = [f"{number}x{count}" if count > 1 else str(number) for number, count in runs]
    return " ".join([f"r{sequence}", *parts] if sequence else parts)


def parse_replay(text: object) -> tuple[list[int], int]:
    """Return the choices of a schedule, and the sequence of random numbers.

    Raises:
        TypeError or ValueError: the text is not that of a schedule.
    """
    if not isinstance(text, str):
        raise TypeError(f"replay is {quoted(text)}: pass the text that a RaceTestError shows")
    choices: list[int] = []
    begins = _SEQUENCE.match(text)
    for part in text[begins.end() if begins else 0 :].split():
        found = _RUN.fullmatch(part)
        if found is None or int(found[2] or 1) > _MOST_CHOICES:
            raise ValueError(f"replay is {quoted(text)}: pass the text that a RaceTestError shows")
        choices += [int(found[1])] * int(found[2] or 1)
    return choices, int(begins[1]) if begins else 0
