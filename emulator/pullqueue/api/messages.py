"""The texts of the real service, and of Google's JSON front end, which clients may compare.

The API's own error bodies were never published: these are what other programs know of them.
"""

from __future__ import annotations

# Clients written against production look for these, at least for the last words.
TASK_NAME_INVALID = "The task name is invalid."

# Other servers copied these from production; on the first, two of them agree.
LEASE_EXPIRED = "The task lease has expired."
NAME_TAKEN = "Task name already taken: {name}"
QUEUE_NOT_FOUND = "Queue not found."
INVALID_PAYLOAD = "Invalid payloadBase64 value."
PAYLOAD_REQUIRED = "payloadBase64 must be specified."
BODY_REQUIRED = "The request body must contain a task."
ID_REQUIRED = "id is required."
LEASE_TIMESTAMP_REQUIRED = "leaseTimestamp is required."
QUEUE_NAME_INVALID = "queueName is invalid."
QUEUE_NAME_FIXED = "queueName cannot be updated."
TASK_ID_FIXED = "Task ID cannot be updated."

# Stated in the reference of the API.
INVALID_SELECTION = "Invalid field selection {part}"

# Google's JSON front end sends these for every API of that age.
REQUIRED_PARAMETER = "Required parameter: {name}"
INVALID_INTEGER = "Invalid integer value: '{value}'."
INVALID_BOOLEAN = "Invalid boolean value: '{value}'."
OUT_OF_RANGE = "Invalid value '{value}'. Values must be within the range: [{minimum}, {maximum}]"
INVALID_ENUM = "Invalid string value: '{value}'. Allowed values: [{allowed}]"
PARSE_ERROR = "Parse Error"
NOT_FOUND = "Not Found"
INTERNAL_ERROR = "Internal Error"
BODY_TOO_LARGE = "Request payload size exceeds the limit: {limit} bytes."
BAD_BATCH = "Failed to parse batch request."
LOGIN_REQUIRED = "Login Required"
INVALID_CREDENTIALS = "Invalid Credentials"
INSUFFICIENT_PERMISSION = "Insufficient Permission"
FORBIDDEN = "Forbidden"
