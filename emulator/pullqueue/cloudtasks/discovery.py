"""The discovery document of each version of the service, made from its methods and messages."""

from __future__ import annotations

import re
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from pullqueue.api import discovery
from pullqueue.api.tokens import CLOUD_PLATFORM
from pullqueue.cloudtasks.messages import Message, message_class
from pullqueue.cloudtasks.methods import NAME, Method
from pullqueue.cloudtasks.versions import Version

_REVISION: Final = "20260831"
"""That of Google's documents which have these methods."""
_TEXTS: Final = {
    "google.protobuf.Timestamp": "google-datetime",
    "google.protobuf.Duration": "google-duration",
    "google.protobuf.FieldMask": "google-fieldmask",
}
"""Messages that JSON has as text."""
_SCALARS: Final = {
    FieldDescriptor.TYPE_DOUBLE: {"type": "number", "format": "double"},
    FieldDescriptor.TYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.TYPE_INT64: {"type": "string", "format": "int64"},
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_BYTES: {"type": "string", "format": "byte"},
}


def document(version: Version, root_url: str) -> dict[str, Any]:
    """Return the discovery document of a version, at an address that ends in a slash."""
    return {
        "kind": "discovery#restDescription",
        "discoveryVersion": "v1",
        "id": f"{NAME}:{version.name}",
        "name": NAME,
        "version": version.name,
        "revision": _REVISION,
        "title": "Cloud Tasks API",
        "description": version.description,
        "icons": {},
        "documentationLink": root_url,
        "protocol": "rest",
        "rootUrl": root_url,
        "servicePath": "",
        "basePath": "",
        "baseUrl": root_url,
        "batchPath": "batch",
        "fullyEncodeReservedExpansion": True,
        "parameters": discovery.document("v1beta2")["parameters"],
        "auth": {
            "oauth2": {
                "scopes": {
                    CLOUD_PLATFORM: {"description": "Manage your queues and tasks in Cloud Tasks"}
                }
            }
        },
        "schemas": _schemas(version),
        "resources": _resources(version),
    }


def _resources(version: Version) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    for method in version.methods:
        *outer, last, name = method.method_id.split(".")
        level = resources
        for part in outer:
            level = level.setdefault(part, {}).setdefault("resources", {})
        methods = level.setdefault(last, {}).setdefault("methods", {})
        methods[name] = {"id": f"{NAME}.{method.method_id}", **_method(method)}
    return resources


def _method(method: Method) -> dict[str, Any]:
    name = method.field.rpartition(".")[2]
    pattern = re.sub("<.*?>", "[^/]+", method.resource)
    parameters = {
        name: {"type": "string", "location": "path", "required": True, "pattern": f"^{pattern}$"}
    }
    if not method.resource:
        parameters = {"appId": {"type": "string", "location": "query"}}
    request = message_class(method.version, method.request).DESCRIPTOR
    if method.body != "*" and method.resource:
        for field, shape in _properties(request).items():
            if field not in (method.field, method.body):
                parameters[field] = {**shape, "location": "query"}
    version = f"{method.version}/" if method.resource else ""
    variable = f"{{+{name}}}" if method.resource else ""
    suffix = method.suffix.replace("<task_id>", "{taskId}")
    if suffix != method.suffix:
        parameters["taskId"] = {"type": "string", "location": "path", "required": True}
    resource = method.resource.replace("<", "{").replace(">", "sId}")
    described = {
        "httpMethod": method.verb,
        "path": f"{version}{variable}{suffix}",
        "flatPath": f"{version}{resource}{suffix}",
        "parameters": parameters,
        "parameterOrder": [each for each, shape in parameters.items() if shape.get("required")],
        "response": {"$ref": method.response},
        "scopes": [CLOUD_PLATFORM],
    }
    if method.body:
        described["request"] = {"$ref": _body(method).name}
    return described


def _body(method: Method) -> Message:
    request = message_class(method.version, method.request).DESCRIPTOR
    return request if method.body == "*" else request.fields_by_name[method.body].message_type


def _schemas(version: Version) -> dict[str, Any]:
    schemas: dict[str, Any] = {}

    def add(message: Message) -> None:
        if message.full_name in _TEXTS or message.name in schemas:
            return
        properties = _properties(message)
        schemas[message.name] = {"id": message.name, "type": "object", "properties": properties}
        for field in message.fields:
            if field.message_type is not None and "$ref" in str(properties[field.json_name]):
                add(field.message_type)

    for method in version.methods:
        if method.body:
            add(_body(method))
        if method.body == "*":
            # The path has it.
            for parameter in (method.field, "taskId"):
                schemas[method.request]["properties"].pop(parameter, None)
        add(message_class(method.version, method.response).DESCRIPTOR)
    return schemas


def _properties(message: Message) -> dict[str, Any]:
    """Return the fields of a message as JSON Schema has them, by their names in JSON."""
    return {field.json_name: _shape(field) for field in message.fields}


def _shape(field: Message) -> dict[str, Any]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        value = _value(field.message_type.fields_by_name["value"])
        return {"type": "object", "additionalProperties": value}
    value = _value(field)
    return {"type": "array", "items": value} if field.default_value == [] else value


def _value(field: Message) -> dict[str, Any]:
    if field.enum_type is not None:
        return {"type": "string", "enum": [value.name for value in field.enum_type.values]}
    message = field.message_type
    if message is None:
        return _SCALARS[field.type]
    if message.full_name in _TEXTS:
        return {"type": "string", "format": _TEXTS[message.full_name]}
    if message.full_name == "google.protobuf.Any":
        return {"type": "object", "additionalProperties": {"type": "any"}}
    return {"$ref": message.name}
