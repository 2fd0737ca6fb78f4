"""Hostile files are refused at once, with a clear finding."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pullqueue.config.check import check
from pullqueue.config.settings import Settings

BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(8)
)
FILES = {
    "empty": (b"", "empty-file"),
    "brackets": (b"queue: " + b"[" * 200_000, "too-deep"),
    "braces": (b"queue: " + b"{ " * 200_000, "too-deep"),
    "dashes": (b"- " * 200_000, "too-deep"),
    "question marks": (b"? " * 200_000, "too-deep"),
    "ten megabytes": (b"#" + b"x" * 10_000_000, "file-too-large"),
    "many values": (b"queue:\n" + b"- a\n" * 250_000, "file-too-large"),
    "bomb": (BOMB.encode(), "anchor-or-alias"),
    "nul": (b"queue:\n- name: a\0b\n", "control-character"),
    "next line": ("queue: # \x85\n".encode(), "control-character"),
    "second byte-order mark": ("\ufeff\ufeffqueue: []\n".encode(), "control-character"),
    "byte-order mark inside": ("queue:\n\ufeff- name: a\n".encode(), "control-character"),
    "utf-16": ("queue: []\n".encode("utf-16"), "encoding"),
    "utf-16 without mark": ("queue: []\n".encode("utf-16-le"), "encoding"),
    "latin-1": (b"queue:\n- name: caf\xe9\n", "encoding"),
    "object": (b"queue: !!python/object/apply:os.system [ls]\n", "yaml-tag"),
    "scalar object": (b"queue: !!python/name:os.system ls\n", "yaml-tag"),
    "misfit tag": (b"queue: !!int ls\n", "yaml-tag"),
    "duplicate": (b"queue: []\nqueue: []\n", "duplicate-key"),
    "two documents": (b"queue: []\n---\nqueue: []\n", "multiple-documents"),
    "two documents, first empty": (b"---\n---\nqueue: []\n", "empty-file"),
    "scalar": (b"hello\n", "root-not-mapping"),
    "xml": (b"<queue-entries><queue/></queue-entries>\n", "root-not-mapping"),
    "list": (b"- name: mail\n  rate: 5/s\n", "root-not-mapping"),
    "null": (b"~\n", "empty-file"),
    "merge key": (b"queue:\n- <<: {rate: 5/s}\n  name: mail\n  rate: 5/s\n", "anchor-or-alias"),
    "sign in a list": (b"queue: [=]\n", "yaml-tag"),
    "sexagesimal": (b"queue:\ntotal_storage_limit: " + b"1:30" * 100_000, "storage-limit-format"),
    "conflict": (b"queue:\n<<<<<<< HEAD\n- name: a\n", "merge-conflict"),
}


@pytest.mark.parametrize("name", FILES)
def test_hostile_file_has_one_clear_finding(name: str) -> None:
    """A hostile file is refused with one finding of its rule."""
    data, rule = FILES[name]
    findings = check(data, file="queue.yaml", settings=Settings()).findings
    expected = [rule] if "documents, first" not in name else [rule, "multiple-documents"]
    assert sorted(finding.rule for finding in findings) == sorted(expected)
    assert all("\n" not in finding.message for finding in findings)


_MEASURE = """
import json, resource, sys, time
from pullqueue.config.check import check
from pullqueue.config.settings import Settings
data = sys.stdin.buffer.read()
check(b"", file="f", settings=Settings())
def used():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, memory = time.process_time(), used()
check(data, file="f", settings=Settings())
print(json.dumps([time.process_time() - before, used() - memory]))
"""


@pytest.mark.parametrize("name", ["brackets", "ten megabytes", "bomb", "many values", "dashes"])
def test_hostile_file_costs_little(name: str) -> None:
    """Within a second of CPU (0.15 s where it was measured) and 100 MB beyond an empty file."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE")}
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE],
        input=FILES[name][0],
        capture_output=True,
        check=True,
        env=env,  # what measures coverage would be measured with it
    )
    seconds, megabytes = json.loads(done.stdout)
    assert seconds < 1
    assert megabytes < 100


def test_text_with_lone_surrogates_is_refused() -> None:
    """A text that no file can hold is refused as one with a forbidden character."""
    findings = check("queue: \ud800", file="f", settings=Settings()).findings
    assert [finding.rule for finding in findings] == ["control-character"]
