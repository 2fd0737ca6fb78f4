"""pullqueue.errors and pullqueue.error_codes."""

from __future__ import annotations

import inspect

import pytest

import pullqueue
from pullqueue import errors, tasks
from pullqueue.config import findings
from pullqueue.error_codes import ERROR_CODES, find_codes

ERRORS = [
    kind
    for module in (errors, findings, tasks)
    for _, kind in inspect.getmembers(module, inspect.isclass)
    if issubclass(kind, errors.PullQueueError)
]


def test_every_error_can_be_imported_from_the_top() -> None:
    for kind in ERRORS:
        assert getattr(pullqueue, kind.__name__) is kind
        assert kind.__name__ in pullqueue.__all__


def test_the_docstring_is_the_default_message() -> None:
    """An error raised without a text still says what is wrong."""
    assert str(errors.TransientError()) == "the call failed temporarily; try it again"
    assert str(errors.TransientError("other")) == "other"


def test_the_facts_of_an_error_are_attributes() -> None:
    error = errors.OverQuotaError("full", limit_bytes=5, needed_bytes=6)
    taken = tasks.TaskAlreadyExistsError(queue_name="q", task_name="t")

    assert (error.limit_bytes, error.needed_bytes) == (5, 6)
    assert (taken.queue_name, taken.task_name, taken.added, taken.refused) == ("q", "t", [], {})


def test_every_error_has_codes() -> None:
    """Each error, or one above it other than the root, has its codes at each interface."""
    without = [
        kind
        for kind in ERRORS
        if next(above for above in kind.__mro__ if above in ERROR_CODES) is errors.PullQueueError
    ]

    abstract = {errors.PullQueueError, errors.QueueError, errors.TaskError, tasks.NameInUseError}
    assert {*without} <= abstract


def test_codes_are_those_of_the_nearest_class() -> None:
    class OddTagError(errors.InvalidTagError):
        """an odd tag"""

    assert find_codes(OddTagError()) == ERROR_CODES[errors.InvalidTagError]
    assert find_codes(errors.PullQueueError()).http_status == 500


def test_expected_errors_and_faults_differ() -> None:
    """Only errors raised on purpose are shown without the frames they come through."""
    with pytest.raises(errors.ClockError) as refusal:
        raise errors.ClockError
    with pytest.raises(KeyError) as fault:
        raise KeyError

    assert errors.is_expected_error(refusal)
    assert not errors.is_expected_error(fault)
    assert not errors.is_expected_error(None)
