"""A call that is made at once, as App Engine makes it, and not when someone waits for it."""

from __future__ import annotations

from pullqueue.clock import USEC_PER_SECOND
from pullqueue.engine.interceptors import call_deadline
from pullqueue.sdk.imports import apiproxy_rpc

DEADLINE_SECONDS = 60.0
"""The deadline of a call that names none, as in the SDK's client on App Engine."""


class EagerRPC(apiproxy_rpc.RPC):  # type: ignore[misc]  # the SDK is not typed
    """Runs in the caller's thread when it is started; callbacks wait until it is waited for."""

    def _MakeCallImpl(self) -> None:
        self._state = apiproxy_rpc.RPC.RUNNING
        with call_deadline(round((self.deadline or DEADLINE_SECONDS) * USEC_PER_SECOND)):
            self._CaptureTrace(self._SendRequest)

    def _WaitImpl(self) -> bool:
        self._state = apiproxy_rpc.RPC.FINISHING
        if self.callback:
            # `wait_any` leaves its wait by an exception out of the callback, which it expects
            # to carry this call: what the SDK's method of that name sees to.
            self._CaptureTraceAndReraise(self.callback)
        return True
