"""What the tools that step into calls have in common."""

from __future__ import annotations

import ctypes
import sys
import threading

from pullqueue.engine.interceptors import QueueCall
from pullqueue.errors import InternalError
from pullqueue.tasks import Task

_TURNS = 1000
"""More turns of a loop than it takes until a pending interrupt is raised."""


def describe_call(call: QueueCall) -> str:
    """Give a call as one would write it."""
    arguments = [_short(argument) for argument in call.arguments]
    if call.verb == "lease_tasks_by_tag" and call.options.get("tag") is not None:
        arguments.append(f"tag={call.options['tag']!r}")
    return f"{call.verb}({', '.join(arguments)}) on queue {call.queue.name!r}"


def _short(argument: object) -> str:
    if isinstance(argument, Task):
        return repr(argument.name)
    if isinstance(argument, list | tuple):
        names = [_short(getattr(item, "name", None) or item) for item in argument[:3]]
        return f"[{', '.join(names)}{', ...' if len(argument) > 3 else ''}]"
    return repr(argument)


class WorkerInterrupt(BaseException):
    """ends a worker at one of its calls; no `except Exception` of the worker keeps it alive"""


class Leash:
    """Holds the thread in which a worker runs, and ends the worker from one of its calls.

    The worker may run in this thread and call the emulator in it, or call a server that answers in
    another: then the interrupt is raised in the worker's thread, as soon as it has its answer.
    """

    def __init__(self) -> None:
        self._thread_id = threading.get_ident()
        self._interrupted_from_elsewhere = False

    @property
    def holds_this_thread(self) -> bool:
        """Whether the caller runs in the worker's thread."""
        return threading.get_ident() == self._thread_id

    def end(self, interrupt: type[WorkerInterrupt], answer: object = None) -> object:
        """End the worker; where it waits for a server's answer, give that: `answer`.

        Raises:
            WorkerInterrupt: this is the worker's thread.
            InternalError: it is another one, and there is no answer to give.
        """
        if self.holds_this_thread:
            raise interrupt
        self._raise_there(interrupt)
        if answer is None:
            raise InternalError("the worker that made this call is ended by its test")
        return answer

    def release(self) -> None:
        """Take an interrupt that came too late to meet the worker.

        Raises:
            WorkerInterrupt: there is one; it is best awaited around this call.
        """
        if self._interrupted_from_elsewhere:
            # Whatever is still pending is raised at a turn of a loop. To unset it by the same
            # function of Python's would leave the interpreter looking for it for ever.
            for _ in range(_TURNS):
                pass

    def _raise_there(self, interrupt: type[WorkerInterrupt]) -> None:
        self._interrupted_from_elsewhere = True
        if sys.version_info < (3, 12):
            # There, traced code (as under coverage) stands still while another thread has an
            # interrupt pending; this one must go on, to answer the worker.
            sys.settrace(None)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self._thread_id), ctypes.py_object(interrupt)
        )
