"""Build a tree of nodes with places from PyYAML's events, within limits of size and depth.

Nothing is composed or constructed by PyYAML: a document of 200,000 brackets would overrun the C
stack there, and aliases would multiply. Events come one at a time, so reading a hostile file
stops as soon as it exceeds a limit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import yaml
from yaml import events
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from pullqueue.config.document import Mapping, Node, Pair, Place, Scalar, Sequence
from pullqueue.config.findings import Edit, Fix, Report, Reports, UnreadableError
from pullqueue.text import shorten

MAX_DEPTH = 32
"""Levels of nesting; the format itself needs 5."""
MAX_NODES = 10_000
"""Keys, values, lists and mappings in one file; the largest in use have about 1,000."""

_Loader = type[yaml.SafeLoader] | type[yaml.CSafeLoader]
LOADER: _Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LIBYAML_TOO_DEEP = "exceeded maximum nesting depth"
"""What libyaml reports since 0.2.6 of more than 1,000 levels."""
_MERGE_KEY = "<<"
_BLOCKS = frozenset({"|", ">"})
_SIGNS = frozenset({_MERGE_KEY, "="})
_TAG_PREFIX = "tag:yaml.org,2002:"
_SCALAR_TAGS = frozenset(_TAG_PREFIX + kind for kind in ("str", "int", "float", "bool", "null"))
_COLLECTION_TAGS = {Mapping: _TAG_PREFIX + "map", Sequence: _TAG_PREFIX + "seq"}
_COMPLEX = "complex"
_FIRST_KEYS = frozenset({"name", "user_email", "writer_email"})
"""Keys that entries usually begin with, after a dash."""


def build_tree(
    text: str, reports: Reports, *, max_depth: int = MAX_DEPTH, max_nodes: float = MAX_NODES
) -> Node | None:
    """Return the root of the first document; None if there is no document."""
    try:
        return _TreeBuilder(text, reports, max_depth, max_nodes).build(LOADER)
    except yaml.MarkedYAMLError as error:
        if error.problem != _LIBYAML_TOO_DEEP:
            raise
    # The events before that one, which libyaml read ahead of, say where the limit is exceeded.
    deep: Reports = {}
    try:
        return _TreeBuilder(text, deep, max_depth, max_nodes).build(yaml.SafeLoader)
    finally:
        reports.update(deep)


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not been read yet."""

    node: Mapping | Sequence
    known: bool
    """True if its tag has a meaning here."""
    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    key: Scalar | None = None
    """The key whose value comes next."""


