"""A program that ends another one, with its children, if `pullqueue exec` has ended without it.

It is run as `python -I -S _watcher.py PID` and imports nothing of pullqueue. Its standard input is
a pipe: a byte means that all went well, and the end of the pipe that `exec` was killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_END_SECONDS = 5.0
"""Time that the processes have to end by themselves."""
_LOOK_SECONDS = 0.05


def watch(pid: int) -> None:
    """Wait for `exec`, and end a process and its children if it was killed."""
    for name in ("SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    if os.read(0, 1):
        return
    running = {pid, *descendants(pid)}
    _send(running, signal.SIGTERM)
    end = time.monotonic() + _END_SECONDS
    while time.monotonic() < end and any(map(_is_running, running)):
        running |= {child for each in list(running) for child in descendants(each)}
        time.sleep(_LOOK_SECONDS)  # noqa: TID251 - it waits for a process, not for the clock
    _send(running, signal.SIGKILL)


def descendants(pid: int) -> set[int]:
    """Return the children of a process, and theirs."""
    parents = _parents()
    found: set[int] = set()
    while more := {child for child, parent in parents.items() if parent in {pid, *found}} - found:
        found |= more
    return found


def _parents() -> dict[int, int]:
    """Return the parent of each process of this machine."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            # The name of the program comes first, in parentheses, and can have anything in it.
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
    if not parents:  # a system without /proc, such as macOS
        with suppress(OSError):
            command = ["ps", "-axo", "pid=,ppid="]
            table = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - no input
            parents = {
                int(line.split()[0]): int(line.split()[1]) for line in table.stdout.splitlines()
            }
    return parents


def _send(pids: set[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


if __name__ == "__main__":
    watch(int(sys.argv[1]))
