"""The sample suite, with every fixture in use."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[2] / "samples" / "pytest_suite"


def test_sample_suite(pytester: pytest.Pytester) -> None:
    """It passes as it is, in a run of its own."""
    shutil.copytree(SAMPLE, pytester.path, dirs_exist_ok=True)

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(passed=18)


def test_the_bug_of_the_sample_is_found(pytester: pytest.Pytester) -> None:
    """Without its pytest.raises, the test of the hasty worker fails and says where it breaks."""
    shutil.copytree(SAMPLE, pytester.path, dirs_exist_ok=True)
    module = pytester.path / "test_crashes.py"
    text = module.read_text()
    module.write_text(
        text.replace("pytest.raises(CrashTestError,", "nullcontext(").replace(
            "import pytest\n",
            "import pytest\nfrom contextlib import nullcontext as _null\n"
            "\ndef nullcontext(**_):\n    return _null()\n",
        )
    )

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "test_crashes.py")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*crash_test: the worker does not survive 2 of 6 crashes",
            '*killed after call 2, delete_tasks(*) on queue "receipts":',
            "*AssertionError: assert [[][]] == [[]1, 2]",
        ]
    )
