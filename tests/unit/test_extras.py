"""The command that installs an extra, for each place this package can come from."""

from __future__ import annotations

import json
from importlib.metadata import Distribution

import pytest

from pullqueue.extras import install_command


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'pullqueue[auth]'"),
        ({"url": "file:///src/a%20b", "dir_info": {}}, "pip install '/src/a b[auth]'"),
        (
            {"url": "file:///src/pq", "dir_info": {"editable": True}},
            "pip install -e '/src/pq[auth]'",
        ),
        (
            {"url": "https://host/pq.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pip install 'pullqueue[auth] @ git+https://host/pq.git@abc'",
        ),
        (
            {"url": "file:///pq-1-py3-none-any.whl", "archive_info": {}},
            "pip install 'pullqueue[auth] @ file:///pq-1-py3-none-any.whl'",
        ),
    ],
)
def test_the_command_names_the_origin(
    monkeypatch: pytest.MonkeyPatch, origin: object, command: str
) -> None:
    """What pip has recorded is what is installed again, with the extra."""
    text = None if origin is None else json.dumps(origin)
    monkeypatch.setattr(Distribution, "read_text", lambda *_: text)
    monkeypatch.setattr("importlib.metadata.PathDistribution.read_text", lambda *_: text)

    assert install_command("auth") == command
