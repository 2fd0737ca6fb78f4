"""What the README shows is what happens."""

from __future__ import annotations

import shutil
from pathlib import Path

from documents import DocumentRunner, blocks_of

ROOT = Path(__file__).parents[2]


def test_every_block_does_what_it_shows(tmp_path: Path) -> None:
    """Files, Python, tests and commands, in the order of the document."""
    shutil.copy(ROOT / "samples" / "quickstart" / "queue.yaml", tmp_path)
    runner = DocumentRunner(tmp_path)
    try:
        for block in blocks_of(ROOT / "README.md"):
            runner.run(block)
    finally:
        runner.close()


def test_there_are_blocks_to_run() -> None:
    """The document is not empty, and no block is left out for its language."""
    languages = {block.language for block in blocks_of(ROOT / "README.md")}

    assert {"python", "console", "yaml"} <= languages
    assert languages <= {"python", "console", "yaml", "toml", "sh"}
