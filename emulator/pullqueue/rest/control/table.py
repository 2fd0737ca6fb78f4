"""All operations of the control routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pullqueue.rest.control.operations import Operation
from pullqueue.rest.control.queues_table import QUEUES
from pullqueue.rest.control.records_table import RECORDS
from pullqueue.rest.control.service_table import SERVICE

OPERATIONS: Final[Mapping[str, Operation]] = {
    operation.id: operation for operation in (*SERVICE, *QUEUES, *RECORDS)
}
"""Every operation, by id."""
