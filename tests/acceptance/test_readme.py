"""What the README shows is what happens."""

from __future__ import annotations

from pathlib import Path

from documents import blocks_of, run_document

ROOT = Path(__file__).parents[2]


def test_every_block_does_what_it_shows(tmp_path: Path) -> None:
    """Files, Python, tests and commands, in the order of the document."""
    run_document(ROOT / "README.md", tmp_path)


def test_there_are_blocks_to_run() -> None:
    """The document is not empty, and no block is left out for its language."""
    languages = {block.language for block in blocks_of(ROOT / "README.md")}

    assert {"python", "console", "yaml"} <= languages
    assert languages <= {"python", "console", "text", "yaml", "toml", "sh"}
