"""All interfaces that the contract suite is run through, by name."""

from __future__ import annotations

from functools import partial

from cloudtasks_interface import (
    cloudtasks_grpc_interface,
    cloudtasks_rest_interface,
    located_interface,
)
from google.cloud import tasks_v2
from interfaces import InterfaceMaker, python_interface, second_project
from rest_interface import rest_interface
from sdk_interface import bridge_interface, sdk_interface

INTERFACES: dict[str, InterfaceMaker] = {
    "python": python_interface,
    "python-sqlite": partial(python_interface, "sqlite"),
    "python-postgres": partial(python_interface, "postgres"),
    "rest": rest_interface,
    "sdk": sdk_interface,
    "bridge": bridge_interface,
    "cloudtasks-rest": cloudtasks_rest_interface,
    "cloudtasks-grpc": cloudtasks_grpc_interface,
    "rest-second-project": partial(rest_interface, second_project),
    "bridge-second-project": partial(bridge_interface, second_project),
    "cloudtasks-rest-second-project": partial(cloudtasks_rest_interface, None, second_project),
    "cloudtasks-grpc-second-project": partial(cloudtasks_grpc_interface, None, second_project),
    "cloudtasks-grpc-other-location": located_interface,
}
PUSH_INTERFACES: dict[str, InterfaceMaker] = {
    **{name: make for name, make in INTERFACES.items() if name.partition("-")[0] != "rest"},
    "cloudtasks-v2-rest": partial(cloudtasks_rest_interface, tasks_v2),
    "cloudtasks-v2-grpc": partial(cloudtasks_grpc_interface, tasks_v2),
    "cloudtasks-v2-rest-second-project": partial(
        cloudtasks_rest_interface, tasks_v2, second_project
    ),
    "cloudtasks-v2-grpc-other-location": partial(located_interface, tasks_v2),
}


ALL_INTERFACES = INTERFACES | PUSH_INTERFACES
