"""queue.xml, the Java SDK's file of queues, as queue.yaml."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from pullqueue.config.dialects import GRANT, QUEUE, RETRY, TOP, keys_at
from pullqueue.config.lexical import MAX_BYTES
from pullqueue.config.nodes import Scalar
from pullqueue.config.scalars import assign_type
from pullqueue.config.text import shorten

_ROOT = "queue-entries"
_NUMBERS = frozenset(
    {
        "bucket_size",
        "max_concurrent_requests",
        "task_retry_limit",
        "min_backoff_seconds",
        "max_backoff_seconds",
        "max_doublings",
    }
)
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./@+-]*")


class QueueXmlError(ValueError):
    """a file is no queue.xml"""


class Converted(NamedTuple):
    """A queue.yaml, and what of the queue.xml is not in it."""

    text: str
    lost: list[str]


def convert_xml(data: bytes) -> Converted:
    """Turn a queue.xml into a queue.yaml, comments included.

    Values are kept as they are, right or wrong; the linter tells the wrong ones.

    Raises:
        QueueXmlError: it is not XML, not a queue.xml, or larger than any.
    """
    if len(data) > MAX_BYTES:
        raise QueueXmlError(f"the file is larger than {MAX_BYTES:,} bytes: that is no queue.xml")
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
        raise QueueXmlError(f"the root is <{shorten(_tag(root))}>, that of a queue.xml <{_ROOT}>")
    writer = _Writer()
    writer.comments(builder.before, 0)
    writer.root(root)
    writer.comments(builder.after, 0)
    return Converted("".join(f"{line}\n" for line in writer.lines), writer.lost)


def _tag(element: Element) -> str:
    """Give an element's name without its namespace; empty for a comment."""
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
        raise QueueXmlError("a document type is declared: a queue.xml has none")

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
    """Writes lines of YAML, and notes what has no place in them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.lost: list[str] = []

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
        self._grants([child for child in queue if _tag(child) == "acl"], where)
        body = self.lines[start:] or ["  name:"]
        self.lines[start:] = ["- " + body[0].removeprefix("  "), *comments, *body[1:]]

    def _retry(self, retry: Element, where: str) -> None:
        self.lines.append("  retry_parameters:")
        self.comments(_comments_in(retry), 4)
        self._note_attributes(retry, where)
        for child, key in self._values(retry, where, keys_at(RETRY)):
            self._scalar(4, key, child)

    def _grants(self, lists: list[Element], where: str) -> None:
        if lists:
            self.lines.append("  acl:")
        for acl in lists:
            self.comments(_comments_in(acl), 2)
            grants = set(keys_at(GRANT))
            for child, key in self._values(acl, where, keys_at(GRANT), repeated=grants):
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
        """Give the elements that have a key, each key once (the last), and note the others."""
        children: dict[str | int, tuple[Element, str]] = {}
        for index, child in enumerate(parent):
            key = _tag(child).replace("-", "_")
            if _is_comment(child):
                continue
            if key not in known:
                self.lost.append(f" {where}<{shorten(_tag(child))}> has no place in queue.yaml")
            elif key in also | repeated:
                children[index] = (child, key)
            else:
                if key in children:
                    message = f" {where}<{_tag(child)}> stands there twice: the last was kept"
                    self.lost.append(message)
                children[key] = (child, key)
        yield from children.values()

    def _scalar(self, column: int, key: str, element: Element) -> None:
        self._note_attributes(element, "")
        for child in element:
            if not _is_comment(child):
                self.lost.append(f" <{shorten(_tag(child))}> has no place in <{_tag(element)}>")
        self.lines.append(f"{' ' * column}{key}: {_written(key, _text(element))}".rstrip())

    def _note_attributes(self, element: Element, where: str) -> None:
        self.lost.extend(
            f" {where}attribute `{shorten(name.rpartition('}')[2])}` of <{_tag(element)}> "
            "has no place in queue.yaml"
            for name in element.attrib
            if not name.endswith("schemaLocation")
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
    return (element.text or "").strip()


def _written(key: str, text: str) -> str:
    """Write a value so that YAML reads it as it stands."""
    if not text or (key in _NUMBERS and _NUMBER.fullmatch(text)):
        return text
    if key == "total_storage_limit" and _NUMBER.fullmatch(text):
        return text if text == str(int(float(text))) else json.dumps(text)
    if _PLAIN.fullmatch(text):
        scalar = Scalar(start=0, end=0, text=text)
        assign_type(scalar, tag=None, plain=True)
        if scalar.kind == "str":
            return text
    return json.dumps(text, ensure_ascii=False)
