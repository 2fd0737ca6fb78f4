"""Hostile files are refused at once, with a clear finding."""

from __future__ import annotations

import sys

import pytest

from pullqueue.config.settings import Settings
from pullqueue.lint.check import check

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
    "many values": (b"queue:\n" + b"- a\n" * 20_000, "file-too-large"),
    "bomb": (BOMB.encode(), "anchor-or-alias"),
    "next line": ("queue: # \x85\n".encode(), "control-character"),
    "second byte-order mark": ("\ufeff\ufeffqueue: []\n".encode(), "control-character"),
    "byte-order mark inside": ("queue:\n\ufeff- name: a\n".encode(), "control-character"),
    "utf-16": ("queue: []\n".encode("utf-16"), "encoding"),
    "utf-16 without mark": ("queue: []\n".encode("utf-16-le"), "encoding"),
    "object": (b"queue: !!python/object/apply:os.system [ls]\n", "yaml-tag"),
    "scalar object": (b"queue: !!python/name:os.system ls\n", "yaml-tag"),
    "misfit tag": (b"queue: !!int ls\n", "yaml-tag"),
    "two documents, first empty": (b"---\n---\nqueue: []\n", "empty-file"),
    "sign in a list": (b"queue: [=]\n", "yaml-tag"),
    "sexagesimal": (b"queue:\ntotal_storage_limit: " + b"1:30" * 100_000, "storage-limit-format"),
}


@pytest.mark.parametrize("name", FILES)
def test_hostile_file_has_one_clear_finding(name: str) -> None:
    data, rule = FILES[name]
    findings = check(data, file="queue.yaml", settings=Settings()).findings
    expected = [rule] if "documents, first" not in name else [rule, "multiple-documents"]
    assert sorted(finding.rule for finding in findings) == sorted(expected)
    assert all("\n" not in finding.message for finding in findings)


@pytest.mark.parametrize("name", ["brackets", "dashes", "bomb"])
def test_hostile_file_costs_little(name: str) -> None:
    """A file is read up to where it exceeds a limit, or as far as libyaml reads ahead."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        check(FILES[name][0], file="f", settings=Settings())
    finally:
        sys.setprofile(None)
    assert calls < 100_000


def test_text_with_lone_surrogates_is_refused() -> None:
    findings = check("queue: \ud800", file="f", settings=Settings()).findings
    assert [finding.rule for finding in findings] == ["control-character"]
