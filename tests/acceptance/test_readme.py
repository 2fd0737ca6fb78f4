"""What the README shows is what happens."""

from __future__ import annotations

from pathlib import Path

from documents import run_document

ROOT = Path(__file__).parents[2]


def test_every_block_does_what_it_shows(tmp_path: Path) -> None:
    """Files, Python, tests and commands, in the order of the document."""
    run_document(ROOT / "README.md", tmp_path)
