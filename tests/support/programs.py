"""Programs that some tests drive; where one is missing, those tests are skipped (failed, in CI)."""

from __future__ import annotations

import shutil

import pytest


def program(name: str, *, package: str) -> str:
    """Give the path of a program, or skip the test and say which Debian package has it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing: apt-get install {package}")
    return found
