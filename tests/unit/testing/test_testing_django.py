"""Calls to databases by Django's ORM are points of `race_test` and `crash_test` by themselves."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django
import pytest
from django.conf import settings
from django.db import OperationalError, connections, models, transaction
from django.db.models import F
from failing import assert_hidden_errors_are_found
from stores import postgres_url

from pullqueue import Emulator, Queue
from pullqueue.push.request import PushRequest
from pullqueue.testing import (
    CrashTestError,
    RaceResult,
    RaceTestError,
    crash_test,
    race_test,
)

pytestmark = pytest.mark.slow

SCHEMA = f"django_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"


def databases() -> dict[str, dict[str, object]]:
    folder = Path(tempfile.mkdtemp())
    sqlite = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "app.sqlite")}
    found: dict[str, dict[str, object]] = {"default": {**sqlite}}
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


class Visits(models.Model):  # type: ignore[misc]  # Django has no types
    name = models.CharField(primary_key=True, max_length=10)
    value = models.IntegerField()

    class Meta:  # noqa: D106 - Django's options
        app_label = "races"


ALIASES = ["default", "postgresql", "default, connected before"]


@pytest.fixture(params=ALIASES)
def alias(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database with an empty table, and a connection of this thread, or none."""
    name: str = request.param
    alias = name.partition(",")[0]
    if alias == "postgresql":
        postgres_url()  # or the test is skipped
    connection = connections[alias]
    with connection.cursor() as cursor:
        if alias == "postgresql":
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        cursor.execute("DROP TABLE IF EXISTS races_visits")
    with connection.schema_editor() as editor:
        editor.create_model(Visits)
    if name == alias:
        connection.close()
    yield alias
    with connection.schema_editor() as editor:
        editor.delete_model(Visits)
    connection.close()


def reset(alias: str) -> None:
    Visits.objects.using(alias).all().delete()
    Visits.objects.using(alias).create(name="all", value=0)


def visits(alias: str) -> int:
    value: int = Visits.objects.using(alias).get(name="all").value
    return value


def race(emulator: Emulator, alias: str, count: Callable[[str], None]) -> RaceResult:
    def actor() -> None:
        count(alias)
        connections[alias].close()  # as at the end of a request

    def check() -> None:
        assert visits(alias) == 2

    options: Any = {"copies": 2, "setup": lambda: reset(alias), "check": check}
    return race_test(emulator, actor, **options, clock=False, preemptions=1)


def by_save(alias: str) -> None:
    row = Visits.objects.using(alias).get(name="all")
    row.value += 1
    row.save()


def by_cursor(alias: str) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT value FROM races_visits WHERE name = %s", ["all"])
        (value,) = cursor.fetchone()
        cursor.execute("UPDATE races_visits SET value = %s", [value + 1])


@pytest.mark.parametrize(
    ("alias", "count"),
    [*((each, by_save) for each in ALIASES), ("default, connected before", by_cursor)],
    indirect=["alias"],
)
def test_a_lost_update_is_found(
    emulator: Emulator, alias: str, count: Callable[[str], None]
) -> None:
    with pytest.raises(RaceTestError, match="assert 1 == 2"):
        race(emulator, alias, count)


def test_an_atomic_block_without_a_lock_loses_an_update(emulator: Emulator, alias: str) -> None:
    def count(alias: str) -> None:
        with transaction.atomic(using=alias):
            by_save(alias)

    with pytest.raises(RaceTestError) as caught:
        race(emulator, alias, count)

    expected = "assert 1 == 2" if alias == "postgresql" else "database is locked"
    assert expected in str(caught.value)


def by_expression(alias: str) -> None:
    Visits.objects.using(alias).update(value=F("value") + 1)


def with_a_lock(alias: str) -> None:
    """Lock the row, or, as SQLite has no such lock, write first."""
    with transaction.atomic(using=alias):
        if alias == "default":
            Visits.objects.using(alias).update(value=F("value"))
        row = Visits.objects.using(alias).select_for_update().get(name="all")
        row.value += 1
        row.save()


@pytest.mark.parametrize(
    ("alias", "count"),
    [*((each, with_a_lock) for each in ALIASES), ("default, connected before", by_expression)],
    indirect=["alias"],
)
def test_a_correct_transaction_is_correct(
    emulator: Emulator, alias: str, count: Callable[[str], None]
) -> None:
    result = race(emulator, alias, count)

    assert result.is_complete
    assert result > 1
    assert "Django" in result.seen


def handle(queue: Queue, alias: str, mails: list[str]) -> Callable[[PushRequest], int]:
    def send(request: PushRequest) -> int:
        if request.task_name == "mail":
            mails.append("mail")
            return 200
        with transaction.atomic(using=alias):
            row = Visits.objects.using(alias).select_for_update().get(name="all")
            if not row.value:
                row.value = 1
                row.save()
                transaction.on_commit(lambda: queue.add(name="mail"), using=alias)
        return 200

    return send


def test_a_task_that_is_added_on_commit_can_be_lost(
    emulator: Emulator, pushed: Queue, alias: str
) -> None:
    """`on_commit` is called after the commit."""
    mails: list[str] = []

    def setup() -> None:
        reset(alias)
        mails.clear()
        pushed.add(name="pay")

    def check() -> None:
        assert mails

    with pytest.raises(CrashTestError) as caught:
        crash_test(emulator, setup=setup, check=check, send=handle(pushed, alias, mails))

    titles = [failure.title for failure in caught.value.failures]
    assert 'add(["mail"])' in titles[0]
    assert not [title for title in titles if "COMMIT" in title]


def test_what_a_killed_handler_has_not_committed_is_rolled_back(
    emulator: Emulator, pushed: Queue, alias: str
) -> None:
    def setup() -> None:
        reset(alias)
        pushed.add(name="one")

    def send(_: PushRequest) -> int:
        with transaction.atomic(using=alias):
            _, is_new = Visits.objects.using(alias).get_or_create(name="done", value=1)
            if is_new:
                Visits.objects.using(alias).filter(name="all").update(value=F("value") + 1)
        return 200

    def check() -> None:
        assert visits(alias) == 1

    result = crash_test(emulator, setup=setup, check=check, send=send)

    assert result > 3
    assert "Django" in result.seen


def test_a_write_that_fails_is_an_error_of_django(
    emulator: Emulator, pushed: Queue, alias: str
) -> None:
    def write() -> None:
        with transaction.atomic(using=alias):
            Visits.objects.using(alias).update(value=1)

    assert_hidden_errors_are_found(
        emulator,
        pushed,
        OperationalError,
        reset=lambda: reset(alias),
        write=write,
        value=lambda: visits(alias),
    )
