"""What a server records: requests, what operators did, failures, clients, mails."""

from __future__ import annotations

from typing import Final

from pullqueue.engine.events import Interface

_NOT_RECORDED = (Interface.PYTHON, Interface.CONTROL, Interface.CONSOLE)
RECORDED: Final = tuple(each for each in Interface if each not in _NOT_RECORDED)
"""The interfaces whose requests a server records."""
