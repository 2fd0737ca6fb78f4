"""Code, messages, help texts and documentation use the field's terms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tables import each_row

ROOT = Path(__file__).parents[2]
FOLDERS = ("emulator", "pytest_plugin", "schemas", "samples", "docs", "benchmarks", "tests")
KINDS = {".py", ".md", ".html", ".js", ".sql", ".csv", ".yaml", ".json", ".toml"}
KINDS |= {".go", ".java", ".rb"}
IGNORED = {"_build", "__pycache__", "node_modules", Path(__file__).name}
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
    r"usual (head|answer)": "fast path",
}
"""What is not written, as a pattern of whole words, and what is written for it."""
BANNED = re.compile(rf"\b({'|'.join(WORDS)})\b")
PARTS = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])")
"""Where an identifier is split into words."""


def violations(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the words of each coined word in prose and identifiers."""
    parts = PARTS.sub(" ", text).lower()
    for match in BANNED.finditer(parts):
        yield parts.count("\n", 0, match.start()) + 1, match.group()


@each_row(
    ("text", "found"),
    [
        ("def test_names_are_made_up() -> None:", ["made up"]),
        ("class MadeUpNames: ...", ["made up"]),
        ("Through which door?\n_struck", ["door", "struck"]),
        ("the indoor_temperature is moderate", []),
    ],
)
def test_which_words_are_found(text: str, found: list[str]) -> None:
    """Whole words, in sentences and in identifiers of both forms."""
    assert [words for _, words in violations(text)] == found


def test_no_coined_words() -> None:
    paths = [*ROOT.glob("*.*"), *(p for folder in FOLDERS for p in (ROOT / folder).rglob("*"))]
    files = sorted(p for p in paths if p.suffix in KINDS and not IGNORED & {*p.parts})
    assert {path.relative_to(ROOT).parts[0] for path in files} >= {*FOLDERS}

    found = [
        f"{path.relative_to(ROOT)}:{number}: {words}"
        for path in files
        for number, words in violations(path.read_text("utf-8"))
    ]

    assert not found, "\n".join(["coined words:", *found])
