"""A client of bundled services on the wire, for what Google's client does not send or hides."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from urllib3 import PoolManager

from pullqueue.sdk.imports import messages, remote_api

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from google.appengine.api.memcache import memcache_service_pb2 as memcache
    from google.appengine.datastore import datastore_pb
    from google.appengine.datastore import entity_bytes_pb2 as entity_pb

__all__ = ["APP", "Client", "RefusedError", "datastore_pb", "entity_pb", "memcache", "messages"]

APP = "dev~my-app"


class RefusedError(Exception):
    """a call was refused: `code` of the service, or `rpc_code` of the call"""

    def __init__(self, response: Any) -> None:
        error = response.application_error
        failed = response.HasField("application_error")
        self.code = error.code if failed else None
        self.rpc_code = None if failed else response.rpc_error.code
        super().__init__(error.detail if failed else response.rpc_error.detail)


class Client:
    """Calls the services of a server for an app."""

    def __init__(
        self,
        url: str,
        app: str = APP,
        ticket: str = "any ticket",
        send: Callable[..., Any] | None = None,
    ) -> None:
        self.app, self._ticket = app, ticket
        self._url = f"{url}/rpc_http"
        self._send: Callable[..., Any] = send or PoolManager(retries=False).request

    def call(
        self, service: str, method: str, request: Any, response: Any, deadline: str = ""
    ) -> Any:
        wire = remote_api.Request(
            service_name=service, method=method, request_id=self._ticket,
            request=request if isinstance(request, bytes) else request.SerializeToString(),
        )  # fmt: skip
        headers = {"X-Google-RPC-Service-Deadline": deadline} if deadline else {}
        answer = self._send("POST", self._url, body=wire.SerializeToString(), headers=headers)
        result = remote_api.Response.FromString(answer.data)
        if not result.HasField("response"):
            raise RefusedError(result)
        response.ParseFromString(result.response)
        return response

    def datastore(self, method: str, request: Any, response: Any = None) -> Any:
        return self.call("datastore_v3", method, request, response or datastore_pb.CommitResponse())

    def begin(self, **fields: Any) -> Any:
        request = datastore_pb.BeginTransactionRequest(app=self.app, **fields)
        return self.datastore("BeginTransaction", request, datastore_pb.Transaction())

    def commit(self, transaction: Any) -> None:
        self.datastore("Commit", transaction)

    def key(self, name: str, kind: str = "Vote") -> Any:
        """Return the key of an entity; without a name, that of a new one."""
        key = entity_pb.Reference(app=self.app)
        element = key.path.element.add(type=kind)
        if name:
            element.name = name
        return key

    def put(self, name: str = "", count: int = 0, transaction: Any = None) -> Any:
        """Store an entity with a number and return its key."""
        return self.put_key(self.key(name), count, transaction)

    def put_key(self, key: Any, count: int = 0, transaction: Any = None) -> Any:
        """Store an entity of a key with a number and return the key."""
        request = datastore_pb.PutRequest()
        entity = request.entity.add()
        entity.key.CopyFrom(key)
        entity.entity_group.SetInParent()
        entity.property.add(name="count", multiple=False).value.int64Value = count
        if transaction is not None:
            request.transaction.CopyFrom(transaction)
        return self.datastore("Put", request, datastore_pb.PutResponse()).key[0]

    def get(self, name: str, transaction: Any = None) -> int | None:
        """Return the number of an entity; None: there is none."""
        return self.get_key(self.key(name), transaction)

    def get_key(self, key: Any, transaction: Any = None) -> int | None:
        """Return the number of an entity; None: there is none."""
        request = datastore_pb.GetRequest(key=[key])
        if transaction is not None:
            request.transaction.CopyFrom(transaction)
        (found,) = self.datastore("Get", request, datastore_pb.GetResponse()).entity
        return int(found.entity.property[0].value.int64Value) if found.HasField("entity") else None

    def delete(self, name: str) -> None:
        request = datastore_pb.DeleteRequest(key=[self.key(name)])
        self.datastore("Delete", request, datastore_pb.DeleteResponse())

    def count(self) -> int:
        query = datastore_pb.Query(app=self.app, kind="Vote", count=1000)
        return len(self.datastore("RunQuery", query, datastore_pb.QueryResult()).result)

    def add(self, transaction: Any, names: Sequence[bytes] = (b"",), queue: bytes = b"pull") -> Any:
        """Add pull tasks in a transaction, and return the names of those without one."""
        request = messages.TaskQueueBulkAddRequest()
        for name in names:
            add = request.add_request.add(
                queue_name=queue, task_name=name, eta_usec=0, mode=1, body=b""
            )
            add.transaction.CopyFrom(transaction)
        answer = messages.TaskQueueBulkAddResponse()
        self.call("taskqueue", "BulkAdd", request, answer)
        return [result.chosen_task_name.decode() for result in answer.taskresult]
