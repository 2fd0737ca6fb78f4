"""What a rule is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from pullqueue.config.findings import Severity
from pullqueue.config.reports import Report
from pullqueue.config.view import View


class Rule:
    """One rule; its documentation is its class's docstring, printed by `pullqueue explain`.

    A rule looks at a file and gives reports. It reads and prints nothing. Faults that are met
    while the file is read (its bytes, characters and syntax) are reported by the reader under
    the rule's name.
    """

    code: ClassVar[str]
    """`QY301`; stable."""
    name: ClassVar[str]
    """`rate-on-pull`; stable."""
    severity: ClassVar[Severity] = Severity.ERROR
    """How bad it is, unless `levels` says otherwise for a profile."""
    levels: ClassVar[Mapping[str, Severity | None]] = {}
    """Another severity in some profiles; None: the rule is off there."""
    opt_in: ClassVar[bool] = False
    """Whether the rule is off in all profiles that `levels` does not name."""
    hideable: ClassVar[bool] = True
    """Whether a comment can hide it; not where nothing could be read from the file then."""

    def level(self, profile: str) -> Severity | None:
        """Give the rule's severity in a profile, None where it is off."""
        return self.levels.get(profile, None if self.opt_in else self.severity)

    def check(self, view: View) -> Iterable[Report]:
        """Give what is wrong by this rule."""
        del view
        return ()


LENIENT: Mapping[str, Severity | None] = {"sdk": Severity.WARNING}
"""The levels of a rule that Google's Python library does not know."""
