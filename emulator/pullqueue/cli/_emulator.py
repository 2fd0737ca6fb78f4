"""The options that `serve` and `exec` have, and the server that they make of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from pullqueue.address import DEFAULT_PORT, DEFAULT_PROJECT, is_host_and_port
from pullqueue.checks import ACCOUNTS, FILE, INDEXES, LEASES, LOCATION, PROJECT, WITHOUT_FACTS
from pullqueue.cli._options import PORT, Command, checked, parsed
from pullqueue.cli._output import say
from pullqueue.cli._words import Choice
from pullqueue.clock import Clock, ManualClock, SystemClock, from_usec
from pullqueue.errors import StoreError
from pullqueue.limits import PRODUCTION_LEASES_PER_SECOND, SERVED_TASKS, Limits
from pullqueue.sdk import SdkMissingError, is_installed
from pullqueue.services import DEFAULT_SERVICES, SERVICES, parse_services
from pullqueue.services.hosting import Services
from pullqueue.tasks import count_tasks
from pullqueue.text import quoted

if TYPE_CHECKING:
    from pullqueue.cron.file import CronJob
    from pullqueue.engine.emulator import Emulator
    from pullqueue.push.addresses import PushAddresses
    from pullqueue.runtime.config_file import ConfigFile
    from pullqueue.server.lifecycle import Server

_LOCATION = re.compile(r"[A-Za-z0-9-]{2,100}", re.ASCII)
_PROJECT = re.compile(r"([a-z]~)?([a-z0-9.-]+:)?[a-zA-Z0-9][a-zA-Z0-9_-]*", re.ASCII)
_FILE_NAMES = ("queue.yaml", "queue.yml")


def _push_addresses(options: tuple[str, ...]) -> PushAddresses:
    from pullqueue.push.addresses import PushAddresses

    return PushAddresses(options)


def _store_url(_ctx: click.Context, _parameter: click.Parameter, url: str | None) -> str | None:
    from pullqueue.stores import open_store

    try:
        open_store(url or "memory")
    except StoreError as error:
        raise click.BadParameter(str(error)) from error
    return url


def _emails(emails: tuple[str, ...]) -> frozenset[str]:
    from pullqueue.observe.users import check_email

    return frozenset(map(check_email, emails))


def _project_files(options: tuple[str, ...]) -> dict[str, Path]:
    """Return the files of other projects by their ids, without the prefix of a partition."""
    from pullqueue.api.resources import Project

    files: dict[str, Path] = {}
    for option in options:
        name, separator, file = option.partition("=")
        if not (separator and file and _PROJECT.fullmatch(name)):
            raise ValueError(
                f"{quoted(option)} is not a project and a file: use PROJECT=FILE, such as "
                "billing=billing/queue.yaml"
            )
        app_id = Project.of(name).app_id
        if app_id in files:
            raise ValueError(f"project {quoted(app_id)} has two files")
        files[app_id] = Path(file)
    return files


def option(*flags: str, **attributes: Any) -> Any:
    """Return a field that an option sets: the one of its name, or that of these flags."""
    return field(metadata={"flags": flags, "attributes": attributes})


@dataclass(frozen=True, kw_only=True)
class EmulatorOptions:
    """QUEUE_YAML, and the options of a command that starts an emulator."""

    queue_yaml: Path | None
    # Which queues there are, and what they accept.
    profile: str = option(
        default="gcloud",
        type=Choice(["gcloud", "sdk"]),
        help="Rules that QUEUE_YAML must follow: those of gcloud, or the more lenient ones of "
        "the SDK.",
    )
    watch: bool = option(is_flag=True, help="Reload QUEUE_YAML whenever it changes.")
    keep_created: bool = option(
        "--keep-created-queues",
        is_flag=True,
        help="Whether a reload of QUEUE_YAML leaves queues of CreateQueue as they are. "
        "Default: it disables them, as a deployment does.",
    )
    lease_rate_limit: bool | None = option(
        "--lease-rate-limit/--no-lease-rate-limit",
        default=None,
        help=f"Whether more than {PRODUCTION_LEASES_PER_SECOND} leases a second on one queue "
        "return no tasks, as on App Engine. Default: yes, but not with a manual clock.",
    )
    strict: bool = option(
        is_flag=True,
        help="Turn on every check of production that needs no facts of your app "
        f"({WITHOUT_FACTS}), and with --project, --strict-project; refuse the options that are "
        "more lenient. The index.yaml is that of --index-yaml or the one beside QUEUE_YAML.",
    )
    project: str | None = option(
        callback=checked(
            _PROJECT.fullmatch, "project id: use letters, digits and hyphens, such as my-app"
        ),
        help="Application id of the queues of QUEUE_YAML. A call that names another one begins a "
        "project without queues. Default: any id means these queues.",
    )
    strict_project: bool = option(
        is_flag=True,
        help="With --project: refuse calls that name another application id, unless "
        "--queue-yaml-for names it.",
    )
    project_files: dict[str, Path] = option(
        "--queue-yaml-for",
        multiple=True,
        metavar="PROJECT=FILE",
        callback=parsed(_project_files),
        help="File with the queues of another project; repeatable.",
    )
    location: str | None = option(
        callback=checked(
            _LOCATION.fullmatch, "location: use letters, digits and hyphens, as in us-central1"
        ),
        help="Location of the queues, and the only one that Cloud Tasks accepts. Default: any "
        "region of Google Cloud: CreateQueue makes a queue in one of them, and those of "
        "QUEUE_YAML are reached by each.",
    )
    service_accounts: frozenset[str] = option(
        "--service-account",
        multiple=True,
        metavar="EMAIL",
        callback=parsed(_emails),
        help="Service account whose tokens tasks and queues can ask for; repeatable. Default: any.",
    )
    # Where tasks and time are.
    store: str | None = option(
        metavar="URL",
        callback=_store_url,
        help="Where tasks are stored: memory, sqlite:///FILE, or "
        "postgresql://USER@HOST/DATABASE. Default: memory, or tasks.db in the folder of "
        "--data.",
    )
    clock: str = option(
        default="system",
        type=Choice(["system", "manual"]),
        help="system: the time of this machine. manual: time stops until `pullqueue clock` "
        "moves it.",
    )
    # App Engine's other services.
    services: frozenset[str] | None = option(
        metavar="NAMES",
        callback=parsed(parse_services),
        help="App Engine's other services to answer, by Google's stubs: names with commas, all "
        f"or none. Names: {', '.join(SERVICES)}. Default: all but urlfetch; none with "
        "--api-upstream.",
    )
    data: Path | None = option(
        metavar="FOLDER",
        type=click.Path(path_type=Path, file_okay=False),
        help="Where the datastore and blobs are stored, and tasks unless --store is passed. "
        "Default: in memory.",
    )
    consistency: str = option(
        "--datastore-consistency",
        default="strong",
        type=Choice(["strong", "eventual"]),
        help="strong: queries see every write. eventual: those without an ancestor may miss "
        "the latest.",
    )
    index_yaml: Path | None = option(
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="File to which the composite indexes that queries need are added; with --strict, "
        "queries fail whose index it lacks. Default: none.",
    )
    api_upstream: str | None = option(
        metavar="HOST:PORT",
        callback=checked(is_host_and_port, "address: use HOST:PORT, such as localhost:8080"),
        help="Server for calls to the services that --services does not name. Default: none.",
    )
    grpc_port: int | None = option(
        type=PORT,
        help="Port of Cloud Tasks over gRPC; 0 picks a free one. Default: not served.",
    )
    # Where push tasks and cron jobs are sent.
    push_to: PushAddresses = option(
        multiple=True,
        metavar="[TARGET=]URL",
        callback=parsed(_push_addresses),
        help="Address to which push tasks are sent, such as http://localhost:8080; with "
        "TARGET, the name of a service or an origin such as https://api.example.com, only those "
        "with this target. Repeatable. Default: push tasks are kept, not delivered.",
    )
    cron: Path | None = option(
        type=click.Path(path_type=Path),
        metavar="CRON_YAML",
        help="File of cron jobs: their URLs are requested at the addresses of --push-to when "
        "they are due. Default: none.",
    )

    @classmethod
    def add_to(cls, command: Command) -> Command:
        """Add the argument and the options to a command."""
        for each in reversed(fields(cls)[1:]):
            flags = each.metadata["flags"] or (f"--{each.name.replace('_', '-')}",)
            command = click.option(*flags, each.name, **each.metadata["attributes"])(command)
        path = click.Path(path_type=Path)
        return click.argument("queue_yaml", required=False, type=path)(command)

    def __post_init__(self) -> None:
        """Refuse options that contradict `--strict`, or that need the SDK where it is missing."""
        lenient = {
            "--no-lease-rate-limit": self.lease_rate_limit is False,
            "--profile sdk": self.profile != "gcloud",
            "--keep-created-queues": self.keep_created,
        }
        for option, is_passed in lenient.items():
            if self.strict and is_passed:
                raise click.UsageError(f"--strict excludes {option}: leave one of them out")
        need_sdk = {
            "--services": self.services,
            "--data": self.data,
            "--index-yaml": self.index_yaml,
        }
        for option, value in need_sdk.items():
            if value and self._service_names and not is_installed():
                raise click.UsageError(f"{option} cannot be used: {SdkMissingError()}")

    @property
    def checks(self) -> dict[str, bool]:
        """Whether the checks of production are on that can be off."""
        return {
            FILE: self.profile == "gcloud",
            LEASES: self._limits_leases(is_manual=self.clock == "manual"),
            INDEXES: self.strict or "datastore_v3" not in self._service_names,
            PROJECT: self.project is not None and (self.strict or self.strict_project),
            LOCATION: self.location is not None,
            ACCOUNTS: bool(self.service_accounts),
        }

    @property
    def store_url(self) -> str:
        """The URL of the store."""
        if self.store is not None or self.data is None:
            return self.store or "memory"
        return f"sqlite:///{quote(str(self.data.resolve() / 'tasks.db'))}"

    def _cron_jobs(self) -> tuple[CronJob, ...]:
        if self.cron is None:
            return ()
        from pullqueue.cron.file import load_cron

        if not self.push_to:
            raise click.UsageError(
                "--cron requests the URLs of an app: name its address, as in --push-to "
                "http://localhost:8080"
            )
        return load_cron(self.cron)

    @contextmanager
    def make_server(self, *, max_tasks: int = SERVED_TASKS, **options: Any) -> Iterator[Server]:
        """Yield a server that does not listen yet; its store and its data are open in the block.

        Raises:
            ConfigFileError: queue.yaml, cron.yaml or index.yaml cannot be used.
            InvalidQueueConfigError: queue.yaml is not valid.
            InvalidCronError: cron.yaml is not valid.
            UsageError: there is no address for cron jobs.
            StoreError: the store, or the folder of the data, cannot be used.
        """
        from pullqueue.cli._process import limit_arenas
        from pullqueue.config.model import QueueConfig
        from pullqueue.engine.emulator import Emulator
        from pullqueue.runtime.config_file import ConfigFile
        from pullqueue.server.lifecycle import Server
        from pullqueue.stores import open_store

        limit_arenas()
        if self.grpc_port is not None:
            # Else gRPC's core writes lines of its own to the error stream.
            os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        found = (path for path in map(Path, _FILE_NAMES) if path.is_file())
        path = self.queue_yaml or next(found, None)
        cron, file, config = self._cron_jobs(), None, QueueConfig(queues=(), file="")
        read = partial(ConfigFile, profile=self.profile, keep_created=self.keep_created)
        if path is not None:
            file = read(path)
            config = file.read()
        clock = ManualClock(SystemClock().now()) if self.clock == "manual" else SystemClock()
        rate = PRODUCTION_LEASES_PER_SECOND if self.checks[LEASES] else None
        with closing(self._services(clock, path)) as services:
            emulator = Emulator(
                config,
                clock=clock,
                limits=Limits(leases_per_second=rate, tasks_in_memory=max_tasks),
                project=self.project,
                location=self.location,
                store=open_store(self.store_url),
            )
            emulator.service_accounts = self.service_accounts
            with closing(emulator):
                _warn_of_unlisted(emulator, config.file)
                server = Server(
                    emulator,
                    services=services,
                    api_upstream=self.api_upstream,
                    grpc_port=self.grpc_port,
                    config_file=file,
                    push_to=self.push_to,
                    cron=cron,
                    project_files=self._files_of_projects(read),
                    begins_projects=self.project is not None and not self.checks[PROJECT],
                    **options,
                )
                server.state.limits_manual_clocks = self._limits_leases(is_manual=True)
                yield server

    def _limits_leases(self, *, is_manual: bool) -> bool:
        """Return whether the lease rate applies: a second of a manual clock may never end."""
        by_default = self.strict or not is_manual
        return by_default if self.lease_rate_limit is None else self.lease_rate_limit

    def _files_of_projects(self, read: Callable[[Path], ConfigFile]) -> dict[str, ConfigFile]:
        from pullqueue.api.resources import Project

        own = Project.of(self.project or DEFAULT_PROJECT).app_id
        if own in self.project_files:
            raise click.UsageError(
                f"--queue-yaml-for names the server's own project {quoted(own)}: pass its file as "
                "QUEUE_YAML"
            )
        return {name: read(file) for name, file in self.project_files.items()}

    @property
    def _service_names(self) -> frozenset[str]:
        if self.services is None:
            return frozenset() if self.api_upstream else DEFAULT_SERVICES
        return self.services

    def _services(self, clock: Clock, queue_yaml: Path | None) -> Services:
        beside = (queue_yaml or Path()).parent / "index.yaml"
        services = Services(
            self._service_names,
            clock=clock,
            data=self.data,
            eventual=self.consistency == "eventual",
            project=self.project,
            push_to=self.push_to,
            index_yaml=self.index_yaml or (beside if self.strict else None),
            strict=self.strict,
        )
        if self.index_yaml is not None:
            services.indexes  # noqa: B018 - a file that is not valid is reported at the start
        return services


def _warn_of_unlisted(emulator: Emulator, file: str) -> None:
    for name, tasks in emulator.unlisted_tasks.items():
        say(
            f"warning: the store has {count_tasks(tasks)} of queue {quoted(name)}, which is not in "
            f"{file or 'a queue.yaml'}: add the queue to use or purge them",
            err=True,
        )


def hint_at_manual_clock(server: Server) -> str | None:
    """Return the time of a server whose clock is manual, and how to move it; None: it is not."""
    if not isinstance(server.emulator.clock, ManualClock):
        return None
    now = from_usec(server.emulator.now_usec()).isoformat()
    url = "" if server.port == DEFAULT_PORT else f" --url {server.url}"
    return f"The clock is manual, at {now}: move it with `pullqueue clock advance 60{url}`"
