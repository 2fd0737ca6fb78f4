"""What a rule is, and how its documentation is read."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from pullqueue.config.document import Scalar
from pullqueue.config.findings import Edit, Fix, Report, Severity
from pullqueue.config.view import View
from pullqueue.text import shorten

Check = Callable[[View], Iterable[Report] | None]
Levels = Mapping[str, Severity | None]

LENIENT: Levels = {"sdk": Severity.WARNING}
"""The levels of a rule that Google's Python library does not enforce."""
GCLOUD_ONLY: Levels = {"sdk": Severity.WARNING, "java": Severity.WARNING}
"""The levels of a rule on what only gcloud fails on."""
SAFE = "safe"
UNSAFE = "unsafe"

defined_rules: list[Rule] = []
"""Every rule, in the order of the modules."""


class Rule:
    """One rule, made of a function that it decorates.

    The function takes a file and yields reports; it does not read or print anything. The reader
    reports faults in bytes, characters and syntax under the name of their rule, whose function
    yields nothing.
    """

    name: str
    """`push-key-on-pull`; stable."""
    check: Check

    def __init__(
        self,
        code: str,
        *,
        severity: Severity = Severity.ERROR,
        levels: Levels | None = None,
        opt_in: bool = False,
        once: bool = False,
        suppressible: bool = True,
        loadable: bool = True,
        fixes: tuple[str, ...] = (),
    ) -> None:
        """Take what does not follow from the function."""
        self.code = code
        """`QY301`; stable."""
        self.severity = severity
        """Its severity, unless `levels` has another one for the profile."""
        self.levels = levels or {}
        """Severities in some profiles; None: the rule is off in that profile."""
        self.opt_in = opt_in
        """True if the rule is off in all profiles that `levels` does not have."""
        self.once = once
        """True if it is advice that is reported once per file and key."""
        self.suppressible = suppressible
        """False if nothing else can be checked where it is broken: it cannot be suppressed."""
        self.loadable = loadable
        """True if a file that breaks it can be loaded."""
        self.fixes = fixes
        """The kinds of fixes it has: safe, unsafe, or both."""

    def __call__(self, check: Check) -> Rule:
        """Use a function as the rule's check; its name and docstring are the rule's."""
        self.check = check
        self.name = check.__name__.replace("_", "-")
        defined_rules.append(self)
        return self

    def level(self, profile: str) -> Severity | None:
        """Return the rule's severity in a profile, None where it is off."""
        return self.levels.get(profile, None if self.opt_in else self.severity)


Suggest = Callable[[str], str | None]
"""Returns what a wrong value was most likely meant to be, or None."""


def wrong_values(
    view: View,
    rule: Rule,
    suggest: Suggest = lambda _: None,
    *,
    unless: Callable[[str], object] = lambda _: False,
) -> Iterable[Report]:
    """Yield the values whose format the schema refuses by a rule, unless only a limit is exceeded.

    `unless` is true of a value whose format is valid.
    """
    for violation, node in view.wrong_scalars(rule.code):
        if unless(node.effective_text):
            continue
        suggested = suggest(node.text)
        remedy = f"did you mean `{suggested}`?" if suggested else violation.advice
        message = f'invalid {violation.name} "{shorten(node.text)}": {remedy}'
        fix = write_fix(node, suggested) if suggested else None
        yield violation.report(message, hint=effective_hint(node), fix=fix)


def out_of_range(view: View, rule: Rule) -> Iterable[Report]:
    """Yield the numbers that the schema refuses by a rule, with the limit they exceed."""
    for violation, node in view.wrong_scalars(rule.code):
        limit = f"the {violation.keyword} is {violation.schema[violation.keyword]}"
        yield violation.report(f"{violation.name} is {shorten(node.text)}; {limit}")


def write_fix(node: Scalar, text: str, *, safe: bool = False) -> Fix:
    """Return the fix that writes another value."""
    edit = Edit(node.start, node.end, text)
    return Fix(title=f"write `{shorten(text)}`", edits=(edit,), safe=safe)


def edit_fix(title: str, edit: Edit | None) -> Fix | None:
    """Return the unsafe fix of one edit; None where there is no edit."""
    return Fix(title=title, edits=(edit,)) if edit else None


def effective_hint(node: Scalar) -> str | None:
    """Return what App Engine makes of a value that is not what it looks like."""
    if node.effective_text == node.text:
        return None
    return f"App Engine reads it as {shorten(node.effective_text)}"


class Sample(NamedTuple):
    """An example in a rule's documentation."""

    good: bool
    """True if it shows a valid file."""
    note: str
    """How to read it: `escaped`, `bytes`, `100000 times`, `profile rest`; may be empty."""
    text: str

    @property
    def content(self) -> bytes:
        """The content of the file that the sample shows."""
        if self.note in {"escaped", "bytes"}:
            encoding = "utf-8" if self.note == "escaped" else "latin-1"
            return self.text.strip().encode().decode("unicode_escape").encode(encoding)
        times = re.fullmatch(r"(\d+) times", self.note)
        return self.text.encode() * (int(times[1]) if times else 1)


class RuleDocs(NamedTuple):
    """What a rule's docstring says."""

    summary: str
    """What it finds, in one sentence."""
    why: str
    """Why it matters; may be empty."""
    samples: tuple[Sample, ...]
    """Bad ones and good ones."""
    source: str
    """Where the rule comes from."""


_SECTION = re.compile(
    r"^(Bad|Good|Source)(?: \(([^)]*)\))?:(.*?)(?=\n\n(?:Bad|Good|Source)|\Z)",
    re.MULTILINE | re.DOTALL,
)


def parse_docs(rule: Rule) -> RuleDocs:
    """Parse a rule's docstring, whose last section is its source."""
    text = inspect.cleandoc(str(rule.check.__doc__))
    *samples, (_, _, source) = _SECTION.findall(text)
    summary, _, why = _SECTION.sub("", text).partition("\n\n")
    return RuleDocs(
        summary=summary,
        why=why.strip(),
        samples=tuple(
            Sample(good=kind == "Good", note=note, text=inspect.cleandoc(body) + "\n")
            for kind, note, body in samples
        ),
        source=" ".join(source.split()),
    )
