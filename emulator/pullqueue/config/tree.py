"""From PyYAML's events to a positioned tree, with bounds on what a file may ask for.

Nothing is composed or constructed by PyYAML: a document of 200,000 brackets would overrun the C
stack there, and aliases would multiply. Events come one at a time, so a hostile file is left as
soon as it passes a bound.
"""

from __future__ import annotations

from typing import NamedTuple

from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from pullqueue.config.events import parse_events, span_of
from pullqueue.config.findings import Edit, Fix
from pullqueue.config.nodes import Mapping, Node, Pair, Scalar, Sequence
from pullqueue.config.reports import Found, Place, Report, UnreadableError
from pullqueue.config.scalars import SCALAR_TAGS, TAG_PREFIX, assign_type
from pullqueue.config.text import shorten

MAX_DEPTH = 32
"""Levels of nesting; the format itself needs 5."""
MAX_NODES = 10_000
"""Keys, values, lists and mappings in one file; the largest in use have about 1,000."""

_MERGE_KEY = "<<"
_SIGNS = frozenset({_MERGE_KEY, "="})
_COMPLEX = "complex"
_COLLECTION_TAGS = {Mapping: TAG_PREFIX + "map", Sequence: TAG_PREFIX + "seq"}


class _Open(NamedTuple):
    """A mapping or list whose end has not come yet."""

    node: Mapping | Sequence
    keys: dict[str, Scalar]
    known: bool
    """Whether its tag is one that has a meaning here."""


def build_tree(text: str, found: Found) -> Node | None:
    """Give the root of the first document; None where there is no document.

    Raises:
        UnreadableError: what is in `found` leaves no tree to look at.
        yaml.YAMLError: the text is not YAML.
    """
    return _TreeBuilder(text, found).build()


