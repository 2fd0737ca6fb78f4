"""What can be said of a file before it is parsed: bytes, encoding, characters, stray markers."""

from __future__ import annotations

import re

from pullqueue.config.findings import Fix
from pullqueue.config.reports import Found, Place, Report, UnreadableError
from pullqueue.config.source import Source

MAX_BYTES = 1_048_576
"""The largest file that is looked at; the largest known queue.yaml has 15 KiB."""

_BOM = "\ufeff"
_UTF8_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_ALLOWED = "\t\n\r\x20-\x7e"
_ALLOWED_WIDE = "\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff"
_CONFLICT = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
_TEMPLATE = re.compile(r"\{\{|\{%|<%|\$\{|\$\(")
_COMMENT = re.compile(r"(?:^|[ \t])#[^\r\n]*", re.MULTILINE)


def too_large(found: Found, *, max_bytes: int) -> None:
    """Refuse a file for its size."""
    message = f"the file is larger than {max_bytes:,} bytes: that is no queue.yaml"
    found.add("file-too-large", Report(at=Place(0, 0), message=message))


def decode(data: bytes, found: Found, *, file: str) -> Source:
    """Give the text of a file's bytes; what cannot be decoded is reported.

    The source holds what could be read, so that a fault has its place.
    """
    has_bom = data.startswith(_UTF8_BOM)
    body = data[len(_UTF8_BOM) :] if has_bom else data
    wide = _wide_encoding(data)
    if wide:
        _refuse_encoding(found, 0, f"the file is {wide}, App Engine reads UTF-8: save it as UTF-8")
        return Source("", file=file)
    try:
        return Source(body.decode(), file=file, has_bom=has_bom)
    except UnicodeDecodeError as error:
        text = body[: error.start].decode()
        byte = body[error.start]
        message = f"byte 0x{byte:02x} is not UTF-8 (perhaps Latin-1): save the file as UTF-8"
        _refuse_encoding(found, len(text), message)
        return Source(text, file=file, has_bom=has_bom)


def from_text(text: str, *, file: str) -> Source:
    """Give the source of a text that was decoded already."""
    return Source(text.removeprefix(_BOM), file=file, has_bom=text.startswith(_BOM))


def _wide_encoding(data: bytes) -> str | None:
    if data.startswith(_WIDE_BOMS):
        return "UTF-16 or UTF-32"
    head = data[:64]
    if len(head) >= 4 and head.count(0) * 3 >= len(head):
        return "UTF-16 or UTF-32 without a byte-order mark"
    return None


def _refuse_encoding(found: Found, offset: int, message: str) -> None:
    found.add("encoding", Report(at=Place(offset, offset), message=message))


def check_characters(source: Source, found: Found) -> None:
    """Refuse characters YAML forbids, or that change what a line is, and merge conflicts.

    Raises:
        UnreadableError: such a thing is there.
    """
    if match := _forbidden(source.text):
        name = f"U+{ord(match[0]):04X}"
        message = f"character {name} is not allowed in queue.yaml: remove it"
        found.add("control-character", Report(at=Place(*match.span()), message=message))
        raise UnreadableError
    if match := _CONFLICT.search(source.text):
        end = source.line_span(match.start())[0] + len(source.line_text(_line(source, match)))
        message = "a merge conflict was left in the file: resolve it"
        found.add("merge-conflict", Report(at=Place(match.start(), end), message=message))
        raise UnreadableError


def _forbidden(text: str) -> re.Match[str] | None:
    """Find a forbidden character; the pattern for all of Unicode is made only for such a text."""
    allowed = _ALLOWED if text.isascii() else _ALLOWED + _ALLOWED_WIDE
    return re.search(f"[^{allowed}]", text)


def _line(source: Source, match: re.Match[str]) -> int:
    return source.position(match.start())[0]


def template_markers(source: Source) -> list[Place]:
    """Find template markers (Jinja, ERB, shell) outside comments."""
    text = source.text
    if not _TEMPLATE.search(text):
        return []
    bare = _COMMENT.sub(lambda match: " " * len(match[0]), text)
    return [Place(*match.span()) for match in _TEMPLATE.finditer(bare)]


def template_report(source: Source, markers: list[Place]) -> Report:
    """Say once that a file is a template."""
    marker = source.text[markers[0].start : markers[0].end]
    others = len(markers) - 1
    more = f" (and {others} more)" if others else ""
    message = f"template marker `{marker}`{more}: render the template before the file is used"
    return Report(at=markers[0], message=message)


BOM_FIX = Fix(title="remove the byte-order mark", safe=True, drop_bom=True)
"""What mends `bom`."""
