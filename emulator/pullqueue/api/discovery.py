"""The discovery service: what the API looks like and where it is, for clients that ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib.resources import files
from typing import Final, NamedTuple

import msgspec
from flask import Blueprint, Response, request

from pullqueue.api.encoding import JSON_TYPE, Json, encode
from pullqueue.api.errors import ApiError
from pullqueue.api.messages import NOT_FOUND
from pullqueue.text import shorten

NAME: Final = "taskqueue"
VERSIONS: Final = ("v1beta1", "v1beta2")
_ROOT = "$ROOT/"
"""In the documents: the address of the server."""
_NEWER: Final = (
    ("schemas", "Task", "properties", "retry_count tag"),
    ("resources", "tasks", "methods", "insert patch update"),
    ("resources", "tasks", "methods", "lease", "parameters", "groupByTag tag"),
)
"""What v1beta1 does not have: the path of an object, and the names in it."""


class Api(NamedTuple):
    """One API in the directory."""

    name: str
    version: str
    title: str
    description: str
    paths: tuple[str, ...]
    """How the paths of its methods begin."""
    document: Callable[[str], Json]
    """Returns its discovery document, given the address of the server with a slash at the end."""


def blueprint(served: Iterable[Api]) -> Blueprint:
    """Return the routes of the discovery service for some APIs."""
    routes = Blueprint("discovery", __name__)
    apis = {(api.name, api.version): api for api in served}

    @routes.get("/discovery/v1/apis")
    def get_directory() -> Response:
        items = [_item(api) for api in apis.values()]
        if (name := request.args.get("name")) is not None:
            items = [item for item in items if item["name"] == name]
        if request.args.get("preferred") == "true":
            items = [item for item in items if item["preferred"]]
        listed = {"kind": "discovery#directoryList", "discoveryVersion": "v1", "items": items}
        return Response(encode(listed), content_type=JSON_TYPE)

    @routes.get("/discovery/v1/apis/<name>/<version>/rest")
    def get_document(name: str, version: str) -> Response:
        api = apis.get((name, version))
        if api is None:
            known = ", ".join(" ".join(api) for api in apis)
            explanation = (
                f'there is no API "{shorten(name)} {shorten(version)}": use one of {known}'
            )
            raise ApiError(NOT_FOUND, status=404, explanation=explanation)
        return Response(encode(api.document(request.host_url)), content_type=JSON_TYPE)

    @routes.get("/$discovery/rest")
    def get_document_by_parameter() -> Response:
        version = request.args.get("version", VERSIONS[-1])
        name = next((known for known, its in apis if its == version), NAME)
        return get_document(name, version)

    return routes


def document(version: str, root_url: str = _ROOT) -> Json:
    """Return the discovery document of a version, for a server at some address."""
    text = _text().replace(_ROOT, root_url)
    parsed: Json = msgspec.json.decode(text.replace(VERSIONS[-1], version))
    if version == VERSIONS[0]:
        parsed["revision"] = "20120501"
        for part, *path, names in _NEWER:
            level = parsed[part]
            for each in path:
                level = level[each]
            for name in names.split():
                del level[name]
    return parsed


APIS: Final = tuple(
    Api(
        NAME,
        version,
        "TaskQueue API",
        "Leases, adds and deletes the tasks of App Engine's pull queues.",
        (f"/{NAME}/{version}/",),
        partial(document, version),
    )
    for version in VERSIONS
)


@cache
def _text() -> str:
    return files(__package__).joinpath(f"{NAME}_{VERSIONS[-1]}.json").read_text("utf-8")


def _item(api: Api) -> Json:
    path = f"apis/{api.name}/{api.version}/rest"
    return {
        "kind": "discovery#directoryItem",
        "id": f"{api.name}:{api.version}",
        "name": api.name,
        "version": api.version,
        "title": api.title,
        "description": api.description,
        "discoveryRestUrl": f"{request.host_url}discovery/v1/{path}",
        "discoveryLink": f"./{path}",
        "icons": {},
        "documentationLink": request.host_url,
        "preferred": api.version != VERSIONS[0],
    }
