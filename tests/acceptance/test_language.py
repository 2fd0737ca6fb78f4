"""Code, messages, help texts and documentation use the field's terms."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("emulator", "pytest_plugin", "schemas", "samples", "docs", "benchmarks", "tests")
KINDS = {".py", ".md", ".html", ".js", ".sql", ".csv", ".yaml", ".json", ".toml"}
KINDS |= {".go", ".java", ".rb"}
IGNORED = {"_build", "__pycache__", "node_modules", Path(__file__).name}
FILES = sorted(
    path
    for path in [*ROOT.glob("*.*"), *(p for folder in FOLDERS for p in (ROOT / folder).rglob("*"))]
    if path.suffix in KINDS and not IGNORED & {*path.parts}
)
WORDS = {
    r"doors?": "interface",
    r"given up|gives? up a task": "exhausted",
    r"given back|gives? back": "released",
    r"(?<!there )(is|are) no (?!longer|more)\w+": "is not a valid ..., is missing",
    r"gives?": "return, use, pass, write",
    r"lets? (the|an?|no|it|its|them|you|other|tests?|calls?|tasks?|errors?)": "permit, make",
    r"all the same": "nevertheless",
    r"stands? (for|behind|in)": "represents, follows, is in",
    r"told|tells (of|whether|what|how)": "report, return, state",
    r"made[- ]up": "generated",
    r"moments?": "time",
    r"heed(s|ed)?": "respect",
    r"mend(s|ed|ing)?": "fix",
    r"anew": "again",
    r"for ever": "forever",
    r"forgets?|forgotten|forgetting": "delete",
    r"strikes?|struck": "trigger",
    r"so often": "that many times",
    r"in force": "apply",
    r"bury|buried": "tombstone",
    r"reckon(s|ed)?": "recount",
    r"unseen": "bypass_interceptors",
    r"usual (head|answer)": "fast path",
}
"""What is not written, as a pattern of whole words, and what is written for it."""
BANNED = re.compile(rf"\b({'|'.join(WORDS)})\b", re.IGNORECASE)


def test_there_are_files_to_read() -> None:
    """The folders exist."""
    assert {path.relative_to(ROOT).parts[0] for path in FILES} >= {*FOLDERS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_coined_words(path: Path) -> None:
    """See `WORDS` for what to write."""
    lines = path.read_text("utf-8").splitlines()

    found = {
        f"{path.name}:{number}": match.group()
        for number, line in enumerate(lines, 1)
        if (match := BANNED.search(line))
    }
    assert found == {}
