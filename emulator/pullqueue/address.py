"""Where a server listens unless told otherwise, and how programs are told where one does."""

from __future__ import annotations

ADDRESS_VARIABLE = "PULLQUEUE_EMULATOR_HOST"
"""The environment variable that names a running server: `host:port`."""
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8124
DEFAULT_ADDRESS = f"{DEFAULT_HOST}:{DEFAULT_PORT}"
