"""Sphinx settings of the documentation: `sphinx-build -W --keep-going -n docs docs/_build`."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "pullqueue"
copyright = "The pullqueue authors"  # noqa: A001 - Sphinx defines the name
version = release = version_of("pullqueue")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "docstrings",
    "generated",
    "pages",
]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"pullqueue {release}"
html_static_path = ["_static"]
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_css_files = ["pullqueue.css"]
html_js_files = ["filter.js", "access.js"]
html_copy_source = False
html_show_sphinx = False

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3

default_role = "code"
smartquotes = False  # they would change the dashes of options
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {
    "Call": "str",
    "Error": "ErrorSource",
    "Seconds": "Seconds",
    "Status": "Status",
}
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
maximum_signature_line_length = 88

nitpicky = True
nitpick_ignore_regex = [
    # The build fetches nothing, so names of other projects have no links; neither do types that
    # occur in annotations only.
    ("py:.*", r"(collections|contextlib|datetime|enum|flask|os|pathlib|typing|_typeshed)\..*"),
    ("py:.*", r"pullqueue\.\w+\..*"),
    ("py:.*", r"\w+"),
]
