"""What the environment of a program says, so that its task queue calls go to a server."""

from __future__ import annotations

import os
from pathlib import Path

from pullqueue.address import ADDRESS_VARIABLE
from pullqueue.sdk.startup import sitecustomize

BRIDGE_PATH = "/rpc_http"
"""Where the SDK sends its calls to bundled services, at API_HOST and API_PORT."""

_CLOUD_TASKS_VARIABLE = "APPENGINE_USE_CLOUDTASK_PUSH_QUEUE"


def variables_for(address: str) -> dict[str, str]:
    """Give the variables that lead a program to the server at `address`, a `host:port`.

    They are to be put over the environment of this process, whose PYTHONPATH and HTTP_HOST are kept
    in them. Workers find the server by PULLQUEUE_EMULATOR_HOST, apps on App Engine's SDK by the
    others.
    """
    host, _, port = address.rpartition(":")
    folders = [str(Path(sitecustomize.__file__).parent), os.environ.get("PYTHONPATH", "")]
    return {
        ADDRESS_VARIABLE: address,
        "API_HOST": host.strip("[]"),
        "API_PORT": port,
        sitecustomize.TICKET_VARIABLE: sitecustomize.TICKET,
        # Were it on, the SDK would send some of its calls to the real Cloud Tasks.
        _CLOUD_TASKS_VARIABLE: "false",
        # Set by the request on App Engine; for want of it the SDK logs a warning for every task.
        "HTTP_HOST": os.environ.get("HTTP_HOST", "localhost"),
        "PYTHONPATH": os.pathsep.join(filter(None, folders)),
    }
