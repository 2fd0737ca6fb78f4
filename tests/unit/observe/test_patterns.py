"""The pattern of a reason is the same for all reasons that differ only in what is variable."""

from __future__ import annotations

from string import ascii_lowercase

from hypothesis import example, given
from hypothesis import strategies as st
from tables import each_row

from pullqueue.observe.patterns import find_pattern, pattern_of
from pullqueue.tasks import AttemptRecord, Task

WORDS = st.text(ascii_lowercase, min_size=1, max_size=7).filter(lambda word: word != "e")
VARIABLE = st.one_of(
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(str),
    st.uuids().map(str),
    st.integers(0x10000000).map(hex),
    st.ip_addresses().map(lambda address: f"{address.exploded}:8080"),
    WORDS.map("{}@example.com".format),
    WORDS.map(lambda word: f"https://{word}.example.com/{word}?q={word}"),
    WORDS.map(lambda word: f"/home/{word}/{word}.jpg"),
    *(st.text(f"{ascii_lowercase} ", min_size=1).map(f"{q}{{}}{q}".format) for q in "\"'`"),
)


@each_row(
    ("reason", "pattern"),
    [
        ("order 17 not found", "order … not found"),
        ("KeyError: 'alice'", "KeyError: …"),
        ("user bob@example.com is locked", "user … is locked"),
        ("can't open /tmp/a/b.jpg: no such file", "can't open …: no such file"),
        ("connect to 10.0.0.1:8080 refused", "connect to … refused"),
        ("app-1:8080: no response within 600 s", "app-1:8080: no response within … s"),
        ("[::1]:80: connection refused", "[::1]:80: connection refused"),
        ("answered by fault 1", "answered by fault 1"),
        ("10:42: timeout", "… timeout"),
        ("user 3fa85f64-5717-4562-b3fc-2c963f66afa6 is missing", "user … is missing"),
        ("ids 1, 2, 3 are missing", "ids … are missing"),
        ("ValueError: CMYK images are not supported", "ValueError: CMYK images are not supported"),
        ("HTTP2Error in and/or of deadbeef", "HTTP2Error in and/or of …"),
        ("of added or deadbee", "of added or deadbee"),
        ("timeout after 3.5 s.", "timeout after … s."),
        ("it's John's fault", "it's John's fault"),
        ("unknown key 'abc", "unknown key …"),
        ('{"error": "not found", "id": 17}', '{"error": "not found", "id": …}'),
        ('{"error": "no user a1", "id": 8}', '{"error": "no user …", "id": …}'),
        ('["no user a1", 8]', '["no user …", …]'),
        ("the name '' is empty", "the name … is empty"),
        ("no order 17? 18! 19X.", "no order …? …! …."),
        ("x" * 120, "x" * 120),
        (f"{'x' * 118} yyy", f"{'x' * 118}…"),
        ("x" * 121, f"{'x' * 119}…"),
        ("", ""),
    ],
)
def test_what_differs_is_replaced(reason: str, pattern: str) -> None:
    assert find_pattern(reason) == pattern


@each_row(
    ("status", "reason", "pattern"),
    [
        (None, None, "its last lease ended"),
        (500, None, "no reason"),
        (500, "", "no reason"),
        (0, "order 17 is gone", "order … is gone"),
    ],
)
def test_why_a_task_failed_last(status: int | None, reason: str | None, pattern: str) -> None:
    """Only an attempt to send it has a status."""
    record = AttemptRecord(status=status, reason=reason)

    assert pattern_of(Task(0, 1, 1, "t", "web", b"", None, 0, 5, None, record)) == pattern


@given(st.lists(st.tuples(WORDS, VARIABLE, VARIABLE), min_size=1, max_size=6))
def test_reasons_that_differ_in_what_is_variable_have_one_pattern(
    parts: list[tuple[str, str, str]],
) -> None:
    """And words are kept, as long as there is room."""
    first = find_pattern(" ".join(f"{word} {one}" for word, one, _ in parts))
    other = find_pattern(" ".join(f"{word} {another}" for word, _, another in parts))

    assert first == other == " ".join(f"{word} …" for word, _, _ in parts)


@given(st.text("a1 '/@\N{HORIZONTAL ELLIPSIS}", max_size=300))
@example("'" + "a" * 130)
@example("x " * 60 + "1")
def test_a_pattern_has_a_limit(reason: str) -> None:
    assert len(find_pattern(reason)) <= 120


@given(st.text("ab", min_size=250, max_size=260), st.integers(0, 10**30))
def test_a_reason_that_is_cut_has_the_same_pattern(text: str, number: int) -> None:
    """Reasons are cut at 200 characters: a longer id moves the end."""
    assert find_pattern(f"id {number} {text}"[:200]) == find_pattern(f"id 7 {text}"[:200])
