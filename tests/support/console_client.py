"""The console of a server, used without a browser."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import html5lib
from werkzeug.test import Client, TestResponse

from pullqueue.runtime.state import ServerState
from pullqueue.server.app import create_app


class ConsoleClient:
    """Gets pages and sends forms; paths are those below `/console`."""

    def __init__(self, state: ServerState) -> None:
        self.state, self.emulator = state, state.emulator
        self.http = Client(create_app(state.emulator, state=state))

    def get(self, path: str) -> TestResponse:
        """Return the response to the request for a page."""
        return self.http.get(f"/console{path}")

    def page(self, path: str) -> str:
        """Return the HTML of a page, with its entities replaced."""
        return unescape(self.get(path).text)

    def text(self, path: str) -> str:
        """Return the words of a page, without its elements."""
        return " ".join(re.sub("<[^>]+>", " ", self.page(path)).split())

    def follow(self, path: str, *links: str) -> str:
        """Return where links lead, each of which has an id on the page before."""
        for link in links:
            [path] = re.findall(rf'<a id="{link}"[^>]* href="/console([^"]*)"', self.page(path))
        return path

    def press(self, path: str, button: str) -> str:
        """Press the button with an id on a page and return the page that follows."""
        tree = html5lib.parse(self.get(path).text, namespaceHTMLElements=False)
        [(form, pressed)] = [
            (form, each)
            for form in tree.iter("form")
            for each in form.iter("button")
            if each.get("id") == button
        ]
        fields = [*form.iter("input"), pressed]
        sent = {str(each.get("name")): each.get("value") for each in fields}
        return self.send(str(form.get("action")).removeprefix("/console"), **sent)

    def send(self, path: str, **fields: Any) -> str:
        """Send a form and return the page that follows."""
        form = {"pullqueue_token": self.state.token, **fields}
        sent = self.http.post(f"/console{path}", data=form, headers={"Origin": "http://localhost"})
        assert sent.status_code == 303, sent.text
        return self.page(sent.headers["Location"].removeprefix("/console"))
