"""What is said where App Engine's SDK is needed and not installed."""

from __future__ import annotations

from pullqueue.errors import PullQueueError


class SdkMissingError(PullQueueError, ImportError):
    """App Engine's SDK is not installed: pip install 'pullqueue[appengine]'"""
