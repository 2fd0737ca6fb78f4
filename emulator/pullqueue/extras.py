"""The command that installs an extra of this package, from where the package came."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from shlex import quote
from urllib.parse import urlsplit
from urllib.request import url2pathname


def install_command(extra: str) -> str:
    """Return a pip command that adds an extra to this installation.

    pip records where a package that is not from an index came from (`direct_url.json`).
    """
    try:
        text = distribution("pullqueue").read_text("direct_url.json")
    except PackageNotFoundError:
        text = None
    if text is None:
        return f"pip install {quote(f'pullqueue[{extra}]')}"
    origin = json.loads(text)
    url = origin["url"]
    if "dir_info" in origin:
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return f"pip install {editable}{quote(f'{url2pathname(urlsplit(url).path)}[{extra}]')}"
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    return f"pip install {quote(f'pullqueue[{extra}] @ {url}')}"
