"""The SDK doors: `google.appengine.api.taskqueue` on an emulator, in process and over the wire.

Nothing here imports the SDK before it is used; where it is missing, `SdkMissingError` says which
extra to install.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from pullqueue.sdk.missing import SdkMissingError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

    from pullqueue.engine.emulator import Emulator
    from pullqueue.sdk.stub import PullQueueStub

__all__ = ["SdkMissingError", "connect", "install", "local_request"]


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


def connect(address: str | None = None) -> None:
    """Let the SDK in this process use the queues of a server, from anywhere: a loop, a thread.

    `address` is the server's `host:port`; without it PULLQUEUE_EMULATOR_HOST counts, or else
    API_HOST and API_PORT. A process started by `pullqueue exec` needs no such call.

    Raises:
        ServerAddressError: that is no address.
        SdkMissingError: App Engine's SDK is not installed.
    """
    from pullqueue.sdk import local  # noqa: PLC0415 - imports the SDK

    local.connect(address)


def local_request(app: WSGIApplication) -> WSGIApplication:
    """Wrap a WSGI app so that its requests may use bundled services, as on App Engine.

    It has the outermost place: `app.wsgi_app = local_request(wrap_wsgi_app(app.wsgi_app))`. The
    server is that of `connect`, whose effect this has as well. An app started by `pullqueue exec`
    needs no wrapper.

    Raises:
        SdkMissingError: App Engine's SDK is not installed.
    """
    from pullqueue.sdk import local  # noqa: PLC0415 - imports the SDK

    return local.local_request(app)
