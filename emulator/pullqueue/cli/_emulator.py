"""What `serve` and `exec` make of the options that both have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from pullqueue.address import DEFAULT_PORT
from pullqueue.cli._options import found_file
from pullqueue.cli._output import say
from pullqueue.clock import Clock, ManualClock, SystemClock, from_usec
from pullqueue.limits import SERVED_TASKS, Limits
from pullqueue.services import DEFAULT_SERVICES
from pullqueue.services.hosting import Services
from pullqueue.tasks import count_tasks
from pullqueue.text import quoted

if TYPE_CHECKING:
    from pullqueue.cron.file import CronJob
    from pullqueue.push.addresses import PushAddresses
    from pullqueue.server.lifecycle import Server


@dataclass(frozen=True, kw_only=True)
class EmulatorOptions:
    """The options of `emulator_options`, by the names of their parameters."""

    queue_yaml: Path | None
    profile: str
    watch: bool
    keep_created: bool
    leases_per_second: int | None
    project: str | None
    strict_project: bool
    location: str | None
    store: str | None
    clock: str
    services: frozenset[str] | None
    data: Path | None
    consistency: str
    api_upstream: str | None
    push_to: PushAddresses
    cron: Path | None

    @property
    def store_url(self) -> str:
        """The URL of the store."""
        if self.store is not None or self.data is None:
            return self.store or "memory"
        return f"sqlite:///{quote(str(self.data.resolve() / 'tasks.db'))}"

    def _cron_jobs(self) -> tuple[CronJob, ...]:
        """Return the jobs of the cron.yaml that is named."""
        if self.cron is None:
            return ()
        from pullqueue.cron.file import load_cron  # noqa: PLC0415 - imported when it runs

        if not self.push_to:
            raise click.UsageError(
                "--cron requests the URLs of an app: name its address, as in --push-to "
                "http://localhost:8080"
            )
        return load_cron(self.cron)

    @contextmanager
    def make_server(
        self,
        *,
        max_tasks: int = SERVED_TASKS,
        **options: Any,  # noqa: ANN401 - of the server
    ) -> Iterator[Server]:
        """Yield a server that does not listen yet; its store and its data are open in the block.

        Raises:
            ConfigFileError: queue.yaml or cron.yaml cannot be read.
            InvalidQueueConfigError: queue.yaml is not valid.
            InvalidCronError: cron.yaml is not valid.
            UsageError: there is no address for cron jobs.
            StoreError: the store, or the folder of the data, cannot be used.
        """
        from pullqueue.config.model import QueueConfig  # noqa: PLC0415 - the same
        from pullqueue.engine.emulator import Emulator  # noqa: PLC0415 - the same
        from pullqueue.runtime.config_file import ConfigFile  # noqa: PLC0415 - when it runs
        from pullqueue.server.lifecycle import Server  # noqa: PLC0415 - imports Flask
        from pullqueue.stores import open_store  # noqa: PLC0415 - the same

        path = self.queue_yaml or found_file()
        cron, file, config = self._cron_jobs(), None, QueueConfig(queues=(), file="")
        if path is not None:
            file = ConfigFile(path, profile=self.profile, keep_created=self.keep_created)
            config = file.read()
        clock = ManualClock(SystemClock().now()) if self.clock == "manual" else SystemClock()
        services = self._services(clock)
        with closing(services):
            emulator = Emulator(
                config,
                clock=clock,
                limits=Limits(leases_per_second=self.leases_per_second, tasks_in_memory=max_tasks),
                project=self.project,
                location=self.location,
                store=open_store(self.store_url),
            )
            with closing(emulator):
                for name, tasks in emulator.unlisted_tasks.items():
                    say(
                        f"warning: the store has {count_tasks(tasks)} of queue {quoted(name)}, "
                        f"which is not in {config.file or 'a queue.yaml'}: add the queue to use or "
                        "purge them",
                        err=True,
                    )
                yield Server(
                    emulator,
                    services=services,
                    api_upstream=self.api_upstream,
                    config_file=file,
                    push_to=self.push_to,
                    cron=cron,
                    begins_projects=self.project is not None and not self.strict_project,
                    **options,
                )

    def _services(self, clock: Clock) -> Services:
        names = self.services
        if names is None:
            names = frozenset() if self.api_upstream else DEFAULT_SERVICES
        return Services(
            names,
            clock=clock,
            data=self.data,
            eventual=self.consistency == "eventual",
            project=self.project,
            push_to=self.push_to,
        )


def hint_at_manual_clock(server: Server) -> str | None:
    """Return the time of a server whose clock is manual, and how to move it; None: it is not."""
    if not isinstance(server.emulator.clock, ManualClock):
        return None
    now = from_usec(server.emulator.now_usec()).isoformat()
    url = "" if server.port == DEFAULT_PORT else f" --url {server.url}"
    return f"The clock is manual, at {now}: move it with `pullqueue clock advance 60{url}`"
