"""Tests of the checkout and of the distribution, each in a clean environment.

nox                         build it, check it, and test the wheel on every Python that is there
nox -s build                build sdist and wheel into dist/ and check them
nox -s "wheel(lowest-3.11)" test the wheel in dist/ with the oldest of what it depends on
nox -s tests-3.13           test the checkout on a Python; arguments for pytest stand after --
nox -s coverage             measure the branch coverage of the tests; twice as slow as the tests.
                            Fails below 95 %, or below 100 % in engine, config and lint
nox -s long                 properties with 1,000 examples, five times as many random requests, 300
                            kills of servers, ten minutes of soak; hours. With PostgreSQL if
                            PULLQUEUE_TEST_POSTGRES is set
nox -s mutation             change the source in one place at a time, print what no test detects;
                            hours. For one module: -- "pullqueue.engine.queue*"
nox -s nightly              long, mutation and coverage
nox -s docs                 build the documentation into docs/_build/
nox -s lint types security  format and style; types; faults of security in the source
nox -s audit                known vulnerabilities in the newest of what it depends on
nox -s release -- v1.2.3    whether a tag, the version and the change log agree, and URLs are real
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "uv"
nox.options.sessions = ["build", "wheel"]

DIST = Path("dist")
SOURCES = ("emulator", "pytest_plugin", "schemas")
PROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PROJECT)
OLDEST = PYTHONS[0]
EXTRAS = sorted(
    PROJECT["project"]["optional-dependencies"].keys() - {"benchmark", "docs", "test", "dev"}
)
"""What users may install besides; the other four are for work on the project."""
COVERED = ",".join(f"*/pullqueue/{part}/*" for part in ("engine", "config", "lint"))
"""The parts of which tests reach every line and every branch."""
KILLED = 0.9
"""The part of the mutants that tests detect at least."""


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
    lowest = dependencies == "lowest"
    session.install(*_lowest(session) if lowest else (), f"{wheels[0]}[dev]")
    pytest = ("python", "-P", "-m", "pytest", *_arguments(session))
    session.run(*pytest)
    if not session.posargs:
        # The documentation shows what the newest pytest prints.
        names = ("samples",) if lowest else ("docs", "docs_guides", "samples")
        session.run(*pytest, *(f"tests/release/test_{name}.py" for name in names))


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests on the checkout, with the newest dependencies."""
    session.install("-e", ".[dev]")
    session.run("pytest", *_arguments(session))


@nox.session(python=OLDEST)
def coverage(session: nox.Session) -> None:
    """Measure branch coverage, in the programs that tests start as well."""
    session.install("-e", ".[dev]")
    session.run("coverage", "run", "-m", "pytest", *_arguments(session))
    session.run("coverage", "combine", "--quiet")
    report = ("coverage", "report", "--skip-covered")
    session.run(*report, "--fail-under=95")
    session.run(*report, "--show-missing", f"--include={COVERED}", "--fail-under=100")


@nox.session(python=OLDEST)
def long(session: nox.Session) -> None:
    """Run the tests that can take longer, with all the time they can use."""
    session.install("-e", ".[dev]")
    arguments = ("-m", "long or hypothesis", *_arguments(session))
    session.run("pytest", *arguments, env={"PULLQUEUE_TEST_LONG": "1"})


@nox.session(python=OLDEST)
def mutation(session: nox.Session) -> None:
    """Print each change of the source that no test detects."""
    session.install("-e", ".[dev]", "mutmut>=3.8")
    # mutmut wants the packages in one folder `src`.
    stage = Path(session.virtualenv.location, "stage")
    shutil.rmtree(stage, ignore_errors=True)
    for root in SOURCES:
        shutil.copytree(root, stage / "src", dirs_exist_ok=True)
    for folder in ("tests", "samples", "docs", "schemas"):
        shutil.copytree(folder, stage / folder)
    shutil.copy("pyproject.toml", stage)
    with session.chdir(stage):
        session.run("mutmut", "run", *session.posargs)
        found = str(session.run("mutmut", "results", silent=True)).splitlines()
        session.log(
            "\n".join(["not killed:", *(x for x in found if not x.endswith("not checked"))])
        )
        session.run("mutmut", "export-cicd-stats", silent=True)
        counts = json.loads(Path("mutants", "mutmut-cicd-stats.json").read_text("utf-8"))
    tested = counts["killed"] + counts["timeout"] + counts["survived"]
    score = (counts["killed"] + counts["timeout"]) / tested
    session.log(f"{tested} mutants, {counts['survived']} survived: {score:.1%} killed")
    if score < KILLED:
        session.error(f"less than {KILLED:.0%} of the mutants were killed")


