"""Addresses: where a server is by default, and the parts of a URL to which tasks are sent."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

ADDRESS_VARIABLE = "PULLQUEUE_EMULATOR_HOST"
"""The environment variable that names a running server: `host:port`."""
APP_HOST_VARIABLE = "DEFAULT_VERSION_HOSTNAME"
"""The environment variable that has the host of an app: `my-app.appspot.com`."""
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8124
DEFAULT_ADDRESS = f"{DEFAULT_HOST}:{DEFAULT_PORT}"
DEFAULT_PROJECT = "my-app"
"""The application id where none is given."""
DEFAULT_LOCATION = "us-central1"
"""The location of Cloud Tasks where none is given."""

LARGEST_PORT = 65_535
_DEFAULT_PORTS = {"http": 80, "https": 443}
_is_label = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?").fullmatch
_HOST_CHARACTERS = 253
_CACHED = 1_024
"""URLs whose parts are cached: each step of an attempt asks for those of the same."""
_absolute = re.compile(r"(?i)(https?)://(?:[^/?#]*@)?([^/?#]*)").match


class SplitUrl(NamedTuple):
    """An absolute URL in the two parts that matter to who sends a request."""

    origin: str
    """Scheme, host and port in lower case, without the default port: `https://a.example:8443`."""
    path: str = ""
    """What follows: a path with or without a query."""

    def __str__(self) -> str:
        return self.origin + self.path

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        return self.origin.partition(":")[0]

    @property
    def netloc(self) -> str:
        """Host and port, as in the header Host."""
        return self.origin.partition("://")[2]

    @property
    def host(self) -> str:
        """The host, without the brackets of an IPv6 address."""
        return _host_and_port(self.origin)[0]

    @property
    def port(self) -> int:
        """The port, which may be the default of the scheme."""
        return _host_and_port(self.origin)[1] or _DEFAULT_PORTS[self.scheme]


@lru_cache(_CACHED)
def _host_and_port(origin: str) -> tuple[str, int | None]:
    split = urlsplit(origin)
    return split.hostname or "", split.port


@lru_cache(_CACHED)
def split_url(url: str) -> SplitUrl | None:
    """Return the parts of an absolute URL; None: it does not begin with http:// or https://.

    Whether it can be called is for `why_not_callable` to say.
    """
    found = _absolute(url)
    if found is None:
        return None
    scheme, netloc = found[1].lower(), found[2].lower()
    return SplitUrl(
        f"{scheme}://{netloc.removesuffix(':').removesuffix(f':{_DEFAULT_PORTS[scheme]}')}",
        url[found.end() :],
    )


def why_not_callable(url: str) -> str | None:
    """Return why no request can be sent to an absolute URL, as part of a message; None: it can."""
    try:
        split = urlsplit(url)
        host = split.hostname or ""
    except ValueError:
        return "its host is not valid"
    try:
        port = split.port
    except ValueError:
        port = 0
    if port == 0:
        return f"its port must be 1 to {LARGEST_PORT}"
    if not host:
        return "it has no host"
    return None if _is_host(host) else "its host is not valid"


def _is_host(host: str) -> bool:
    """Return whether a text in lower case is the name of a host, or an IP address."""
    if ":" in host:
        try:
            return IPv6Address(host).scope_id is None
        except ValueError:
            return False
    labels = host.removesuffix(".").split(".")
    return len(host) <= _HOST_CHARACTERS and all(map(_is_label, labels))


def known_app_host() -> str | None:
    """Return the host that the app has in production, if the environment has it."""
    return os.environ.get(APP_HOST_VARIABLE)


def is_host_and_port(text: str) -> bool:
    """Return whether a text is HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or "/" in host or any(letter.isspace() for letter in text):
        return False
    return port.isascii() and port.isdecimal() and 0 < int(port) <= LARGEST_PORT


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine: 127.0.0.0/8, ::1 or localhost."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
