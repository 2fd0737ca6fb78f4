"""The mails that a server keeps: how many, and their pages in the console."""

from __future__ import annotations

from console_client import ConsoleClient

from pullqueue import Emulator, ManualClock
from pullqueue.limits import MIB
from pullqueue.observe.mail_log import Attachment, Mail, MailLog
from pullqueue.runtime.state import ServerState
from pullqueue.text import format_size


def test_the_oldest_mails_are_dropped() -> None:
    """Where there are too many, or where their bodies are too long together."""
    mails = MailLog()
    for number in range(1002):
        mails.add(Mail(sender="a", to=["b"], subject=str(number)), "")
    assert [mail.subject for mail in (mails.latest()[0], mails.latest()[-1])] == ["1001", "2"]

    for _ in range(2):
        mails.add(Mail(sender="a", to=["b"], subject="long", text="1" * 9 * MIB), "")
    assert [(mail.number, mail.subject) for mail in mails.latest()] == [(1004, "long")]
    long = "1" * 6 * MIB
    mails.add(
        Mail(sender="a", to=[long], subject=long, attachments=[Attachment(name=long, bytes=0)]), ""
    )
    assert [mail.number for mail in mails.latest()] == []
    mails.clear()
    mails.add(Mail(sender="a", to=["b"], subject="new", html="1" * 15 * MIB), "")
    assert [mail.number for mail in mails.latest()] == [1006]


def test_the_console_shows_mails() -> None:
    """Their HTML as text, and no link to the page before the first."""
    state = ServerState(Emulator.from_text("queue: []", clock=ManualClock()))
    console = ConsoleClient(state)
    assert 'id="to-mails"' not in console.page("/clock")
    assert "No mails." in console.page("/mails")
    mail = Mail(
        sender="shop@example.com", to=[], cc=["c@example.com"], subject="<b>Order", html="<p>Hé",
        attachments=[Attachment(name="a.pdf", bytes=2048)],
    )  # fmt: skip
    state.mails.add(mail, "2026-01-01T00:00:00+00:00")

    listed = console.get("/mails").text
    assert 'id="to-mails"' in listed
    assert "&lt;b&gt;Order" in listed
    assert "c@example.com" in listed
    shown = console.get("/mails/1").text
    assert "administrators" in shown
    assert "&lt;p&gt;Hé" in shown
    assert "a.pdf" in shown
    assert format_size(2048) in shown
