"""Read the bytes of a file into a tree of nodes with places; report each fault once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from yaml import YAMLError

from pullqueue.config.document import (
    Mapping,
    Node,
    Place,
    Scalar,
    Sequence,
    Source,
    describe,
    scalar_at,
)
from pullqueue.config.findings import Fix, Report, Reports, UnreadableError
from pullqueue.config.programs import other_program, unknown_program, xml_message
from pullqueue.config.settings import MAX_BYTES
from pullqueue.config.tree import MAX_DEPTH, MAX_NODES, build_tree

_BOM = "\ufeff"
_UTF8_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_ALLOWED = "\t\n\r\x20-\x7e"
_ALLOWED_WIDE = "\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff"
_CONFLICT = re.compile(r"^(<{7}|>{7}) [^\r\n]*", re.MULTILINE)
_MARKER = re.compile(
    r"(?P<template>\{\{|\{%|<%|\$\{|\$\()"
    r"|(?<![\w$])\$[A-Za-z_]\w*|(?<!\w)__[A-Z][A-Z0-9_]*?__(?!\w)|@[A-Z][A-Z0-9_]*@"
)
_COMMENT = r"(?m)(?:^|[ \t])#[^\r\n]*"


class ParseResult(NamedTuple):
    """What was read from a file."""

    source: Source
    root: Mapping | None
    """None if the file cannot be read as far as a mapping."""
    reports: Reports
    scalars: list[Scalar]
    """Every key and value, in the order of the file."""


def parse(data: bytes | str, file: str) -> ParseResult:
    """Read a file's content as far as it can be read."""
    reports: Reports = {}
    source = decode(data, file, reports)
    if not reports:
        try:
            root, scalars = _read(source, reports)
            return ParseResult(source, root, reports, scalars)
        except UnreadableError:
            pass
    return ParseResult(source, None, reports, [])


def decode(
    data: bytes | str, file: str, reports: Reports, *, max_bytes: float = MAX_BYTES
) -> Source:
    """Return the text of a file, up to the first byte that cannot be decoded."""
    if len(data) > max_bytes:
        what = f"the file is larger than {max_bytes:,} bytes"
        message = f"{what}: it is not a queue.yaml or cron.yaml"
        reports["file-too-large"] = [Report(at=Place(0, 0), message=message)]
        return Source("", file=file)
    if isinstance(data, str):
        return Source(data.removeprefix(_BOM), file=file, has_bom=data.startswith(_BOM))
    if data.startswith(_WIDE_BOMS) or (len(data) >= 4 and data[:64].count(0) * 3 >= len(data[:64])):
        message = "the file is encoded in UTF-16 or UTF-32: save it as UTF-8"
        reports["encoding"] = [Report(at=Place(0, 0), message=message)]
        return Source("", file=file)
    has_bom = data.startswith(_UTF8_BOM)
    body = data.removeprefix(_UTF8_BOM)
    try:
        return Source(body.decode(), file=file, has_bom=has_bom)
    except UnicodeDecodeError as error:
        text = body[: error.start].decode()
        byte = body[error.start]
        message = f"byte 0x{byte:02x} is not UTF-8 (perhaps Latin-1): save the file as UTF-8"
        reports["encoding"] = [Report(at=Place(len(text), len(text)), message=message)]
        return Source(text, file=file, has_bom=has_bom)


def _stop(reports: Reports, rule: str, at: Place, message: str, hint: str | None = None) -> None:
    reports.setdefault(rule, []).append(Report(at=at, message=message, hint=hint))
    raise UnreadableError


def _read(source: Source, reports: Reports) -> tuple[Mapping | None, list[Scalar]]:
    _check_characters(source, reports)
    if program := other_program(source.text):
        _stop(reports, "other-program", program.at, program.message, program.hint)
    markers = _markers(source.text)
    if markers:
        root = _template_tree(source, reports, markers)
    else:
        root = read_tree(source, reports)
        _check_program(root, reports)
    scalars = sorted(_scalars(root), key=lambda scalar: scalar.start) if root is not None else []
    _check_bom(source, reports, scalars)
    try:
        return _mapping(root, source, reports), scalars
    except UnreadableError:
        return None, scalars


