"""A worker outside App Engine: leases tasks over REST, extends its leases while it works, deletes.

It follows Google's documentation of the Task Queue API, with google-auth.
To try it, in this folder:

    pullqueue serve --port-file port.txt --auth acl queue.yaml &
    pullqueue wait --port-file port.txt
    pullqueue credentials worker@example.com --output key.json
    python worker.py --root http://127.0.0.1:8124 --key key.json add "to be or not to be"
    python worker.py --root http://127.0.0.1:8124 --key key.json work

Without --root it uses the address at which Google served the API.
"""

from __future__ import annotations

import argparse
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Iterator
from typing import Any

from google.auth.transport.requests import AuthorizedSession
from google.oauth2 import service_account

SCOPES = ["https://www.googleapis.com/auth/taskqueue"]
QUEUE = "words"
LEASE_SECONDS = 60
TASKS_AT_A_TIME = 10


class WordQueue:
    """The queue, as the documentation describes its calls."""

    def __init__(self, session: AuthorizedSession, root: str, project: str) -> None:
        self._session = session
        self._tasks = f"{root}/taskqueue/v1beta2/projects/{project}/taskqueues/{QUEUE}/tasks"

    def insert(self, text: str) -> str:
        """Insert a task and return its id."""
        payload = urlsafe_b64encode(text.encode()).decode()
        return str(self._call("POST", body={"queueName": QUEUE, "payloadBase64": payload})["id"])

    def lease(self) -> list[dict[str, Any]]:
        """Lease the next tasks, if there are any."""
        parameters = {"numTasks": TASKS_AT_A_TIME, "leaseSecs": LEASE_SECONDS}
        return list(self._call("POST", "/lease", parameters).get("items", []))

    def extend(self, task: dict[str, Any]) -> dict[str, Any]:
        """Extend the lease of a task; the response contains its new end, for the next call."""
        body = {**task, "queueName": QUEUE}
        return self._call("POST", f"/{task['id']}", {"newLeaseSeconds": LEASE_SECONDS}, body)

    def release(self, task: dict[str, Any]) -> None:
        """Release a task for other workers."""
        self._call("PATCH", f"/{task['id']}", {"newLeaseSeconds": 0}, {"queueName": QUEUE})

    def delete(self, task: dict[str, Any]) -> None:
        """Delete a finished task."""
        self._call("DELETE", f"/{task['id']}")

    def _call(
        self,
        verb: str,
        path: str = "",
        parameters: dict[str, int] | None = None,
        body: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        response = self._session.request(  # type: ignore[no-untyped-call]
            verb, self._tasks + path, params=parameters, json=body, timeout=30
        )
        response.raise_for_status()
        return dict(response.json()) if response.content else {}


def work(queue: WordQueue) -> Iterator[str]:
    """Count the words of each task until no task is left."""
    while tasks := queue.lease():
        for task in tasks:
            # The tasks before this one may have taken long.
            extended = queue.extend(task)
            text = urlsafe_b64decode(extended["payloadBase64"])
            try:
                words = Counter(text.decode().split())
            except UnicodeDecodeError:
                yield f"cannot read {extended['id']}, time {extended['retry_count']}"
                queue.release(extended)
                continue
            queue.delete(extended)
            yield json.dumps(words, sort_keys=True)


def main() -> None:
    """Add a task, or work."""
    parser = argparse.ArgumentParser(description="Counts words that come from a pull queue.")
    parser.add_argument("--root", default="https://www.googleapis.com")
    parser.add_argument("--project", default="s~my-app")
    parser.add_argument("--key", required=True, help="a service account's key file")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("add").add_argument("text")
    commands.add_parser("work")
    arguments = parser.parse_args()

    credentials = service_account.Credentials.from_service_account_file(  # type: ignore[no-untyped-call]
        arguments.key, scopes=SCOPES
    )
    with AuthorizedSession(credentials) as session:  # type: ignore[no-untyped-call]
        queue = WordQueue(session, arguments.root, arguments.project)
        if arguments.command == "add":
            print(queue.insert(arguments.text))
            return
        for line in work(queue):
            print(line)


if __name__ == "__main__":
    main()
