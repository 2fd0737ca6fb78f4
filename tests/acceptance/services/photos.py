"""An app that takes photos, serves them, and sends a mail about each."""

from __future__ import annotations

import os
from io import BytesIO
from typing import Any

from flask import Flask, Request, request
from google.appengine.api import mail, wrap_wsgi_app
from google.appengine.ext import blobstore

app = Flask(__name__)
app.wsgi_app = wrap_wsgi_app(app.wsgi_app)  # type: ignore[method-assign]


@app.get("/")
def form() -> str:
    limit = request.args.get("limit", type=int)
    url: str = blobstore.create_upload_url("/stored?from=form", max_bytes_per_blob=limit)
    return url


@app.post("/stored")
def stored() -> dict[str, Any]:
    """Return what Google's parser finds in the form, and the cookie of the browser."""
    body = request.environ["wsgi.input"].read()

    def environ() -> dict[str, Any]:
        return {**request.environ, "wsgi.input": BytesIO(body)}

    # Two parsers read it: that of Google, and Flask for the fields.
    uploads = blobstore.BlobstoreUploadHandler().get_uploads(environ())
    fields = Request(environ()).form.to_dict()
    for info in uploads:
        mail.send_mail("shop@example.com", "me@example.com", f"New: {info.filename}", "Look!")
    return {
        "photos": [
            [str(info.key()), info.filename, info.content_type, info.size, info.md5_hash.decode()]
            for info in uploads
        ],
        "known": [blobstore.get(info.key()).size for info in uploads],
        "fields": fields,
        "from": request.args["from"],
        "cookie": request.cookies.get("user"),
    }


@app.get("/photos/<key>")
def photo(key: str) -> tuple[str, dict[str, Any]]:
    """Serve a photo, with a type if there is one in the query."""
    headers = blobstore.BlobstoreDownloadHandler().send_blob(request.environ, key)
    return "not sent", headers | {"Content-Type": request.args.get("type")}


if __name__ == "__main__":
    app.run(port=int(os.environ["PORT"]))
