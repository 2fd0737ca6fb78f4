"""The names that the plugin offers for annotations."""

from __future__ import annotations

import pytest

import pytest_pullqueue


def test_types_of_fixtures() -> None:
    """Each name is there, and leads to the class of that name."""
    for name in pytest_pullqueue.__all__:
        assert getattr(pytest_pullqueue, name).__name__ == name


def test_other_names() -> None:
    """A name that is not there is missed as in any module."""
    with pytest.raises(AttributeError, match=r'^module "pytest_pullqueue" has no attribute "x"$'):
        pytest_pullqueue.x  # noqa: B018