@nox.session(venv_backend="none")
def nightly(session: nox.Session) -> None:
    """Run what takes too long for each change."""
    for name in ("long", "mutation", "coverage"):
        session.notify(name)


def _arguments(session: nox.Session) -> list[str]:
    return session.posargs or ["-n", "auto", "--dist", "loadfile"]


def _lowest(session: nox.Session) -> tuple[str, str]:
    """Return the options for the lowest permitted version of each dependency of the project."""
    session.install("uv")
    # Not in create_tmp(), which would move all temporary files of the tests into the checkout.
    constraints = Path(session.virtualenv.location, "lowest.txt")
    extras = [f"--extra={extra}" for extra in EXTRAS]
    options = ("--resolution=lowest-direct", "--no-deps", f"--output-file={constraints}")
    session.run_install("uv", "pip", "compile", "--quiet", *options, *extras, "pyproject.toml")
    return "--constraint", str(constraints)


@nox.session(python=OLDEST)
def docs(session: nox.Session) -> None:
    """Build the documentation as strictly as Sphinx can."""
    session.install("-e", ".[docs,appengine,pytest]")
    session.run("sphinx-build", "-W", "--keep-going", "-n", "docs", "docs/_build")


@nox.session(python=OLDEST)
def lint(session: nox.Session) -> None:
    """Check format and style."""
    session.install("ruff")
    session.run("ruff", "format", "--check")
    session.run("ruff", "check")


@nox.session(python=OLDEST)
def types(session: nox.Session) -> None:
    """Check types, in strict mode."""
    session.install("-e", ".[dev,benchmark]")
    session.run("mypy")


@nox.session(python=OLDEST)
def security(session: nox.Session) -> None:
    """Look for faults of security in the source, of medium severity or more."""
    session.install("bandit")
    session.run("bandit", "-q", "-c", "pyproject.toml", "-ll", "-r", *SOURCES)


@nox.session(python=OLDEST)
def audit(session: nox.Session) -> None:
    """Look for known vulnerabilities in what users install; asks the service of the index.

    App Engine's SDK is left out: it holds back versions (urllib3 below 2) for whoever uses it.
    """
    session.install("pip-audit", "uv")
    newest = Path(session.virtualenv.location, "newest.txt")
    extras = [f"--extra={extra}" for extra in EXTRAS if extra != "appengine"]
    command = ("uv", "pip", "compile", "--quiet", f"--output-file={newest}", *extras)
    session.run(*command, "pyproject.toml")
    session.run("pip-audit", "--strict", "--disable-pip", "--no-deps", "-r", str(newest))


@nox.session(venv_backend="none")
def release(session: nox.Session) -> None:
    """Check that a tag is the version in pyproject.toml and in the change log, and the URLs."""
    version = PROJECT["project"]["version"]
    tags = session.posargs or [f"v{version}"]
    if tags != [f"v{version}"]:
        session.error(f"the tag {' '.join(tags)!r} is not 'v{version}', of pyproject.toml")
    if "example.com" in Path("pyproject.toml").read_text("utf-8"):
        session.error("the URLs in pyproject.toml are examples: name the repository")
    part = rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$"
    if not re.search(part, Path("CHANGELOG.md").read_text("utf-8"), re.MULTILINE):
        session.error(f"CHANGELOG.md has no part '## {version} - ' with a day")
