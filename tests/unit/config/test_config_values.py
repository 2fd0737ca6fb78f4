"""Numbers of queue.yaml, as App Engine reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tables import each_row

from pullqueue.config.document import Scalar, describe
from pullqueue.config.model import Rate
from pullqueue.config.shape import validator
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
from pullqueue.text import shorten


def scalar(text: str, *, quoted: bool = False, tag: str | None = None) -> Scalar:
    """Make a typed scalar."""
    made = Scalar(start=0, end=len(text), text=text, style='"' if quoted else "")
    assign_type(made, tag=tag, plain=not quoted)
    return made


def test_a_rate_of_nearly_nothing_is_shown_as_such() -> None:
    counts = 0, 1e-300, 9e-10, 1e-9, 0.5, 500
    shown = ["0/s", "1e-300/s", "9e-10/s", "0.000000001/s", "0.5/s", "500/s"]
    assert [str(Rate(count=count)) for count in counts] == shown


def _per_second(text: str) -> float | None:
    rate = parse_rate(text)
    return None if rate is None else rate.per_second


def _with_rate(text: str) -> Any:
    return {"queue": [{"name": "a", "rate": text}]}


def _with_age_limit(text: str) -> Any:
    queue = {"name": "a", "rate": "5/s", "retry_parameters": {"task_age_limit": text}}
    return {"queue": [queue]}


def _with_storage_limit(text: str) -> Any:
    return {"total_storage_limit": text, "queue": []}


@pytest.mark.parametrize(
    ("parse", "file_with", "values", "others"),
    [
        (
            _per_second,
            _with_rate,
            {"0/s": 0, "5/s": 5, "5./s": 5, "30000/m": 500, "7200/h": 2, "86400/d": 1},
            "5|.5/s|-5/s|5/s\n|1e2/s|5/S|5 / s|5/min||fast",
        ),
        (
            parse_age_limit,
            _with_age_limit,
            {"30s": 30, "1.5d": 129_600, ".5h": 1800, "10d": 864_000},
            "1w|30|1_0s|nans|infd|-1d|1h30m|2D",
        ),
        (
            parse_storage_limit,
            _with_storage_limit,
            {"0": 0, "64": 64, "1B": 1, "1.5B": 1, "1K": 1024, "120M": 120 * 1024**2}
            | {"1.5G": 3 * 512 * 1024**2, "2T": 2 * 1024**4, "1.M": 1024**2},
            "1.5|120m|120MB|-1|1 G",
        ),
    ],
    ids=["rate", "age limit", "storage limit"],
)
def test_values_with_a_unit_are_read_as_the_schema_allows(
    parse: Callable[[str], object],
    file_with: Callable[[str], Any],
    values: dict[str, float],
    others: str,
) -> None:
    expected = values | dict.fromkeys(others.split("|"))
    assert {text: parse(text) for text in expected} == expected
    assert [text for text in expected if validator().is_valid(file_with(text))] == [*values]


def test_what_only_gcloud_fails_on_is_read() -> None:
    assert _per_second("0") == 0
    assert (parse_age_limit("1e1d"), parse_age_limit("1.s")) == (864_000, 1)


def test_an_age_limit_is_cut_off_to_whole_seconds_and_fits_a_number() -> None:
    assert parse_age_limit("0.5s") == 0
    assert parse_age_limit("1e400d") is None
    assert parse_storage_limit("9" * 400 + "T") is None
    assert parse_storage_limit("9" * 5000) is None


@each_row(
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
        *((text, "str", text) for text in ("2016-13-45", "0b_", "1" * 2000, "<<")),
    ],
)
def test_plain_scalars_are_typed_by_yaml_1_1(text: str, kind: str, effective: str) -> None:
    made = scalar(text)
    assert (made.kind, made.effective_text) == (kind, effective)


def test_tags_and_quotes_come_before_the_text() -> None:
    """Quotes and `!!str` make a text, a tag that does not fit is refused."""
    assert scalar("0123", quoted=True).effective_text == "0123"
    assert scalar("0123", tag="tag:yaml.org,2002:str").effective_text == "0123"
    assert scalar("1", tag="tag:yaml.org,2002:float").value == 1.0
    for text, fits in (("mail", False), ("5", True)):
        made = Scalar(start=0, end=len(text), text=text)
        assert assign_type(made, tag="tag:yaml.org,2002:int", plain=True) is fits


def test_a_whole_number_is_what_python_makes_of_it_without_exponents() -> None:
    integers = {"5": 5, "5.7": 5, "yes": 1, "010": 8} | dict.fromkeys(("1e2", ".inf", "ten", "~"))
    assert {text: as_integer(scalar(text)) for text in integers} == integers
    assert as_integer(scalar("10", quoted=True)) == 10


def test_a_number_is_finite_and_a_truth_value_is_not_one() -> None:
    numbers = {"0.1": 0.1, "5": 5.0} | dict.fromkeys(("true", ".nan", "10s", "~", "9" * 400))
    assert {text: as_number(scalar(text)) for text in numbers} == numbers


def test_only_yamls_truth_values_are_true_or_false() -> None:
    assert as_boolean(scalar("no")) is False
    assert as_boolean(scalar("true")) is True
    assert as_boolean(scalar("false", quoted=True)) is None


@each_row(
    ("suggest", "meant", "not_guessed"),
    [
        (
            suggested_rate,
            "1/min=1/m|5 / s=5/s|5/S=5/s|.5/s=0.5/s|5=5/s|2 per hour=2/h",
            "fast|5/fortnight",
        ),
        (suggested_age_limit, "1w=7d|3600=3600s|2D=2d", "1 fortnight|never|0|1h30m"),
        (suggested_seconds, "10s=10|5m=300", "5w|soon"),
        (suggested_storage_limit, "120MB=120M|120m=120M|1 GiB=1G", "much|" + "9" * 400 + "T"),
    ],
)
def test_usual_misspellings_are_understood(
    suggest: Callable[[str], str | None], meant: str, not_guessed: str
) -> None:
    """What a wrong value was meant to be is suggested, and what cannot be known is not guessed."""
    pairs = [pair.split("=") for pair in meant.split("|")]
    assert [[text, suggest(text)] for text, _ in pairs] == pairs
    assert [text for text in not_guessed.split("|") if suggest(text)] == []


def test_long_and_strange_texts_are_made_fit_for_a_line() -> None:
    assert shorten("x" * 100) == "x" * 57 + "..."
    assert shorten("a\nb\x1b") == "a\\nb\\x1b"
    assert describe(scalar("~")) == "empty"
