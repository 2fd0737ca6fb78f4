"""What the engine's errors are called in the SDK."""

from __future__ import annotations

from pullqueue.error_codes import codes_of
from pullqueue.errors import DeadlineExceededError, OverQuotaError, PullQueueError
from pullqueue.sdk.imports import apiproxy_errors


def sdk_error(error: PullQueueError) -> Exception:
    """Give the SDK's exception for an error; of most the client makes a `taskqueue.Error`.

    Deadline and quota are errors of the call, not of the service: App Engine raises them below
    the service, and the client lets them pass as they are.
    """
    sdk: Exception
    if isinstance(error, DeadlineExceededError):
        sdk = apiproxy_errors.DeadlineExceededError(str(error))
    elif isinstance(error, OverQuotaError):
        sdk = apiproxy_errors.OverQuotaError(str(error))
    else:
        sdk = application_error(error)
    return sdk


def application_error(error: PullQueueError) -> Exception:
    """Give an error as one of the task queue service, whatever it is."""
    sdk: Exception = apiproxy_errors.ApplicationError(codes_of(error).sdk_code, str(error))
    return sdk
