"""queue.xml, the Java SDK's file of queues, as queue.yaml."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from pullqueue.config.document import Path, Scalar
from pullqueue.config.schema import ACL_ENTRY, QUEUE, RETRY, TOP, keys_at, level_with, value_kinds
from pullqueue.config.settings import MAX_BYTES
from pullqueue.config.tree import assign_type
from pullqueue.text import shorten

_ROOT = "queue-entries"
_PLACES: dict[Path | None, str] = {
    TOP: "belongs directly in <queue-entries>",
    QUEUE: "belongs in <queue>",
    RETRY: "belongs in <retry-parameters>",
    ACL_ENTRY: "belongs in <acl>",
}
"""Where the elements of each level belong."""
_NUMBERS = ("integer", "number")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_WHOLE = re.compile("0|[1-9][0-9]{0,14}")
"""A number that is the same as text, as an integer and as a double."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./@+-]*")


class QueueXmlError(ValueError):
    """a file is not a queue.xml"""


class Converted(NamedTuple):
    """A queue.yaml, and messages on what of the queue.xml was dropped."""

    text: str
    dropped: list[str]


def convert_xml(data: bytes) -> Converted:
    """Convert a queue.xml to a queue.yaml, comments included.

    Values are kept as they are, right or wrong; the linter reports the wrong ones.

    Raises:
        QueueXmlError: it is not XML, not a queue.xml, or too large.
    """
    if len(data) > MAX_BYTES:
        raise QueueXmlError(f"the file is larger than {MAX_BYTES:,} bytes: it is not a queue.xml")
    builder = _Builder()
    parser = XMLParser(target=builder)  # noqa: S314 - no entity is ever declared
    try:
        parser.feed(data)
        root = parser.close()
    except QueueXmlError:
        raise
    except (ParseError, ValueError, LookupError) as error:
        raise QueueXmlError(f"not XML: {error}") from None
    if _tag(root) != _ROOT:
        raise QueueXmlError(f"the root is <{shorten(_tag(root))}>: it must be <{_ROOT}>")
    writer = _Writer()
    writer.comments(builder.before, 0)
    writer.root(root)
    writer.comments(builder.after, 0)
    return Converted("".join(f"{line}\n" for line in writer.lines), writer.dropped)


def _tag(element: Element) -> str:
    """Return an element's name without its namespace; empty for a comment."""
    return "" if _is_comment(element) else element.tag.rpartition("}")[2]


class _Builder(TreeBuilder):
    """Keeps the comments outside the root, which the tree has no place for.

    A document type, where entities are declared, is refused here: only the parser sees it whatever
    the encoding.
    """

    def __init__(self) -> None:
        super().__init__(insert_comments=True)
        self.before: list[str] = []
        self.after: list[str] = []
        self._begun = False
        self._depth = 0

    def doctype(self, _name: str, _public_id: str | None, _system_id: str | None, /) -> None:
        raise QueueXmlError("a document type is declared: remove it")

    def start(self, tag: str, attrs: dict[str, str], /) -> Element:
        self._begun = True
        self._depth += 1
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(tag)

    def comment(self, text: str | None, /) -> Element:
        if self._depth == 0:
            (self.after if self._begun else self.before).append(text or "")
        return super().comment(text)


