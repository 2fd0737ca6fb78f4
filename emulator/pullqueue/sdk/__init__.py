"""The SDK's interface: `google.appengine.api.taskqueue` on an emulator, in process or over HTTP.

Nothing here imports the SDK before it is used; where it is missing, `SdkMissingError` says which
extra to install.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pullqueue.address import ADDRESS_VARIABLE, DEFAULT_PORT, is_host_and_port
from pullqueue.errors import PullQueueError, ServerAddressError
from pullqueue.extras import install_command
from pullqueue.sdk.startup import sitecustomize

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    from pullqueue.engine.emulator import Emulator
    from pullqueue.sdk.stub import EmulatorStub

__all__ = ["SdkInUseError", "SdkMissingError", "connect", "install", "local_request"]


DATASTORE = "datastore_v3"
"""The name of the datastore's service."""
CALL = "_Dynamic_"
"""The beginning of the names of the methods by which a stub of Google answers calls."""


class SdkMissingError(PullQueueError, ImportError):
    """App Engine's SDK is not installed"""

    def __init__(self) -> None:
        """Say how to install it."""
        super().__init__(f"{type(self).__doc__}: {install_command('appengine')}")


class SdkInUseError(PullQueueError):
    """App Engine's SDK uses another emulator already"""

    def __init__(self, emulator: Emulator) -> None:
        """Name the emulator that it uses."""
        super().__init__(
            f"App Engine's SDK uses {emulator!r} already: use that emulator here too, or end its "
            "installation (`pullqueue_sdk`, `emulation(sdk=True)` or `install()`) first"
        )
        self.emulator = emulator


def is_installed() -> bool:
    """Return whether App Engine's SDK is installed, without importing it."""
    try:
        return find_spec("google.appengine") is not None
    except ModuleNotFoundError:  # there is no package `google` at all
        return False


def install(
    emulator: Emulator, *, services: Iterable[str] = ()
) -> AbstractContextManager[EmulatorStub]:
    """Make `google.appengine.api.taskqueue` use an emulator's queues inside a `with` block.

    The `as` target is the stub, which has the methods of Google's stub: `get_filtered_tasks`,
    `GetTasks`, `SetError` and others. Stubs made meanwhile, as by `testbed.init_taskqueue_stub`,
    use the same emulator. The previous stub is restored at the end. `services` are others that get
    Google's stubs, each of them empty, such as `("datastore_v3", "memcache")`.

    Raises:
        ValueError: there is no such service.
        SdkInUseError: the block is inside that of another emulator.
        SdkMissingError: App Engine's SDK is not installed.
    """
    from pullqueue.sdk.installation import install as installed

    return installed(emulator, services)


def connect(address: str | None = None) -> None:
    """Make the SDK in this process use the queues of a server, also outside requests.

    `address` is the server's `host:port`; without it PULLQUEUE_EMULATOR_HOST is used, or else
    API_HOST and API_PORT. A process started by `pullqueue exec` needs no such call.

    Raises:
        ServerAddressError: that is not a valid address.
        SdkMissingError: App Engine's SDK is not installed.
    """
    from pullqueue.sdk.imports import cloudtask

    given = address or os.environ.get(ADDRESS_VARIABLE)
    if given:
        if not is_host_and_port(given):
            name = "the address" if address else ADDRESS_VARIABLE
            raise ServerAddressError(
                f'{name} is "{given}", which is not a valid address: use HOST:PORT, such as '
                f"localhost:{DEFAULT_PORT}"
            )
        host, _, port = given.rpartition(":")
        sitecustomize.variables.update(API_HOST=host.strip("[]"), API_PORT=port)
    sitecustomize.grant_tickets()
    if cloudtask is not None:
        sitecustomize.use_cloud_tasks(cloudtask)


def local_request(app: WSGIApplication) -> WSGIApplication:
    """Wrap a WSGI app so that its requests may use bundled services, as on App Engine.

    It must be the outermost wrapper: `app.wsgi_app = local_request(wrap_wsgi_app(app.wsgi_app))`.
    The server is that of `connect`, which is called. An app started by `pullqueue exec` needs no
    wrapper.

    Raises:
        SdkMissingError: App Engine's SDK is not installed.
    """
    connect()
    served = sitecustomize.with_front_end(app)

    def with_ticket(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ.setdefault(sitecustomize.TICKET_VARIABLE, sitecustomize.TICKET)
        return served(environ, start_response)

    return with_ticket
