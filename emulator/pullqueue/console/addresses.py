"""The addresses of the console's pages and forms, which the methods that answer them declare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])

QUEUE = "/queues/<queue:queue>"
TASK = f"{QUEUE}/tasks/<task>"


class Address(NamedTuple):
    """A method and the path below `/console` at which it answers."""

    path: str
    method: Callable[..., Any]
    verbs: Sequence[str]


PAGES: list[Address] = []
ACTIONS: list[Address] = []
MENU: list[str] = []
"""The pages of the menu, in its order: that of their methods."""
SECTIONS: dict[str, str] = {}
"""By the name of a page: that of the menu to which it belongs."""


def page(
    path: str, *, in_menu: bool = False, section: str = "", verbs: Sequence[str] = ("GET",)
) -> Callable[[_F], _F]:
    """Register a method as the page of a path: in the menu, or in the section of another page."""

    def register(method: _F) -> _F:
        name = method.__name__
        PAGES.append(Address(path, method, verbs))
        if in_menu:
            MENU.append(name)
        SECTIONS[name] = section or name
        return method

    return register


def action(path: str) -> Callable[[_F], _F]:
    """Register a method as what a form does that is sent to a path."""

    def register(method: _F) -> _F:
        ACTIONS.append(Address(path, method, ("POST",)))
        return method

    return register
