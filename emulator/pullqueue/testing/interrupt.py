"""Ending a worker at one of its calls, in the thread that makes it, through any interface.

A call that does not leave its thread raises. For the client of a server in this process, the server
closes the connection without a response, and the client's thread raises where it notices that:
where it reads the end of the socket, or gets the status of a call of gRPC. So no thread is
interrupted anywhere else, and no client uses a connection again that has half a response in it.
"""

from __future__ import annotations

import asyncio
import http.client
import linecache
import re
import socket
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from traceback import walk_stack
from types import CodeType, FrameType
from typing import Any, NoReturn

from pullqueue.engine.interceptors import ConnectionCut, current_caller
from pullqueue.testing.patching import Patches
from pullqueue.testing.place import Place, is_frame_of_app

IDLE_STEPS = 2
"""Number of times that a worker may sleep, or lease from one queue, in vain; then it is stopped.

Twice, because a worker that polls several queues and ends when all are empty does that.
"""
_MOST_CAUGHT = 100
"""Number of times that something may catch its interrupt, and go on."""
_EXCEPT = re.compile(r"\s*except\b")


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


def is_normal_exit(error: BaseException) -> bool:
    """Return whether a worker has ended by `sys.exit()` or `sys.exit(0)`, as its process would."""
    return isinstance(error, SystemExit) and error.code in (None, 0)


class Interrupter:
    """Ends a worker from an interceptor of its calls."""

    def __init__(self, interrupt: type[WorkerInterrupt]) -> None:
        self._interrupt = interrupt
        self._cancelled = False
        self._unnoticed = 0
        """Number of connections that were cut, and whose clients have not noticed it here."""
        self._ends = 0
        self._last: dict[object, BaseException] = {}
        """What was raised last in a thread and task of asyncio."""
        self._caught: Counter[object] = Counter()
        """The number of times that the app has caught it there in a row."""
        self._catcher: Place | None = None
        """Where it was caught too many times."""
        self._traces: dict[int, Any] = {}
        """How threads were traced before that, such as by a debugger."""

    def end(self) -> NoReturn:
        """End the worker in the thread that makes the current call.

        Raises:
            WorkerInterrupt: this is that thread.
            ConnectionCut: this thread carries the call out for a client.
        """
        caller = current_caller()
        if caller is None or caller.port is None:
            self._raise()
        cut = ConnectionCut(caller.port)
        self._unnoticed += 1
        _cut[str(cut)] = self
        raise cut

    def notice(self) -> None:
        """End the worker in its event loop, or, without one, in this thread by raising."""
        self._unnoticed -= 1
        with suppress(RuntimeError):
            self._cancel(asyncio.get_running_loop())
            return
        self._raise()

    def _raise(self) -> NoReturn:
        """Raise the interrupt, in the end where something catches it again and again."""
        self._ends += 1
        error = self._interrupt()
        if self._ends > _MOST_CAUGHT:  # and not before, since the error keeps the worker's frames
            place = threading.get_ident(), current_task()
            before, self._last[place] = self._last.get(place), error
            traceback = before and before.__traceback__  # begins where it was caught
            if traceback and is_frame_of_app(traceback.tb_frame):
                self._caught[place] += 1
                more = self._caught[place] - _MOST_CAUGHT
                if more > 0:
                    self._raise_where_caught(traceback.tb_frame.f_code, (more - 1) % 10)
            else:  # by a library, such as a thread pool, to which it was to go
                self._caught[place] = 0
        raise error

    def _raise_where_caught(self, code: CodeType, left: int) -> None:
        """Raise it once more where this code catches it: what an `except` raises leaves the `try`.

        In the thread of the test there is no other way out of a loop that catches everything. It is
        raised at the `except` before which `left` others are left: inner ones can raise it again.
        """

        def trace(frame: FrameType, event: str, _: object) -> object:
            nonlocal left
            line = linecache.getline(code.co_filename, frame.f_lineno)
            if event == "line" and _EXCEPT.match(line):
                if left <= 0:
                    self._catcher = Place(code.co_filename, frame.f_lineno, code.co_name)
                    raise self._interrupt  # which ends the trace, too
                left -= 1
            return trace

        for frame, _ in walk_stack(sys._getframe()):  # noqa: SLF001 - documented, of CPython
            if frame.f_code is code:
                frame.f_trace = trace
        self._traces.setdefault(threading.get_ident(), sys.gettrace())
        sys.settrace(lambda *_: None)

    def let_go(self) -> None:
        """Keep nothing of the worker, which has ended, and trace this thread as before."""
        self._last.clear()
        if (ident := threading.get_ident()) in self._traces:
            sys.settrace(self._traces.pop(ident))

    def check_caught(self, who: str) -> None:
        """Raise an AssertionError if the worker could not be ended but in an `except`."""
        self.let_go()
        if self._catcher is not None:
            raise AssertionError(
                f"{who}: {self._catcher} catches BaseException, so it cannot be stopped: catch "
                "Exception"
            )

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
        finally:
            self.let_go()

    def _is_of_end(self, error: BaseException) -> bool:
        if isinstance(error, BaseExceptionGroup):  # of a TaskGroup
            return all(map(self._is_of_end, error.exceptions))
        if isinstance(error, asyncio.CancelledError) and not isinstance(error, self._interrupt):
            return self._cancelled
        if isinstance(error, Exception):  # of a client that does not read its sockets in Python
            return self._unnoticed > 0
        return isinstance(error, self._interrupt) or is_normal_exit(error)


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
