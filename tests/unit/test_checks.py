"""The table of production's checks, and what is said of those that are off."""

from __future__ import annotations

from tables import each_row

from pullqueue.checks import CHECKS, LOCATION, PERMISSIONS, PROJECT, describe_off


def test_what_needs_facts_can_be_turned_on() -> None:
    """By an option of the server and an argument in tests; the others are always on."""
    for check in CHECKS:
        assert check.option or not check.argument, check.name
        assert check.option or not check.facts, check.name
    assert len({check.name for check in CHECKS}) == len(CHECKS)


@each_row(
    ("on", "where", "text"),
    [
        ({}, "serve", ""),
        ({PROJECT: True, LOCATION: True}, "serve", ""),
        (
            {PROJECT: True, LOCATION: False},
            "serve",
            "Not checked, unlike in production: location (--location REGION)",
        ),
        (
            {PERMISSIONS: False, PROJECT: False},
            "tests",
            "Not checked, unlike in production: project (project=ID), permissions (acl=True)",
        ),
    ],
)
def test_what_is_off_is_named_with_what_turns_it_on(
    on: dict[str, bool], where: str, text: str
) -> None:
    assert describe_off(on, in_tests=where == "tests") == text
