"""The counter of `visits` in a database of Django's ORM."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.db import OperationalError, connections, models, transaction
from django.db.models import F
from stores import postgres_url
from visits import Open, Visits

SCHEMA = f"django_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"


def databases() -> dict[str, dict[str, object]]:
    """Return a database of SQLite, and one of PostgreSQL where there is a server."""
    path = Path(tempfile.mkdtemp()) / "app.sqlite"
    found: dict[str, dict[str, object]] = {
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path)}
    }
    if url := os.environ.get("PULLQUEUE_TEST_POSTGRES"):
        parts = urlsplit(url)
        found["postgresql"] = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path[1:],
            "USER": parts.username,
            "HOST": parts.hostname,
            "PORT": parts.port,
            "OPTIONS": {"options": f"-c search_path={SCHEMA}"},
        }
    return found


settings.configure(DATABASES=databases(), DEFAULT_AUTO_FIELD="django.db.models.BigAutoField")
django.setup()


class Row(models.Model):  # type: ignore[misc]  # Django has no types
    name = models.CharField(primary_key=True, max_length=10)
    value = models.IntegerField()

    class Meta:  # noqa: D106 - Django's options
        app_label = "races"
        db_table = "races_visits"


class DjangoVisits(Visits):
    name = "Django"
    error = OperationalError

    def __init__(self, alias: str) -> None:
        self._alias = alias

    @property
    def _rows(self) -> models.QuerySet:
        return Row.objects.using(self._alias)

    def reset(self) -> None:
        self._rows.all().delete()
        self._rows.create(name="all", value=0)

    def value(self) -> int:
        return int(self._rows.get(name="all").value)

    def write(self) -> None:
        with transaction.atomic(using=self._alias):
            self._rows.update(value=1)

    def pay(self, then: Callable[[], object]) -> None:
        with transaction.atomic(using=self._alias):
            row = self._rows.select_for_update().get(name="all")
            if not row.value:
                row.value = 1
                row.save()
                transaction.on_commit(then, using=self._alias)

    def by_save(self) -> None:
        self._save()
        self._close()

    def _save(self) -> None:
        row = self._rows.get(name="all")
        row.value += 1
        row.save()

    def _close(self) -> None:
        """Do what is done at the end of a request."""
        connections[self._alias].close()

    def by_cursor(self) -> None:
        with connections[self._alias].cursor() as cursor:
            cursor.execute("SELECT value FROM races_visits WHERE name = %s", ["all"])
            (value,) = cursor.fetchone()
            cursor.execute("UPDATE races_visits SET value = %s", [value + 1])
        self._close()

    def by_transaction(self) -> None:
        """Count in a transaction without a lock."""
        with transaction.atomic(using=self._alias):
            self._save()
        self._close()

    def by_expression(self) -> None:
        self._rows.update(value=F("value") + 1)
        self._close()

    def with_a_lock(self) -> None:
        """Lock the row, or, as SQLite has no such lock, write first."""
        with transaction.atomic(using=self._alias):
            if self._alias == "default":
                self._rows.update(value=F("value"))
            row = self._rows.select_for_update().get(name="all")
            row.value += 1
            row.save()
        self._close()


@contextmanager
def serving() -> Iterator[Open]:
    @contextmanager
    def opened(variant: str, _: Path) -> Iterator[Visits]:
        """Make an empty table; `connected` keeps the connection of this thread."""
        alias = "postgresql" if variant == "postgresql" else "default"
        if alias == "postgresql":
            postgres_url()  # or the test is skipped
        connection = connections[alias]
        with connection.cursor() as cursor:
            if alias == "postgresql":
                cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            cursor.execute("DROP TABLE IF EXISTS races_visits")
        with connection.schema_editor() as editor:
            editor.create_model(Row)
        if variant != "connected":
            connection.close()
        yield DjangoVisits(alias)
        with connection.schema_editor() as editor:
            editor.delete_model(Row)
        connection.close()

    yield opened
