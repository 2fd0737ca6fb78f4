"""Files that workers and handlers change, and programs that they start."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
from functions import Run, Work, adding, in_turn, working

from pullqueue import Emulator, Queue
from pullqueue.engine.interceptors import QueueCall
from pullqueue.push.request import PushRequest
from pullqueue.server.lifecycle import Server
from pullqueue.testing import RaceTestError

pytestmark = pytest.mark.slow

Get = Callable[[Path], int]
Put = Callable[[Path, int], object]


def make_files(folder: Path) -> None:
    """Make files of which each way to count has counted 3."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("number", "files", "dirs"):
        (folder / name).mkdir(parents=True)
    (folder / "number" / "3").touch()
    (folder / "count").write_text("3")
    os.utime(folder / "count", (3, 3))
    (folder / "count").chmod(0o603)
    (folder / "size").write_text("...")
    for number in (1, 2, 3):
        (folder / "files" / str(number)).touch()
        (folder / "dirs" / str(number)).mkdir()


def text(folder: Path) -> int:
    return int((folder / "count").read_text())


def number(folder: Path) -> int:
    return int(next((folder / "number").iterdir()).name)


def entries(name: str) -> Get:
    return lambda folder: len([*(folder / name).iterdir()])


def removed(name: str) -> Get:
    return lambda folder: 6 - len([*(folder / name).iterdir()])


def by_open(folder: Path, n: int) -> None:
    with open(folder / "count", "w") as file:  # noqa: PTH123
        file.write(str(n))


def by_descriptor(folder: Path, n: int) -> None:
    descriptor = os.open(folder / "count", os.O_RDWR)
    os.write(descriptor, b"%d" % n)
    os.close(descriptor)


def by_name_of_bytes(folder: Path, n: int) -> None:
    """Write as the files of `dbm` are written."""
    with open(os.fsencode(folder / "count"), "wb") as file:  # noqa: PTH123
        file.write(b"%d" % n)


def by_replacing(folder: Path, n: int) -> None:
    """Put a temporary file in the place of another."""
    with tempfile.NamedTemporaryFile("w", dir=folder.parent, delete=False) as new:
        new.write(str(n))
    Path(new.name).replace(folder / "count")


