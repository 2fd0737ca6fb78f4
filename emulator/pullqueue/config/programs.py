"""Files of other programs that are called queue.yaml too, recognised by their keys."""

from __future__ import annotations

import re
from typing import NamedTuple

from pullqueue.config.document import Place

_TOP_KEY = re.compile(r"^[\"']?([A-Za-z_][\w.-]*)[\"']?[ \t]*:(?=\s|$)", re.MULTILINE)
_OURS = "queue"
_PROGRAMS = (
    ("a Kubernetes manifest", {"apiVersion", "kind"}),
    ("an OpenAPI document", {"openapi"}),
    ("a Swagger document", {"swagger"}),
    ("an app.yaml of App Engine", {"runtime"}),
    ("an app.yaml of App Engine", {"handlers"}),
    ("a cron.yaml of App Engine", {"cron"}),
    ("a dispatch.yaml of App Engine", {"dispatch"}),
    ("an index.yaml of App Engine", {"indexes"}),
    ("a Docker Compose file", {"services"}),
    ("a RabbitMQ configuration", {"rabbitmq"}),
    ("a RabbitMQ configuration", {"rabbit_version"}),
    ("a RabbitMQ configuration", {"vhosts"}),
    ("a RabbitMQ configuration", {"exchanges"}),
    ("a RabbitMQ configuration", {"queues", "bindings"}),
    ("a RabbitMQ configuration", {"queues", "vhost"}),
)
_NESTED = re.compile(r"^[ \t-]+(vhost):", re.MULTILINE)


class OtherProgram(NamedTuple):
    """What a file looks like."""

    name: str
    """With its article: "a Kubernetes manifest"."""
    at: Place
    message: str


def other_program(text: str) -> OtherProgram | None:
    """Recognise the file of another program; a file with a `queue` key is never one."""
    keys = {match[1]: Place(*match.span(1)) for match in reversed([*_TOP_KEY.finditer(text)])}
    if _OURS in keys:
        return None
    if nested := _NESTED.search(text):
        keys.setdefault(nested[1], Place(*nested.span(1)))
    for name, signs in _PROGRAMS:
        if signs <= keys.keys():
            listed = " and ".join(f"`{key}`" for key in sorted(signs))
            at = min(keys[key] for key in signs)
            message = f"this looks like {name} ({listed}), not like a queue.yaml: exclude the file"
            return OtherProgram(name, at, message)
    return None
