"""The gate sees what is skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

CONFTEST = (Path(__file__).parents[1] / "conftest.py").read_text("utf-8")


@pytest.mark.parametrize(
    ("ci", "outcomes"),
    [("true", {"failed": 1, "errors": 1, "passed": 1}), ("", {"skipped": 2, "passed": 1})],
)
def test_skips_fail_in_ci(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str, outcomes: dict[str, int]
) -> None:
    monkeypatch.setenv("CI", ci)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        test_one="import pytest\ndef test_skipped(): pytest.skip()\ndef test_run(): pass\n",
        test_all="import pytest\npytest.importorskip('no_such_module')\n",
    )

    done = pytester.runpytest_subprocess(
        "--continue-on-collection-errors", "-p", "no:cacheprovider"
    )

    done.assert_outcomes(**outcomes)
