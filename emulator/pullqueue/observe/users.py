"""Who uses the app: the user of `exec --user`, and those that have signed in on the login page."""

from __future__ import annotations

from hashlib import md5
from typing import Annotated

from pullqueue.structs import Model, about
from pullqueue.text import is_email, quoted

_ADMIN = "admin"
_ID_DIGITS = 20


class User(Model):
    """A user of the app."""

    email: str
    admin: Annotated[bool, about("Whether `is_current_user_admin` returns true.")]
    default: Annotated[bool, about("True of the user of `exec --user`, who need not sign in.")] = (
        False
    )

    @property
    def cookie(self) -> str:
        """The value of the cookie `dev_appserver_login`: e-mail address, True or False, user id.

        The id is the one of dev_appserver, so that entities of a user stay those of the user.
        """
        digest = md5(self.email.lower().encode(), usedforsecurity=False).digest()
        digits = "".join(f"{byte:02}" for byte in digest)[:_ID_DIGITS]
        return f"{self.email}:{self.admin}:1{digits}"

    def __str__(self) -> str:
        """Return the address, and whether the user is an administrator."""
        return f"{self.email} (administrator)" if self.admin else self.email


def parse_user(text: str) -> User:
    """Return the user that EMAIL or EMAIL:admin names; raise a ValueError if that is not valid."""
    email, colon, role = text.partition(":")
    if colon and role != _ADMIN:
        raise ValueError(f"role {quoted(role)} does not exist: use EMAIL or EMAIL:{_ADMIN}")
    return User(email=check_email(email), admin=bool(colon), default=True)


def check_email(text: str) -> str:
    """Return an e-mail address; raise a ValueError if it is not valid."""
    if not is_email(text):
        raise ValueError(f"{quoted(text)} is not an e-mail address: use one such as me@example.com")
    return text
