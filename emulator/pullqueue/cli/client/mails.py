"""`pullqueue mails`: what apps have sent by the mail service of a running server."""

from __future__ import annotations

import click

from pullqueue.cli._output import Table, note, show, when
from pullqueue.cli.client import Client
from pullqueue.cli.client._options import number_argument, server_options
from pullqueue.cli.client.connection import Json

_HEAD = ("NUMBER", "TIME (UTC)", "FROM", "TO", "SUBJECT", "FILES")
_ADMINISTRATORS = "administrators"


@click.command
@number_argument("mail")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, help="Maximum number of mails.")
@server_options
def mails(*, number: str | None, limit: int, client: Client) -> None:
    """List the latest mails that apps have sent, or show one.

    The server keeps them, and delivers none. The latest is listed first. With a NUMBER, one is
    shown with its text and HTML.

    TO has those in copy, too. FILES is the number of attachments, whose contents are not kept.
    """
    if number is not None:
        _show_one(client.get(f"/mails/{number}"))
        return
    answer = client.get("/mails", limit=limit)
    rows = map(_row, answer["mails"])
    show(answer, Table(_HEAD, rows, "no mails", cut=["FROM", "TO", "SUBJECT"]))
    if len(answer["mails"]) == limit:
        note(f"these are the latest {limit}: set --limit")


def _row(mail: Json) -> list[object]:
    return [
        mail["number"],
        when(mail["time"]),
        mail["sender"],
        ", ".join([*mail["to"], *mail["cc"], *mail["bcc"]]) or _ADMINISTRATORS,
        mail["subject"],
        len(mail["attachments"]) or "",
    ]


def _show_one(answer: Json) -> None:
    mail = answer["mail"]
    headers = {
        "From": mail["sender"],
        "To": ", ".join(mail["to"]) or _ADMINISTRATORS,
        "Cc": ", ".join(mail["cc"]),
        "Bcc": ", ".join(mail["bcc"]),
        "Reply-To": mail["reply_to"],
        "Subject": mail["subject"],
        "Date": mail["time"],
    }
    lines = [f"{name}: {value}" for name, value in headers.items() if value]
    lines += [f"Attachment: {each['name']}, {each['bytes']} bytes" for each in mail["attachments"]]
    for part in ("text", "html"):
        if mail[part] is not None:
            lines += ["", f"{part}:", *mail[part].split("\n")]
    show(answer, *lines)
