"""Uploads to the blobstore, and where blobs are kept.

What App Engine's front end does for an app: it stores the files of a form, and the app gets the
form with the keys of the blobs in place of the files.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import shutil
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pullqueue.api.errors import ApiError
from pullqueue.services import PART
from pullqueue.text import describe_os_error, quoted

with warnings.catch_warnings(action="ignore"):
    from google.appengine.api import datastore, datastore_errors, datastore_types
    from google.appengine.api.blobstore import blob_storage, blobstore, blobstore_stub

if TYPE_CHECKING:
    from werkzeug.datastructures import FileStorage

_SESSION_KIND = "__BlobUploadSession__"
"""The kind of the entities in which Google's stub keeps what an upload URL is for."""
_TEXT_CHARACTERS = 500
"""Maximum length of a file's name and type; longer texts are not indexed."""


@dataclass(frozen=True, slots=True)
class Upload:
    """The request by which an app gets to know what was uploaded."""

    path: str
    """The path, and the query, that the app has named."""
    content_type: str
    body: str


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob that is open for reading; whoever has it closes `stream`."""

    stream: BinaryIO
    size: int
    content_type: str


class BlobFolder(blob_storage.BlobStorage):  # type: ignore[misc]  # not typed
    """Keeps each blob in a file, which is whole once it is there.

    Google's makes the name of the file from the key as a client writes it, which can be any path.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _find_file(self, blob_key: object) -> Path:
        return self._folder / hashlib.sha256(str(blob_key).encode()).hexdigest()

    def StoreBlob(self, blob_key: object, blob_stream: BinaryIO) -> None:
        """Store what can be read from a stream."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        file = self._find_file(blob_key)
        part = file.with_suffix(PART)
        try:
            with part.open("wb") as output:
                shutil.copyfileobj(blob_stream, output)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)

    def OpenBlob(self, blob_key: object) -> BinaryIO:
        """Open a blob for reading."""
        return self._find_file(blob_key).open("rb")

    def DeleteBlob(self, blob_key: object) -> None:
        """Delete a blob; nothing happens if there is none."""
        self._find_file(blob_key).unlink(missing_ok=True)


def store_upload(
    storage: Any,
    session: str,
    fields: Iterable[tuple[str, str]],
    files: Iterable[tuple[str, FileStorage]],
    *,
    now: datetime,
) -> Upload:
    """Store the files of a form, all or none, and return the request for the app.

    `session` is the end of an upload URL, which can be used once.

    Raises:
        ApiError: the URL is not valid, or a file is too large.
    """
    opened = _open_session(session)
    sent = [(name, file) for name, file in files if file.filename]  # the others are empty fields
    _check(opened, [file for _, file in sent])
    boundary = secrets.token_hex(16)
    parts = [_write_part(boundary, _write_disposition(name), text) for name, text in fields]
    infos = [(name, file, _make_info(file, now)) for name, file in sent]
    _store(storage, [(info.key().name(), file) for _, file, info in infos])
    datastore.Put([info for *_, info in infos])
    parts += [_write_blob_part(boundary, name, info) for name, _, info in infos]
    datastore.Delete(opened)
    return Upload(
        path=opened["success_path"],
        content_type=f"multipart/form-data; boundary={boundary}",
        body="".join([*parts, f"--{boundary}--\r\n"]),
    )


def open_blob(storage: Any, key: str) -> Blob | None:
    """Open a blob; None: there is none of that key."""
    try:
        info = datastore.Get(blobstore_stub.BlobstoreServiceStub.ToDatastoreBlobKey(key))
    except datastore_errors.Error:
        return None
    return Blob(storage.OpenBlob(key), info["size"], info["content_type"])


def _open_session(session: str) -> Any:
    try:
        key = datastore_types.Key(session)
        found = datastore.Get(key) if key.kind() == _SESSION_KIND else None
    except datastore_errors.Error:
        found = None
    if found is None:
        raise ApiError(
            "the upload URL was used already, or is not one of this server: get a new one by "
            "blobstore.create_upload_url",
            status=404,
        )
    if found.get("gs_bucket_name"):
        raise ApiError(
            "uploads to Cloud Storage are not emulated: call blobstore.create_upload_url without "
            "gs_bucket_name",
            status=501,
        )
    return found


def _check(session: Any, files: Sequence[FileStorage]) -> None:
    sizes = [_measure(file) for file in files]
    for name, size in (
        ("max_bytes_per_blob", max(sizes, default=0)),
        ("max_bytes_total", sum(sizes)),
    ):
        limit = session[name]
        if limit is not None and size > limit:
            raise ApiError(f"the upload has {size} bytes, {name} of its URL is {limit}", status=413)
    for file in files:
        for text in (file.filename, file.content_type):
            if len(text or "") > _TEXT_CHARACTERS:
                raise ApiError(f"{quoted(text or '')} is longer than {_TEXT_CHARACTERS} characters")


def _measure(file: FileStorage) -> int:
    size: int = file.stream.seek(0, 2)
    file.stream.seek(0)
    return size


def _store(storage: Any, files: Sequence[tuple[str, FileStorage]]) -> None:
    """Store files by key, all or none."""
    try:
        for key, file in files:
            storage.StoreBlob(key, file.stream)
    except OSError as error:
        for key, _ in files:
            storage.DeleteBlob(key)
        problem = f"the upload cannot be stored: {describe_os_error(error)}"
        raise ApiError(problem, rpc_code="RESOURCE_EXHAUSTED", status=507) from error


def _make_info(file: FileStorage, now: datetime) -> Any:
    md5 = hashlib.md5(usedforsecurity=False)
    while block := file.stream.read(1 << 20):
        md5.update(block)
    file.stream.seek(0)
    key = secrets.token_urlsafe(24)
    info = datastore.Entity(blobstore.BLOB_INFO_KIND, name=key, namespace="")
    info["content_type"] = file.content_type or "application/octet-stream"
    info["creation"] = now.replace(tzinfo=None)
    info["filename"] = file.filename
    info["md5_hash"] = md5.hexdigest()
    info["size"] = _measure(file)
    return info


def _write_blob_part(boundary: str, name: str, info: Any) -> str:
    disposition = f"{_write_disposition(name)}; {_write_parameter('filename', info['filename'])}"
    key = f'blob-key="{info.key().name()}"; access-type="{blobstore.BLOB_KEY_HEADER}"'
    described = {
        "Content-Type": info["content_type"],
        "Content-Length": str(info["size"]),
        # Of the hexadecimal digits, as in production.
        "Content-MD5": base64.urlsafe_b64encode(info["md5_hash"].encode()).decode(),
        blobstore.UPLOAD_INFO_CREATION_HEADER: f"{info['creation']:%Y-%m-%d %H:%M:%S.%f}",
        "Content-Disposition": disposition,
    }
    return _write_part(
        boundary,
        disposition,
        "".join(f"{header}: {text}\r\n" for header, text in described.items()) + "\r\n",
        f"message/external-body; {key}",
    )


def _write_part(boundary: str, disposition: str, body: str, content_type: str = "") -> str:
    more = f"Content-Type: {content_type}\r\n" if content_type else ""
    return f"--{boundary}\r\nContent-Disposition: {disposition}\r\n{more}\r\n{body}\r\n"


def _write_disposition(name: str) -> str:
    return f"form-data; {_write_parameter('name', name)}"


def _write_parameter(name: str, value: str) -> str:
    """Return a parameter of a header, written as browsers do."""
    for character in '"\r\n':
        value = value.replace(character, f"%{ord(character):02X}")
    return f'{name}="{value}"'
