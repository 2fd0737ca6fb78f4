"""Google's stubs of bundled services for a test, by its testbed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pullqueue.engine.emulator import Emulator
from pullqueue.sdk.imports import apiproxy_stub_map
from pullqueue.sdk.stub import SERVICE
from pullqueue.text import did_you_mean, quoted


@contextmanager
def service_stubs(names: Iterable[str], emulator: Emulator) -> Iterator[None]:
    """Register stubs of services in the block, such as `datastore_v3`, each of them empty.

    A service that has a stub keeps it, such as that of a testbed of the test. A testbed that is
    activated in the block has these stubs, too.

    Raises:
        ValueError: the testbed has no such service.
    """
    services = [name for name in dict.fromkeys(names) if name != SERVICE]
    if not services:
        yield  # without the testbed, which imports the stubs of all services
        return
    with warnings.catch_warnings(action="ignore"):  # at imports of the SDK
        from google.appengine.ext import testbed
    known = {name: init for name, init in testbed.INIT_STUB_METHOD_NAMES.items() if name != SERVICE}
    for name in services:
        if name not in known:
            raise ValueError(
                f"services: there is no service {quoted(name)}: {did_you_mean(name, known)}"
            )
    missing = [name for name in services if name not in registered_stubs()]
    if not missing:
        yield
        return
    bed = testbed.Testbed()
    bed.activate()
    try:
        if emulator.project is not None:
            bed.setup_env(app_id=emulator.project, overwrite=True)
        with warnings.catch_warnings(action="ignore"):
            for name in missing:
                getattr(bed, known[name])()
        yield
    finally:
        bed.deactivate()


def registered_stubs() -> dict[str, Any]:
    """Return the stubs that are registered, by service, without the default one."""
    # There is no public way to see whether a stub is a service's own, nor to remove one.
    stubs: dict[str, Any] = vars(apiproxy_stub_map.apiproxy)["_APIProxyStubMap__stub_map"]
    return stubs
