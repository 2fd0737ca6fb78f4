"""Tests of the distribution, as a user gets it.

nox                         build it, check it, and test the wheel on every Python that is there
nox -s build                build sdist and wheel into dist/ and check them
nox -s "wheel(lowest-3.11)" test the wheel in dist/ with the oldest of what it depends on
nox -s docs                 build the documentation into docs/_build/
"""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "uv"
nox.options.sessions = ["build", "wheel"]

DIST = Path("dist")
PROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PROJECT)
OLDEST = PYTHONS[0]
EXTRAS = sorted(PROJECT["project"]["optional-dependencies"].keys() - {"docs", "dev"})
"""What users may install besides; the other two are for work on the project."""


@nox.session(python=OLDEST)
def build(session: nox.Session) -> None:
    """Build sdist and wheel into dist/, once, and check what they hold and say."""
    session.install("build", "twine", "check-wheel-contents")
    shutil.rmtree(DIST, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(DIST))
    files = [str(path) for path in DIST.iterdir()]
    session.run("twine", "check", "--strict", *files)
    session.run("check-wheel-contents", str(DIST))


# The oldest dependencies have no wheels for newer Pythons.
@nox.session
@nox.parametrize(
    "python,dependencies",
    [
        nox.param(OLDEST, "lowest", id=f"lowest-{OLDEST}"),
        *(nox.param(python, "newest", id=f"newest-{python}") for python in PYTHONS),
    ],
)
def wheel(session: nox.Session, dependencies: str) -> None:
    """Run the tests on the wheel in dist/, with the lowest or newest dependencies it allows."""
    wheels = list(DIST.glob("*.whl"))
    if len(wheels) != 1:
        session.error("there is no one wheel in dist/: run `nox -s build` first")
    session.install(*_lowest(session) if dependencies == "lowest" else (), f"{wheels[0]}[dev]")
    arguments = session.posargs or ["-n", "auto"]
    session.run("python", "-P", "-m", "pytest", *arguments)


def _lowest(session: nox.Session) -> tuple[str, str]:
    """Give the options that hold each of our own dependencies at the lowest version it allows."""
    session.install("uv")
    constraints = Path(session.create_tmp(), "lowest.txt")
    extras = [f"--extra={extra}" for extra in EXTRAS]
    options = ("--resolution=lowest-direct", "--no-deps", f"--output-file={constraints}")
    session.run("uv", "pip", "compile", "--quiet", *options, *extras, "pyproject.toml")
    return "--constraint", str(constraints)


@nox.session(python=OLDEST)
def docs(session: nox.Session) -> None:
    """Build the documentation as strictly as Sphinx can."""
    session.install("-e", ".[docs,appengine,pytest]")
    session.run("sphinx-build", "-W", "--keep-going", "-n", "docs", "docs/_build")
