"""What the shop stores: its orders and its sales, with ndb."""

from __future__ import annotations

from google.appengine.ext import ndb


class Order(ndb.Model):  # type: ignore[misc]  # not typed
    """One order, and what was done for it so far."""

    item = ndb.StringProperty()
    invoice = ndb.StringProperty(default="")
    mails = ndb.IntegerProperty(default=0)


class Sales(ndb.Model):  # type: ignore[misc]
    """How often an item was sold; its key has the name of the item."""

    count = ndb.IntegerProperty(default=0)


@ndb.transactional()  # type: ignore[untyped-decorator]
def count_sale(item: str) -> None:
    """Count an item that was sold. The app defers this call."""
    sales = Sales.get_or_insert(item)
    sales.count += 1
    sales.put()
