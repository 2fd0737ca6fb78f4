"""Numbers of queue.yaml, as App Engine reads them."""

from __future__ import annotations

import pytest

from pullqueue.config.document import Scalar, describe
from pullqueue.config.model import Rate
from pullqueue.config.text import shorten
from pullqueue.config.tree import assign_type
from pullqueue.config.values import (
    as_boolean,
    as_integer,
    as_number,
    parse_age_limit,
    parse_rate,
    parse_storage_limit,
    suggested_age_limit,
    suggested_rate,
    suggested_seconds,
    suggested_storage_limit,
)


def scalar(text: str, *, quoted: bool = False, tag: str | None = None) -> Scalar:
    """Make a typed scalar."""
    made = Scalar(start=0, end=len(text), text=text, style='"' if quoted else "")
    assign_type(made, tag=tag, plain=not quoted)
    return made


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("0", Rate(count=0.0)),
        ("5/s", Rate(count=5.0)),
        ("5./s", Rate(count=5.0)),
        ("0.5/m", Rate(count=0.5, unit="m")),
        ("10/h", Rate(count=10.0, unit="h")),
        ("2/d", Rate(count=2.0, unit="d")),
        ("5", None),
        (".5/s", None),
        ("-5/s", None),
        ("5/s\n", None),
        ("1e2/s", None),
        ("5/S", None),
        ("", None),
    ],
)
def test_rate(text: str, rate: Rate | None) -> None:
    """A rate is 0, or a number, a slash and a unit."""
    assert parse_rate(text) == rate


def test_rate_per_second() -> None:
    """A rate's unit counts."""
    assert Rate(count=30000.0, unit="m").per_second == 500
    assert Rate(count=86400.0, unit="d").per_second == 1
    assert Rate(count=7200.0, unit="h").per_second == 2


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("0", 0),
        ("64", 64),
        ("1B", 1),
        ("1.5B", 1),
        ("1K", 1024),
        ("120M", 120 * 1024**2),
        ("1.5G", 3 * 512 * 1024**2),
        ("2T", 2 * 1024**4),
        ("1.M", 1024**2),
        ("1.5", None),
        ("120m", None),
        ("120MB", None),
        ("9" * 400 + "T", None),
        ("9" * 5000, None),
        ("-1", None),
    ],
)
def test_storage_limit(text: str, limit: int | None) -> None:
    """A storage limit counts multiples of 1024, and whole bytes without a unit."""
    assert parse_storage_limit(text) == limit


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("1.5d", 129_600),
        (".5h", 1800),
        ("1e1d", 864_000),
        ("0.5s", 0),
        ("1e400d", None),
        ("1w", None),
        ("30", None),
        ("1_0s", None),
        ("nans", None),
        ("-1d", None),
    ],
)
def test_age_limit(text: str, seconds: int | None) -> None:
    """An age limit is cut off to whole seconds."""
    assert parse_age_limit(text) == seconds


@pytest.mark.parametrize(
    ("text", "kind", "effective"),
    [
        ("mail", "str", "mail"),
        ("0123", "int", "83"),
        ("1_000", "int", "1000"),
        ("0x1f", "int", "31"),
        ("12:30", "int", "750"),
        ("1.10", "float", "1.1"),
        ("1e2", "float", "100.0"),
        ("1.5e3", "float", "1500.0"),
        ("yes", "bool", "True"),
        ("off", "bool", "False"),
        ("~", "null", "None"),
        ("", "null", "None"),
        ("2016-04-24", "timestamp", "2016-04-24"),
        ("2016-13-45", "str", "2016-13-45"),
        ("0b_", "str", "0b_"),
        ("1" * 2000, "str", "1" * 2000),
        ("<<", "str", "<<"),
    ],
)
def test_plain_scalars_are_typed_by_yaml_1_1(text: str, kind: str, effective: str) -> None:
    """A plain scalar is what App Engine's YAML 1.1 reader takes it for."""
    made = scalar(text)
    assert (made.kind, made.effective_text) == (kind, effective)


def test_tags_and_quotes_come_before_the_text() -> None:
    """Quotes and `!!str` make a text, a tag that does not fit is refused."""
    assert scalar("0123", quoted=True).effective_text == "0123"
    assert scalar("0123", tag="tag:yaml.org,2002:str").effective_text == "0123"
    assert scalar("1", tag="tag:yaml.org,2002:float").value == 1.0
    misfit = Scalar(start=0, end=4, text="mail")
    assert not assign_type(misfit, tag="tag:yaml.org,2002:int", plain=True)


@pytest.mark.parametrize(
    ("text", "integer"),
    [("5", 5), ("5.7", 5), ("yes", 1), ("010", 8), ("1e2", None), (".inf", None), ("ten", None)],
)
def test_integers(text: str, integer: int | None) -> None:
    """A whole number is what Python's int() makes of the typed value, but for exponents."""
    assert as_integer(scalar(text)) == integer
    assert as_integer(scalar("10", quoted=True)) == 10
    assert as_integer(scalar("~")) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [("0.1", 0.1), ("5", 5.0), ("true", None), (".nan", None), ("10s", None), ("~", None)],
)
def test_numbers(text: str, number: float | None) -> None:
    """A number is finite, and no truth value."""
    assert as_number(scalar(text)) == number


def test_numbers_past_any_float_are_none() -> None:
    """A whole number too large for a float is not a valid number."""
    assert as_number(scalar("9" * 400)) is None


def test_booleans() -> None:
    """Only YAML's truth values are true or false."""
    assert as_boolean(scalar("no")) is False
    assert as_boolean(scalar("true")) is True
    assert as_boolean(scalar("false", quoted=True)) is None


@pytest.mark.parametrize(
    ("text", "suggested"),
    [("1/min", "1/m"), ("5 / s", "5/s"), (".5/s", "0.5/s"), ("5", "5/s"), ("2 per hour", "2/h")],
)
def test_suggested_rates(text: str, suggested: str) -> None:
    """The usual misspellings of rates are understood."""
    assert suggested_rate(text) == suggested


def test_suggested_values() -> None:
    """What cannot be understood is not guessed."""
    assert suggested_rate("fast") is None
    assert suggested_rate("5/fortnight") is None
    assert suggested_age_limit("1w") == "7d"
    assert suggested_age_limit("3600") == "3600s"
    assert suggested_age_limit("2D") == "2d"
    assert suggested_age_limit("1 fortnight") is None
    assert suggested_age_limit("never") is None
    assert suggested_age_limit("0") is None
    assert suggested_seconds("10s") == "10"
    assert suggested_seconds("5m") == "300"
    assert suggested_seconds("5w") is None
    assert suggested_seconds("soon") is None
    assert suggested_storage_limit("120MB") == "120M"
    assert suggested_storage_limit("1 GiB") == "1G"
    assert suggested_storage_limit("much") is None
    assert suggested_storage_limit("9" * 400 + "T") is None


def test_long_and_strange_texts_are_made_fit_for_a_line() -> None:
    """Messages quote one short, printable line."""
    assert shorten("x" * 100) == "x" * 57 + "..."
    assert shorten("a\nb\x1b") == "a\\nb\\x1b"
    assert describe(scalar("~")) == "empty"
