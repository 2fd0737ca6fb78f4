"""queue.xml, the Java SDK's file of queues, as queue.yaml."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers.expat import ExpatError, ParserCreate

from pullqueue.config.document import Path, Scalar
from pullqueue.config.schema import ACL_ENTRY, QUEUE, RETRY, TOP, keys_at, level_with, value_kinds
from pullqueue.config.settings import MAX_BYTES
from pullqueue.config.tree import assign_type
from pullqueue.lint.convert import Remark
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


class Position(NamedTuple):
    """Where an element begins; both begin at 1."""

    line: int
    column: int


class Converted(NamedTuple):
    """A queue.yaml, and what of the queue.xml was dropped."""

    text: str
    dropped: list[Remark]
    places: list[Position]
    """Where the queue.xml has what each line of the text says."""


class _Line(NamedTuple):
    text: str
    at: Position


def convert_xml(data: bytes) -> Converted:
    """Convert a queue.xml to a queue.yaml, comments included.

    Values are kept, right or wrong, and the linter reports the wrong ones; but a rate of 0, which a
    queue.xml can have, gets the unit that a queue.yaml needs.

    Raises:
        QueueXmlError: it is not XML, not a queue.xml, or too large.
    """
    if len(data) > MAX_BYTES:
        raise QueueXmlError(f"the file is larger than {MAX_BYTES:,} bytes: it is not a queue.xml")
    reader = _Reader()
    try:
        root = reader.read(data)
    except QueueXmlError:
        raise
    except (ExpatError, ValueError, LookupError) as error:
        raise QueueXmlError(f"not XML: {error}") from None
    if root.tag != _ROOT:
        raise QueueXmlError(f"the root is <{shorten(root.tag)}>: it must be <{_ROOT}>")
    writer = _Writer(reader.begins)
    writer.comments(reader.before, 0, root)
    writer.root(root)
    writer.comments(reader.after, 0, root)
    text = "".join(f"{line.text}\n" for line in writer.lines)
    return Converted(text, writer.dropped, [line.at for line in writer.lines])


class _Reader:
    """Reads the elements without their namespaces, and where each begins.

    Declarations, such as those of entities, are refused here: only the parser sees them whatever
    the encoding.
    """

    def __init__(self) -> None:
        self.begins: dict[Element, Position] = {}
        self.before: list[str] = []
        self.after: list[str] = []
        """The comments outside the root, which the tree has no place for."""
        self._depth = 0
        self._tree = TreeBuilder(insert_comments=True)
        self._parser = ParserCreate(namespace_separator="}")
        self._parser.StartDoctypeDeclHandler = self._check_doctype
        self._parser.DefaultHandler = self._check_text
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._tree.data
        self._parser.CommentHandler = self._comment

    def read(self, data: bytes) -> Element:
        """Return the root."""
        self._parser.Parse(data, True)  # noqa: FBT003 - its signature
        return self._tree.close()

    def _check_doctype(self, *doctype: object) -> None:
        has_declarations = doctype[-1]
        if has_declarations:
            raise QueueXmlError("the document type has declarations: remove them")

    def _check_text(self, text: str) -> None:
        """Refuse an entity of another file, which the parser would leave out."""
        if text.startswith("&"):
            raise QueueXmlError(f"the entity {shorten(text)} is not declared: write its text")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        element = self._tree.start(_local(tag), {_local(n): v for n, v in attributes.items()})
        parser = self._parser
        self.begins[element] = Position(parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)

    def _end(self, tag: str) -> None:
        self._depth -= 1
        self._tree.end(_local(tag))

    def _comment(self, text: str) -> None:
        if self._depth:
            self._tree.comment(text)
        else:
            (self.after if self.begins else self.before).append(text)


def _local(name: str) -> str:
    """Return a name without its namespace."""
    return name.rpartition("}")[2]


class _Writer:
    """Writes lines of YAML, and notes what queue.yaml does not have."""

    def __init__(self, begins: Mapping[Element, Position]) -> None:
        self.lines: list[_Line] = []
        self.dropped: list[Remark] = []
        self._begins = begins

    def root(self, root: Element) -> None:
        """Write the whole file: the keys of the top level, then the queues."""
        self._drop_attributes(root, "")
        queues = [child for child in root if child.tag == "queue"]
        for child, key in self._values(root, "", keys_at(TOP), also={"queue"}):
            if key != "queue":
                self._scalar(0, key, child)
        self._line("queue:" if queues else "queue: []", root)
        pending: list[str] = []
        for child in root:
            if _is_comment(child):
                pending.append(child.text or "")
            elif child.tag == "queue":
                self.comments(pending, 0, child)
                pending = []
                self._queue(child)
        self.comments(pending, 0, root)

    def _queue(self, queue: Element) -> None:
        name = shorten((queue.findtext("name") or "?").strip())
        where = f'queue "{name}": '
        self._drop_attributes(queue, where)
        start = len(self.lines)
        self.comments(_comments_in(queue), 2, queue)
        comments, self.lines[start:] = self.lines[start:], []
        for child, key in self._values(queue, where, keys_at(QUEUE), repeated={"acl"}):
            if key == "retry_parameters":
                self._retry(child, where)
            elif key != "acl":
                self._scalar(2, key, child)
        self._acl([child for child in queue if child.tag == "acl"], where)
        if len(self.lines) == start:
            self._line("  name:", queue)
        first = self.lines[start]
        first = first._replace(text="- " + first.text.removeprefix("  "))
        self.lines[start : start + 1] = [first, *comments]

    def _retry(self, retry: Element, where: str) -> None:
        self._line("  retry_parameters:", retry)
        self.comments(_comments_in(retry), 4, retry)
        self._drop_attributes(retry, where)
        for child, key in self._values(retry, where, keys_at(RETRY)):
            self._scalar(4, key, child)

    def _acl(self, lists: list[Element], where: str) -> None:
        if lists:
            self._line("  acl:", lists[0])
        for acl in lists:
            self.comments(_comments_in(acl), 2, acl)
            both = set(keys_at(ACL_ENTRY))
            for child, key in self._values(acl, where, keys_at(ACL_ENTRY), repeated=both):
                self._line(f"  - {key}: {_written(key, _text(child))}", child)

    def _values(
        self,
        parent: Element,
        where: str,
        known: list[str],
        *,
        also: AbstractSet[str] = frozenset(),
        repeated: AbstractSet[str] = frozenset(),
    ) -> Iterator[tuple[Element, str]]:
        """Yield the elements that have a key, each key once (the last), and report the others."""
        children: dict[str | int, tuple[Element, str]] = {}
        for index, child in enumerate(parent):
            if _is_comment(child):
                continue
            key = child.tag.replace("-", "_")
            if key not in known:
                place = _PLACES.get(level_with(key), "is not in queue.yaml")
                self._drop(child, f"{where}<{shorten(child.tag)}> {place}: dropped")
            elif key in also | repeated:
                children[index] = (child, key)
            else:
                if key in children:
                    message = f"{where}<{child.tag}> is defined twice: the last one was kept"
                    self._drop(child, message)
                children[key] = (child, key)
        yield from children.values()

    def _scalar(self, column: int, key: str, element: Element) -> None:
        self._drop_attributes(element, "")
        for child in element:
            if not _is_comment(child):
                message = f"<{shorten(child.tag)}> is not allowed in <{element.tag}>: dropped"
                self._drop(child, message)
        line = f"{' ' * column}{key}: {_written(key, _text(element))}".rstrip()
        comment = " ".join(" ".join(_comments_in(element)).split())
        self._line(f"{line}  # {comment}" if comment else line, element)

    def _drop_attributes(self, element: Element, where: str) -> None:
        for name in element.attrib:
            if not name.lower().endswith("schemalocation"):
                attribute = f"attribute `{shorten(name)}` of <{element.tag}>"
                self._drop(element, f"{where}{attribute} is not in queue.yaml: dropped")

    def comments(self, comments: list[str], column: int, owner: Element) -> None:
        """Write comments, line by line."""
        for comment in comments:
            for line in comment.strip().splitlines():
                self._line(f"{' ' * column}# {line.strip()}".rstrip(), owner)

    def _line(self, text: str, element: Element) -> None:
        self.lines.append(_Line(text, self._begins[element]))

    def _drop(self, element: Element, message: str) -> None:
        self.dropped.append(Remark(*self._begins[element], message, is_loss=True))


def _is_comment(element: Element) -> bool:
    return callable(element.tag)


def _comments_in(element: Element) -> list[str]:
    return [child.text or "" for child in element if _is_comment(child)]


def _text(element: Element) -> str:
    parts = (element.text, *(child.tail for child in element))
    return "".join(part or "" for part in parts).strip()


def _written(key: str, text: str) -> str:
    """Write a value so that YAML reads it as it is."""
    if key == "rate" and text == "0":
        return "0/s"
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
