"""The error where App Engine's SDK is needed and not installed."""

from __future__ import annotations

from importlib.util import find_spec

from pullqueue.errors import PullQueueError
from pullqueue.extras import install_command

NO_SDK_STATUS = 501
"""Status of a GET of the path of bundled services where the SDK is missing."""


class SdkMissingError(PullQueueError, ImportError):
    """App Engine's SDK is not installed"""

    def __init__(self) -> None:
        """Say how to install it."""
        super().__init__(f"{type(self).__doc__}: {install_command('appengine')}")


def is_installed() -> bool:
    """Return whether the SDK is installed, without importing it, which is slow."""
    try:
        return find_spec("google.appengine") is not None
    except ModuleNotFoundError:  # not even the package around it
        return False
