"""pullqueue.stores.sqlite_file: which files are accepted, and which are refused and left alone."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from stores import LONG

from pullqueue import Emulator, InternalError, ManualClock, NewTask, PullQueueError, StoreError
from pullqueue.config.model import QueueConfig, QueueMode, QueueSettings
from pullqueue.stores import open_store, sqlite_file
from pullqueue.stores.sql_files import migrations

SCRIPTS = migrations("sqlite")
CONFIG = QueueConfig(queues=(QueueSettings(name="pull", mode=QueueMode.PULL),))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the place of a store that does not exist yet."""
    return tmp_path / "tasks.db"


def emulator_of(path: Path) -> Emulator:
    return Emulator(CONFIG, clock=ManualClock(), store=open_store(f"sqlite:///{path}"))


@pytest.fixture
def used(path: Path) -> Path:
    """Return a store with tasks in it, closed."""
    emulator = emulator_of(path)
    for start in (0, 100):
        tasks = [NewTask(b"x" * 500, name=f"task{start + number}") for number in range(100)]
        emulator.queue("pull").add_many(tasks)
    emulator.close()
    return path


def digest(path: Path) -> dict[str, str]:
    """Return what a file and the log beside it contain; without SQLite's shared memory."""
    files = (path, path.with_name(path.name + "-wal"))
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.exists()
    }


def refused(path: Path) -> str:
    """Return the message with which a file is refused, and see to it that it stays as it was."""
    before = digest(path)
    with pytest.raises(StoreError) as excinfo:
        emulator_of(path)
    assert digest(path) == before
    return str(excinfo.value)


def changed(statement: str) -> Callable[[Path], None]:
    """Return what executes statements in a file."""

    def change(path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.executescript(statement)
        connection.close()

    return change


def write_schema(path: Path, statement: str, values: Sequence[object]) -> None:
    """Change the list of tables and indexes in a file, and nothing else in it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(statement, values)


def test_what_was_closed_can_be_opened_again(used: Path) -> None:
    """Tasks, numbers, statistics and events are there again, in order."""
    emulator = emulator_of(used)
    queue = emulator.queue("pull")

    assert queue.fetch_statistics().tasks == 200
    assert queue.get_task("task7").payload == b"x" * 500
    assert queue.add(name="new").sequence == 201
    events = [event.task_name for event in queue.events()]
    assert events == [*(f"task{number}" for number in range(200)), "new"]
    emulator.close()
    emulator.close()


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    """As `mktemp` makes it."""
    path.touch()

    emulator_of(path).close()

    assert path.stat().st_size


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b"queue:\n" * 100), "is not an SQLite database: use"),
        (changed("CREATE TABLE bookmarks (url)"), "is the database of another program: use"),
    ],
)
def test_a_file_of_another_kind_is_refused_and_left_as_it_is(
    path: Path, make: Callable[[Path], object], message: str
) -> None:
    make(path)

    assert refused(path) == f'"{path}" {message} another file for the store'


def test_a_file_of_a_newer_version_is_refused(used: Path) -> None:
    changed("PRAGMA user_version = 99")(used)

    assert refused(used) == (
        f'"{used}" was written by a newer pullqueue (schema 99, known here: {len(SCRIPTS)}): '
        "upgrade pullqueue, or use another file"
    )


@pytest.mark.parametrize("share", [0.001, 0.3, 0.7, 0.95, None], ids=str)
def test_a_file_that_was_cut_off_or_overwritten_is_refused(used: Path, share: float | None) -> None:
    if share is not None:
        os.truncate(used, int(used.stat().st_size * share))
    else:
        with used.open("r+b") as file:
            file.seek(3 * 4096)
            file.write(os.urandom(5 * 4096))

    message = refused(used)

    assert "is damaged" in message or (share == 0.001 and "is not an SQLite database" in message)


def test_a_log_is_not_brought_into_a_file_that_is_damaged(used: Path, tmp_path: Path) -> None:
    emulator = emulator_of(used)
    emulator.queue("pull").add()
    killed = tmp_path / "killed"
    killed.mkdir()
    for name in ("tasks.db", "tasks.db-wal"):
        shutil.copy(tmp_path / name, killed)
    emulator.close()
    os.truncate(killed / "tasks.db", used.stat().st_size // 2)

    assert (killed / "tasks.db-wal").stat().st_size
    assert f'"{killed / "tasks.db"}" is damaged' in refused(killed / "tasks.db")


def test_two_servers_cannot_open_one_file(used: Path) -> None:
    first = emulator_of(used)

    with pytest.raises(StoreError) as excinfo:
        emulator_of(used)

    assert str(excinfo.value) == (
        f'"{used}" is in use by another process: stop it, or use another file; '
        "several servers can share a postgresql:// store"
    )
    first.queue("pull").add(name="still-works")
    first.close()
    second = emulator_of(used)
    assert second.queue("pull").get_task("still-works")
    second.close()


def test_a_path_that_cannot_be_opened_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "tasks.db"
    assert refused(path) == f'"{path}" cannot be opened as a store: No such file or directory'
    (tmp_path / "a.db").symlink_to(tmp_path / "b.db")
    (tmp_path / "b.db").symlink_to(tmp_path / "a.db")
    with pytest.raises(StoreError, match="cannot be opened"):
        emulator_of(tmp_path / "a.db")


def test_a_script_that_fails_changes_nothing(used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration happens whole or not at all."""
    scripts = [*SCRIPTS, "DROP TABLE exhausted; SELECT nonsense;"]
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_file, "migrations", lambda _: scripts)
        assert "nonsense" in refused(used)

    emulator = emulator_of(used)
    assert emulator.queue("pull").exhausted == []
    emulator.close()


