"""A real app with a blobstore: uploads, downloads, and the mails that it sends meanwhile."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from executing import app_under_exec
from forking import forked
from programs import completed

PHOTO = bytes(range(256)) * 1000
FILES = {"photo": ('one "1" é.png', PHOTO, "image/png"), "none": ("", b"", "")}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    script, folder = Path(__file__).with_name("photos.py"), tmp_path_factory.mktemp("photos")
    with app_under_exec(script, folder) as (url, server, _):
        yield url, server


def upload(url: str, **options: str) -> requests.Response:
    return requests.post(url, files=FILES, data={"title": "tea & é"}, timeout=60, **options)  # type: ignore[arg-type]


def test_an_upload_is_stored_and_reaches_the_app(app: tuple[str, str]) -> None:
    url = requests.get(app[0], timeout=60).text
    assert url.startswith(f"{app[0]}/_ah/upload/")
    answer = upload(url, cookies={"user": "me"}).json()  # type: ignore[arg-type]

    ((key, name, kind, size, md5),) = answer.pop("photos")
    digest = hashlib.md5(PHOTO, usedforsecurity=False).hexdigest()
    assert (name, kind, size, md5) == ("one %221%22 é.png", "image/png", len(PHOTO), digest)
    assert answer == {
        "known": [len(PHOTO)], "fields": {"title": "tea & é"}, "from": "form", "cookie": "me",
    }  # fmt: skip
    photo = requests.get(f"{app[0]}/photos/{key}", timeout=60)
    assert (photo.status_code, photo.content) == (200, PHOTO)
    assert photo.headers["Content-Type"] == "image/png"
    assert "X-AppEngine-BlobKey" not in photo.headers
    workers = requests.get(f"http://{app[1]}/_emulator/workers", timeout=60).json()["workers"]
    clients = {worker["client"].partition(" ")[0] for worker in workers}
    assert clients == {"photos.py"}


def test_a_part_of_a_blob_is_served(app: tuple[str, str]) -> None:
    key = upload(requests.get(app[0], timeout=60).text).json()["photos"][0][0]
    url, wanted = f"{app[0]}/photos/{key}", {"Range": "bytes=10-19"}

    part = requests.get(f"{url}?type=text/css", headers=wanted, timeout=60)
    assert (part.status_code, part.content) == (206, PHOTO[10:20])
    assert part.headers["Content-Range"] == f"bytes 10-19/{len(PHOTO)}"
    assert part.headers["Content-Type"] == "text/css"
    head = requests.head(url, timeout=60)
    assert (head.status_code, head.headers["Content-Length"]) == (200, str(len(PHOTO)))
    past = requests.get(url, headers={"Range": f"bytes={len(PHOTO)}-"}, timeout=60)
    assert past.status_code == 416
    assert requests.get(f"{app[0]}/photos/none", timeout=60).status_code == 404


def test_an_upload_is_refused_with_the_reason(app: tuple[str, str]) -> None:
    url = requests.get(app[0], timeout=60).text
    assert upload(url).ok
    again = upload(url)
    assert again.status_code == 404
    assert "was used already" in again.json()["error"]["message"]

    for limit in (len(PHOTO), len(PHOTO) + 1):
        assert upload(requests.get(f"{app[0]}?limit={limit}", timeout=60).text).ok
    large = upload(requests.get(f"{app[0]}?limit={len(PHOTO) - 1}", timeout=60).text)
    assert large.status_code == 413
    message = large.json()["error"]["message"]
    assert message == "the upload has 256000 bytes, max_bytes_per_blob of its URL is 255999"


def test_mails_are_listed_until_services_are_reset(app: tuple[str, str]) -> None:
    upload(requests.get(app[0], timeout=60).text)
    command = (forked("pullqueue"),)
    where = ("--url", app[1])

    listed = completed([*command, "mails", *where], check=True).stdout
    assert "me@example.com  New: one %221%22 é.png" in " ".join(listed.split(" ")), listed
    number = listed.splitlines()[1].split()[0]
    shown = completed([*command, "mails", number, *where], check=True).stdout
    assert shown.startswith("From: shop@example.com\nTo: me@example.com\nSubject: New: one ")
    assert shown.endswith("\ntext:\nLook!\n")
    completed([*command, "reset", "--services", "--yes", *where], check=True)
    assert completed([*command, "mails", *where], check=True).stdout == "no mails\n"
