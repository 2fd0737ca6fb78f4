"""The SDK doors: `google.appengine.api.taskqueue` on an emulator, in process and over the wire.

Nothing here imports the SDK before it is used; where it is missing, `SdkMissingError` says which
extra to install.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from pullqueue.sdk.missing import SdkMissingError

if TYPE_CHECKING:
    from pullqueue.engine.emulator import Emulator
    from pullqueue.sdk.stub import PullQueueStub

__all__ = ["SdkMissingError", "install"]


def install(emulator: Emulator) -> AbstractContextManager[PullQueueStub]:
    """Let `google.appengine.api.taskqueue` use an emulator's pull queues inside a `with` block.

    The block's value is the stub, which has what suites know of Google's: `get_filtered_tasks`,
    `GetTasks`, `SetError` and others. Stubs made meanwhile, as by `testbed.init_taskqueue_stub`,
    use the same emulator. What was there before is put back in the end.

    Raises:
        SdkMissingError: App Engine's SDK is not installed.
    """
    from pullqueue.sdk import installation  # noqa: PLC0415 - imports the SDK

    return installation.install(emulator)
