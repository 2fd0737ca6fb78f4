"""From a file's bytes to a positioned tree, every fault on the way reported once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from yaml import YAMLError

from pullqueue.config import lexical
from pullqueue.config.nodes import Mapping, Node, Scalar, Sequence, describe
from pullqueue.config.reports import Found, Place, Report, UnreadableError
from pullqueue.config.source import Source
from pullqueue.config.tree import build_tree


class Reading(NamedTuple):
    """What became of a file."""

    source: Source
    root: Mapping | None
    """None where the file cannot be read as far as a mapping."""
    found: Found
    scalars: list[Scalar]
    """Every key and value, in the order of the file."""


def read(data: bytes | str, *, file: str, max_bytes: int = lexical.MAX_BYTES) -> Reading:
    """Read a file's content as far as it goes."""
    found = Found()
    if len(data) > max_bytes:
        lexical.too_large(found, max_bytes=max_bytes)
        return Reading(Source("", file=file), None, found, [])
    if isinstance(data, bytes):
        source = lexical.decode(data, found, file=file)
    else:
        source = lexical.from_text(data, file=file)
    if found:
        return Reading(source, None, found, [])
    try:
        root, scalars = _parse(source, found)
    except UnreadableError:
        return Reading(source, None, found, [])
    return Reading(source, root, found, scalars)


def _parse(source: Source, found: Found) -> tuple[Mapping, list[Scalar]]:
    lexical.check_characters(source, found)
    markers = lexical.template_markers(source)
    if markers:
        root, scalars = _template_tree(source, found, markers)
    else:
        root = _tree(source, found)
        scalars = list(_scalars(root)) if root is not None else []
    _check_bom(source, found, scalars)
    return _mapping(root, found), scalars


def _tree(source: Source, found: Found) -> Node | None:
    try:
        return build_tree(source.text, found)
    except YAMLError as error:
        from pullqueue.config.syntax import report_syntax_error  # noqa: PLC0415 - most files parse

        report_syntax_error(error, source, found)
        raise UnreadableError from None


def _template_tree(
    source: Source, found: Found, markers: list[Place]
) -> tuple[Node | None, list[Scalar]]:
    """Build the tree of a template, if its markers are confined to single values.

    Of whatever else the markers break, nothing is reported: rendered, it may be right.
    """
    found.add("unrendered-template", lexical.template_report(source, markers))
    try:
        root = build_tree(source.text, attempt := Found())
    except (YAMLError, UnreadableError):
        raise UnreadableError from None
    scalars = list(_scalars(root)) if root is not None else []
    held = _templated(scalars, markers)
    if attempt or held is None:
        raise UnreadableError
    for scalar in held:
        scalar.opaque = True
    return root, scalars


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


def _templated(scalars: list[Scalar], markers: list[Place]) -> list[Scalar] | None:
    """Give the scalars that hold the markers; None if one stands outside them."""
    starts = [scalar.start for scalar in scalars]
    held = []
    for marker in markers:
        index = bisect_right(starts, marker.start) - 1
        if index < 0 or marker.start >= scalars[index].end:
            return None
        held.append(scalars[index])
    return held


def _check_bom(source: Source, found: Found, scalars: list[Scalar]) -> None:
    if not source.has_bom:
        return
    first = scalars[0] if scalars else None
    at = Place(first.start, first.end) if first else Place(0, 0)
    what = f"`{first.text}`" if first else "the text"
    message = (
        "the file begins with a byte-order mark (U+FEFF), which tools that do not expect it take "
        f"for a part of {what}: save the file without it"
    )
    report = Report(at=at, message=message, fix=lexical.BOM_FIX)
    found.add("bom", report)


def _mapping(root: Node | None, found: Found) -> Mapping:
    if isinstance(root, Mapping):
        return root
    if root is None or (isinstance(root, Scalar) and root.is_null):
        place = Place(root.start, root.end) if root is not None else Place(0, 0)
        message = "the file holds no data: write `queue:` and the queues below it"
        found.add("empty-file", Report(at=place, message=message))
    elif not (isinstance(root, Scalar) and root.opaque):
        found.add("root-not-mapping", _root_report(root))
    raise UnreadableError


def _root_report(root: Scalar | Sequence) -> Report:
    message = (
        f"the top level is {describe(root)}, not a mapping: write `queue:` and the queues below it"
    )
    hint = None
    if isinstance(root, Scalar) and root.text.lstrip().startswith("<"):
        hint = "this looks like queue.xml; `pullqueue convert` makes a queue.yaml of it"
    elif isinstance(root, Sequence):
        hint = "put `queue:` on a line of its own above the list"
    return Report(at=Place(root.start, root.end), message=message, hint=hint)
