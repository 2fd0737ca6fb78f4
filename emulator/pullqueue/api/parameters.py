"""The parameters of a request: from the query, and from a body that is a form.

Every function here raises ApiError for a parameter that is not valid.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl

from pullqueue.api import messages
from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError

_INTEGER = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_INT32 = 2**31
_TRUE: Final = ("true", "True", "TRUE")
_FALSE: Final = ("false", "False", "FALSE")
_MAX_PARAMETERS = 1_000


class Parameters:
    """The parameters of one request, by name. Where one is given twice, the first counts."""

    def __init__(self, *encoded: bytes) -> None:
        """Parse URL-encoded parameters: the query first, then a form."""
        self._values: dict[str, str] = {}
        for text in filter(None, encoded):
            for name, value in _parse(text):
                self._values.setdefault(name, value)

    @classmethod
    def of_json(cls, values: Json) -> Parameters:
        """Return the texts of a JSON object as parameters."""
        parameters = cls()
        parameters._values = {name: text for name, text in values.items() if isinstance(text, str)}
        return parameters

    def text(self, name: str) -> str | None:
        """Return a parameter as it is, or None."""
        return self._values.get(name)

    def integer(self, name: str, *, minimum: int, maximum: int, alias: str = "") -> int:
        """Return a required parameter as a whole number; `alias` is another name for it."""
        if name in self._values and alias in self._values:
            message = f"{name} and {alias} are both set, and mean the same: leave out {alias}"
            raise ApiError.parameter(message, alias)
        value = self._values.get(name, self._values.get(alias))
        if value is None:
            message = messages.REQUIRED_PARAMETER.format(name=name)
            raise ApiError.parameter(message, name, reason="required")
        number = int(value) if _INTEGER.fullmatch(value) else _INT32
        if not -_INT32 <= number < _INT32:
            raise ApiError.parameter(messages.INVALID_INTEGER.format(value=value), name)
        if not minimum <= number <= maximum:
            message = messages.OUT_OF_RANGE.format(value=value, minimum=minimum, maximum=maximum)
            raise ApiError.parameter(message, name)
        return number

    def boolean(self, name: str, *, default: bool = False) -> bool:
        """Return a parameter that is true or false."""
        value = self._values.get(name, str(default))
        if value not in _TRUE + _FALSE:
            raise ApiError.parameter(messages.INVALID_BOOLEAN.format(value=value), name)
        return value in _TRUE

    def check_format(self) -> None:
        """Refuse every response format but plain JSON, that is `alt` and `callback`."""
        alt = self._values.get("alt", "json")
        if alt != "json":
            message = messages.INVALID_ENUM.format(value=alt, allowed="json")
            raise ApiError.parameter(message, "alt")
        if "callback" in self._values:
            message = "callback is not supported: responses are JSON, never a script; leave it out"
            raise ApiError.parameter(message, "callback")


def _parse(encoded: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            encoded.decode(),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MAX_PARAMETERS,
        )
    except UnicodeDecodeError:
        message = "the parameters are not UTF-8: encode them in UTF-8"
        raise ApiError(message, reason="badRequest") from None
    except ValueError:
        message = f"more than {_MAX_PARAMETERS} parameters: leave out what the method does not know"
        raise ApiError(message, reason="badRequest") from None
