"""Ending a worker at one of its calls, in the thread that makes it, through any interface.

A call that does not leave its thread raises. For the client of a server in this process, the server
closes the connection without a response, and the client's thread raises where it notices that:
where it reads the end of the socket, or gets the status of a call of gRPC. So no thread is
interrupted anywhere else, and no client uses a connection again that has half a response in it.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, NoReturn

from pullqueue.engine.interceptors import ConnectionCut, current_caller
from pullqueue.testing.patching import Patches

IDLE_STEPS = 2
"""Number of times that a worker may sleep, or lease from one queue, in vain; then it is stopped.

Twice, because a worker that polls several queues and ends when all are empty does that.
"""


class WorkerInterrupt(BaseException):
    """ends a worker at one of its calls; no `except Exception` of the worker catches it"""


class WorkerStopped(WorkerInterrupt):
    """ends a worker that waits for tasks which will not come; `drain` swallows it"""


class WorkerKilled(WorkerInterrupt):
    """ends a worker as a crash of its machine would; `crash_test` swallows it"""


class HandlerKilled(WorkerKilled, asyncio.CancelledError):
    """ends a handler as a crash of its instance would; event loops see that a task is cancelled

    So the loop of a test client goes on, which ends at other exceptions that are no `Exception`.
    """


class Interrupter:
    """Ends a worker from an interceptor of its calls."""

    def __init__(self, interrupt: type[WorkerInterrupt]) -> None:
        self._interrupt = interrupt
        self._cancelled = False
        self._unnoticed = 0
        """Number of connections that were cut, and whose clients have not noticed it here."""

    def end(self) -> NoReturn:
        """End the worker in the thread that makes the current call.

        Raises:
            WorkerInterrupt: this is that thread.
            ConnectionCut: this thread carries the call out for a client.
        """
        caller = current_caller()
        if caller is None or caller.port is None:
            raise self._interrupt
        cut = ConnectionCut(caller.port)
        self._unnoticed += 1
        _cut[str(cut)] = self
        raise cut

    def notice(self) -> None:
        """End the worker in its event loop, or, without one, in this thread by raising."""
        self._unnoticed -= 1
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise self._interrupt from None
        self._cancel(loop)

    def _cancel(self, loop: asyncio.AbstractEventLoop) -> None:
        self._cancelled = True
        for task in asyncio.all_tasks(loop):
            task.cancel()

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Run a worker in the block, and swallow what it raises because it was ended."""
        self._cancelled, self._unnoticed = False, 0
        try:
            yield
        except BaseException as error:
            if not self._is_of_end(error):
                raise

    def _is_of_end(self, error: BaseException) -> bool:
        if isinstance(error, BaseExceptionGroup):  # of a TaskGroup
            return all(map(self._is_of_end, error.exceptions))
        if isinstance(error, asyncio.CancelledError) and not isinstance(error, self._interrupt):
            return self._cancelled
        if isinstance(error, Exception):  # of a client that does not read its sockets in Python
            return self._unnoticed > 0
        return isinstance(error, self._interrupt)


class TaskInterrupter(Interrupter):
    """Ends an asynchronous worker: a task of asyncio, and the tasks that it awaits."""

    def __init__(self, interrupt: type[WorkerInterrupt]) -> None:
        super().__init__(interrupt)
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError("drain_async works under asyncio only, and no loop runs") from None
        self._task: asyncio.Future[object]

    async def run(self, worker: Awaitable[object]) -> None:
        """Await a worker until it returns or is ended."""
        self._task = asyncio.ensure_future(worker)
        with self.ending():
            await self._task

    def _is_of_end(self, error: BaseException) -> bool:
        task = asyncio.current_task()
        return super()._is_of_end(error) and not (task and task.cancelling())

    def end(self) -> NoReturn:
        """End the worker's task, and what makes the current call."""
        self._cancelled = True
        if current_task() is not self._task:
            self._loop.call_soon_threadsafe(self._task.cancel)
        super().end()

    def _cancel(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do nothing: the worker's task is cancelled, and others in its loop are not the worker."""


def current_task() -> asyncio.Task[object] | None:
    """Return the task of asyncio in which the caller runs, if any."""
    with suppress(RuntimeError):  # in this thread no loop is running
        return asyncio.current_task()
    return None


_cut: dict[str, Interrupter] = {}
"""Who ended the client of a connection, by the message of its `ConnectionCut`."""


@Patches
def interruptible(patches: Patches) -> None:
    """Makes clients notice, in a block, that their connections were cut."""
    patches.at_end(_cut.clear)
    for name in ("recv", "recv_into"):
        patches.decorate(socket.socket, name, _noticing_end)
    patches.decorate(http.client.HTTPConnection, "getresponse", _closing)
    patches.decorate(threading, "excepthook", _silent)
    patches.decorate(sys, "unraisablehook", _silent)
    if "pullqueue.cloudtasks.grpc_server" in sys.modules:
        import grpc  # noqa: PLC0415 - is loaded

        grpc.insecure_channel("localhost:0").close()  # loads what implements the calls
        for implementation in grpc.UnaryUnaryMultiCallable.__subclasses__():
            for name in ("__call__", "with_call"):
                patches.decorate(implementation, name, _noticing_status)


def _noticing_end(receive: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(receive)
    def noticing(connection: socket.socket, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        try:
            received = receive(connection, *args, **kwargs)
        except ConnectionError:
            _notice_end(connection)
            raise
        if not received:
            _notice_end(connection)
        return received

    return noticing


def _notice_end(connection: socket.socket) -> None:
    if not _cut:
        return
    with suppress(OSError):
        address = connection.getsockname()
        if isinstance(address, tuple):
            interrupter = _cut.pop(str(ConnectionCut(str(address[1]))), None)
            if interrupter is not None:
                interrupter.notice()


def _noticing_status(call: Callable[..., Any]) -> Callable[..., Any]:
    import grpc  # noqa: PLC0415 - is loaded

    @wraps(call)
    def noticing(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        try:
            return call(*args, **kwargs)
        except grpc.RpcError as error:
            interrupter = _cut.get(str(error.details()))
            if interrupter is not None:
                interrupter.notice()
            raise

    return noticing


def _closing(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """Close a connection when its thread is interrupted, as http.client does at other errors."""

    @wraps(get_response)
    def closing(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
        try:
            response: http.client.HTTPResponse = get_response(connection)
        except WorkerInterrupt:
            connection.close()
            raise
        return response

    return closing


def _silent(hook: Callable[..., object]) -> Callable[..., object]:
    @wraps(hook)
    def silent(args: Any) -> None:  # noqa: ANN401 - of either hook
        if not issubclass(args.exc_type, WorkerInterrupt):
            hook(args)

    return silent
