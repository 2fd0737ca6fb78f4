"""What rules look at: a file's tree with the keys of the format at hand."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from pullqueue.config.document import Mapping, Node, Path, Place, Scalar, Sequence
from pullqueue.config.findings import Fix, Labels, Report
from pullqueue.config.reader import ParseResult
from pullqueue.config.settings import Settings
from pullqueue.config.shape import Shape, Violation, check_shape
from pullqueue.config.values import as_integer, as_number
from pullqueue.text import shorten


class Entry:
    """A key with its value, and its path in the data."""

    __slots__ = ("is_null", "key", "path", "scalar", "value")

    def __init__(self, key: Scalar, value: Node, path: Path) -> None:
        """Look at the value once: every rule asks for it."""
        self.key = key
        self.value = value
        self.path = path
        self.is_null = isinstance(value, Scalar) and value.is_null
        """True if the key has no value."""
        self.scalar: Scalar | None = None
        """The value, if it is a single one that is set and known."""
        if isinstance(value, Scalar) and not (value.opaque or self.is_null):
            self.scalar = value

    @property
    def key_place(self) -> Place:
        """Where the key is."""
        return self.key.place

    @property
    def place(self) -> Place:
        """Where the value is."""
        return self.value.place

    def report(self, message: str, *, labels: Labels = (), fix: Fix | None = None) -> Report:
        """Return a report on the value."""
        return Report(self.place, message, self.path, labels=labels, fix=fix)

    def report_key(self, message: str, *, fix: Fix | None = None) -> Report:
        """Return a report on the key."""
        return Report(self.key_place, message, self.path, fix=fix)

    @property
    def text(self) -> str | None:
        """The text App Engine sees; None if there is no single known value."""
        return self.scalar.effective_text if self.scalar else None

    @property
    def shown(self) -> str:
        """The text App Engine sees, as messages show it."""
        return shorten(self.text or "")

    @property
    def integer(self) -> int | None:
        """The whole number App Engine sees; None if there is none."""
        return as_integer(self.scalar) if self.scalar else None

    @property
    def number(self) -> float | None:
        """The number App Engine sees; None if there is none."""
        return as_number(self.scalar) if self.scalar else None


class Section:
    """One mapping of the format."""

    def __init__(self, node: Mapping, path: Path = ()) -> None:
        """Index the keys of a mapping."""
        self.node = node
        self.path = path
        self.entries = {
            pair.key.text: Entry(pair.key, pair.value, (*path, pair.key.text))
            for pair in node.pairs
        }

    def get(self, key: str) -> Entry | None:
        """Return the entry of a key that is there and not null."""
        entry = self.entries.get(key)
        return None if entry is None or entry.is_null else entry

    def some(self, *keys: str) -> Iterator[Entry]:
        """Yield the entries of those of the keys that are there and not null."""
        return (entry for key in keys if (entry := self.get(key)) is not None)

    def section(self, key: str) -> Section | None:
        """Return the mapping under a key."""
        entry = self.entries.get(key)
        if entry is None or not isinstance(entry.value, Mapping):
            return None
        return Section(entry.value, entry.path)

    def sections(self, key: str) -> list[Section]:
        """Return the mappings in the list under a key."""
        entry = self.entries.get(key)
        if entry is None or not isinstance(entry.value, Sequence):
            return []
        return [
            Section(item, (*entry.path, index))
            for index, item in enumerate(entry.value.items)
            if isinstance(item, Mapping)
        ]

    @property
    def place(self) -> Place:
        """The first key, or the braces of an empty mapping."""
        return (self.node.pairs[0].key if self.node.pairs else self.node).place


class QueueNode(Section):
    """One entry of `queue`."""

    @cached_property
    def name(self) -> str | None:
        """The name App Engine sees; None if none is known."""
        entry = self.get("name")
        return entry.text if entry else None

    @cached_property
    def mode(self) -> str | None:
        """`push` or `pull`; None if the file says something else."""
        entry = self.get("mode")
        if entry is None:
            return "push"
        return entry.text if entry.text in {"push", "pull"} else None

    @cached_property
    def retry(self) -> Section | None:
        """`retry_parameters`."""
        return self.section("retry_parameters")

    @cached_property
    def acl_entries(self) -> list[Section]:
        """The mappings in the list `acl`."""
        return self.sections("acl")

    @property
    def title_place(self) -> Place:
        """The name's place, or the first key's: where a missing key is reported."""
        entry = self.get("name")
        return entry.place if entry else self.place

    @property
    def title(self) -> str:
        """The queue, for messages."""
        return f'queue "{self.name}"' if self.name else "this queue"


class View:
    """A whole file, as far as rules can look at it."""

    def __init__(self, result: ParseResult, root: Mapping, settings: Settings) -> None:
        """Index the top level of what was read."""
        self.source = result.source
        self.reports = result.reports
        self.root = root
        self.settings = settings
        """The options of the check."""
        self.top = Section(root)
        """The keys of the top level."""

    @cached_property
    def queues(self) -> list[QueueNode]:
        """The queues that are mappings, in the order of the file."""
        return [QueueNode(section.node, section.path) for section in self.top.sections("queue")]

    @cached_property
    def queue_at(self) -> dict[str | int, QueueNode]:
        """The queues by their index in the list."""
        return {queue.path[1]: queue for queue in self.queues}

    @property
    def pull_queues(self) -> list[QueueNode]:
        """The queues whose tasks are leased."""
        return [queue for queue in self.queues if queue.mode == "pull"]

    @property
    def retries(self) -> Iterator[tuple[QueueNode, Section]]:
        """Each queue that has `retry_parameters`, with them."""
        return ((queue, queue.retry) for queue in self.queues if queue.retry is not None)

    @cached_property
    def shape(self) -> Shape:
        """What the schema objects to."""
        return check_shape(self.root)

    def violations(self, code: str) -> list[Violation]:
        """Return the values the schema objects to by the rule of a code."""
        return self.shape.violations.get(code, [])

    def wrong_scalars(self, code: str) -> Iterator[tuple[Violation, Scalar]]:
        """Return the single values the schema objects to by the rule of a code."""
        violations = self.violations(code)
        return ((one, one.node) for one in violations if isinstance(one.node, Scalar))