def by_dots(folder: Path, n: int) -> None:
    """Write by a name that begins with a temporary folder's."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        Path(name, "..", folder.name, "count").write_text(str(n))


def touch_by_descriptor(folder: Path, n: int) -> None:
    with (folder / "count").open() as file:
        os.utime(file.fileno(), (n, n))


def by_relative_name(folder: Path, n: int) -> None:
    descriptor = os.open(folder / "dirs", os.O_RDONLY)
    with suppress(FileExistsError):
        os.mkdir(str(n), dir_fd=descriptor)
    os.close(descriptor)


def link(folder: Path, n: int) -> None:
    with suppress(FileExistsError):
        (folder / "files" / str(n)).hardlink_to(folder / "count")


def symlink(folder: Path, n: int) -> None:
    with suppress(FileExistsError):
        (folder / "files" / str(n)).symlink_to("../count")


WAYS: dict[str, tuple[Get, Put]] = {
    "open": (text, by_open),
    "os.open": (text, by_descriptor),
    "bytes": (text, by_name_of_bytes),
    "pathlib": (text, lambda folder, n: (folder / "count").write_text(str(n))),
    "replace": (text, by_replacing),
    "dots": (text, by_dots),
    "rename": (number, lambda f, n: next((f / "number").iterdir()).rename(f / "number" / str(n))),
    "create": (entries("files"), lambda folder, n: (folder / "files" / str(n)).touch()),
    "link": (entries("files"), link),
    "symlink": (entries("files"), symlink),
    "remove": (removed("files"), lambda f, n: (f / "files" / str(7 - n)).unlink(missing_ok=True)),
    "mkdir": (entries("dirs"), lambda folder, n: (folder / "dirs" / str(n)).mkdir(exist_ok=True)),
    "dir_fd": (entries("dirs"), by_relative_name),
    "rmtree": (
        removed("dirs"),
        lambda f, n: shutil.rmtree(f / "dirs" / str(7 - n), ignore_errors=True),
    ),
    "truncate": (
        lambda folder: (folder / "size").stat().st_size,
        lambda folder, n: os.truncate(folder / "size", n),
    ),
    "utime": (
        lambda folder: int((folder / "count").stat().st_mtime),
        lambda folder, n: os.utime(folder / "count", (n, n)),
    ),
    "utime by descriptor": (
        lambda folder: int((folder / "count").stat().st_mtime),
        touch_by_descriptor,
    ),
    "chmod": (
        lambda folder: (folder / "count").stat().st_mode & 7,
        lambda folder, n: (folder / "count").chmod(0o600 + n),
    ),
    "subprocess": (
        text,
        lambda f, n: subprocess.run(["/bin/sh", "-c", f"echo {n} > {f}/count"], check=True),
    ),
    "os.system": (text, lambda folder, n: os.system(f"echo {n} > {folder}/count")),  # noqa: S605
}


@pytest.mark.parametrize("way", WAYS)
def test_orders_that_differ_in_files_are_run(
    race: Run, queue: Queue, tmp_path: Path, way: str
) -> None:
    """An update is lost although the calls are to different tasks."""
    get, put = WAYS[way]
    folder = tmp_path / "folder"
    setup = in_turn(lambda: make_files(folder), adding(queue, "a", "b"))

    def count(name: str) -> None:
        before = get(folder)
        queue.delete_tasks(name)
        put(folder, before + 1)

    counts = partial(count, "a"), partial(count, "b")
    with pytest.raises(RaceTestError, match="schedule 3 leads to a wrong state"):
        race(*counts, setup=setup, check=lambda: get(folder) == 5)


def use_temporary_files(_: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name, "folder").mkdir()
        Path(name, "folder", "file").write_text("x")
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x")


def use_variables_of_a_request(_: Path) -> None:
    os.environ["HTTP_HOST"] = "localhost"
    os.environ["PATH"] = os.environ["PATH"]
    os.environ.pop("NOT_THERE", None)


def use_pipe(_: Path) -> None:
    reader, writer = os.pipe()
    with open(reader) as received, open(writer, "w") as sent:  # noqa: PTH123
        sent.write("x")
        sent.close()
        received.read()


PRIVATE: dict[str, Callable[[Path], object]] = {
    "nothing": lambda _: None,
    "reads": text,
    "pipes": use_pipe,
    "temporary files": use_temporary_files,
    "variables of a request": use_variables_of_a_request,
    "devices": lambda _: Path(os.devnull).write_text("x"),
    "compiled modules": lambda folder: (folder / "__pycache__" / "app.pyc").write_text("x"),
}


@pytest.mark.parametrize("use", PRIVATE)
def test_files_that_nobody_else_uses_need_no_more_orders(
    race: Run, queue: Queue, tmp_path: Path, use: str
) -> None:
    make_files(tmp_path)
    (tmp_path / "__pycache__").mkdir()

    def work(name: str) -> None:
        PRIVATE[use](tmp_path)
        queue.delete_tasks(name)
        PRIVATE[use](tmp_path)

    result = race(lambda: work("a"), lambda: work("b"), setup=adding(queue, "a", "b"))
    assert str(result) == "all 2 orders that can differ of calls to queues"


@pytest.mark.parametrize("way", WAYS)
def test_the_dead_change_no_files(
    crash: Run, queue: Queue, pushed: Queue, tmp_path: Path, way: str
) -> None:
    """A killed process leaves its lock file: `finally` is not run."""
    get, put = WAYS[way]
    folder = tmp_path / "folder"
    counts: list[list[int]] = []
    setup = in_turn(lambda: make_files(folder), pushed.add, lambda: counts.append([]))

    def send(_: PushRequest) -> int:
        counts[-1].append(get(folder))
        try:
            queue.add()
        finally:
            put(folder, 4)
        return 200

    crash(setup=setup, send=send)
    # Without a crash; killed before the call, and after it; two answers are lost.
    assert counts == [[3], [3, 3], [3, 3], [3, 4], [3, 4]]


def test_temporary_files_of_the_dead_are_removed(
    crash: Run, queue: Queue, pushed: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def send(_: PushRequest) -> int:
        with tempfile.TemporaryDirectory() as name, tempfile.NamedTemporaryFile():
            Path(name, "file").touch()
            queue.add()
        return 200

    assert crash(setup=pushed.add, send=send) == 4
    assert [*tmp_path.iterdir()] == []


@pytest.fixture(params=["race", "crash"])
def run(request: pytest.FixtureRequest, race: Run, crash: Run, work: Work, queue: Queue) -> Run:
    """A race or crashes of a worker that does something after a call; returns the result."""

    def run(use: Callable[[], object], **options: Any) -> Any:
        worker = in_turn(work, use)
        if request.param == "race":
            return race(worker, copies=2, clock=False, **options)
        return crash(worker, setup=queue.add, **options)

    return run


def test_a_subprocess_is_named(run: Run) -> None:
    result = run(lambda: subprocess.run(["/bin/true"], check=True))

    (name,) = result.unseen
    assert re.fullmatch(r"a subprocess \(.*test_testing_changes.py:\d+ in <lambda>\)", name)
    assert f" of calls to queues, not of {name}" in str(result)


def _do_nothing() -> None:
    """Run in a process of its own."""


def test_a_process_that_is_not_forked_is_named(crash: Run, queue: Queue) -> None:
    """There is no audit event for it."""
    processes = [multiprocessing.get_context("spawn").Process(target=_do_nothing)]

    def work() -> None:
        working(queue)()
        for process in processes:
            process.start()
            process.join()
        processes.clear()  # once is enough

    (name,) = crash(work, setup=queue.add).unseen
    assert re.fullmatch(r"a subprocess \(.*test_testing_changes.py:\d+ in work\)", name)


def test_a_connection_to_another_server_is_named(run: Run) -> None:
    with Server(Emulator.from_text("queue: []")) as server:
        (name,) = run(lambda: requests.get(f"{server.url}/_emulator/health", timeout=5)).unseen

        assert name.startswith(f"a connection to 127.0.0.1:{server.port} (")


def test_connections_to_the_emulator_and_to_databases_are_not_named(
    run: Run, emulator: Emulator, tmp_path: Path
) -> None:
    from sqlalchemy import create_engine

    engine = create_engine(f"sqlite:///{tmp_path}/app.sqlite")
    with Server(emulator) as server:
        queues = f"{server.url}/taskqueue/v1beta2/projects/p/taskqueues/work"

        def use() -> None:
            requests.get(queues, timeout=5)
            requests.get(f"{queues}/tasks", timeout=5)
            with closing(engine.connect()) as connection:
                connection.exec_driver_sql("SELECT 1")

        assert run(use).unseen == ()
    engine.dispose()


@pytest.mark.parametrize(("package", "named"), [("an_app", 1), ("pymongo", 1), ("redis", 0)])
def test_connections_of_what_is_followed_are_not_named(
    run: Run, make_module: Callable[..., Any], package: str, named: int
) -> None:
    """The calls that are made by them are points."""
    source = (
        "import socket\ndef connect(port): socket.create_connection(('localhost', port)).close()"
    )
    module = make_module(source, f"{package}.a_module")
    with Server(Emulator.from_text("queue: []")) as server:
        result = run(lambda: module.connect(server.port), unseen="ignore")

    assert len([name for name in result.unseen if "connection" in name]) == named


def test_what_a_call_does_is_part_of_it(
    race: Run, emulator: Emulator, queue: Queue, tmp_path: Path
) -> None:
    """Such as where a service keeps files."""

    def intercept(call: QueueCall, call_next: Callable[[], object]) -> object:
        (tmp_path / call.verb).touch()
        return call_next()

    delete = [partial(queue.delete_tasks, name) for name in "ab"]
    with emulator.interceptors.installed(intercept):
        result = race(*delete, setup=adding(queue, "a", "b"))
    assert str(result) == "all 2 orders that can differ of calls to queues"
    assert (tmp_path / "delete_tasks").exists()
