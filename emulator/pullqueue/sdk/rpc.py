"""A call that is made at once, as App Engine makes it, and not when someone waits for it."""

from __future__ import annotations

from pullqueue.sdk.imports import apiproxy_rpc


class EagerRPC(apiproxy_rpc.RPC):  # type: ignore[misc]  # the SDK is not typed
    """Runs in the caller's thread when it is started; callbacks wait until it is waited for."""

    def _MakeCallImpl(self) -> None:
        self._state = apiproxy_rpc.RPC.RUNNING
        self._CaptureTrace(self._SendRequest)

    def _WaitImpl(self) -> bool:
        self._state = apiproxy_rpc.RPC.FINISHING
        if self.callback:
            # `wait_any` leaves its wait by an exception out of the callback, which it expects
            # to carry this call: what the SDK's method of that name sees to.
            self._CaptureTraceAndReraise(self.callback)
        return True
