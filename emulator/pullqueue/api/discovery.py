"""The discovery service: what the API looks like and where it is, for clients that ask."""

from __future__ import annotations

from typing import Final

from flask import Blueprint, Response, request

from pullqueue.api import schema
from pullqueue.api.encoding import JSON_TYPE, Json, encode
from pullqueue.api.errors import ApiError
from pullqueue.api.messages import NOT_FOUND
from pullqueue.api.routes import ROUTES, Route

_PREFERRED = "v1beta2"
_TITLE = "TaskQueue API"
_DESCRIPTION = "App Engine's pull queues over REST."
_REVISIONS: Final = {"v1beta1": "20120501", "v1beta2": "20160428"}
"""Those of the last documents Google served."""

blueprint = Blueprint("discovery", __name__)


@blueprint.get("/discovery/v1/apis")
def get_directory() -> Response:
    """Send the list of APIs."""
    answer = directory(request.host_url)
    if (name := request.args.get("name")) is not None:
        answer["items"] = [item for item in answer["items"] if item["name"] == name]
    if request.args.get("preferred") == "true":
        answer["items"] = [item for item in answer["items"] if item["preferred"]]
    return _response(answer)


@blueprint.get("/discovery/v1/apis/<name>/<version>/rest")
def get_document(name: str, version: str) -> Response:
    """Send the document of an API."""
    if name != schema.NAME or version not in ROUTES:
        raise ApiError(
            NOT_FOUND,
            status=404,
            reason="notFound",
            explanation=f"there is no API {name!r} {version!r} here, only {schema.NAME} with "
            f"{' and '.join(ROUTES)}",
        )
    return _response(document(version, request.host_url))


@blueprint.get("/$discovery/rest")
def get_document_by_parameter() -> Response:
    """Send the document of the API, of the version in the query."""
    return get_document(schema.NAME, request.args.get("version", _PREFERRED))


def document(version: str, root_url: str) -> Json:
    """Return the discovery document of a version, for an API at an address that ends in a slash."""
    service_path = f"{schema.NAME}/{version}/projects/"
    resources: Json = {}
    for route in ROUTES[version]:
        resource, _, name = route.method_id.partition(".")
        methods = resources.setdefault(resource, {"methods": {}})["methods"]
        methods[name] = _method(route, version)
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
        "resources": resources,
    }


def directory(root_url: str) -> Json:
    """Return the list of APIs at an address that ends in a slash."""
    items = [_directory_item(version, root_url) for version in ROUTES]
    return {"kind": "discovery#directoryList", "discoveryVersion": "v1", "items": items}


def _directory_item(version: str, root_url: str) -> Json:
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


def _method(route: Route, version: str) -> Json:
    described = schema.METHODS[route.method_id]
    removed = schema.SINCE_V1BETA2 if version == "v1beta1" else frozenset()
    in_path = [name for name in schema.PARAMETERS if f"{{{name}}}" in route.path]
    names = [*in_path, *(name for name in described.query if name not in removed)]
    method: Json = {
        "id": f"{schema.NAME}.{route.method_id}",
        "path": route.path,
        "httpMethod": route.verb,
        "description": described.description,
        "parameters": {name: schema.PARAMETERS[name] for name in names},
        "parameterOrder": [name for name in names if schema.PARAMETERS[name].get("required")],
        "scopes": list(schema.SCOPES),
    }
    if described.request:
        method["request"] = {"$ref": described.request}
    if described.response:
        method["response"] = {"$ref": described.response}
    return method


def _response(answer: Json) -> Response:
    return Response(encode(answer), content_type=JSON_TYPE)
