"""Google's own datastore stub, served to other processes as App Engine's API server serves it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from pullqueue.sdk.imports import api_base_pb2, apiproxy_errors, remote_api

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from google.appengine.api import datastore_file_stub
    from google.appengine.datastore import datastore_pb

_MESSAGES = {
    "BeginTransaction": (datastore_pb.BeginTransactionRequest, datastore_pb.Transaction),
    "Commit": (datastore_pb.Transaction, datastore_pb.CommitResponse),
    "Rollback": (datastore_pb.Transaction, api_base_pb2.VoidProto),
    "Put": (datastore_pb.PutRequest, datastore_pb.PutResponse),
    "Get": (datastore_pb.GetRequest, datastore_pb.GetResponse),
}


@contextmanager
def serving_datastore(app_id: str) -> Iterator[str]:
    """Serve the datastore of an app inside the block, and yield the server's `host:port`."""
    stub = datastore_file_stub.DatastoreFileStub(app_id, None, use_atexit=False)

    def answer(data: bytes) -> bytes:
        request = remote_api.Request.FromString(data)
        if request.service_name != "datastore_v3":
            failure = remote_api.RpcError(code=remote_api.RpcError.CALL_NOT_FOUND)
            return bytes(remote_api.Response(rpc_error=failure).SerializeToString())
        kind, result_kind = _MESSAGES[request.method]
        result = result_kind()
        try:
            call = kind.FromString(request.request)
            stub.MakeSyncCall(request.service_name, request.method, call, result)
        except apiproxy_errors.ApplicationError as error:
            refusal = remote_api.ApplicationError(
                code=error.application_error, detail=error.error_detail
            )
            return bytes(remote_api.Response(application_error=refusal).SerializeToString())
        return bytes(remote_api.Response(response=result.SerializeToString()).SerializeToString())

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = answer(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