def test_a_new_file_belongs_to_its_owner(path: Path) -> None:
    """Nobody else can read the payloads, nor those in the log beside the file."""
    emulator = emulator_of(path)
    emulator.queue("pull").add(b"secret")

    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.glob("tasks.db*")}
    emulator.close()

    assert modes.keys() >= {"tasks.db", "tasks.db-wal"}
    assert set(modes.values()) == {0o600}


def test_a_link_opens_the_file_it_leads_to(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "folder" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    emulator = emulator_of(link)
    emulator.queue("pull").add(name="last")

    found = [file.name for file in link.parent.iterdir()]

    assert path.with_name("tasks.db-wal").stat().st_size
    emulator.close()
    assert found == ["link.db"]
    emulator = emulator_of(path)
    assert emulator.queue("pull").get_task("last")
    emulator.close()


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_no_call_goes_on_without_the_file_that_was_deleted_or_replaced(
    path: Path, *, replaced: bool
) -> None:
    emulator = emulator_of(path)
    queue = emulator.queue("pull")
    queue.add()

    path.rename(path.with_name("elsewhere"))
    if replaced:
        path.touch()

    for call in (emulator.check, queue.add, queue.fetch_statistics, queue.list_tasks):
        with pytest.raises(InternalError, match="was deleted or replaced while it was in use"):
            call()
    path.with_name("elsewhere").rename(path)
    assert queue.fetch_statistics().tasks == 1
    emulator.close()


def test_other_programs_can_read_while_a_server_runs(path: Path) -> None:
    emulator = emulator_of(path)
    emulator.queue("pull").add(name="one")

    connection = sqlite3.connect(path)
    found = connection.execute("SELECT name FROM tasks").fetchall()
    connection.close()
    emulator.queue("pull").add(name="two")
    emulator.close()

    assert found == [("one",)]


def use(path: Path) -> list[str]:
    """Open a store and make every kind of call; return the errors of calls that are refused."""
    emulator = emulator_of(path)
    queue, errors = emulator.queue("pull"), []
    calls: list[Callable[[], object]] = [
        lambda: [repr(task) for task in queue.list_tasks(1000)],
        *(lambda: queue.exhausted, queue.events, queue.fetch_statistics, queue.next_change_usec),
        lambda: queue.flow(since_usec=0),
        lambda: queue.count_events(last=timedelta(days=1)),
        lambda: queue.add(name="new"),
        lambda: queue.lease_tasks(60, 1000),
        lambda: queue.modify_task_lease(queue.get_task("task5"), 9),
        lambda: queue.delete_tasks(["task7", "new"]),
        lambda: queue.history("task5"),
        *(emulator.export, queue.purge),
    ]
    for call in calls:
        try:
            call()
        except PullQueueError as error:
            errors.append(str(error))
    emulator.close()
    return errors


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tasks SET eta_usec = 'soon'",
        "UPDATE tasks SET enqueued_usec = 1 << 60",
        "UPDATE tasks SET payload = 'text'",
        "UPDATE tasks SET retry_count = -1",
        "UPDATE tasks SET sequence = (1 << 62) + sequence",
        "UPDATE tasks SET request = '{'",
        "UPDATE events SET usec = x'00'",
        "UPDATE events SET until_usec = 1 << 60",
        "INSERT INTO leased VALUES ('pull', 0, 0, 1 << 62)",
        "INSERT OR REPLACE INTO retentions (queue, age_usec) VALUES ('pull', 'long')",
        "INSERT INTO queues (queue, settings) VALUES ('made', '[')",
        "DROP INDEX tasks_due",
        "ALTER TABLE events RENAME COLUMN status TO state",
        "DROP TABLE queues",
    ],
)
def test_what_another_program_has_written_is_found_at_opening(used: Path, change: str) -> None:
    changed(f"PRAGMA ignore_check_constraints = ON; {change}")(used)

    detail = "its tables were changed" if change.startswith(("DROP", "ALTER")) else ""
    assert f'"{used}" is damaged ({detail}' in refused(used)


