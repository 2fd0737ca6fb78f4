"""The environment variables by which a program finds the server and runs as on App Engine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pullqueue.address import ADDRESS_VARIABLE, DEFAULT_PROJECT
from pullqueue.sdk.startup import front_end, sitecustomize

if TYPE_CHECKING:
    from pullqueue.observe.users import User

BRIDGE_PATH = "/rpc_http"
"""Where the SDK sends its calls to bundled services, at API_HOST and API_PORT."""

PROJECT_VARIABLE = "GOOGLE_CLOUD_PROJECT"
_EMULATOR_VARIABLES = ("CLOUD_TASKS_EMULATOR_HOST", "CLOUDTASKS_EMULATOR_HOST")
"""What firebase-admin and gcloud-aio-taskqueue read."""


def variables_for(
    address: str,
    *,
    project: str | None = None,
    location: str | None = None,
    user: User | None = None,
) -> dict[str, str]:
    """Return the variables that lead a program to the server at `address`, a `host:port`.

    They are to be merged over the environment of this process, and contain its own values of
    PYTHONPATH, of the application id, and of the names that begin with `GAE_`, unless `project`
    names the app. Where its values of the id and the project differ, the first counts. Workers
    find the server by PULLQUEUE_EMULATOR_HOST, clients of Cloud Tasks by CLOUD_TASKS_EMULATOR_HOST,
    apps on App Engine's SDK by the others. With `location` the SDK names it in its calls to Cloud
    Tasks. Requests to the app are those of `user`, unless somebody has signed in.
    """
    host, _, port = address.rpartition(":")
    folders = [str(Path(sitecustomize.__file__).parent), os.environ.get("PYTHONPATH", "")]
    return {
        ADDRESS_VARIABLE: address,
        **dict.fromkeys(_EMULATOR_VARIABLES, address),
        "API_HOST": host.strip("[]"),
        "API_PORT": port,
        # What Java's runtime reads in place of these where GAE_PARTITION is dev.
        "LOCAL_API_HOSTPORT": address,
        sitecustomize.TICKET_VARIABLE: sitecustomize.TICKET,
        sitecustomize.HOST_VARIABLE: default_hostname(),
        # The SDK would send calls to the real Cloud Tasks until its clients are replaced. That is
        # done when Python imports it; then it gets the value that the user has set.
        sitecustomize.SWITCH_VARIABLE: "false",
        sitecustomize.WANTED_VARIABLE: _wanted_switch(),
        "PYTHONPATH": os.pathsep.join(filter(None, folders)),
        **({"LOCATION_ID": location} if location else {}),
        **({front_end.USER_VARIABLE: user.cookie} if user else {}),
        **_local_app(project),
    }


def _wanted_switch() -> str:
    """Return whether the SDK is to use Cloud Tasks; inside `pullqueue exec` as outside."""
    names = (sitecustomize.SWITCH_VARIABLE, sitecustomize.WANTED_VARIABLE)
    return str(any(os.environ.get(name, "").lower() == "true" for name in names)).lower()


def default_hostname() -> str:
    """Return the host that an app has; the SDK puts the target of a push task before it."""
    return os.environ.get(sitecustomize.HOST_VARIABLE, sitecustomize.HOST)


def _local_app(project: str | None) -> dict[str, str]:
    """Return the variables that App Engine's local development server set for an app.

    Google's Go package asks App Engine's metadata server for whatever of this is missing, and
    panics where there is none; the functions of Python's `modules` read CURRENT_VERSION_ID and the
    two beside it. GAE_ENV, GAE_SERVICE and GAE_INSTANCE would work, too, but to programs in all
    languages they mean production, and in Go no log is written to standard error with them.
    Go and Java put the partition before the id of the app; Python's SDK reads APPLICATION_ID, so
    that all of them see the same entities.
    """
    app_id = default_app_id(project)
    partition, _, app = app_id.rpartition("~")
    local = {
        "RUN_WITH_DEVAPPSERVER": "1",
        "GAE_PARTITION": partition or "dev",
        "GAE_LONG_APP_ID": app,
        "GAE_MODULE_NAME": "default",
        "GAE_MODULE_VERSION": "1",
        "GAE_MINOR_VERSION": "1",
        "GAE_MODULE_INSTANCE": "0",
        "CURRENT_MODULE_ID": "default",
        "CURRENT_VERSION_ID": "1.1",
        "INSTANCE_ID": "0",
    }
    if not project:
        local |= {name: os.environ[name] for name in local if name in os.environ}
    ids = app_variables(app_id)
    if os.environ.get("GAE_APPLICATION") == "":
        del ids["GAE_APPLICATION"]  # of an app that takes it for production, where it stays empty
    return local | ids


def app_variables(app_id: str) -> dict[str, str]:
    """Return the three variables by which libraries know an app; they agree."""
    project = app_id.rpartition("~")[2]
    return {**dict.fromkeys(sitecustomize.APP_ID_VARIABLES, app_id), PROJECT_VARIABLE: project}


def default_app_id(project: str | None) -> str:
    """Return the id of an app: that of `project`, or else the environment's, or the default."""
    if not project:
        if given := first_variable(*sitecustomize.APP_ID_VARIABLES):
            return given
        project = first_variable("GAE_LONG_APP_ID", PROJECT_VARIABLE) or DEFAULT_PROJECT
        return f"{os.environ.get('GAE_PARTITION', 'dev')}~{project}"
    return project if "~" in project else f"dev~{project}"


def first_variable(*names: str) -> str | None:
    """Return the value of the first of these variables that is set and not empty, if one is."""
    return next(filter(None, map(os.environ.get, names)), None)
