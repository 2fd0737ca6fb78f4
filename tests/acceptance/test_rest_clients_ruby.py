"""Google's API client for Ruby as a client of the Task Queue API, unmodified."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from programs import program
from rest_clients import GONE, guarded_server, run_client, token_of

PROGRAM = Path(__file__).parent / "ruby" / "lifecycle.rb"
CLIENT = ("-r", "google/apis/core/base_service", "-e", "")
"""Loads the client, and does nothing."""


def test_the_lifecycle_of_tasks() -> None:
    """The client reads and writes base64 and long numbers by itself, and deletes in a batch."""
    ruby = program("ruby", package="ruby")
    if subprocess.run([ruby, *CLIENT], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("Google's client is missing: apt-get install ruby-google-api-client")
    with guarded_server() as server:
        reported = run_client(ruby, str(PROGRAM), server.url, token_of(server))

    assert reported["deleted"] == [None, None, None]
    assert reported["gone"] == GONE
    assert len(reported["methods"]) == 7
