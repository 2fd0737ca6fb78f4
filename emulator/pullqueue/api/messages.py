"""The texts of the real service, and of Google's JSON front end, which clients may compare.

The API's own error bodies were never published. The source of each text: *client*, a client written
against production looks for it; *imitation*, another server copied it from production; *front end*,
Google's JSON front end sends it for every API of that age.
"""

from __future__ import annotations

from pullqueue import errors

LEASE_EXPIRED = "The task lease has expired."
"""Update and patch, whatever is wrong with the lease (two imitations agree)."""
TASK_NAME_INVALID = "The task name is invalid."
"""Deletion of a task that does not exist (a client looks for the last five words)."""
NAME_TAKEN = "Task name already taken: {name}"
"""Insertion with a name that is or was in use (imitation)."""
QUEUE_NOT_FOUND = "Queue not found."
"""An unknown queue or project (imitation)."""
INVALID_PAYLOAD = "Invalid payloadBase64 value."
"""Payload in another alphabet than URL-safe base64 (imitation)."""
PAYLOAD_REQUIRED = "payloadBase64 must be specified."
"""Insertion without a payload (imitation)."""
BODY_REQUIRED = "The request body must contain a task."
"""A body that is missing or is not a JSON object (imitation)."""
ID_REQUIRED = "id is required."
"""Update without an id (imitation)."""
LEASE_TIMESTAMP_REQUIRED = "leaseTimestamp is required."
"""Update that does not name the lease (imitation)."""
QUEUE_NAME_INVALID = "queueName is invalid."
"""Patch without a queueName (imitation)."""
QUEUE_NAME_FIXED = "queueName cannot be updated."
"""Patch with another queue's name (imitation)."""
TASK_ID_FIXED = "Task ID cannot be updated."
"""Patch with another task's name (imitation)."""
REQUIRED_PARAMETER = "Required parameter: {name}"
"""A missing parameter (front end)."""
INVALID_INTEGER = "Invalid integer value: '{value}'."
"""A parameter that is not a 32-bit number (front end)."""
INVALID_BOOLEAN = "Invalid boolean value: '{value}'."
"""A parameter that is neither true nor false (front end)."""
OUT_OF_RANGE = "Invalid value '{value}'. Values must be within the range: [{minimum}, {maximum}]"
"""A parameter that is too small or too large (front end)."""
INVALID_ENUM = "Invalid string value: '{value}'. Allowed values: [{allowed}]"
"""A parameter that has certain values only (front end)."""
PARSE_ERROR = "Parse Error"
"""A body that is not JSON (front end)."""
NOT_FOUND = "Not Found"
"""An unknown route (front end)."""
METHOD_NOT_ALLOWED = "Method Not Allowed"
"""A route that does not support the verb (front end)."""
INTERNAL_ERROR = "Internal Error"
"""An error in the server itself (front end)."""
BODY_TOO_LARGE = "Request payload size exceeds the limit: {limit} bytes."
"""A body over the limit (front end)."""
INVALID_SELECTION = "Invalid field selection {part}"
"""`fields` names a field that does not exist (reference)."""
BAD_BATCH = "Failed to parse batch request."
"""A batch, or a part of one, that is malformed (front end)."""
LOGIN_REQUIRED = "Login Required"
"""No token (front end)."""
INVALID_CREDENTIALS = "Invalid Credentials"
"""A token that is unknown or has expired (front end)."""
INSUFFICIENT_PERMISSION = "Insufficient Permission"
"""A token without any scope of this API (front end)."""
FORBIDDEN = "Forbidden"
"""The queue's acl does not list the caller (front end)."""


def message_of(error: errors.PullQueueError) -> str | None:
    """Return the real service's text for an error of the engine, where it is known."""
    if isinstance(error, errors.TaskLeaseExpiredError):
        return LEASE_EXPIRED
    if isinstance(error, errors.UnknownQueueError):
        return QUEUE_NOT_FOUND
    return None