class _TreeBuilder:
    """Takes events one by one, keeping a stack of what is open."""

    def __init__(self, text: str, reports: Reports, max_depth: int, max_nodes: float) -> None:
        self._text = text
        self._reports = reports
        self._max_depth = max_depth
        self._max_nodes = max_nodes
        self._stack: list[_Open] = []
        self._root: Node | None = None
        self._nodes = 0
        self._anchored = False

    def build(self, loader: _Loader) -> Node | None:
        documents = 0
        for event in yaml.parse(self._text, Loader=loader):
            if isinstance(event, events.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._refuse_second_document(event)
                    break
                self._check_directives(event)
            elif isinstance(event, events.AliasEvent):
                self._refuse_anchor(_event_place(event), f"alias `*{shorten(event.anchor or '')}`")
                raise UnreadableError
            elif isinstance(event, events.CollectionStartEvent):
                self._open(event, self._counted(event))
            elif isinstance(event, events.ScalarEvent):
                self._place(self._scalar(event, self._counted(event)))
            elif isinstance(event, events.MappingEndEvent | events.SequenceEndEvent):
                self._close(event)
        return self._root

    def _report(self, rule: str, report: Report) -> None:
        self._reports.setdefault(rule, []).append(report)

    def _counted(self, event: events.NodeEvent) -> Place:
        self._nodes += 1
        place = _event_place(event)
        if self._nodes > self._max_nodes:
            what = f"the file has more than {self._max_nodes:,} values"
            self._stop("file-too-large", place, f"{what}: it is not a queue.yaml or cron.yaml")
        if event.anchor is not None:
            self._refuse_anchor(place, f"anchor `&{shorten(event.anchor)}`")
        return place

    def _open(self, event: events.CollectionStartEvent, place: Place) -> None:
        if len(self._stack) >= self._max_depth:
            what = f"the file is nested more than {self._max_depth} levels deep: the format needs 5"
            self._stop("too-deep", place, what)
        kind = Mapping if isinstance(event, events.MappingStartEvent) else Sequence
        node = kind(start=place.start, end=place.end, flow=bool(event.flow_style))
        known = event.tag in {None, "!", _COLLECTION_TAGS[kind]}
        if not known:
            self._refuse_tag(place, event.tag or "")
        self._stack.append(_Open(node, known))

    def _close(self, event: events.Event) -> None:
        closed = self._stack.pop()
        node = closed.node
        if isinstance(node, Mapping):
            names = closed.pairs.get("name", ())[1:]
            for same in closed.pairs.values():
                # after a second name, keys are most likely those of a queue that lacks its dash
                follows = names and same[1:] and names[0].key.start < same[1].key.start
                one = len(same) == 1 or follows
                node.pairs.append(same[0] if one else self._merge_duplicates(same))
        if node.flow:
            node.end = _event_place(event).end
        elif isinstance(node, Sequence) and node.items:
            node.end = max(node.end, node.items[-1].end)
        unknown = Scalar(start=node.start, end=node.end, text="", opaque=True)
        self._place(node if closed.known else unknown)

    def _place(self, node: Node) -> None:
        if not self._stack:
            self._root = node
            return
        opened = self._stack[-1]
        parent, key = opened.node, opened.key
        if isinstance(parent, Sequence) or key is not None:
            self._refuse_sign(node)
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif key is None:
            opened.key = node if isinstance(node, Scalar) else self._complex(node)
        else:
            opened.key = None
            parent.end = max(parent.end, node.end)
            if key.text == _MERGE_KEY and not key.style:
                self._refuse_anchor(key.place, "merge key `<<`")
            elif key.kind != _COMPLEX:
                opened.pairs.setdefault(key.text, []).append(Pair(key, node))

    def _merge_duplicates(self, pairs: list[Pair]) -> Pair:
        """Report a key that is defined several times; keep the first, with the lists of all."""
        first, second, *others = pairs
        name = shorten(first.key.text)
        times = "twice" if not others else f"{len(pairs)} times"
        advice = "keep one of them"
        if name in _FIRST_KEYS:
            advice = f"write `- {name}:` if another entry begins here, or keep one of them"
        lists = [pair.value for pair in pairs if isinstance(pair.value, Sequence)]
        if lists:
            advice = "put all entries under one of them"
            for value in lists[1:]:
                lists[0].items.extend(value.items)
        labels = [(first.key.place, f"first `{name}` is here")]
        labels += [(pair.key.place, "and here") for pair in others]
        message = f"`{name}` is defined {times} in one mapping: {advice}"
        report = Report(at=second.key.place, message=message, labels=tuple(labels))
        self._report("duplicate-key", report)
        return Pair(first.key, lists[0]) if lists else first

    def _refuse_sign(self, node: Node) -> None:
        """Refuse a plain `<<` or `=`, for which YAML 1.1 has tags of their own."""
        plain = isinstance(node, Scalar) and node.end - node.start == len(node.text)
        if isinstance(node, Scalar) and plain and node.text in _SIGNS:
            node.opaque = True
            message = f"`{node.text}` has a special meaning in YAML: put it in quotes"
            self._report("yaml-tag", Report(at=node.place, message=message))

    def _scalar(self, event: events.ScalarEvent, place: Place) -> Scalar:
        end = place.end
        if event.style in _BLOCKS:  # the event's end is that of the empty lines after it
            end = place.start + len(self._text[place.start : end].rstrip(" \t\r\n"))
        scalar = Scalar(
            start=place.start,
            end=end,
            text=event.value,
            style="" if event.style is None else event.style,
        )
        plain = event.implicit[0] and not scalar.style
        tag = None if event.tag in {None, "!"} else event.tag
        fits = assign_type(scalar, tag=tag, plain=plain)
        if tag is not None and not (fits and tag in _SCALAR_TAGS):
            self._refuse_tag(place, tag)
            scalar.opaque = True
        return scalar

    def _complex(self, node: Mapping | Sequence) -> Scalar:
        message = "a list or mapping is used as a key: keys must be plain words"
        self._report("complex-key", Report(at=node.place, message=message))
        scalar = Scalar(start=node.start, end=node.end, text="")
        scalar.kind = _COMPLEX
        return scalar

    def _refuse_anchor(self, place: Place, what: str) -> None:
        if not self._anchored:
            self._anchored = True
            message = f"{what} is not supported by App Engine: write the value out where it is used"
            self._report("anchor-or-alias", Report(at=place, message=message))

    def _refuse_tag(self, place: Place, tag: str) -> None:
        shown = shorten(tag.replace(_TAG_PREFIX, "!!"))
        message = f"tag `{shown}` is not supported by App Engine: remove it"
        self._report("yaml-tag", Report(at=place, message=message))

    def _refuse_second_document(self, event: events.Event) -> None:
        start = _event_place(event).start
        message = (
            "a second YAML document begins here: queue.yaml must be one document; "
            "join the documents or split the file"
        )
        self._report("multiple-documents", Report(at=Place(start, start + 3), message=message))

    def _check_directives(self, event: events.DocumentStartEvent) -> None:
        if not (event.version or event.tags):
            return
        start = _event_place(event).start
        directive = self._text[start:].split("\n", 1)[0].rstrip()
        message = f"directive `{shorten(directive)}` makes App Engine's reader fail: remove it"
        at = Place(start, start + len(directive))
        document = self._text.find("\n---", start)
        edits = (Edit(start, document + 1, ""),) if document >= 0 else ()
        fix = Fix(title="remove the directive", edits=edits) if edits else None
        self._report("yaml-directive", Report(at=at, message=message, fix=fix))

    def _stop(self, rule: str, place: Place, message: str) -> None:
        self._report(rule, Report(at=Place(place.start, place.start + 1), message=message))
        raise UnreadableError


def _event_place(event: events.Event) -> Place:
    """Return the place of an event, its anchor and tag included."""
    start, end = event.start_mark, event.end_mark
    return Place(start.index if start else 0, end.index if end else 0)


# What YAML 1.1 makes of a plain scalar, as App Engine's reader sees it: PyYAML's safe types, with
# two differences. App Engine's reader (ruamel.yaml in its YAML 1.1 mode) takes an exponent without
# a dot or without a sign (`1e2`, `1.5e3`) for a number, and `y` and `n` for truth values; PyYAML
# takes both for text.

_EXPONENT = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+")
_LETTERS = {"y": True, "Y": True, "n": False, "N": False}
_LONGEST_TYPED = 1000
_TYPED = frozenset({"int", "float", "bool", "null", "timestamp"})

_resolver = Resolver()


def assign_type(scalar: Scalar, *, tag: str | None = None, plain: bool = True) -> bool:
    """Set a scalar's kind and value; return False if its explicit tag does not fit its text."""
    if tag is not None:
        kind = tag.removeprefix(_TAG_PREFIX)
    else:
        kind = _implicit_kind(scalar.text) if plain else "str"
    scalar.kind, scalar.value = "str", scalar.text
    if kind not in _TYPED:
        return True
    if kind == "bool" and scalar.text in _LETTERS:
        scalar.kind, scalar.value = kind, _LETTERS[scalar.text]
        return True
    node = ScalarNode(_TAG_PREFIX + kind, scalar.text)
    try:
        value = SafeConstructor().construct_document(node)
    except (ConstructorError, ValueError, OverflowError, KeyError):
        return tag is None
    scalar.kind, scalar.value = kind, str(value) if kind == "timestamp" else value
    return True


def _implicit_kind(text: str) -> str:
    if text in _LETTERS:
        return "bool"
    if len(text) > _LONGEST_TYPED:  # no number anyone means, and slow to convert
        return "str"
    tag: str = _resolver.resolve(ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    if tag == _TAG_PREFIX + "str" and _EXPONENT.fullmatch(text):
        return "float"
    return tag.removeprefix(_TAG_PREFIX)
