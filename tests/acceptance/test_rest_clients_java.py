"""Google's API client for Java as a client of the Task Queue API, unmodified."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import program
from rest_clients import GONE, guarded_server, key_file, run_client

PROGRAM = Path(__file__).parent / "java" / "Lifecycle.java"
JARS = Path("/usr/share/java")
NEEDED = (
    "google-api-client",
    "google-http-client",
    "google-http-client-gson",
    "google-oauth-client",
    "grpc-context",
    "gson",
    "guava",
    "httpclient",
    "httpcore",
    "opencensus-api",
    "opencensus-contrib-http-util",
)
"""The library, and what it is on, as Debian has them."""


@pytest.fixture
def class_path() -> str:
    """Return the path of the library."""
    jars = [JARS / f"{name}.jar" for name in NEEDED]
    if not all(jar.exists() for jar in jars):
        pytest.skip("Google's client is missing: apt-get install libgoogle-api-client-java")
    return ":".join(map(str, jars))


def test_the_lifecycle_of_tasks(class_path: str, tmp_path: Path) -> None:
    """Bodies are zipped, a patch is a POST that says what it represents, and a batch deletes."""
    java = program("java", package="default-jdk-headless")
    program("javac", package="default-jdk-headless")  # the program is run from its source
    with guarded_server() as server:
        key = key_file(server, tmp_path / "key.json")
        reported = run_client(java, "-cp", class_path, str(PROGRAM), server.url, str(key))

    assert reported["deleted"] == [GONE, "", ""]
