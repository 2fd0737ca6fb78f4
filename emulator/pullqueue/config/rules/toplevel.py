"""Rules on the keys beside `queue`."""

from __future__ import annotations

from collections.abc import Iterator

from pullqueue.config.edits import delete_pair, replace_scalar
from pullqueue.config.findings import Fix, Severity
from pullqueue.config.nodes import Scalar
from pullqueue.config.reports import Report
from pullqueue.config.rules.base import Rule
from pullqueue.config.rules.push import correction, or_did_you_mean, scalars_of
from pullqueue.config.spelling import meant_storage_limit
from pullqueue.config.text import shorten
from pullqueue.config.values import parse_storage_limit
from pullqueue.config.view import View

_WORDS = {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false"}
_WORDS["off"] = "false"


class StorageLimitFormat(Rule):
    """`total_storage_limit` is not a number with B, K, M, G or T.

    Upper case, no second letter; multiples of 1024. Without a letter it counts bytes and must be
    whole.

    Bad:
        total_storage_limit: 120MB
        queue:
        - name: mail
          rate: 5/s

    Good:
        total_storage_limit: 120M
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK's pattern and its translation.
    """

    code = "QY227"
    name = "storage-limit-format"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report limits that cannot be read, and those past any number."""
        advice = "write a number and one of B, K, M, G, T, such as `120M`"
        for violation, node in scalars_of(view, self.name):
            meant = meant_storage_limit(node.text)
            yield Report(
                at=violation.place,
                message=f'"{shorten(node.text)}" is no storage limit: '
                f"{or_did_you_mean(advice, meant)}",
                path=violation.where,
                fix=correction(node, meant),
            )
        if view.violations.get(self.name):
            return
        entry = view.top.get("total_storage_limit")
        if entry and entry.text is not None and parse_storage_limit(entry.text) is None:
            message = f'"{shorten(entry.text)}" is too large for a storage limit: {advice}'
            yield Report(at=entry.place, message=message, path=entry.path)


class StorageLimitZero(Rule):
    """`total_storage_limit` is zero.

    Every task is refused.

    Bad:
        total_storage_limit: 0
        queue:
        - name: mail
          rate: 5/s

    Good:
        total_storage_limit: 120M
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK's translation.
    """

    code = "QY228"
    name = "storage-limit-zero"
    severity = Severity.WARNING

    def check(self, view: View) -> Iterator[Report]:
        """Report a limit of no byte."""
        entry = view.top.get("total_storage_limit")
        if entry and entry.text is not None and parse_storage_limit(entry.text) == 0:
            message = "a storage limit of zero refuses every task: raise it, or leave it out"
            yield Report(at=entry.place, message=message, path=entry.path)


class ResumePausedValue(Rule):
    """`resume_paused_queues` is not true or false.

    Without quotes: `"false"` in quotes is a text, and refused.

    Bad:
        resume_paused_queues: "false"
        queue:
        - name: mail
          rate: 5/s

    Good:
        resume_paused_queues: false
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK's queueinfo, run.
    """

    code = "QY229"
    name = "resume-paused-value"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report values that are no truth value."""
        for violation, node in scalars_of(view, self.name):
            message = f'"{shorten(node.text)}" is neither true nor false: write `true` or `false`'
            fix = None
            if word := _word(node):
                message = f'"{shorten(node.text)}" is a text: write `{word}` without quotes'
                edits = (replace_scalar(node, word),)
                fix = Fix(title=f"write `{word}`", edits=edits, safe=True)
            yield Report(at=violation.place, message=message, path=violation.where, fix=fix)


def _word(node: Scalar) -> str | None:
    return _WORDS.get(node.text.strip().lower()) if node.style in {"'", '"'} else None


class ApplicationFormat(Rule):
    """`application` is no project id.

    Lower-case letters, digits and hyphens; before it perhaps a partition (`s~`) and a domain
    (`example.com:`).

    Bad:
        application: My_App
        queue:
        - name: mail
          rate: 5/s

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: the Python SDK's pattern for applications.
    """

    code = "QY230"
    name = "application-format"
    hideable = False

    def check(self, view: View) -> Iterator[Report]:
        """Report applications that are no id."""
        for violation, node in scalars_of(view, self.name):
            message = (
                f'"{shorten(node.seen)}" is no project id: it has no effect here, remove the key'
            )
            yield Report(at=violation.place, message=message, path=violation.where)


class ApplicationIgnored(Rule):
    """`application` has no effect.

    The deployment names the project.

    Bad:
        application: my-app
        queue:
        - name: mail
          rate: 5/s

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: gcloud's deployment of queues.
    """

    code = "QY231"
    name = "application-ignored"
    severity = Severity.INFO
    levels = {"java": None}  # noqa: RUF012 - read only

    def check(self, view: View) -> Iterator[Report]:
        """Report the key."""
        entry = view.top.get("application")
        if entry is None or view.violations.get("application-format"):
            return
        edit = delete_pair(view.source, view.top.node, entry.key)
        fix = Fix(title="remove `application`", edits=(edit,), safe=True) if edit else None
        message = "`application` has no effect: the deployment names the project"
        yield Report(at=entry.key_place, message=message, path=entry.path, fix=fix)
