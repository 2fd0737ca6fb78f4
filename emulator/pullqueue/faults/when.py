"""The options that every fault has: on which calls it triggers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias, TypedDict

from msgspec import Meta

from pullqueue.structs import about

if TYPE_CHECKING:
    from pullqueue.engine.queue import Queue


class Wire(NamedTuple):
    """How an option is written in JSON."""

    type: Any
    meta: Meta


Queues: TypeAlias = Annotated[
    Iterable["Queue | str"],
    Wire(list[str], Meta(min_length=1, description="Affect calls on these queues. Default: all.")),
]


class When(TypedDict, total=False):
    """The calls on which a fault triggers: every call of that name, unless these narrow it."""

    queues: Queues
    times: Annotated[
        int,
        Meta(ge=1, description="Maximum number of times the fault triggers. Default: no limit."),
    ]
    after: Annotated[int, Meta(ge=0, description="Number of calls that succeed first. Default: 0.")]
    every: Annotated[int, Meta(ge=1, description="Trigger on every Nth call only. Default: 1.")]
    probability: Annotated[
        float, Meta(gt=0, le=1, description="Probability of triggering on each call. Default: 1.")
    ]
    seed: Annotated[int, about("Seed of the random sequence. Default: 0.")]
    url: Annotated[
        str,
        Meta(
            min_length=1,
            description="Affect attempts and adds of tasks whose path matches this pattern, such "
            "as /mail/*. Default: any.",
        ),
    ]
    per_task: Annotated[
        bool, about("Count times, after and every for each task on its own. Default: false.")
    ]
