"""pullqueue.engine.memory.index."""

from __future__ import annotations

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pullqueue.engine.memory import index
from pullqueue.engine.memory.index import OrderedIndex

Entry = tuple[int, int]

entries = st.sets(st.tuples(st.integers(0, 50), st.integers(0, 40)), max_size=200)


def index_of(content: set[Entry]) -> OrderedIndex[Entry]:
    """Return an index with some entries."""
    made: OrderedIndex[Entry] = OrderedIndex()
    made.add(sorted(content))
    return made


class IndexMachine(RuleBasedStateMachine):
    """An index does what a sorted list does."""

    def __init__(self) -> None:
        super().__init__()
        self.index: OrderedIndex[Entry] = OrderedIndex()
        self.model: list[Entry] = []

    @rule(run=entries)
    def add(self, run: set[Entry]) -> None:
        """A run goes in wherever its entries belong."""
        new = sorted(run - set(self.model))
        self.index.add(new)
        self.model = sorted([*self.model, *new])

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove_some(self, data: st.DataObject) -> None:
        """Any entries can be removed."""
        gone = sorted(data.draw(st.sets(st.sampled_from(self.model), max_size=60)))
        self.index.remove(gone)
        self.model = [entry for entry in self.model if entry not in set(gone)]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove_neighbours(self, data: st.DataObject) -> None:
        """A slice can be removed."""
        start = data.draw(st.integers(0, len(self.model) - 1))
        end = data.draw(st.integers(start, len(self.model)))
        self.index.remove(self.model[start:end])
        del self.model[start:end]

    @rule(usec=st.integers(-1, 51), sequence=st.integers(-1, 41), count=st.integers(1, 300))
    def ask(self, usec: int, sequence: int, count: int) -> None:
        """Every question is answered as by a sorted list."""
        due = [entry for entry in self.model if entry[0] <= usec]
        assert self.index.due(usec, count) == due[:count]
        assert list(self.index.after(usec)) == self.model[len(due) :]
        assert self.index.count_after(usec) == len(self.model) - len(due)
        behind = [entry for entry in self.model if entry > (usec, sequence)]
        assert list(islice(self.index.after(usec, sequence), count)) == behind[:count]

    @invariant()
    def same_content(self) -> None:
        """It has the same entries in the same order."""
        assert list(self.index) == self.model
        assert list(reversed(self.index)) == self.model[::-1]
        assert len(self.index) == len(self.model)
        assert self.index.first() == (self.model[0] if self.model else None)


class SmallChunks(IndexMachine):
    """The same, with chunks so small that they split and empty all the time."""

    def __init__(self) -> None:
        super().__init__()
        self.usual = index._CHUNK
        index._CHUNK = 3

    def teardown(self) -> None:
        """Put the size back."""
        index._CHUNK = self.usual


TestIndex = IndexMachine.TestCase
TestIndexOfSmallChunks = SmallChunks.TestCase


@given(entries)
def test_chunks_stay_small(content: set[Entry]) -> None:
    """No chunk grows beyond twice its size, so that no operation shifts more."""
    made = index_of(content)
    for sequence in range(1000, 5000):
        made.add([(25, sequence)])

    assert max(len(chunk) for chunk in made._chunks) <= 2 * index._CHUNK


def test_an_empty_run_changes_nothing() -> None:
    """Adding and removing nothing is not an error."""
    made: OrderedIndex[Entry] = OrderedIndex()

    made.add([])
    made.remove([])

    assert list(made) == []
