"""What `serve` and `exec` make of the options that both have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from pullqueue.address import DEFAULT_PORT
from pullqueue.cli._options import found_file
from pullqueue.cli._output import say
from pullqueue.clock import ManualClock, SystemClock, from_usec
from pullqueue.limits import SERVED_TASKS, Limits
from pullqueue.services import DEFAULT_SERVICES
from pullqueue.services.hosting import ServiceOptions, Services
from pullqueue.tasks import count_tasks
from pullqueue.text import quoted

if TYPE_CHECKING:
    from pullqueue.control.config_file import ConfigFile
    from pullqueue.cron.file import CronJob
    from pullqueue.engine.emulator import Emulator
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

    def cron_jobs(self) -> tuple[CronJob, ...]:
        """Return the jobs of the cron.yaml that is named.

        Raises:
            UsageError: there is no address for them.
            ConfigFileError: it cannot be read.
            InvalidCronError: it is not valid.
        """
        if self.cron is None:
            return ()
        from pullqueue.cron.file import load_cron  # noqa: PLC0415 - imported when it runs

        if not self.push_to:
            raise click.UsageError(
                "--cron requests the URLs of an app: name its address, as in --push-to "
                "http://localhost:8080"
            )
        return load_cron(self.cron)

    def config_file(self) -> ConfigFile:
        """Return the queue.yaml that is named, or found."""
        from pullqueue.control.config_file import ConfigFile  # noqa: PLC0415 - when it runs

        path = self.queue_yaml or found_file()
        return ConfigFile(path, profile=self.profile, keep_created=self.keep_created)

    def open(self, file: ConfigFile, *, max_tasks: int = SERVED_TASKS) -> tuple[Emulator, Services]:
        """Open the store and the folder of the data; the caller closes both.

        Raises:
            StoreError: one of them cannot be used.
        """
        from pullqueue.engine.emulator import Emulator  # noqa: PLC0415 - imported when it runs
        from pullqueue.stores import open_store  # noqa: PLC0415 - the same

        config = file.read()
        clock = ManualClock(SystemClock().now()) if self.clock == "manual" else SystemClock()
        services = Services(self._services(), clock=clock, push_to=self.push_to)
        try:
            emulator = Emulator(
                config,
                clock=clock,
                limits=Limits(leases_per_second=self.leases_per_second, tasks_in_memory=max_tasks),
                project=self.project,
                location=self.location,
                store=open_store(self.store_url),
            )
        except BaseException:
            services.close()
            raise
        for name, tasks in emulator.unlisted_tasks.items():
            say(
                f"warning: the store has {count_tasks(tasks)} of queue {quoted(name)}, which is "
                f"not in {config.file}: add the queue to use or purge them",
                err=True,
            )
        return emulator, services

    def _services(self) -> ServiceOptions:
        names = self.services
        if names is None:
            names = frozenset() if self.api_upstream else DEFAULT_SERVICES
        return ServiceOptions(
            names=names,
            data=self.data,
            eventual=self.consistency == "eventual",
            project=self.project,
        )


def hint_at_manual_clock(server: Server) -> str | None:
    """Return the time of a server whose clock is manual, and how to move it; None: it is not."""
    if not isinstance(server.emulator.clock, ManualClock):
        return None
    now = from_usec(server.emulator.now_usec()).isoformat()
    url = "" if server.port == DEFAULT_PORT else f" --url {server.url}"
    return f"The clock is manual, at {now}: move it with `pullqueue clock advance 60{url}`"
