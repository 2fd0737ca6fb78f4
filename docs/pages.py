"""Complete the pages for a browser, so that the files stay plain Markdown.

- Each cell that is a verdict gets a class for its colour, and its table the class `filtered`, above
  which `_static/filter.js` puts a filter.
- A picture `images/x.png` beside which there is an `images/x-dark.png` is shown in the light theme,
  the other one in the dark theme.
- The terms of `search-terms.yaml` become entries of the index, in which the search looks first. It
  finds numbers, such as a status, nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

TERMS = Path(__file__).with_name("search-terms.yaml")
VERDICTS = {
    "supported": "verdict-same",
    "same": "verdict-same",
    "differs": "verdict-differs",
    "not supported": "verdict-missing",
}

logger = logging.getLogger(__name__)


class Verdicts(SphinxTransform):
    """Add classes to verdicts, and to the tables that have some."""

    default_priority = 500

    def apply(self) -> None:
        """Change the tables of a page."""
        for table in self.document.findall(nodes.table):
            for entry in table.findall(nodes.entry):
                if kind := VERDICTS.get(entry.astext()):
                    entry["classes"].append(kind)
                    if "filtered" not in table["classes"]:
                        table["classes"].append("filtered")


class Pictures(SphinxTransform):
    """Show the dark picture in the dark theme."""

    default_priority = 500

    def apply(self) -> None:
        """Put a dark picture beside each light one."""
        for light in list(self.document.findall(nodes.image)):
            path = Path(light["uri"])
            uri = path.with_name(f"{path.stem}-dark{path.suffix}")
            if (Path(self.env.doc2path(self.env.docname)).parent / uri).is_file():
                dark = light.deepcopy()
                dark["uri"] = uri.as_posix()
                dark["classes"].append("only-dark")
                light["classes"].append("only-light")
                light.parent.insert(light.parent.index(light) + 1, dark)


class Terms(SphinxTransform):
    """Add the terms to the index."""

    default_priority = 500

    def apply(self) -> None:
        """Add an entry for each term whose place is on the page."""
        self.env.note_dependency(TERMS.name)
        entries = []
        for term, place in yaml.safe_load(TERMS.read_text("utf-8")).items():
            page, _, section = place.partition("#")
            if not (Path(self.env.srcdir) / f"{page}.md").is_file():
                logger.warning("%s: %s: no such page: %s", TERMS.name, term, page)
            if page == self.env.docname:
                if section and section not in self.document.ids:
                    logger.warning("%s: %s: no such section: %s", TERMS.name, term, place)
                entries.append(("single", str(term), section, "main", None))
        if entries:
            self.document.insert(0, addnodes.index(entries=entries))


def setup(app: Sphinx) -> Mapping[str, bool]:
    """Complete each page when Sphinx reads it."""
    for transform in (Verdicts, Pictures, Terms):
        app.add_transform(transform)
    return {"parallel_read_safe": True}
