"""Files of other programs that are called queue.yaml too, recognised by their keys."""

from __future__ import annotations

import re
from typing import NamedTuple

from pullqueue.config.document import Mapping, Node, Pair, Place, Scalar, Sequence
from pullqueue.config.schema import level_with, meant_key
from pullqueue.text import shorten

_TOP_KEY = re.compile(r"^[\"']?([A-Za-z_][\w.-]*)[\"']?[ \t]*:(?=\s|$)", re.MULTILINE)
_OURS = "queue"
_CRON = "a cron.yaml of App Engine"
_CRON_HINT = "name it cron.yaml, and the linter checks it"
_PROGRAMS = (
    ("a Kubernetes manifest", {"apiVersion", "kind"}),
    ("an OpenAPI document", {"openapi"}),
    ("a Swagger document", {"swagger"}),
    ("an app.yaml of App Engine", {"runtime"}),
    ("an app.yaml of App Engine", {"handlers"}),
    (_CRON, {"cron"}),
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
_ANYWHERE = re.compile(r"(?:^|[{,])[ \t-]*[\"']?(apiVersion|kind|vhost)[\"']?[ \t]*:", re.MULTILINE)
"""Also in lists, in JSON, and in templates that indent the keys."""

_XML_FILES = (
    ("<queue-entries", "queue.xml", "pullqueue convert"),
    ("<cronentries", "cron.xml", "gcloud beta app migrate-config cron-xml-to-yaml"),
)
"""Files of Java apps: the beginning of their root, their name, and what converts them."""

_COMMON_WORDS = frozenset({"acl", "mode", "rate", "target"})
"""Keys that other programs have in the plural, or as a part of their own."""


class OtherProgram(NamedTuple):
    """What a file looks like."""

    name: str
    """With its article: "a Kubernetes manifest"."""
    at: Place
    message: str
    hint: str = "exclude the file"
    """What to do in a run of the linter."""


def other_program(text: str) -> OtherProgram | None:
    """Recognise the file of another program; a file with a `queue` key is never one."""
    keys = {match[1]: Place(*match.span(1)) for match in reversed([*_TOP_KEY.finditer(text)])}
    if _OURS in keys:
        return None
    for match in _ANYWHERE.finditer(text):
        keys.setdefault(match[1], Place(*match.span(1)))
    for name, signs in _PROGRAMS:
        if signs <= keys.keys():
            listed = " and ".join(f"`{key}`" for key in sorted(signs))
            at = min(keys[key] for key in signs)
            message = f"this looks like {name} ({listed}), not like a queue.yaml"
            if name == _CRON:
                return OtherProgram(name, at, f"{message}: pass it to --cron", _CRON_HINT)
            return OtherProgram(name, at, message)
    return None


def is_cron_yaml(text: str) -> bool:
    """Return whether a text has the keys of a cron.yaml, whatever its file is called."""
    program = other_program(text)
    return program is not None and program.name == _CRON


def xml_message(text: str) -> str | None:
    """Return what to do with the text of a queue.xml or cron.xml; None: it is neither."""
    for root, name, command in _XML_FILES:
        if root in text:
            return f"this looks like {name}, not YAML: convert it with `{command}`"
    return None


def unknown_program(root: Node | None) -> OtherProgram | None:
    """Recognise a file that has keys, but none of a queue.yaml and none that looks like one."""
    keys = [pair.key for pair in _pairs(root)]
    unknown = [key for key in keys if level_with(key.text) is None and not meant_key(key.text)]
    if not unknown or any(key.opaque for key in keys) or any(map(_is_ours, _pairs(root))):
        return None
    listed = ", ".join(dict.fromkeys(f"`{shorten(key.text)}`" for key in unknown[:3]))
    message = f"this does not look like a queue.yaml (no list of queues, but {listed})"
    return OtherProgram("a file of another program", unknown[0].place, message)


def _pairs(root: Node | None) -> list[Pair]:
    """Return the keys of the top level, and of the entries of a list there, with their values."""
    if isinstance(root, Sequence):
        return [pair for item in root.items if isinstance(item, Mapping) for pair in item.pairs]
    return root.pairs if isinstance(root, Mapping) else []


def _is_ours(pair: Pair) -> bool:
    """Return whether a key is one of the format, or looks like one, and is not in general use."""
    key = pair.key.text
    meant = key if level_with(key) is not None else meant_key(key)
    if meant == _OURS and isinstance(pair.value, Scalar):
        return pair.value.is_null or pair.value.opaque
    if meant == _OURS and isinstance(pair.value, Mapping):
        return not pair.value.pairs or any(map(_is_ours, pair.value.pairs))
    return meant not in {None, "name"} and (key == meant or meant not in _COMMON_WORDS)
