"""Operations on the mails that apps have sent."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, convert

from pullqueue.api.errors import ApiError
from pullqueue.observe.mail_log import KEPT, ListedMail, Mail
from pullqueue.resources.operations import operation
from pullqueue.runtime.state import ServerState
from pullqueue.structs import Model
from pullqueue.text import quoted


class MailQuery(Model):
    """Which mails are listed."""

    limit: Annotated[int, Meta(ge=1, le=KEPT)] = 100


@operation("GET", "/mails", key="mails")
def list_mails(state: ServerState, query: MailQuery) -> list[ListedMail]:
    """List the mails that apps have sent, the latest first; they are kept, and not delivered."""
    return convert(state.mails[: query.limit], list[ListedMail], from_attributes=True)


@operation("GET", "/mails/{number}", key="mail")
def get_mail(state: ServerState, number: str) -> Mail:
    """Return a mail with its bodies."""
    for mail in state.mails:
        if str(mail.number) == number:
            return mail
    raise ApiError(f"mail {quoted(number)} is not kept: only the latest are", status=404)
