"""PyYAML's events: one at a time, from its C parser where there is one."""

from __future__ import annotations

from collections.abc import Iterator

import yaml
from yaml.events import Event

from pullqueue.config.reports import Place

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_events(text: str) -> Iterator[Event]:
    """Give a text's events.

    Raises:
        yaml.YAMLError: the text is not YAML, told when the events so far were taken.
    """
    events: Iterator[Event] = yaml.parse(text, Loader=_LOADER)
    return events


def span_of(event: Event) -> Place:
    """Give the place of an event, its anchor and tag included."""
    start, end = event.start_mark, event.end_mark
    return Place(start.index if start else 0, end.index if end else 0)
