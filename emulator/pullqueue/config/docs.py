"""A rule's documentation, taken apart: what, why, samples, source."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

from pullqueue.config.rules import Rule

_SECTION = re.compile(r"^(Bad|Good|Source)(?: \(([^)]*)\))?:(.*)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """An example in a rule's documentation."""

    good: bool
    """Whether it shows how it should be."""
    note: str
    """What else must be known of it: `escaped`, `bytes`, `100000 times`, `profile rest`."""
    text: str
    """As it stands in the documentation."""

    @property
    def content(self) -> bytes:
        """The file that the sample stands for."""
        if self.note in {"escaped", "bytes"}:
            encoding = "utf-8" if self.note == "escaped" else "latin-1"
            return self.text.strip().encode().decode("unicode_escape").encode(encoding)
        times = re.fullmatch(r"(\d+) times", self.note)
        return self.text.encode() * (int(times[1]) if times else 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleDocs:
    """What a rule's docstring says."""

    summary: str
    """What it finds, in one sentence."""
    why: str
    """What comes of it; may be empty."""
    samples: tuple[Sample, ...]
    """Bad ones and good ones."""
    source: str
    """How it is known."""


def docs_of(rule: Rule) -> RuleDocs:
    """Take a rule's docstring apart."""
    text = inspect.cleandoc(type(rule).__doc__ or "")
    summary, _, rest = text.partition("\n\n")
    parts = list(_SECTION.finditer(rest))
    ends = [part.start() for part in parts[1:]] + [len(rest)]
    samples = []
    source = ""
    for part, end in zip(parts, ends, strict=True):
        body = inspect.cleandoc(rest[part.end() : end])
        if part[1] == "Source":
            source = " ".join(f"{part[3]} {body}".split())
        else:
            sample = Sample(good=part[1] == "Good", note=part[2] or "", text=body + "\n")
            samples.append(sample)
    why = rest[: parts[0].start()].strip()
    return RuleDocs(summary=summary, why=why, samples=tuple(samples), source=source)
