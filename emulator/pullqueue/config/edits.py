"""Edits that fix a tree's text: everything outside them stays as it is."""

from __future__ import annotations

from pullqueue.config.document import Mapping, Node, Pair, Scalar, Sequence, Source
from pullqueue.config.findings import Edit


def rename_key(key: Scalar, name: str) -> Edit:
    """Write another key; quotes stay."""
    quote = key.style if key.style in {"'", '"'} else ""
    return Edit(key.start, key.end, f"{quote}{name}{quote}")


def delete_pair(source: Source, mapping: Mapping, key: Scalar) -> Edit | None:
    """Delete a key and its value, with its line where nothing else is on it.

    A comment after the value stays. None where the mapping would be left empty, or where a comment
    would be lost.
    """
    index = next(i for i, pair in enumerate(mapping.pairs) if pair.key is key)
    pairs = mapping.pairs
    if len(pairs) == 1:
        return None
    if mapping.flow:
        return _delete_in_flow(pairs, index)
    pair = pairs[index]
    line_start, _ = source.line_span(pair.key.start)
    before = source.text[line_start : pair.key.start].strip()
    is_explicit = bool(before.strip("- "))
    if is_explicit or "#" in source.text[pair.key.start : pair.end]:
        return None
    if before:  # it is the first after a dash: the next one takes its place
        between = source.text[pair.end : pairs[1].key.start]
        return None if "#" in between else Edit(pair.key.start, pairs[1].key.start, "")
    _, line_end = source.line_span(max(pair.end - 1, pair.key.start))
    rest = source.text[pair.end : line_end]
    if rest.strip():
        return Edit(pair.key.start, pair.end + len(rest) - len(rest.lstrip(" \t")), "")
    return Edit(line_start, line_end, "")


def _delete_in_flow(pairs: list[Pair], index: int) -> Edit:
    if index + 1 < len(pairs):
        return Edit(pairs[index].key.start, pairs[index + 1].key.start, "")
    return Edit(pairs[index - 1].end, pairs[index].end, "")


def insert_after(source: Source, pair: Pair, line: str) -> Edit:
    """Add a line of a block mapping after one of its pairs, indented as that one is."""
    start, line_end = source.line_span(max(pair.end - 1, pair.key.start))
    rest = source.text[start:line_end]
    ending = rest[len(rest.rstrip("\r\n")) :]
    indented = " " * source.find_column(pair.key.start) + line
    text = indented + ending if ending else source.newline + indented
    return Edit(line_end, line_end, text)


def delete_item(source: Source, sequence: Sequence, item: Node) -> Edit | None:
    """Delete an entry of a block list, with its lines; None if that cannot be done in lines.

    None too where the list would be left empty.
    """
    if sequence.flow or len(sequence.items) == 1:
        return None
    start, _ = source.line_span(item.start)
    _, end = source.line_span(max(item.end - 1, item.start))
    before = source.text[start : item.start]
    if before.strip() != "-" or source.text[item.end : end].strip():
        return None
    return Edit(start, end, "")


def split_pair(source: Source, mapping: Mapping) -> Edit | None:
    """Make two entries of a block mapping with two keys after a dash: its second key gets one."""
    first, second = (pair.key for pair in mapping.pairs)
    start, _ = source.line_span(first.start)
    before = source.text[start : first.start]
    line_start, _ = source.line_span(second.start)
    if mapping.flow or before.strip() != "-" or line_start == start:
        return None
    return Edit(line_start, second.start, before)
