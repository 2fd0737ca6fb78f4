"""What a request is answered from: the emulator that is served, and what its server has beside it.

There is one Flask application in a process, whatever is served. `create_app` of
`pullqueue.server.app` puts the objects of one server into the WSGI environment of each request,
where the views find them.
"""

from __future__ import annotations

from typing import Final, TypeVar

from flask import request

KEY: Final = "pullqueue.served"
"""In the environment: the objects that are served, by class."""

_T = TypeVar("_T")


def served(kind: type[_T]) -> _T:
    """Return what the current request is answered from: `served(Emulator)`."""
    found: _T = request.environ[KEY][kind]
    return found
