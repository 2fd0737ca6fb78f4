"""The documentation: each block is run and does what the page shows."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from documents import DOCS, PAGES, README, RUN, blocks_of, name_of, run_document
from markdown_it import MarkdownIt

from pullqueue.api.auth import ACCEPTED_SCOPES

SHOWN = {
    *("python", "console", "js", "go", "java", "yaml", "toml", "ini", "json", "text", "xml", "http")
}
DOCUMENTS = [*PAGES, README, README.with_name("CONTRIBUTING.md")]
INSTALLING = re.compile(r"(python -m )?pip install|git clone|cd |docker |sudo |pre-commit install")
FROM_AN_INDEX = re.compile(
    r"pipx run (?!--spec )"
    r"|(pip install|additional_dependencies:)[^&\n]*?(?<![/\w])pullqueue(?!\S* @ )"
)
"""Commands that search for pullqueue on PyPI, where it may be missing."""
FILLED = re.compile(r"^<!-- generated: \w+ -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
"""What a file shows in place of text that the build fills in."""
ELSEWHERE = ("pullqueue serve --host 0.0.0.0", "upstream pullqueue", "pullqueue exec -- java")
"""The first words of commands and files for other machines."""


@pytest.mark.parametrize("page", [p for p in RUN if "how-to" not in p.parts], ids=name_of)
def test_every_block_of_a_page_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    """Files, Python, tests and commands, in the order of the page.

    The guides: test_docs_guides.py; pages with other languages: clients/test_docs_languages.py.
    """
    run_document(page, tmp_path)


def test_no_block_is_left_out() -> None:
    """Only the commands of an installation are shown without being run."""
    others = [
        (page, block)
        for page in [*PAGES, README]
        for block in blocks_of(page)
        if block.language not in SHOWN
    ]
    lines = [(page, line) for page, block in others for line in block.text.splitlines()]

    assert [(page, block) for page, block in others if block.language != "sh"] == []
    assert [(page, line) for page, line in lines if not INSTALLING.match(line)] == []


def test_no_block_is_overlooked() -> None:
    """What a reader sees as code is what the tests see: none is indented, or fenced otherwise."""
    for page in DOCUMENTS:
        tokens = MarkdownIt().parse(page.read_text("utf-8"))
        fenced = [token for token in tokens if token.type == "fence" and token.info[:1] != "{"]
        indented = [token.content for token in tokens if token.type == "code_block"]

        assert [(token.info, token.content) for token in fenced] == [
            (block.language, block.text) for block in blocks_of(page)
        ], page
        assert [text for text in indented if not text.startswith(ELSEWHERE)] == [], page


def test_each_guide_begins_with_its_end() -> None:
    """The first paragraph says what the reader will have."""
    guides = [
        page
        for page in PAGES
        if page.parent.name in ("how-to", "testing", "moving") and page.stem != "index"
    ]
    first = {page: page.read_text("utf-8").split("\n\n")[1].replace("\n", " ") for page in guides}

    assert [page for page, paragraph in first.items() if "At the end" not in paragraph] == []


def test_what_the_build_fills_in_can_be_read_without_it() -> None:
    """Each gap in a file names the build, and commands (which other tests run) or the source."""
    for page in (DOCS / "reference").glob("*.md"):
        text = page.read_text("utf-8")
        gaps = FILLED.findall(text)
        links = [link for gap in gaps for link in re.findall(r"\]\((.*?)\)", gap)]

        assert len(gaps) == text.count("<!-- generated: "), page
        assert [gap for gap in gaps if "`nox -s docs`" not in gap] == []
        assert [gap for gap in gaps if "\n$ " not in gap and "](" not in gap] == []
        assert [link for link in links if not (page.parent / link).is_file()] == []
        assert "$ python -m pydoc " in text or "{eval-rst}" not in text, page


def test_each_link_has_a_text() -> None:
    """Sphinx would fill in a title; who reads the files in a checkout would see nothing."""
    assert [page for page in DOCUMENTS if "[](" in page.read_text("utf-8")] == []


def test_what_is_installed_exists() -> None:
    """pullqueue comes from a checkout, in which the command is run, or from a repository."""
    blocks = [block.text for page in DOCUMENTS for block in blocks_of(page)]

    assert [text for text in blocks if FROM_AN_INDEX.search(text)] == []
    assert [p for p in DOCUMENTS if "/path/to/pullqueue" in p.read_text("utf-8")] == []


def test_each_extra_is_listed() -> None:
    """The page of the installation has each extra that a user could want, and no others."""
    project = tomllib.loads(README.with_name("pyproject.toml").read_text("utf-8"))["project"]
    text = (DOCS / "how-to" / "install.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}

    assert listed == project["optional-dependencies"].keys() - {"docs", "benchmark", "test", "dev"}


def test_each_scope_that_a_token_may_be_for_is_listed() -> None:
    text = (DOCS / "how-to" / "credentials.md").read_text("utf-8")

    assert [scope for scope in ACCEPTED_SCOPES if f"`{scope.split('/')[-1]}`" not in text] == []


READERS: dict[str, Callable[[str], object]] = {
    "yaml": yaml.safe_load,
    "toml": tomllib.loads,
    "ini": lambda text: ConfigParser(strict=False, interpolation=None).read_string(text),
    "json": json.loads,
    "xml": ET.fromstring,
}


def test_files_that_are_shown_are_well_formed() -> None:
    """Whether or not a command reads them."""
    for page in PAGES:
        for block in blocks_of(page):
            if block.language in READERS:
                READERS[block.language](block.text.replace("<!-- queue.xml -->\n", ""))