class _Writer:
    """Writes lines of YAML, and notes what queue.yaml does not have."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.dropped: list[str] = []

    def root(self, root: Element) -> None:
        """Write the whole file: the keys of the top level, then the queues."""
        self._note_attributes(root, "")
        queues = [child for child in root if _tag(child) == "queue"]
        for child, key in self._values(root, "", keys_at(TOP), also={"queue"}):
            if key != "queue":
                self._scalar(0, key, child)
        self.lines.append("queue:" if queues else "queue: []")
        pending: list[str] = []
        for child in root:
            if _is_comment(child):
                pending.append(child.text or "")
            elif _tag(child) == "queue":
                self.comments(pending, 0)
                pending = []
                self._queue(child)
        self.comments(pending, 0)

    def _queue(self, queue: Element) -> None:
        name = shorten((queue.findtext("{*}name") or queue.findtext("name") or "?").strip())
        where = f'queue "{name}": '
        self._note_attributes(queue, where)
        start = len(self.lines)
        self.comments(_comments_in(queue), 2)
        comments, self.lines[start:] = self.lines[start:], []
        for child, key in self._values(queue, where, keys_at(QUEUE), repeated={"acl"}):
            if key == "retry_parameters":
                self._retry(child, where)
            elif key != "acl":
                self._scalar(2, key, child)
        self._acl([child for child in queue if _tag(child) == "acl"], where)
        body = self.lines[start:] or ["  name:"]
        self.lines[start:] = ["- " + body[0].removeprefix("  "), *comments, *body[1:]]

    def _retry(self, retry: Element, where: str) -> None:
        self.lines.append("  retry_parameters:")
        self.comments(_comments_in(retry), 4)
        self._note_attributes(retry, where)
        for child, key in self._values(retry, where, keys_at(RETRY)):
            self._scalar(4, key, child)

    def _acl(self, lists: list[Element], where: str) -> None:
        if lists:
            self.lines.append("  acl:")
        for acl in lists:
            self.comments(_comments_in(acl), 2)
            both = set(keys_at(ACL_ENTRY))
            for child, key in self._values(acl, where, keys_at(ACL_ENTRY), repeated=both):
                self.lines.append(f"  - {key}: {_written(key, _text(child))}")

    def _values(
        self,
        parent: Element,
        where: str,
        known: list[str],
        *,
        also: AbstractSet[str] = frozenset(),
        repeated: AbstractSet[str] = frozenset(),
    ) -> Iterator[tuple[Element, str]]:
        """Yield the elements that have a key, each key once (the last), and note the others."""
        children: dict[str | int, tuple[Element, str]] = {}
        for index, child in enumerate(parent):
            key = _tag(child).replace("-", "_")
            if _is_comment(child):
                continue
            if key not in known:
                place = _PLACES.get(level_with(key), "is not in queue.yaml")
                self.dropped.append(f" {where}<{shorten(_tag(child))}> {place}: dropped")
            elif key in also | repeated:
                children[index] = (child, key)
            else:
                if key in children:
                    message = f" {where}<{_tag(child)}> is defined twice: the last one was kept"
                    self.dropped.append(message)
                children[key] = (child, key)
        yield from children.values()

    def _scalar(self, column: int, key: str, element: Element) -> None:
        self._note_attributes(element, "")
        for child in element:
            if not _is_comment(child):
                self.dropped.append(
                    f" <{shorten(_tag(child))}> is not allowed in <{_tag(element)}>: dropped"
                )
        line = f"{' ' * column}{key}: {_written(key, _text(element))}".rstrip()
        comment = " ".join(" ".join(_comments_in(element)).split())
        self.lines.append(f"{line}  # {comment}" if comment else line)

    def _note_attributes(self, element: Element, where: str) -> None:
        self.dropped.extend(
            f" {where}attribute `{shorten(name.rpartition('}')[2])}` of <{_tag(element)}> "
            "is not in queue.yaml: dropped"
            for name in element.attrib
            if not name.lower().endswith("schemalocation")
        )

    def comments(self, comments: list[str], column: int) -> None:
        """Write comments, line by line."""
        for comment in comments:
            for line in comment.strip().splitlines():
                self.lines.append(f"{' ' * column}# {line.strip()}".rstrip())


def _is_comment(element: Element) -> bool:
    return callable(element.tag)


def _comments_in(element: Element) -> list[str]:
    return [child.text or "" for child in element if _is_comment(child)]


def _text(element: Element) -> str:
    parts = (element.text, *(child.tail for child in element))
    return "".join(part or "" for part in parts).strip()


def _written(key: str, text: str) -> str:
    """Write a value so that YAML reads it as it is."""
    if not text or (value_kinds().get(key) in _NUMBERS and _NUMBER.fullmatch(text)):
        return text
    if key == "total_storage_limit" and _NUMBER.fullmatch(text):
        return text if _WHOLE.fullmatch(text) else json.dumps(text)
    if _PLAIN.fullmatch(text):
        scalar = Scalar(start=0, end=0, text=text)
        assign_type(scalar)
        if scalar.kind == "str":
            return text
    return json.dumps(text, ensure_ascii=False)
