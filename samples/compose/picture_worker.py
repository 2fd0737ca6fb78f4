"""The worker: leases tasks, does them, and deletes what is done."""

from __future__ import annotations

import threading

import picture_tasks


def work(payload: bytes) -> str:
    """Do one task."""
    return payload.decode(errors="replace").upper()


def main() -> None:
    """Work forever."""
    pause = threading.Event()
    while True:
        leased = picture_tasks.lease(seconds=60, count=10)
        for name, payload in leased.items():
            print(f"{name}: {work(payload)}", flush=True)
            picture_tasks.delete(name)
        if not leased:
            pause.wait(1)


if __name__ == "__main__":
    main()
