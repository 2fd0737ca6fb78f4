"""Which schedules `race_test` runs, and in which order.

They are run by the number of their preemptions (iterative context bounding, M. Musuvathi and
S. Qadeer, PLDI 2007), first those in which time does not pass while an actor could go on. Each run
follows a plan to its end, and then avoids preemptions; whoever could have gone on instead, from
there on, begins another plan.

Orders that cannot differ are left out. Of the schedules that differ only in the order of calls that
do not conflict, the one is run that preempts as late as possible, so a preemption is needed only

- before a call that conflicts with what another actor is known to do. That is what it has done in
  any run until now, so plans that were left out are looked at again when more becomes known;
- and its end, only after another actor has made a call that conflicts with that call.

The same is true of time: it passes an actor only before a call that depends on it, or that
conflicts with what somebody does who can go on because of it, such as the retry of an attempt whose
deadline it is; and then who it does not concern could have gone on before.

Where nobody can go on without a switch, actors that do not conflict with the first, also not by
others, need not be tried.

Where actors draw random numbers, schedules with at most one preemption are run with other
sequences of them, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from time import process_time
from typing import NamedTuple

from pullqueue.testing.exploration.knowledge import Knowledge
from pullqueue.testing.exploration.progress import Stopwatch
from pullqueue.testing.exploration.steps import TIME, TIME_KEY, Choice
from pullqueue.testing.points.footprint import TIME_MOVES, Footprint, Path, overlap

_CACHES = frozenset({("memcache",)})
"""Services in which lost updates are less likely to be faults."""


class Plan(NamedTuple):
    """How a schedule begins: as an earlier one, but for its last choice."""

    earlier: tuple[Choice, ...]
    length: int
    last: int
    rank: int = 0
    """How likely a fault is: first 0, before an actor writes what it has used before; last 2,
    before a call to a cache."""
    paid: int = 0
    """How much of its level is for moves of time that are still to come."""
    sequence: int = 0
    """Which random numbers are drawn."""

    def choices(self) -> list[int]:
        """Return its choices."""
        if not self.length:
            return []
        return [*(choice.chosen for choice in self.earlier[: self.length - 1]), self.last]


class Level(NamedTuple):
    """How complicated a schedule is."""

    passed: int
    """How often time passes an actor that could go on; a deadline counts as two."""
    preemptions: int


class Outcome(NamedTuple):
    """What came of a schedule."""

    choices: tuple[Choice, ...]
    has_failed: bool
    is_new: bool
    """True if it has failed, and in another way than those before."""
    is_race: bool
    """False if its actors ran one after the other."""
    draws: bool = False
    """True if its actors have drawn random numbers."""
    writes: frozenset[tuple[str, object]] = frozenset()
    """Who has made calls that write, and where."""


_MORE = 20
"""How many more schedules are run after the first that fails, to find other failures: so many of
the same kind, and so many in which time moves more often."""
_UNTIL_RACE = 100
"""How many after one that fails although its actors do not race."""
_MORE_SECONDS = 3.0
"""How long these take at most, unless it has taken longer to find the first; of the processor, so
that a machine that is busy reports the same."""

_RANKS = 3

SEQUENCES = 20
"""How many sequences of random numbers are tried: where two actors each choose one of five shards,
they choose the same in one of these with a probability of 99 %."""


@dataclass(eq=False, kw_only=True)
class Search:
    """The schedules of one `race_test`."""

    run: Callable[[Plan], Outcome]
    stopwatch: Stopwatch
    preemptions: int
    schedules: int
    most_seconds: float
    seed: int
    reduces: Callable[[], bool]
    """Whether to leave out orders that cannot differ."""
    moves_time: bool
    """Time moves also while an actor could go on, which counts as a preemption."""
    count: int = 0
    """Number of schedules that were run."""
    failed: int = 0
    """Number of those that have failed."""
    is_bounded: bool = False
    """True if there are other orders with more preemptions, or in which time passes more often."""
    draws: bool = False
    """True if actors draw random numbers."""
    differs: bool = False
    """True if the same choices have led to other calls."""
    only_first: frozenset[tuple[str, object]] = frozenset()
    """Calls that write, and that only the first schedule has: who, and where.

    When all were run: those that it has not made again, so that its state was another one.
    """
    knowledge: Knowledge = field(default_factory=Knowledge)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)  # noqa: S311 - nothing secret
        self._plans: dict[Level, tuple[deque[Plan], ...]] = {
            Level(passed, preemptions): tuple(deque() for _ in range(_RANKS))
            for passed in range(self.preemptions + 1 if self.moves_time else 1)
            for preemptions in range(self.preemptions + 1 - passed)
        }
        self._firsts = self._plans[Level(0, 0)][0]
        self._first = self.seed * SEQUENCES
        """The first sequence of random numbers."""
        self._firsts.append(Plan((), 0, 0, sequence=self._first))
        self._made: Counter[tuple[Level, Level]] = Counter()
        """How many plans of the second level schedules of the first have led to."""
        self._left_out: list[tuple[Plan, Level, Level]] = []
        """Plans that nothing needs, as far as is known."""
        self._of_first: Choice | None = None
        """The first of the first schedule that others do not have."""
        self._known = 0
        """The version of the knowledge at which they were left out."""
        self._ends: dict[Level, tuple[int, float]] = {}
        """How many schedules, and seconds, there may be when another level is to be run."""
        self._counts = dict.fromkeys(self._plans, 0)
        self._work = Stopwatch(process_time)

    @property
    def is_complete(self) -> bool:
        """True if no order that can differ is left, within the bound."""
        is_known = not (self.differs or self.only_first)
        return is_known and not any(map(self._has_plans, self._plans))

    @property
    def estimate(self) -> int:
        """About how many schedules there are, those that were run included."""
        left: dict[Level, float] = {}
        rates: dict[tuple[int, int], float] = {}
        for level, plans in self._plans.items():
            number = float(sum(map(len, plans)))
            for parent in (*left, level):
                step = level.passed - parent.passed, level.preemptions - parent.preemptions
                if self._counts[parent]:
                    rates[step] = self._made[parent, level] / self._counts[parent]
                number += left.get(parent, 0) * rates.get(step, 0)
            left[level] = number / max(0.05, 1 - rates.get((0, 0), 0))
        return self.count + round(sum(left.values()))

    def explore(self) -> None:
        """Run schedules until one fails, all were run, or the budget is used up.

        After one whose actors do not race, some more are run, to find one whose do.
        """
        end: tuple[int, float] | None = None
        while (level := self._next_level()) is not None:
            self.stopwatch.report(self._progress)
            if self._explore(level):
                self._look_for_others(level)
                return
            if self.failed and end is None:
                end = self.count + _UNTIL_RACE, self._end_of_more()
            if end is not None and (self.count >= end[0] or self._work() >= end[1]):
                return
        if self.only_first and self.count > 1:
            again = self.run(Plan((), 0, 0, sequence=self._first))
            self.failed += again.has_failed
            self.only_first -= again.writes
        else:
            self.only_first = frozenset()

    def _progress(self) -> str:
        failed = f"{self.failed:,} of which failed" if self.failed else "none of which fails"
        return f"race_test: {self.count:,} of about {self.estimate:,} orders, {failed}"

    def _explore(self, level: Level) -> bool:
        plan = self._take(level)
        outcome = self.run(plan)
        self.only_first = self.only_first - outcome.writes if self.count else outcome.writes
        self.count += 1
        self.failed += outcome.has_failed
        self._counts[level] += 1
        self.knowledge.learn(outcome.choices)
        self._compare(plan, outcome.choices)
        if outcome.draws and not self.draws:
            self.draws = True
            others = range(self._first + 1, self._first + SEQUENCES)
            self._firsts += (Plan((), 0, 0, sequence=other) for other in others)
        self._branch(plan, outcome.choices, level)
        if self._known != self.knowledge.version:
            self._known = self.knowledge.version
            left_out, self._left_out = self._left_out, []
            for other in left_out:
                self._add(*other)
        return outcome.is_new and outcome.is_race

    def _compare(self, plan: Plan, made: tuple[Choice, ...]) -> None:
        """Note whether a run has begun otherwise than the one that it was to follow.

        The first can have calls that no other has, such as one that loads a script into Redis; so
        it is run again.
        """
        different = _find_difference(plan, made)
        if different is None or different is self._of_first:
            return
        if self._of_first is None and plan.sequence == self._first:
            self._of_first = different
            self._firsts.append(Plan((), 0, 0, sequence=self._first))
        else:
            self.differs = True

    def _end_of_more(self) -> float:
        """Return up to when more schedules are run after one that has failed now."""
        return self._work() + max(_MORE_SECONDS, self._work())

    def _look_for_others(self, first: Level) -> None:
        """Look for failures of other kinds than that of the first schedule that fails."""
        most_seconds = self._end_of_more()
        for more_moves in (False, True):
            end = self.count + _MORE
            levels = [each for each in self._plans if (each.passed > first.passed) is more_moves]
            while self.count < end and self._work() < most_seconds:
                level = next(filter(self._has_plans, levels), None)
                if level is None:
                    break
                self._explore(level)

    def _has_plans(self, level: Level) -> bool:
        return any(self._plans[level])

    def _next_level(self) -> Level | None:
        """Return the first level with plans that has not used up its part of the budget.

        Each gets half of what is left, and the last all of it.
        """
        if self.count >= self.schedules or (self.count and self.stopwatch() >= self.most_seconds):
            return None
        with_plans = [*filter(self._has_plans, self._plans)]
        for level in with_plans:
            if level not in self._ends:
                part = 1 if level == max(self._plans) else 2
                now = self.stopwatch()
                self._ends[level] = (
                    self.count - (self.count - self.schedules) // part,
                    now + (self.most_seconds - now) / part,
                )
            most, most_seconds = self._ends[level]
            if self.count < most and self.stopwatch() < most_seconds:
                return level
        self._ends = {}
        return self._next_level() if with_plans else None

    def _take(self, level: Level) -> Plan:
        plans = next(filter(None, self._plans[level]))
        end = self._ends.get(level, (self.schedules, 0))[0]
        if self.count + len(plans) > end:  # a sample
            plans.rotate(-self._random.randrange(len(plans)))
        return plans.popleft()

    # -- what else can be run --------------------------------------------------------------------

    def _branch(self, plan: Plan, made: tuple[Choice, ...], level: Level) -> None:
        start = max(plan.length - 1, 0)
        choices = (*plan.earlier[:start], *made[start:])
        ranks = _ranks(choices)
        for index in reversed(range(plan.length, len(choices))):
            choice = choices[index]
            for option in choice.options:
                if option == choice.chosen:
                    continue
                passed = choice.passes(option)
                needed = Level(
                    level.passed + max(0, passed - plan.paid),
                    level.preemptions + choice.preempts(option),
                )
                paid = max(0, plan.paid - passed)
                other = Plan(choices, index + 1, option, ranks[index], paid, plan.sequence)
                self._add(other, needed, level)

    def _add(self, plan: Plan, level: Level, parent: Level) -> None:
        """Add a plan to those to be run, if it is within the bounds and needed."""
        if self.is_bounded and level not in self._plans:
            return
        need = self._need(plan) if self.reduces() else 0
        if need is not None and need > plan.paid:
            level = Level(level.passed + need - plan.paid, level.preemptions)
            plan = plan._replace(paid=need)
        if plan.sequence != self._first and sum(level) > 1:
            return
        if need is None:
            self._left_out.append((plan, level, parent))
        elif level in self._plans:
            self._plans[level][plan.rank].append(plan)
            self._made[parent, level] += 1
        else:
            self.is_bounded = True

    def _need(self, plan: Plan) -> int | None:
        """Return how often time has to pass after a plan, so that it leads to anything new.

        None: it leads to nothing that the others do not.
        """
        choice, known = plan.earlier[plan.length - 1], self.knowledge
        if choice.current is None and choice.is_waiting:
            return 0
        if plan.last == TIME:
            return 0 if self._can_time_matter(plan) else None
        if self._is_premature(plan):
            return None
        others = [*choice.others, *known.absent(choice.known)]
        if self._is_in_conflict(plan, others):
            return 0
        if self._is_in_conflict(plan, [*others, TIME_KEY]):
            return 1
        # An attempt that time has ended is retried.
        retried = [] if choice.current is None else [choice.options[choice.current]]
        return 2 if self._is_in_conflict(plan, [*others, *retried]) else None

    def _can_time_matter(self, plan: Plan) -> bool:
        """Return whether time matters before the next call of who would go on.

        Either to that call, or to somebody who can go on because of it, and conflicts with that
        call; otherwise it could pass after it.
        """
        choice, known = plan.earlier[plan.length - 1], self.knowledge
        who = choice.chosen if choice.current is None else choice.current
        keys = {TIME_KEY, *choice.others} - {each.key for each in choice.pending.values()}
        keys |= {key for number, key in choice.options.items() if number not in choice.pending}
        for pending in choice.pending.values():
            if known.of_call(pending).conflicts_with(TIME_MOVES):
                keys.add(pending.key)
        if choice.ends_attempts:  # which are retried
            keys |= {choice.options[who], *choice.others}
        else:  # a task can be due then
            keys |= {*known.absent(choice.known)}
        matters = [*known.of(sorted(keys))]
        stopped = [known.of_call(choice.pending.get(who)), *self._beginning(plan, who)]
        return all(any(map(each.conflicts_with, matters)) for each in stopped)

    def _beginning(self, plan: Plan, number: int) -> Iterator[Footprint]:
        """Yield what who is to be stopped has done, if that is only to begin; it could be later."""
        before = plan.earlier[: plan.length - 1]
        last = next((choice for choice in reversed(before) if choice.chosen == number), None)
        if last is not None and number not in last.pending:
            yield last.footprint

    def _is_premature(self, plan: Plan) -> bool:
        """Return whether an actor goes on before anything was done for which it was stopped."""
        stopped = next(
            (
                index
                for index in range(plan.length - 2, -1, -1)
                if plan.earlier[index].current == plan.last
            ),
            None,
        )
        if stopped is None or any(
            choice.chosen == plan.last for choice in plan.earlier[stopped : plan.length - 1]
        ):
            return False
        call = self.knowledge.of_call(plan.earlier[stopped].pending.get(plan.last))
        since = plan.earlier[stopped : plan.length - 1]
        return not any(call.conflicts_with(choice.footprint) for choice in since)

    def _is_in_conflict(self, plan: Plan, others: Iterable[str]) -> bool:
        """Return whether others conflict with the call of who is to be stopped.

        Where nobody is: whether who is to go on conflicts with the first, or with one that does.
        """
        choice = plan.earlier[plan.length - 1]
        if choice.current is not None:
            known = [*self.knowledge.of(others)]
            call = self.knowledge.of_call(choice.pending.get(choice.current))
            stopped = [call, *self._beginning(plan, choice.current)]
            return all(any(map(each.conflicts_with, known)) for each in stopped)
        first = choice.options[choice.chosen]
        left = {key: next(self.knowledge.of([key])) for key in others}
        connected, new = {first}, [first]
        while new:
            done = next(self.knowledge.of([new.pop()]))
            new += [key for key, footprint in left.items() if done.conflicts_with(footprint)]
            left = {key: footprint for key, footprint in left.items() if key not in new}
            connected |= {*new}
        return choice.options[plan.last] in connected


def _find_difference(plan: Plan, made: tuple[Choice, ...]) -> Choice | None:
    """Return the first choice of a plan that a run did not have, or not among the same calls."""
    for index, earlier in enumerate(plan.earlier[: plan.length]):
        is_last = index == plan.length - 1
        choice = made[index] if index < len(made) else None
        if choice is None or choice.options != earlier.options:
            return earlier
        if not is_last and choice.turn != earlier.turn:
            return earlier
    return None


def _ranks(choices: Iterable[Choice]) -> list[int]:
    """Return how likely a fault is where each choice is made otherwise.

    With that, the sixth schedule shows a lost update of ndb, and not the fourteenth.
    """
    used: defaultdict[int, set[Path]] = defaultdict(set)
    ranks: list[int] = []
    for choice in choices:
        call = choice.pending.get(choice.current or TIME)
        ranks.append(_rank(call.footprint, used[choice.current or TIME]) if call else 0)
        used[choice.chosen] |= choice.calls.reads | choice.calls.writes
    return ranks


def _rank(call: Footprint, used: set[Path]) -> int:
    if all(path[:1] in _CACHES for path in call.reads | call.writes):
        return 2
    return 0 if overlap(call.writes, used) else 1
