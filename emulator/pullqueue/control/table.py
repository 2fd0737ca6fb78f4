"""All operations of the control routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pullqueue.control.history_table import RECORDS
from pullqueue.control.operations import Operation
from pullqueue.control.queues_table import QUEUES
from pullqueue.control.service_table import SERVICE

OPERATIONS: Final[Mapping[str, Operation]] = {
    operation.id: operation for operation in (*SERVICE, *QUEUES, *RECORDS)
}
"""Every operation, by id."""
