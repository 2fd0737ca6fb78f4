"""Reports of failed tests: what was in their queues."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from pullqueue.engine.emulator import Emulator
from pullqueue.testing.describing import describe

_EMULATOR = pytest.StashKey[Emulator]()
_HOOK = "pullqueue-failure-reports"


class FailureReports:
    """A hook that is only there in runs in which an emulator was made."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the state of the test's queues to the report of its failure."""
        report = yield
        emulator = item.stash.get(_EMULATOR, None)
        if emulator is not None and report.failed:
            report.sections.append(("pullqueue", describe(emulator)))
        return report


@contextmanager
def explain_failures(item: pytest.Item, emulator: Emulator) -> Iterator[None]:
    """Have the reports of a test's failures tell the state of its queues."""
    plugins = item.config.pluginmanager
    if not plugins.has_plugin(_HOOK):
        plugins.register(FailureReports(), _HOOK)
    item.stash[_EMULATOR] = emulator
    yield
    del item.stash[_EMULATOR]