def _check_characters(source: Source, reports: Reports) -> None:
    """Refuse characters YAML forbids, or that change what a line is, and merge conflicts."""
    allowed = _ALLOWED if source.text.isascii() else _ALLOWED + _ALLOWED_WIDE
    match = re.search(f"([^{allowed}])", source.text)
    if _BOM in source.text and not match:
        match = re.search(rf"(?m)^[^#\r\n{_BOM}]*({_BOM})", source.text)
    if match:
        message = f"character U+{ord(match[1]):04X} is not allowed in YAML: remove it"
        _stop(reports, "control-character", Place(*match.span(1)), message)
    if match := _CONFLICT.search(source.text):
        message = "a merge conflict was left in the file: resolve it"
        _stop(reports, "merge-conflict", Place(*match.span()), message)


def _markers(text: str) -> list[re.Match[str]]:
    """Find template markers (Jinja, ERB, shell) and placeholders outside comments."""
    bare = re.sub(_COMMENT, lambda match: " " * len(match[0]), text)
    return list(_MARKER.finditer(bare))


def read_tree(
    source: Source, reports: Reports, *, max_depth: int = MAX_DEPTH, max_nodes: float = MAX_NODES
) -> Node | None:
    """Return the tree of a text of YAML; None if there is none.

    Raises:
        UnreadableError: what is reported leaves no tree to check.
    """
    try:
        return build_tree(source.text, reports, max_depth=max_depth, max_nodes=max_nodes)
    except YAMLError as error:
        from pullqueue.config.syntax import syntax_error  # noqa: PLC0415 - most files parse

        rule, report = syntax_error(error, source)
        reports.setdefault(rule, []).append(report)
        raise UnreadableError from None


def _template_tree(source: Source, reports: Reports, markers: list[re.Match[str]]) -> Node | None:
    """Build the tree of a template, if its markers are confined to single values.

    Other faults caused by markers are not reported: the rendered file may be valid.
    """
    first = markers[0]
    more = f" (and {len(markers) - 1} more)" if len(markers) > 1 else ""
    message = f"placeholder `{first[0]}`{more}: replace it before the file is used"
    if first["template"]:
        message = f"template marker `{first[0]}`{more}: render the template before the file is used"
    report = Report(at=Place(*first.span()), message=message)
    reports["unrendered-template"] = [report]
    attempt: Reports = {}
    try:
        root = build_tree(source.text, attempt)
    except YAMLError:
        raise UnreadableError from None
    scalars = list(_scalars(root)) if root is not None else []
    marked = [scalar_at(scalars, marker.start()) for marker in markers]
    for scalar in filter(None, marked):
        scalar.opaque = True
    _check_program(root, reports)
    if attempt or None in marked:
        raise UnreadableError
    return root


def _check_program(root: Node | None, reports: Reports) -> None:
    """Report the file of another program, instead of what is wrong with it as a queue.yaml."""
    if program := unknown_program(root):
        reports.clear()
        _stop(reports, "other-program", program.at, program.message, program.hint)


def _scalars(root: Node) -> Iterator[Scalar]:
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, Scalar):
            yield node
        elif isinstance(node, Sequence):
            stack.extend(reversed(node.items))
        else:
            for pair in reversed(node.pairs):
                stack.extend((pair.value, pair.key))


def _check_bom(source: Source, reports: Reports, scalars: list[Scalar]) -> None:
    if source.has_bom:
        at = scalars[0].place if scalars else Place(0, 0)
        what = f"`{scalars[0].text}`" if scalars else "the text"
        message = (
            "the file begins with a byte-order mark (U+FEFF), which some tools read as a part of "
            f"{what}: save the file without it"
        )
        fix = Fix(title="remove the byte-order mark", safe=True, drop_bom=True)
        reports["bom"] = [Report(at=at, message=message, fix=fix)]


def _mapping(root: Node | None, source: Source, reports: Reports) -> Mapping:
    """Return the root if it is a mapping, as it must be in a queue.yaml."""
    if isinstance(root, Mapping):
        return root
    if root is None or (isinstance(root, Scalar) and root.is_null):
        at = root.place if root is not None else Place(0, 0)
        what = "has only comments" if root is None and source.text.strip() else "is empty"
        message = f"the file {what}: write `queue:` and the queues under it"
        _stop(reports, "empty-file", at, message)
    elif not (isinstance(root, Scalar) and root.opaque):
        is_list = isinstance(root, Sequence)
        hint = "write `queue:` on a line of its own above the list" if is_list else None
        message = xml_message(source.text) or (
            f"the top level is {describe(root)}, not a mapping: "
            "write `queue:` and the queues under it"
        )
        _stop(reports, "root-not-mapping", root.place, message, hint)
    raise UnreadableError
