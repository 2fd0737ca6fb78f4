"""The guides: each block is run and does what the page shows.

In a file of their own, so that another worker can run them at the same time as test_docs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from documents import RUN, name_of, run_document


@pytest.mark.parametrize("page", [page for page in RUN if "how-to" in page.parts], ids=name_of)
def test_every_block_of_a_guide_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    run_document(page, tmp_path)
