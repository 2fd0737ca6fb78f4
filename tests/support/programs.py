"""Programs that some tests drive; where one is missing, those tests are skipped (failed, in CI)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import pytest


def program(name: str, *, package: str) -> str:
    """Return the path of a program, or skip the test and say which Debian package has it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing: apt-get install {package}")
    return found


def completed(
    command: Sequence[str | Path],
    *,
    check: bool = False,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: str | None = None,  # noqa: A002 - as in subprocess
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, and return its status and what it printed."""
    return subprocess.run(
        command,
        check=check,
        cwd=cwd,
        env=env,
        input=input,
        capture_output=True,
        text=True,
        timeout=120,
    )


@contextmanager
def running(
    *command: str | Path,
    cwd: Path | None = None,
    stderr: int | IO[str] = subprocess.PIPE,
    **variables: str,
) -> Iterator[subprocess.Popen[str]]:
    """Run a program until the block ends, with more variables in its environment."""
    with subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=60)


def npm_packages(folder: Path, scratch: Path) -> Path:
    """Return where the clients that a folder's package.json lists are installed; install them."""
    installed = folder / "node_modules"
    with (folder / "package.json").open("rb") as listed:
        flock(listed, LOCK_EX)  # another process of the same test run may install them now
        if not _has_all(installed):
            shutil.copy(listed.name, scratch)
            flags = (
                "--no-audit",
                "--no-fund",
                "--ignore-scripts",
                "--no-package-lock",
                "--omit=optional",
            )
            npm = program("npm", package="npm")
            subprocess.run([npm, "install", *flags], cwd=scratch, check=True, timeout=300)
            shutil.rmtree(installed, ignore_errors=True)  # of an older list
            shutil.move(scratch / "node_modules", installed)
    return installed


def _has_all(installed: Path) -> bool:
    """Return whether all packages that are listed beside a folder are in it."""
    listed = json.loads(installed.with_name("package.json").read_text("utf-8"))["dependencies"]
    return all((installed / name).exists() for name in listed)


def go_libraries(package: str, *, debian: str) -> dict[str, str]:
    """Return the variables with which go finds Debian's copy of a package of Google's."""
    folder = Path("/usr/share/gocode")
    if not (folder / "src" / package).exists():
        pytest.skip(f"Google's package is missing: apt-get install {debian}")
    return {"GO111MODULE": "off", "GOPATH": str(folder)}


def go_program(source: Path, folder: Path, package: str, *, debian: str) -> Path:
    """Return a program in Go, compiled with Debian's copy of a package of Google's."""
    go, libraries = program("go", package="golang-go"), go_libraries(package, debian=debian)
    target = folder / "program"
    subprocess.run(
        [go, "build", "-o", str(target), "main.go"],
        cwd=source,
        env={**os.environ, **libraries},
        check=True,
        timeout=300,
    )
    return target


_GOOGLE_JARS = (
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
_JUNIT_JARS = (
    "apiguardian-api",
    "junit-jupiter-api",
    "junit-jupiter-engine",
    "junit-platform-commons",
    "junit-platform-console",
    "junit-platform-engine",
    "junit-platform-launcher",
    "junit-platform-reporting",
    "opentest4j",
    "opentest4j-reporting-events",
    "opentest4j-reporting-schema",
    "picocli",
)


def java_libraries() -> str:
    """Return the class path of Google's client and of JUnit, with what these need."""
    jars = [Path(f"/usr/share/java/{name}.jar") for name in (*_GOOGLE_JARS, *_JUNIT_JARS)]
    if not all(jar.exists() for jar in jars):
        pytest.skip("libraries are missing: apt-get install libgoogle-api-client-java junit5")
    return os.pathsep.join(map(str, jars))


def pip_install(*arguments: str) -> None:
    """Install Python packages with pip or, where an environment has none, with uv."""
    pip = (
        [sys.executable, "-m", "pip"]
        if find_spec("pip")
        else [program("uv", package="pipx"), "pip"]
    )
    options = ("--quiet", "--no-compile")  # most modules are never imported
    subprocess.run([*pip, "install", *options, *arguments], check=True, timeout=300)
