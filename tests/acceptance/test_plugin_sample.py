"""The sample suite, with every fixture in use."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[2] / "samples" / "pytest_suite"


def test_sample_suite(pytester: pytest.Pytester) -> None:
    """It passes as it is."""
    shutil.copytree(SAMPLE, pytester.path, dirs_exist_ok=True)

    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=18)
