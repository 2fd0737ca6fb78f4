"""What the shop knows: its orders and its stock, in memory instead of a datastore."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(kw_only=True)
class Order:
    """One order, and what was done for it so far."""

    item: str
    invoice: str = ""
    mails: int = 0


orders: dict[int, Order] = {}
sold: Counter[str] = Counter()


def count_sale(item: str) -> None:
    """Count an item that was sold. The app defers this call."""
    sold[item] += 1
