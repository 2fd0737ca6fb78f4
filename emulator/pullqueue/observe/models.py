"""What is recorded: requests, actions of operators, failures and clients."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import field

from pullqueue.engine.events import Interface
from pullqueue.structs import Bytes, Count, Model, Time, about

_ENTRY_BYTES = 700
"""Size of a request without its texts (measured)."""
NOTHING: Final = Bytes.of(b"")
"""No bytes."""


class Request(Model, kw_only=True):
    """One request to an API and its response, or one call of Google's SDK."""

    number: Count = 0
    time: Time = ""
    interface: Annotated[
        Interface, about("Interface of the request; push: a task that this server has sent.")
    ] = Interface.REST
    method: Annotated[
        str, about("Method, such as `tasks.lease` or `taskqueue.BulkAdd`; empty if none.")
    ] = ""
    queue: Annotated[str, about("Name of the queue; empty if the request has none.")] = ""
    tasks: Annotated[
        list[str], about("Names of the first 20 tasks of the queue that were concerned.")
    ] = field(default_factory=list)
    task_count: Annotated[
        Count, about("Number of tasks added or refused, leased, changed, deleted or read.")
    ] = 0
    verb: Annotated[str, about("HTTP method; CALL for a call of the SDK in process.")]
    path: str
    query: str = ""
    client: Annotated[
        str,
        about(
            "Address of the client; of the app, for a push task, or that a fault "
            "answered the attempt."
        ),
    ] = ""
    agent: Annotated[str, about("User-Agent of the client; empty if unknown.")] = ""
    caller: Annotated[
        str | None, about("E-mail address of the token's owner, if tokens are required.")
    ] = None
    lease_tags: Annotated[
        list[str | None], about("Tags that leases asked for; null: any. None of other requests.")
    ] = field(default_factory=list)
    rate_limited: Annotated[
        bool, about("Whether a lease got no tasks because of the lease rate.")
    ] = False
    fault: Annotated[Count | None, about("Number of the fault that triggered on it.")] = None
    failure: Annotated[
        Count | None, about("Number of the failure in `/activity` that it is part of.")
    ] = None
    times: Annotated[
        Count,
        about(
            "How many attempts got no response for the same reason, one after the "
            "other; 1 of other requests. The last one is shown."
        ),
    ] = 1
    first: Annotated[Time | None, about("Time of the first of several.")] = None
    status: Annotated[
        Count, about("HTTP status, or the status of a call's result; 0 if there was no response.")
    ]
    reason: Annotated[
        str,
        about(
            "Why it failed: the message of the response, or its first line; empty if "
            "it succeeded, or the response does not say. "
            "Also that a lease got no tasks because of the lease rate."
        ),
    ] = ""
    milliseconds: float
    headers: Annotated[
        list[str], about("Headers of an attempt to send a push task; none of other requests.")
    ] = field(default_factory=list)
    body: Annotated[Bytes, about("First 4 KiB of the body, decompressed.")] = NOTHING
    response: Annotated[Bytes, about("First 4 KiB of the response, before compression.")] = NOTHING

    @property
    def memory(self) -> int:
        """How many bytes of memory it takes, approximately."""
        texts = [*self.tasks, *self.headers, *filter(None, self.lease_tags)]
        entries = 60 * len(texts)
        own = (self.method, self.queue, self.path, self.query, self.agent, self.caller or "")
        # As bytes, and as text.
        bodies = 2 * (len(self.body.data) + len(self.response.data))
        return _ENTRY_BYTES + sum(map(len, (*texts, *own, self.reason))) + entries + bodies


class Action(Model):
    """What an operator did."""

    time: Annotated[Time, about("Time by the emulator's clock.")]
    text: Annotated[str, about("What happened, such as `paused queue mail`.")]
    interface: Interface
    client: Annotated[str, about("User-Agent of the client; empty if unknown.")]


class Failure(Model):
    """Requests that failed in the same way, from the first to the last; or exhausted tasks."""

    first: Annotated[
        Time, about("Time of the first, by the emulator's clock; of exhausted tasks its minute.")
    ]
    last: Annotated[Time, about("The same of the last.")]
    count: Annotated[Count, about("Requests that failed, or tasks exhausted.")]
    queue: Annotated[str, about("Queue of what failed; empty if there is none.")]
    number: Annotated[
        Count | None, about("The `failure` of its requests; null of exhausted tasks.")
    ] = None
    recorded: Annotated[
        Count, about("How many of these requests are recorded still, or tasks are exhausted.")
    ] = 0
    text: Annotated[str, about("What failed, how often and why.")] = ""
    interface: Annotated[Interface | None, about("Null of exhausted tasks.")] = None
    client: Annotated[
        str, about("The client; empty if it is unknown, or if there are several.")
    ] = ""
    status: Annotated[
        Count | None, about("Status of the requests, 0: no response; null: tasks were exhausted.")
    ] = None


class Worker(Model):
    """A client, what it did last, and its leases."""

    client: Annotated[
        str,
        about(
            "E-mail address of its credentials, or its User-Agent; under `pullqueue "
            "exec` program and process id. `not recorded`: of leases that are too old to be "
            "recorded, or came with a snapshot."
        ),
    ]
    address: Annotated[str, about("Address of its last call; empty if unknown.")] = ""
    interfaces: list[Interface] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)
    calls: Count = 0
    failed: Annotated[Count, about("Calls that were refused or failed.")] = 0
    last: Annotated[Time | None, about("Time of its last call; null if not known.")] = None
    last_method: str = ""
    leased: Annotated[Count, about("Tasks that it leased, or renewed, last.")] = 0
    expired: Annotated[Count, about("Tasks that are available because its lease has expired.")] = 0
    silent: Annotated[
        bool,
        about(
            "Whether it has not called since the last of these leases expired: it is dead, or "
            "works for longer than its leases."
        ),
    ] = False
    longest_seconds: Annotated[
        float | None, about("How long ago it leased, or renewed, the first of those tasks.")
    ] = None
    until: Annotated[Time | None, about("When the last of its leases ends; null if not known.")] = (
        None
    )


def is_failure(status: int) -> bool:
    """Return whether a request with a status has failed, or got no response."""
    return not 200 <= status < 400