class _TreeBuilder:
    """Takes events one by one, keeping a stack of what is open."""

    def __init__(self, text: str, found: Found) -> None:
        self._text = text
        self._found = found
        self._stack: list[_Open] = []
        self._pending_key: list[Scalar | None] = []
        self._root: Node | None = None
        self._nodes = 0
        self._anchored = False

    def build(self) -> Node | None:
        documents = 0
        for event in parse_events(self._text):
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._refuse_second_document(event)
                    break
                self._check_directives(event)
            elif isinstance(event, AliasEvent):
                self._refuse_anchor(span_of(event), f"alias `*{shorten(event.anchor or '')}`")
                raise UnreadableError
            elif isinstance(event, CollectionStartEvent):
                self._open(event, self._counted(event))
            elif isinstance(event, ScalarEvent):
                self._place(self._scalar(event, self._counted(event)))
            elif isinstance(event, MappingEndEvent | SequenceEndEvent):
                self._close(event)
        return self._root

    def _counted(self, event: NodeEvent) -> Place:
        self._nodes += 1
        place = span_of(event)
        if self._nodes > MAX_NODES:
            self._stop("file-too-large", place, f"more than {MAX_NODES:,} values in one file")
        if event.anchor is not None:
            self._refuse_anchor(place, f"anchor `&{shorten(event.anchor)}`")
        return place

    def _open(self, event: CollectionStartEvent, place: Place) -> None:
        if len(self._stack) >= MAX_DEPTH:
            self._stop("too-deep", place, f"nested more than {MAX_DEPTH} levels deep")
        kind = Mapping if isinstance(event, MappingStartEvent) else Sequence
        node = kind(start=place.start, end=place.end, flow=bool(event.flow_style))
        known = event.tag in {None, "!", _COLLECTION_TAGS[kind]}
        if not known:
            self._refuse_tag(place, event.tag or "")
        self._stack.append(_Open(node, {}, known))
        self._pending_key.append(None)

    def _close(self, event: Event) -> None:
        node, _, known = self._stack.pop()
        self._pending_key.pop()
        node.end = span_of(event).end if node.flow else max(node.end, _last_end(node))
        self._place(node if known else Scalar(start=node.start, end=node.end, text="", opaque=True))

    def _place(self, node: Node) -> None:
        if not self._stack:
            self._root = node
            return
        parent, keys, _ = self._stack[-1]
        if isinstance(parent, Sequence) or self._pending_key[-1] is not None:
            self._refuse_sign(node)
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif self._pending_key[-1] is None:
            self._pending_key[-1] = node if isinstance(node, Scalar) else self._complex(node)
        else:
            self._pair(parent, keys, Pair(self._pending_key[-1], node))
            self._pending_key[-1] = None

    def _pair(self, parent: Mapping, keys: dict[str, Scalar], pair: Pair) -> None:
        key = pair.key
        parent.end = max(parent.end, pair.value.end)
        if key.kind == _COMPLEX:
            return
        if key.text == _MERGE_KEY and not key.style:
            self._refuse_anchor(Place(key.start, key.end), "merge key `<<`")
            return
        first = keys.setdefault(key.text, key)
        if first is key:
            parent.pairs.append(pair)
            return
        name = shorten(key.text)
        self._found.add(
            "duplicate-key",
            Report(
                at=Place(key.start, key.end),
                message=f"key `{name}` stands here a second time in one mapping: keep one of them",
                labels=((Place(first.start, first.end), f"first `{name}` is here"),),
            ),
        )

    def _refuse_sign(self, node: Node) -> None:
        """Refuse a plain `<<` or `=`, which YAML 1.1 has a tag of its own for."""
        plain = isinstance(node, Scalar) and node.end - node.start == len(node.text)
        if isinstance(node, Scalar) and plain and node.text in _SIGNS:
            node.opaque = True
            message = f"`{node.text}` is a sign of YAML's own, not a text: put it in quotes"
            self._found.add("yaml-tag", Report(at=Place(node.start, node.end), message=message))

    def _scalar(self, event: ScalarEvent, place: Place) -> Scalar:
        scalar = Scalar(
            start=place.start,
            end=place.end,
            text=event.value,
            style="" if event.style is None else event.style,
        )
        plain = event.implicit[0] and not scalar.style
        tag = None if event.tag in {None, "!"} else event.tag
        if tag is not None and tag not in SCALAR_TAGS:
            self._refuse_tag(place, tag)
            scalar.opaque = True
        fits = assign_type(scalar, tag=tag, plain=plain)
        if not (fits or scalar.opaque):
            self._refuse_tag(place, tag or "")
            scalar.opaque = True
        return scalar

    def _complex(self, node: Mapping | Sequence) -> Scalar:
        message = "a list or mapping stands where a key belongs: keys are plain words"
        self._found.add("complex-key", Report(at=Place(node.start, node.end), message=message))
        return Scalar(start=node.start, end=node.end, text="", kind=_COMPLEX)

    def _refuse_anchor(self, place: Place, what: str) -> None:
        if not self._anchored:
            from pullqueue.config.aliases import expansion  # noqa: PLC0415 - few files have any

            self._anchored = True
            self._found.add(
                "anchor-or-alias",
                Report(
                    at=place,
                    message=f"{what}: App Engine accepts no anchors, aliases or merge keys; "
                    "write the values out",
                    fix=expansion(self._text),
                ),
            )

    def _refuse_tag(self, place: Place, tag: str) -> None:
        shown = shorten(tag.replace(TAG_PREFIX, "!!"))
        message = f"tag `{shown}` has no meaning in queue.yaml: remove it"
        self._found.add("yaml-tag", Report(at=place, message=message))

    def _refuse_second_document(self, event: Event) -> None:
        start = span_of(event).start
        message = "a second YAML document begins here: a queue.yaml has one; join them or split it"
        self._found.add("multiple-documents", Report(at=Place(start, start + 3), message=message))

    def _check_directives(self, event: DocumentStartEvent) -> None:
        if not (event.version or event.tags):
            return
        start = span_of(event).start
        directive = self._text[start:].split("\n", 1)[0].rstrip()
        message = f"directive `{shorten(directive)}` makes App Engine's reader fail: remove it"
        at = Place(start, start + len(directive))
        document = self._text.find("\n---", start)
        edits = (Edit(start, document + 1, ""),) if document >= 0 else ()
        fix = Fix(title="remove it", edits=edits) if edits else None
        self._found.add("yaml-directive", Report(at=at, message=message, fix=fix))

    def _stop(self, rule: str, place: Place, what: str) -> None:
        self._found.add(rule, Report(at=Place(place.start, place.start + 1), message=what))
        raise UnreadableError


def _last_end(node: Mapping | Sequence) -> int:
    if isinstance(node, Sequence):
        return node.items[-1].end if node.items else node.end
    return node.end
