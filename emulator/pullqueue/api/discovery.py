"""The discovery service: where clients learn what the API looks like and where it is."""

from __future__ import annotations

from flask import Flask, Response, request

from pullqueue.api import answers, schema
from pullqueue.api.answers import Json
from pullqueue.api.errors import ApiError
from pullqueue.api.messages import NOT_FOUND

VERSIONS = ("v1beta1", "v1beta2")
_PREFERRED = "v1beta2"
_TITLE = "TaskQueue API"
_DESCRIPTION = "App Engine's pull queues over REST."
_REVISIONS = {"v1beta1": "20120501", "v1beta2": "20160428"}
"""Those of the last documents Google served."""


def install(app: Flask) -> None:
    """Add the discovery routes to an app."""
    app.add_url_rule("/discovery/v1/apis", view_func=_directory, methods=["GET"])
    app.add_url_rule("/discovery/v1/apis/<name>/<version>/rest", view_func=_rest, methods=["GET"])
    app.add_url_rule("/$discovery/rest", view_func=_rest_by_parameter, methods=["GET"])


def document(version: str, root_url: str) -> Json:
    """Give the discovery document of a version for an API at an address that ends in a slash."""
    service_path = f"{schema.NAME}/{version}/projects/"
    return {
        "kind": "discovery#restDescription",
        "discoveryVersion": "v1",
        "id": f"{schema.NAME}:{version}",
        "name": schema.NAME,
        "version": version,
        "revision": _REVISIONS[version],
        "title": _TITLE,
        "description": _DESCRIPTION,
        "icons": {},
        "documentationLink": root_url,
        "protocol": "rest",
        "baseUrl": f"{root_url}{service_path}",
        "basePath": f"/{service_path}",
        "rootUrl": root_url,
        "servicePath": service_path,
        "batchPath": f"batch/{schema.NAME}/{version}",
        "parameters": schema.STANDARD_PARAMETERS,
        "auth": {
            "oauth2": {
                "scopes": {scope: {"description": what} for scope, what in schema.SCOPES.items()}
            }
        },
        "schemas": schema.schemas(version),
        "resources": schema.resources(version),
    }


def directory(root_url: str) -> Json:
    """Give the list of APIs at an address that ends in a slash."""
    items = [_entry(version, root_url) for version in VERSIONS]
    return {"kind": "discovery#directoryList", "discoveryVersion": "v1", "items": items}


def _entry(version: str, root_url: str) -> Json:
    path = f"apis/{schema.NAME}/{version}/rest"
    return {
        "kind": "discovery#directoryItem",
        "id": f"{schema.NAME}:{version}",
        "name": schema.NAME,
        "version": version,
        "title": _TITLE,
        "description": _DESCRIPTION,
        "discoveryRestUrl": f"{root_url}discovery/v1/{path}",
        "discoveryLink": f"./{path}",
        "icons": {},
        "documentationLink": root_url,
        "preferred": version == _PREFERRED,
    }


def _directory() -> Response:
    answer = directory(request.host_url)
    if (name := request.args.get("name")) is not None:
        answer["items"] = [item for item in answer["items"] if item["name"] == name]
    if request.args.get("preferred") == "true":
        answer["items"] = [item for item in answer["items"] if item["preferred"]]
    return _response(answer)


def _rest(name: str, version: str) -> Response:
    if name != schema.NAME or version not in VERSIONS:
        raise ApiError(
            NOT_FOUND,
            status=404,
            reason="notFound",
            explanation=f"there is no API {name!r} {version!r} here, only {schema.NAME} with "
            f"{' and '.join(VERSIONS)}",
        )
    return _response(document(version, request.host_url))


def _rest_by_parameter() -> Response:
    return _rest(schema.NAME, request.args.get("version", _PREFERRED))


def _response(answer: Json) -> Response:
    return Response(answers.pretty(answer), content_type=answers.JSON_TYPE)
