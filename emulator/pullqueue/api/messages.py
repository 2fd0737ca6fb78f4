"""The texts of the real service, and of Google's JSON front end, which clients may compare.

The API's own error bodies were never published. Each text says where it is known from: *client*, a
client written against production looks for it; *imitation*, another server wrote it down from
production; *front end*, Google's JSON front end answers so for every API of that age.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pullqueue import errors

LEASE_EXPIRED = "The task lease has expired."
"""Update and patch, whatever is wrong with the lease (two imitations agree)."""
TASK_NAME_INVALID = "The task name is invalid."
"""Deletion of a task that is not there (a client looks for the last five words)."""
NAME_TAKEN = "Task name already taken: {name}"
"""Insertion of a name that exists or existed (imitation)."""
QUEUE_NOT_FOUND = "Queue not found."
"""An unknown queue or project (imitation)."""
INVALID_PAYLOAD = "Invalid payloadBase64 value."
"""Payload in another alphabet than URL-safe base64 (imitation)."""
PAYLOAD_REQUIRED = "payloadBase64 must be specified."
"""Insertion without a payload (imitation)."""
BODY_REQUIRED = "The request body must contain a task."
"""No body, or none that is JSON (imitation)."""
ID_REQUIRED = "id is required."
"""Update without an id (imitation)."""
LEASE_TIMESTAMP_REQUIRED = "leaseTimestamp is required."
"""Update without the lease that is meant (imitation)."""
QUEUE_NAME_INVALID = "queueName is invalid."
"""Patch without a queueName (imitation)."""
QUEUE_NAME_FIXED = "queueName cannot be updated."
"""Patch with another queue's name (imitation)."""
TASK_ID_FIXED = "Task ID cannot be updated."
"""Patch with another task's name (imitation)."""
REQUIRED_PARAMETER = "Required parameter: {name}"
"""A parameter is missing (front end)."""
INVALID_INTEGER = "Invalid integer value: '{value}'."
"""A parameter is no 32-bit number (front end)."""
INVALID_BOOLEAN = "Invalid boolean value: '{value}'."
"""A parameter is neither true nor false (front end)."""
OUT_OF_RANGE = "Invalid value '{value}'. Values must be within the range: [{minimum}, {maximum}]"
"""A parameter is too small or too large (front end)."""
INVALID_ENUM = "Invalid string value: '{value}'. Allowed values: [{allowed}]"
"""A parameter has only certain values (front end)."""
PARSE_ERROR = "Parse Error"
"""A body that is not JSON (front end)."""
NOT_FOUND = "Not Found"
"""No such route (front end)."""
METHOD_NOT_ALLOWED = "Method Not Allowed"
"""A route that does not know the verb (front end)."""
INTERNAL_ERROR = "Internal Error"
"""A fault of the server's own (front end)."""
BODY_TOO_LARGE = "Request payload size exceeds the limit: {limit} bytes."
"""A body that is refused unread (front end)."""
INVALID_SELECTION = "Invalid field selection {part}"
"""`fields` names what is not there (reference)."""
BAD_BATCH = "Failed to parse batch request."
"""A batch, or a part of one, that is malformed (front end)."""
LOGIN_REQUIRED = "Login Required"
"""No token (front end)."""
INVALID_CREDENTIALS = "Invalid Credentials"
"""A token that is unknown or too old (front end)."""
INSUFFICIENT_PERMISSION = "Insufficient Permission"
"""A token without any scope of this API (front end)."""
FORBIDDEN = "Forbidden"
"""The queue's acl does not list the caller (front end)."""

TEXT_OF: Mapping[type[errors.PullQueueError], str] = MappingProxyType(
    {
        errors.TaskLeaseExpiredError: LEASE_EXPIRED,
        errors.UnknownQueueError: QUEUE_NOT_FOUND,
    }
)
"""Errors of the engine whose text is known; for the others the engine's own message is sent."""
