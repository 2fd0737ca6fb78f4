"""The errors of the service: production's text as the message, and advice in the details.

A message is the text of production where that is known. What was wrong with this request, and what
to do, is then a `google.rpc.LocalizedMessage` among the details, which Google's clients print.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from pullqueue.api.encoding import Json
from pullqueue.api.errors import ApiError, localized
from pullqueue.cloudtasks import texts
from pullqueue.error_codes import find_codes
from pullqueue.errors import PullQueueError, UnknownQueueError, UnknownTaskError
from pullqueue.tasks import TombstonedTaskError

_TYPE: Final = "type.googleapis.com/google.rpc."
BAD_REQUEST: Final = f"{_TYPE}BadRequest"
"""The type of the detail that lists fields that are not valid."""
_TEXTS: Final[Mapping[type[PullQueueError], str]] = MappingProxyType(
    {
        UnknownQueueError: texts.QUEUE_NOT_FOUND,
        UnknownTaskError: texts.NOT_FOUND,
        TombstonedTaskError: texts.TASK_GONE,
    }
)
"""Production's text for an error of the engine, where it is known."""


class CloudTasksError(ApiError):
    """a call of Cloud Tasks is refused"""

    def __init__(
        self,
        message: str,
        *,
        rpc_code: str = "INVALID_ARGUMENT",
        field: str | None = None,
        advice: str | None = None,
        details: Iterable[Json] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Store what is sent.

        `field` names the part of the request that is not valid; instead, where `message` is a text
        of production, `advice` states what was wrong and what to do. `details` are production's.
        """
        super().__init__(
            message, rpc_code=rpc_code, location=field, explanation=advice, headers=headers
        )
        self.own_details = list(details)
        """Those of production."""

    @property
    def details(self) -> list[Json]:
        """The details as JSON: production's, and the advice; else the field that is not valid."""
        if self.explanation:
            return [*self.own_details, localized(self.explanation)]
        if self.location is None or self.rpc_code != "INVALID_ARGUMENT":
            return self.own_details
        violations = [{"field": self.location, "description": str(self)}]
        return [{"@type": BAD_REQUEST, "fieldViolations": violations}]


def invalid(
    message: str, *, advice: str | None = None, help_link: tuple[str, str] | None = None
) -> CloudTasksError:
    """Return an INVALID_ARGUMENT error; `help_link` is a description and a URL."""
    details = [] if help_link is None else [help_detail(help_link)]
    return CloudTasksError(message, advice=advice, details=details)


def invalid_field(field: str, problem: str) -> CloudTasksError:
    """Return an INVALID_ARGUMENT error for a field, whose message is its name and the problem."""
    return CloudTasksError(f"{field} {problem}", field=field)


def permission_denied(project: str, *, advice: str) -> CloudTasksError:
    """Return the error for a project that the caller cannot use."""
    text = texts.PERMISSION_DENIED.format(project=project)
    metadata = {
        "consumer": f"projects/{project}",
        "containerInfo": project,
        "service": "cloudtasks.googleapis.com",
    }
    info = {"@type": f"{_TYPE}ErrorInfo", "reason": "CONSUMER_INVALID", "domain": "googleapis.com"}
    details: list[Json] = [
        info | {"metadata": metadata},
        localized(text),
        help_detail(texts.CONSOLE_HELP),
    ]
    return CloudTasksError(text, rpc_code="PERMISSION_DENIED", advice=advice, details=details)


def help_detail(link: tuple[str, str]) -> Json:
    """Return a `google.rpc.Help` of a description and a URL."""
    description, url = link
    return {"@type": f"{_TYPE}Help", "links": [{"description": description, "url": url}]}


def as_service_error(error: PullQueueError) -> CloudTasksError:
    """Return an error as this service sends it."""
    if isinstance(error, CloudTasksError):
        return error
    if isinstance(error, ApiError):
        return CloudTasksError(
            str(error),
            rpc_code=error.rpc_code,
            field=error.location,
            advice=error.explanation,
            headers=error.headers,
        )
    text, code = _TEXTS.get(type(error)), find_codes(error).rpc_code
    if text is None:
        return CloudTasksError(str(error), rpc_code=code)
    return CloudTasksError(text, rpc_code=code, advice=str(error))


def envelope(error: CloudTasksError) -> Json:
    """Return the JSON of an error."""
    content: Json = {"code": error.status, "message": str(error), "status": error.rpc_code}
    if error.details:
        content["details"] = error.details
    return {"error": content}
