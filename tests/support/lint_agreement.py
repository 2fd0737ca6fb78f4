"""Whether linter, loader and schema say the same of a file."""

from __future__ import annotations

import json
from datetime import date
from functools import cache
from typing import Any

import yaml
from jsonschema import Draft7Validator, Draft202012Validator

from pullqueue.config import loads
from pullqueue.config.findings import InvalidQueueConfigError, Severity
from pullqueue.config.schema import published, queue_schema
from pullqueue.config.shape import validator
from pullqueue.lint.report import LintOptions, lint_data

_BEYOND_A_SCHEMA = {
    "age-limit-range": "a fraction of a day can be less than a second",
    "backoff-order": "two values are compared",
    "backoff-format": "JSON has no infinite numbers",
    "duplicate-key": "data have one of them",
    "duplicate-queue-name": "the names of two queues are compared",
    "integer-format": "an exponent is a number to some readers",
    "storage-limit-format": "a number of any length is a number",
    "too-many-queues": "`default` is not counted",
    "unknown-rule": "data have no comments",
}
"""Rules of severity error that need more than a schema can say."""
_UNREADABLE = {
    "anchor-or-alias", "complex-key", "control-character", "encoding", "multiple-documents",
    "other-program", "tab-indent", "unrendered-template", "yaml-syntax", "yaml-tag",
}  # fmt: skip
"""Rules on files that are not read as data, or not by every reader."""
_DRAFTS = Draft7Validator(json.loads(published(draft="7"))), Draft202012Validator(queue_schema())
"""With the patterns of Python, where `$` is true before a line break, too."""


@cache
def errors_of(text: bytes) -> list[tuple[str, int]]:
    """Return what the linter calls an error, as rules and lines."""
    findings = lint_data(text, file="queue.yaml", options=LintOptions()).findings
    return [(each.rule, each.line) for each in findings if each.severity is Severity.ERROR]


def refused_for(text: bytes) -> list[tuple[str, int]]:
    """Return why a file is not loaded, as rules and lines."""
    try:
        loads(text)
    except InvalidQueueConfigError as error:
        return [(problem.rule, problem.line) for problem in error.problems]
    return []


def schema_agrees(text: bytes) -> bool:
    """Return whether the schema, in both drafts, refuses a file for its errors, if it can."""
    rules = {rule for rule, _ in errors_of(text)}
    if rules & _UNREADABLE:
        return True
    data = _as_json(yaml.safe_load(text))
    valid = validator().is_valid(data)
    if len({draft.is_valid(data) for draft in _DRAFTS}) > 1:
        return False
    return rules <= _BEYOND_A_SCHEMA.keys() if valid else bool(rules)


def _as_json(data: Any) -> Any:
    """Return dates as text, as tools do that have no type for them."""
    if isinstance(data, dict):
        return {str(key): _as_json(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_as_json(item) for item in data]
    return data.isoformat() if isinstance(data, date) else data
