"""App Engine's SDK, imported in this one place.

Its modules are written for older Pythons and warn of their own deprecations while they are
imported; a suite that turns warnings into errors must not fail for that.
"""

from __future__ import annotations

import warnings

from pullqueue.sdk import SdkMissingError

try:
    with warnings.catch_warnings(action="ignore"):
        from google.appengine.api import (
            api_base_pb2,
            apiproxy_rpc,
            apiproxy_stub_map,
            full_app_id,
            taskqueue,
        )
        from google.appengine.api.app_identity import app_identity
        from google.appengine.api.taskqueue import taskqueue_service_bytes_pb2 as messages
        from google.appengine.api.taskqueue import taskqueue_stub
        from google.appengine.ext.remote_api import remote_api_bytes_pb2 as remote_api
        from google.appengine.runtime import apiproxy_errors, context, request_environment
        from google.protobuf.message import DecodeError
except ModuleNotFoundError as error:
    if error.name not in ("google", "google.appengine"):
        raise
    raise SdkMissingError from error

cloudtask = getattr(taskqueue.taskqueue, "cloudtask", None)
"""The SDK's use of Cloud Tasks, since 3.1.0."""

__all__ = [
    "DecodeError",
    "api_base_pb2",
    "apiproxy_errors",
    "apiproxy_rpc",
    "apiproxy_stub_map",
    "app_identity",
    "cloudtask",
    "context",
    "full_app_id",
    "messages",
    "remote_api",
    "request_environment",
    "taskqueue",
    "taskqueue_stub",
]
