"""Errors of bundled services, as a fault makes a call raise them."""

from __future__ import annotations

import sys
from typing import Any, cast

from pullqueue.sdk import DATASTORE
from pullqueue.sdk.imports import apiproxy_errors
from pullqueue.text import quoted

_TIMEOUT = 5
"""The code of the datastore's errors; its module is imported only by apps that use it."""
_SDK = "google.appengine."
_EXAMPLE = "google.appengine.runtime.apiproxy_errors.DeadlineExceededError"


def make_service_error(service: str, source: object = None) -> Exception:
    """Return the error with which a call to a service fails, of an error or of its class.

    An error of the datastore's own classes becomes the code from which the SDK makes it, so that
    it passes through ndb as production's does. None is a timeout.

    Raises:
        TypeError: it is not an error of App Engine's SDK.
    """
    details = "injected by a fault"
    if source is None:
        if service == DATASTORE:
            return _application_error(_TIMEOUT, details)
        return cast("Exception", apiproxy_errors.DeadlineExceededError(details))
    kind = source if isinstance(source, type) else type(source)
    if not (issubclass(kind, Exception) and kind.__module__.startswith(_SDK)):
        raise TypeError(
            f"{quoted(source)} is not an error of App Engine's SDK: use one, such as {_EXAMPLE}"
        )
    code = _datastore_code(kind)
    if code is not None:
        return _application_error(code, details if source is kind else str(source))
    if source is not kind:
        return cast("Exception", source)
    if kind is apiproxy_errors.ApplicationError:
        raise TypeError("ApplicationError has a code: pass an error, ApplicationError(CODE)")
    return kind(details)


def _application_error(code: int, details: str) -> Exception:
    return cast("Exception", apiproxy_errors.ApplicationError(code, details))


def _datastore_code(kind: type[Exception]) -> int | None:
    """Return the code of a class of the datastore's errors; None: it is another."""
    rpc: Any = sys.modules.get("google.appengine.datastore.datastore_rpc")
    classes: dict[int, type[Exception]] = getattr(rpc, "_DATASTORE_EXCEPTION_CLASSES", {})
    return next((code for code, known in classes.items() if known is kind), None)
