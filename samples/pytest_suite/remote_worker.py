"""The same work outside App Engine, over REST."""

from __future__ import annotations

import base64

import requests

GOOGLE = "https://www.googleapis.com"
TASKS = "/taskqueue/v1beta2/projects/s~shop/taskqueues/receipts/tasks"


class RemoteWorker:
    """Leases tasks and prints receipts."""

    def __init__(self, token: str, *, root: str = GOOGLE) -> None:
        """Use an access token; `root` is the server, by default Google's."""
        self.printed: list[bytes] = []
        self._url = root + TASKS
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {token}"

    def work(self) -> None:
        """Do one batch."""
        lease = {"leaseSecs": "60", "numTasks": "10"}
        answer = self._session.post(f"{self._url}/lease", params=lease, timeout=10)
        answer.raise_for_status()
        for task in answer.json().get("items", ()):
            self.printed.append(base64.urlsafe_b64decode(task["payloadBase64"]))
            self._session.delete(f"{self._url}/{task['id']}", timeout=10).raise_for_status()
