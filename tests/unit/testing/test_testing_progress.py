"""The lines that a long `race_test` or `crash_test` writes."""

from __future__ import annotations

import pytest

from pullqueue.testing.exploration.progress import Stopwatch, written_by


def test_a_line_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([100.0, 109.9, 110.0, 119.9, 120.5])
    stopwatch = Stopwatch(lambda: next(times))
    lines: list[str] = []

    with written_by(lines.append):
        for number in range(4):
            stopwatch.report(lambda number=number: f"{number} done")  # type: ignore[misc] # a lambda

    assert lines == ["1 done (10 s)", "3 done (20 s)"]
    assert capsys.readouterr() == ("", "")


def test_without_pytest_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 11.2])
    Stopwatch(lambda: next(times)).report(lambda: "half done")
    assert capsys.readouterr().err == "half done (11 s)\n"
