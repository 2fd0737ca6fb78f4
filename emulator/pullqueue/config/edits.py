"""Edits that mend a tree's text: everything outside them stays as it is."""

from __future__ import annotations

from pullqueue.config.findings import Edit
from pullqueue.config.nodes import Mapping, Node, Pair, Scalar, Sequence
from pullqueue.config.source import Source


def replace_scalar(scalar: Scalar, text: str) -> Edit:
    """Write another value, in the place of one that may be quoted."""
    return Edit(scalar.start, scalar.end, text)


def rename_key(key: Scalar, name: str) -> Edit:
    """Write another key; quotes stay."""
    quote = key.style if key.style in {"'", '"'} else ""
    return Edit(key.start, key.end, f"{quote}{name}{quote}")


def delete_pair(source: Source, mapping: Mapping, key: Scalar) -> Edit | None:
    """Remove a key and its value, with its line where nothing else stands on it.

    A comment behind the value stays. None where the mapping would be left empty.
    """
    index = next(i for i, pair in enumerate(mapping.pairs) if pair.key is key)
    pairs = mapping.pairs
    if len(pairs) == 1:
        return None
    if mapping.flow:
        return _delete_in_flow(pairs, index)
    pair = pairs[index]
    line_start, _ = source.line_span(pair.key.start)
    if source.text[line_start : pair.key.start].strip():
        return _delete_first(source, pairs, index)
    end = _end_of(pair)
    _, line_end = source.line_span(max(end - 1, pair.key.start))
    if source.text[end:line_end].strip():
        return Edit(pair.key.start, _skip_blanks(source.text, end), "")
    return Edit(line_start, line_end, "")


def _delete_in_flow(pairs: list[Pair], index: int) -> Edit:
    if index + 1 < len(pairs):
        return Edit(pairs[index].key.start, pairs[index + 1].key.start, "")
    return Edit(_end_of(pairs[index - 1]), _end_of(pairs[index]), "")


def _delete_first(source: Source, pairs: list[Pair], index: int) -> Edit | None:
    """Remove the pair behind a dash; the next one takes its place."""
    start, following = pairs[index].key.start, pairs[index + 1].key.start
    between = source.text[_end_of(pairs[index]) : following]
    return None if "#" in between else Edit(start, following, "")


def _end_of(pair: Pair) -> int:
    """Where a pair ends; a key without a value ends behind its colon."""
    return max(pair.value.end, pair.key.end)


def _skip_blanks(text: str, offset: int) -> int:
    while offset < len(text) and text[offset] in " \t":
        offset += 1
    return offset


def insert_after(source: Source, pair: Pair, line: str) -> Edit:
    """Add a line of a block mapping behind one of its pairs, indented as that one is."""
    end = max(_end_of(pair) - 1, pair.key.start)
    start, line_end = source.line_span(end)
    column = pair.key.start - source.line_span(pair.key.start)[0]
    rest = source.text[start:line_end]
    ending = rest[len(rest.rstrip("\r\n")) :]
    indented = " " * column + line
    if not ending:
        return Edit(line_end, line_end, source.newline + indented)
    return Edit(line_end, line_end, indented + ending)


def delete_item(source: Source, sequence: Sequence, item: Node) -> Edit | None:
    """Remove an entry of a block list, with its lines; None where that cannot be done in lines.

    None too where the list would be left empty.
    """
    if sequence.flow or len(sequence.items) == 1:
        return None
    start, _ = source.line_span(item.start)
    _, end = source.line_span(max(item.end - 1, item.start))
    before = source.text[start : item.start]
    inside = source.text[item.end : end]
    if before.strip() != "-" or inside.strip():
        return None
    return Edit(start, end, "")


def split_pair(source: Source, mapping: Mapping) -> Edit | None:
    """Make two entries of a block mapping with two keys behind a dash: its second key gets one."""
    first, second = (pair.key for pair in mapping.pairs)
    start, _ = source.line_span(first.start)
    before = source.text[start : first.start]
    line_start, _ = source.line_span(second.start)
    if mapping.flow or before.strip() != "-" or line_start == start:
        return None
    return Edit(line_start, second.start, before)
