"""Running what `deferred.defer` has added, where the app has no handler for it."""

from __future__ import annotations

import os
import warnings
from contextvars import copy_context

from pullqueue.push.request import PushRequest, PushResponse
from pullqueue.push.wsgi_sender import environ_restored
from pullqueue.sdk.imports import taskqueue as _  # noqa: F401 - or says that the SDK is missing

with warnings.catch_warnings(action="ignore"):
    from google.appengine.api import namespace_manager
    from google.appengine.ext import deferred

__all__ = ["deferred", "namespace_manager", "run_deferred"]

_NAMESPACE = "X-AppEngine-Current-Namespace"


def run_deferred(request: PushRequest) -> PushResponse:
    """Carry out a call that was deferred, as Google's handler does."""
    with environ_restored():
        return copy_context().run(_run, request)


def _run(request: PushRequest) -> PushResponse:
    for name, value in request.headers.items():
        os.environ[f"HTTP_{name.upper().replace('-', '_')}"] = value
    namespace_manager.set_namespace(request.headers.get(_NAMESPACE, ""))
    try:
        deferred.run(request.body)
    except deferred.SingularTaskFailure:
        return PushResponse(408)
    except deferred.PermanentTaskFailure as error:
        return PushResponse(200, error=error)
    except Exception as error:  # noqa: BLE001 - whatever the function raises
        return PushResponse(500, error=error)
    return PushResponse(200)
