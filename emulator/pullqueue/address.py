"""Where a server is by default, its application id, and the variable that names a running one."""

from __future__ import annotations

from ipaddress import ip_address

ADDRESS_VARIABLE = "PULLQUEUE_EMULATOR_HOST"
"""The environment variable that names a running server: `host:port`."""
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8124
DEFAULT_ADDRESS = f"{DEFAULT_HOST}:{DEFAULT_PORT}"
DEFAULT_PROJECT = "my-app"
"""The application id where none is given."""

_LARGEST_PORT = 65_535


def is_host_and_port(text: str) -> bool:
    """Return whether a text is HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or "/" in host or any(letter.isspace() for letter in text):
        return False
    return port.isascii() and port.isdecimal() and 0 < int(port) <= _LARGEST_PORT


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine: 127.0.0.0/8, ::1 or localhost."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
