"""What reasons of failures have in common: their text without ids, numbers and the like."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from pullqueue.tasks import Task

_CHARACTERS = 120
"""A pattern is shorter than a reason, which is cut: ids of other lengths do not change its end."""
_GAP: Final = "…"
"""Replaces what differs from task to task."""
_CULPRIT = re.compile(
    r"(?:[\w-]*[a-z.][\w.-]*|\[[\da-f:]+\]):\d+: |answered by fault \d+", re.IGNORECASE
)
"""The address that did not respond, or the fault that did, with which such a reason begins."""
_QUOTED = re.compile(r"""(?<!\w)(["'`])(?:(?!\1(?!\w)).)*(?:\1|$)""")
_ADDRESS = re.compile(r"\w+://\S*[\w/]|(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,}[\w.]*")
"""A URL, or an address of IPv6."""
_WORD = re.compile(r"""[^\s()\[\]{}<>,;:"'`=…]+""")
_VARIABLE = re.compile(r"\d|@|^/.|\w/\w+/|^[0-9a-fA-F]{8,}$")
"""A word is variable that has a digit, or is an address, a path, or hexadecimal."""
_NAMED = re.compile(r".*(Error|Exception|Warning)")
_GAPS = re.compile(rf"{_GAP}(?:[\s,.:;/-]*{_GAP})+")


def pattern_of(task: Task) -> str:
    """Return why a task failed last, with a gap for what may differ between such tasks."""
    if task.attempts.status is None:
        return "its last lease ended"
    return find_pattern(task.attempts.reason or "") or "no reason"


@lru_cache(10_000)  # a page that names 6,000 reasons takes 15 ms with it, and 160 without
def find_pattern(reason: str) -> str:
    """Return a reason with gaps for quoted texts, numbers, ids, addresses and paths.

    In JSON quoted texts are what is known: there only words in them are replaced. The address that
    did not respond stays, and the number of a fault that did.
    """
    found = _CULPRIT.match(reason)
    culprit = found[0] if found else ""
    text = reason.removeprefix(culprit)
    if not text.startswith(("{", "[")):
        text = _QUOTED.sub(_GAP, text)
    text = _WORD.sub(_without_variable, _ADDRESS.sub(_GAP, text))
    text = culprit + _GAPS.sub(_GAP, text)
    if len(text) > _CHARACTERS:
        text = _GAPS.sub(_GAP, text[: _CHARACTERS - 1].rstrip() + _GAP)
    return text


def _without_variable(match: re.Match[str]) -> str:
    word = match[0].rstrip(".!?")
    is_variable = _VARIABLE.search(word) and not _NAMED.fullmatch(word)
    return f"{_GAP}{match[0][len(word) :]}" if is_variable else match[0]
