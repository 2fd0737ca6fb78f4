"""Project ids as they stand in paths, with or without the prefix of App Engine's partitions."""

from __future__ import annotations

import re
from typing import NamedTuple

_PREFIXED = re.compile(r"(?:([a-z])~)?([^/]+)", re.ASCII)
_USUAL_PREFIX = "s"


class Project(NamedTuple):
    """A project id as a request wrote it."""

    app_id: str
    """The application id alone."""
    prefix: str = _USUAL_PREFIX
    """`s` (United States), `e` (Europe), `b`...: what answers carry before it."""

    @classmethod
    def of(cls, text: str) -> Project:
        """Read `app` or `s~app`; an id of another form stands for itself."""
        match = _PREFIXED.fullmatch(text)
        if match is None:
            return cls(text)
        return cls(match[2], match[1] or _USUAL_PREFIX)

    def queue_id(self, queue_name: str) -> str:
        """Give the long name of a queue: `projects/s~app/taskqueues/queue`."""
        return f"projects/{self.prefix}~{self.app_id}/taskqueues/{queue_name}"