@pytest.mark.parametrize("index", ["tasks_name", "tasks_due", "tasks_due_tag_sqlite", "tasks_ends"])
@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM tasks WHERE sequence = 7",
        """INSERT INTO tasks SELECT 999, queue, 'extra', payload, tag, eta_usec, retry_count,
            enqueued_usec, stored_bytes, request, attempts, finished, ends_usec, free_usec
            FROM tasks WHERE sequence = 7""",
    ],
    ids=["too many", "too few"],
)
def test_an_index_with_other_rows_than_its_table_is_found_at_opening(
    used: Path, index: str, change: str
) -> None:
    """As in a copy of a file that was in use, whose pages are of different times."""
    changed("UPDATE tasks SET ends_usec = 1 << 50")(used)
    with closing(sqlite3.connect(used)) as connection:
        row = connection.execute("SELECT * FROM sqlite_master WHERE name = ?", [index]).fetchone()
    write_schema(used, "DELETE FROM sqlite_master WHERE name = ?", [index])
    changed(change)(used)
    write_schema(used, "INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)

    assert f'"{used}" is damaged (index {index} has' in refused(used)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("UPDATE events SET kind = 'eaten'", "'eaten' is not a valid EventKind"),
        ("UPDATE events SET names = 'one'", "zip() argument 2 is longer than argument 1"),
        ("UPDATE events SET origin = '[1]'", "Expected `str`, got `int`"),
        ("UPDATE tasks SET request = '[1]'", "Expected `str`, got `int`"),
        ("UPDATE tasks SET tag = x'3dff'", "'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_what_only_a_reader_finds_is_an_error_of_its_call(
    used: Path, change: str, reason: str
) -> None:
    changed(change)(used)

    errors = use(used)

    assert errors
    for error in errors:
        assert error.startswith("the store has a damaged record (")
        assert error.endswith("): restore it from a copy")
        assert reason in error


@pytest.mark.parametrize("seed", range(40 if LONG else 2))
def test_bytes_that_change_in_a_file_cause_errors_of_the_store_only(used: Path, seed: int) -> None:
    content, random = used.read_bytes(), Random(seed)  # noqa: S311
    for _ in range(15):
        damaged = bytearray(content)
        place = random.randrange(len(content) - 16)
        damaged[place : place + 16] = random.randbytes(16)
        used.write_bytes(damaged)
        with suppress(PullQueueError):
            use(used)
        for log in used.parent.glob("tasks.db-*"):
            log.unlink()


@pytest.mark.parametrize("name", ["/x.db%00", "/%00"])
def test_a_nul_character_in_the_name_of_a_file_is_refused(name: str) -> None:
    with pytest.raises(StoreError) as excinfo:
        open_store(f"sqlite:///{name}")

    assert str(excinfo.value) == (
        f'store "sqlite:///{name}" has a file name with a NUL character: use another'
    )
