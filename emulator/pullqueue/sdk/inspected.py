"""What suites ask of Google's stub beside making calls, answered for both kinds of queues."""

from __future__ import annotations

from typing import Any

from pullqueue.config.model import QueueMode
from pullqueue.engine.emulator import Emulator
from pullqueue.engine.interceptors import bypass_interceptors
from pullqueue.engine.queue import Queue
from pullqueue.sdk import inspection
from pullqueue.sdk.imports import taskqueue_stub
from pullqueue.sdk.push import push_queues
from pullqueue.sdk.source import QueueYaml
from pullqueue.sdk.texts import text_of


class InspectedStub(taskqueue_stub.TaskQueueServiceStub):  # type: ignore[misc]  # not typed
    """Shows and clears an emulator's pull queues the way Google's stub does it with all queues.

    Faults do not strike here: these are the test's own calls, not the app's.
    """

    _emulator: Emulator

    def _attach(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._queue_yaml = QueueYaml()
        # Google's stub asks this attribute, where there is one, instead of reading a file.
        self.queue_yaml_parser = lambda _root: push_queues(emulator.config)

    def _detach(self) -> None:
        del self._emulator, self._queue_yaml, self.queue_yaml_parser

    @bypass_interceptors()
    def GetQueues(self) -> list[dict[str, Any]]:
        """Give all queues as dicts, in order of their names."""
        self._reread()
        now = self._emulator.clock.now()
        pull = [inspection.queue_dict(queue, now) for queue in self._listed_queues(QueueMode.PULL)]
        mine = {queue["name"] for queue in pull}
        push = [queue for queue in super().GetQueues() if queue["name"] not in mine]
        return sorted(pull + push, key=lambda queue: str(queue["name"]))

    @bypass_interceptors()
    def GetTasks(self, queue_name: str) -> list[dict[str, Any]]:
        """Give the tasks of a queue as dicts, in order of eta."""
        queue = self._known_pull_queue(queue_name)
        if queue is None:
            tasks: list[dict[str, Any]] = super().GetTasks(queue_name)
            return tasks
        return inspection.task_dicts(queue, self._emulator.clock.now())

    @bypass_interceptors()
    def DeleteTask(self, queue_name: str, task_name: str) -> None:
        """Delete a task and free its name."""
        queue = self._known_pull_queue(queue_name)
        if queue is None:
            super().DeleteTask(queue_name, task_name)
        else:
            queue.delete_tasks(text_of(task_name))
            queue.free_names([text_of(task_name)])

    @bypass_interceptors()
    def FlushQueue(self, queue_name: str) -> None:
        """Delete the tasks of a queue and free all its names."""
        queue = self._known_pull_queue(queue_name)
        if queue is None:
            super().FlushQueue(queue_name)
        else:
            queue.purge()
            queue.free_names()

    def get_filtered_tasks(
        self,
        url: str | None = None,
        name: str | None = None,
        queue_names: list[str] | str | None = None,
    ) -> list[Any]:
        """Give tasks as `taskqueue.Task` objects: all, or those with a URL, a name or a queue."""
        found: list[Any] = []
        for task in self._get_filtered_task_dicts(url, name, queue_names):
            if task["method"] == "PULL":
                found += inspection.sdk_tasks([task])
            else:
                found.append(taskqueue_stub.ConvertTaskDictToTaskObject(task))
        return found

    # -- parts -----------------------------------------------------------------------------------

    def _reread(self) -> None:
        config = self._queue_yaml.changed(self._queue_config_path, self._root_path)
        if config is not None:
            self._emulator.reconfigure(config)

    def _known_pull_queue(self, name: str) -> Queue | None:
        self._reread()
        found = (queue for queue in self._emulator.queues if queue.name == text_of(name))
        return next((queue for queue in found if queue.mode is QueueMode.PULL), None)

    def _listed_queues(self, *modes: QueueMode) -> list[Queue]:
        wanted = modes or tuple(QueueMode)
        queues = self._emulator.queues
        return [queue for queue in queues if queue.mode in wanted and not queue.disabled]
