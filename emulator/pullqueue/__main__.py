"""The command, as `pullqueue` and as `python -m pullqueue`."""

from __future__ import annotations

import signal
import sys


def _interrupt(_number: int, _frame: object) -> None:
    """End the command; another Ctrl-C ends the process at once, whatever it waits for."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise KeyboardInterrupt


def main() -> int:
    """Run the command; Ctrl-C ends it without a traceback, also while its modules are imported."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell may ignore it
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from pullqueue.cli import main as run  # noqa: PLC0415 - takes a while

        return run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
