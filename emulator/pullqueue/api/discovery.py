"""The discovery service: what the API looks like and where it is, for clients that ask."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

import msgspec
from flask import Blueprint, Response, request

from pullqueue.api.encoding import JSON_TYPE, Json, encode
from pullqueue.api.errors import ApiError
from pullqueue.api.messages import NOT_FOUND

NAME: Final = "taskqueue"
VERSIONS: Final = ("v1beta1", "v1beta2")
_PREFERRED = "v1beta2"
_ROOT = "$ROOT/"
"""In the documents: the address of the server."""

blueprint = Blueprint("discovery", __name__)


@blueprint.get("/discovery/v1/apis")
def get_directory() -> Response:
    """Send the list of APIs."""
    items = [_item(version) for version in VERSIONS]
    if (name := request.args.get("name")) is not None:
        items = [item for item in items if item["name"] == name]
    if request.args.get("preferred") == "true":
        items = [item for item in items if item["preferred"]]
    listed = {"kind": "discovery#directoryList", "discoveryVersion": "v1", "items": items}
    return Response(encode(listed), content_type=JSON_TYPE)


@blueprint.get("/discovery/v1/apis/<name>/<version>/rest")
def get_document(name: str, version: str) -> Response:
    """Send the document of an API."""
    if name != NAME or version not in VERSIONS:
        raise ApiError(
            NOT_FOUND,
            status=404,
            reason="notFound",
            explanation=f"there is no API {name!r} {version!r} here, only {NAME} with "
            f"{' and '.join(VERSIONS)}",
        )
    text = _text(version).replace(_ROOT, request.host_url)
    return Response(text, content_type=JSON_TYPE)


@blueprint.get("/$discovery/rest")
def get_document_by_parameter() -> Response:
    """Send the document of the API, of the version in the query."""
    return get_document(NAME, request.args.get("version", _PREFERRED))


@cache
def document(version: str) -> Json:
    """Return the discovery document of a version, with `$ROOT/` for the address of the server."""
    parsed: Json = msgspec.json.decode(_text(version))
    return parsed


@cache
def _text(version: str) -> str:
    return files(__package__).joinpath(f"{NAME}_{version}.json").read_text("utf-8")


def _item(version: str) -> Json:
    described = document(version)
    path = f"apis/{NAME}/{version}/rest"
    return {
        "kind": "discovery#directoryItem",
        "id": described["id"],
        "name": NAME,
        "version": version,
        "title": described["title"],
        "description": described["description"],
        "discoveryRestUrl": f"{request.host_url}discovery/v1/{path}",
        "discoveryLink": f"./{path}",
        "icons": {},
        "documentationLink": request.host_url,
        "preferred": version == _PREFERRED,
    }
