"""The routes by which an app under `pullqueue exec` has its blobs stored and served."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, request

from pullqueue.api.errors import ApiError
from pullqueue.api.requests import SERVED_KEY, current_request
from pullqueue.limits import MIB
from pullqueue.sdk.startup.blob_middleware import BLOB_PATH, UPLOAD_PATH
from pullqueue.services.hosting import Services

_FIELDS_BYTES = 32 * MIB
"""Maximum size of the fields of a form without its files; App Engine's limit on a request."""

blueprint = Blueprint("services", __name__)


@blueprint.post(f"{UPLOAD_PATH}<session>")
def upload(session: str) -> Response:
    """Store the files of a form, and return the request that the app is to get in its place."""
    sent = current_request()
    sent.max_content_length, sent.max_form_memory_size = None, _FIELDS_BYTES
    fields, files = sent.form.items(multi=True), sent.files.items(multi=True)
    stored = _services().store_upload(session, fields, files)
    return jsonify(path=stored.path, content_type=stored.content_type, body=stored.body)


@blueprint.get(f"{BLOB_PATH}<path:key>")
def download(key: str) -> Response:
    """Return a blob, or the range of it that the header Range names."""
    blob = _services().open_blob(key)
    if blob is None:
        raise ApiError("there is no blob of this key", status=404)
    response = Response(blob.stream, content_type=blob.content_type, direct_passthrough=True)
    response.content_length = blob.size
    response.headers["Content-Disposition"] = "attachment"
    response.make_conditional(current_request(), accept_ranges=True, complete_length=blob.size)
    return response


def _services() -> Services:
    found: Services | None = request.environ[SERVED_KEY].get(Services)
    if found is None:
        raise ApiError("this server hosts no services", status=404)
    return found
