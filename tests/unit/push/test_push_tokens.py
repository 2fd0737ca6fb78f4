"""pullqueue.push.tokens: the key that signs ID tokens."""

from __future__ import annotations

import importlib
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest


def test_tasks_sent_at_the_same_time_have_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is first makes it, the others wait."""
    pytest.importorskip("jwt")
    monkeypatch.delitem(sys.modules, "pullqueue.push.tokens", raising=False)
    tokens = importlib.import_module("pullqueue.push.tokens")
    together = Barrier(4)

    def identifier(_: int) -> str:
        together.wait()
        return str(tokens.key_set()["keys"][0]["kid"])

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(identifier, range(4)))) == 1
