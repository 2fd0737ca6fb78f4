"""What the tests with real clients share: a queue.yaml with an acl, and the worker's key."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from served import Served

CLIENTS_YAML = """\
queue:
- name: pull-queue
  mode: pull
  acl:
  - user_email: worker@example.com
  - writer_email: worker@example.com
- name: read-only
  mode: pull
  acl:
  - user_email: worker@example.com
"""
"""A queue that the worker may use in every way, and one that it may not insert into."""


def key_file(served: Served, path: Path, email: str = "worker@example.com") -> Path:
    """Have a key made with `pullqueue credentials`."""
    subprocess.run(
        [
            *(sys.executable, "-m", "pullqueue", "credentials", email),
            *("--url", served.url, "--output", str(path)),
        ],
        check=True,
        timeout=60,
    )
    return path
