"""Project ids as they stand in paths, with or without the prefix of App Engine's partitions."""

from __future__ import annotations

from string import ascii_lowercase
from typing import NamedTuple

_USUAL_PREFIX = "s"


class Project(NamedTuple):
    """A project id as a request wrote it."""

    app_id: str
    """The application id alone."""
    prefix: str = _USUAL_PREFIX
    """`s` (United States), `e` (Europe), `b`...: what answers carry before it."""

    @classmethod
    def of(cls, text: str) -> Project:
        """Read `app` or `s~app`; an id with anything else before a tilde stands for itself."""
        prefix, tilde, app_id = text.partition("~")
        if tilde and len(prefix) == 1 and prefix in ascii_lowercase:
            return cls(app_id, prefix)
        return cls(text)

    def queue_id(self, queue_name: str) -> str:
        """Give the long name of a queue: `projects/s~app/taskqueues/queue`."""
        return f"projects/{self.prefix}~{self.app_id}/taskqueues/{queue_name}"
