"""App Engine's other bundled services, by the stubs that Google's SDK has for tests.

`Services` hosts them for the bridge, by which the runtimes of apps call them and the task queue.
The SDK is imported by the first call; where it is missing, the response to that call says so.
"""

from __future__ import annotations

from pullqueue.text import did_you_mean, quoted

BLOBSTORE = "blobstore"
MAIL = "mail"
URLFETCH = "urlfetch"

SERVICES = (
    "app_identity_service",
    BLOBSTORE,
    "capability_service",
    "datastore_v3",
    "images",
    MAIL,
    "memcache",
    "modules",
    "search",
    URLFETCH,
    "user",
)
"""The services that the SDK has a stub for, beside the task queue."""

DEFAULT_SERVICES = frozenset(SERVICES) - {URLFETCH}
"""The services that are hosted unless others are named; urlfetch would call other machines."""

PART = ".part"
"""What the name of a blob's file ends with until the file is whole."""
NONE = "none"
ALL = "all"


def parse_services(text: str) -> frozenset[str]:
    """Return the services of a list with commas; `none` is the empty list, `all` is every one.

    Raises:
        ValueError: a name is not that of a service.
    """
    names = [name.strip() for name in text.split(",")]
    if names == [ALL]:
        return frozenset(SERVICES)
    return frozenset() if names == [NONE] else frozenset(map(_service, names))


def _service(name: str) -> str:
    if name not in SERVICES:
        advice = did_you_mean(name, (ALL, NONE, *SERVICES))
        raise ValueError(f"service {quoted(name)} does not exist: {advice}")
    return name
