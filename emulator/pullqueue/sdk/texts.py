"""Text in the SDK's messages, which hold bytes."""

from __future__ import annotations


def text_of(data: bytes | str) -> str:
    """Give a name as text.

    One that is not in UTF-8 belongs to nothing, and is looked for like any other.
    """
    return data if isinstance(data, str) else data.decode(errors="replace")
