"""What the commands that serve a queue.yaml have in common: their options, and how it is found."""

from __future__ import annotations

from pathlib import Path

import click

from pullqueue.errors import ConfigFileError
from pullqueue.limits import PRODUCTION_LEASES_PER_SECOND

_FILE_NAMES = ("queue.yaml", "queue.yml")

queue_yaml_argument = click.argument("queue_yaml", required=False, type=click.Path(path_type=Path))
profile_option = click.option(
    "--profile",
    default="gcloud",
    show_default=True,
    type=click.Choice(["gcloud", "sdk"]),
    help="Whose rules the file must keep: gcloud's, or the more lenient ones of the SDK.",
)
lease_rate_option = click.option(
    "--lease-rate-limit/--no-lease-rate-limit",
    default=True,
    show_default=True,
    help=f"Whether more than {PRODUCTION_LEASES_PER_SECOND} leases a second on one queue give no "
    "tasks, as on App Engine.",
)


def found_file(folder: Path) -> Path:
    """Give the queue.yaml of a folder.

    Raises:
        ConfigFileError: it has none.
    """
    for name in _FILE_NAMES:
        if (folder / name).is_file():
            return folder / name
    raise ConfigFileError(
        f"there is neither {' nor '.join(_FILE_NAMES)} in {str(folder.resolve())!r}: name a file, "
        "as in `pullqueue serve path/to/queue.yaml`"
    )
