"""pullqueue.api.discovery: the documents, and our own routes compared with them."""

from __future__ import annotations

from typing import Any

import pytest
from rest_app import methods_of
from werkzeug.test import Client

from pullqueue.server.app import flask_app

DOCUMENT = "/discovery/v1/apis/taskqueue/{version}/rest"


def document(client: Client, version: str = "v1beta2") -> dict[str, Any]:
    return dict(client.get(DOCUMENT.format(version=version)).get_json())


class TestDocument:
    @pytest.mark.parametrize(
        ("version", "revision", "count"), [("v1beta1", "20120501", 5), ("v1beta2", "20160428", 8)]
    )
    def test_the_document_has_our_routes_and_the_address_by_which_it_was_asked_for(
        self, client: Client, version: str, revision: str, count: int
    ) -> None:
        served = client.get(
            DOCUMENT.format(version=version), base_url="http://some.host:99"
        ).get_json()

        assert served["id"] == f"taskqueue:{version}"
        assert served["revision"] == revision
        assert served["rootUrl"] == "http://some.host:99/"
        assert served["servicePath"] == f"taskqueue/{version}/projects/"
        assert served["basePath"] == f"/taskqueue/{version}/projects/"
        assert served["baseUrl"] == f"http://some.host:99/taskqueue/{version}/projects/"
        assert served["batchPath"] == f"batch/taskqueue/{version}"
        prefix = f"/taskqueue/{version}/projects/"
        routes = {
            (verb, rule.rule.removeprefix(prefix).replace("<", "{").replace(">", "}"))
            for rule in flask_app().url_map.iter_rules()
            if rule.rule.startswith(prefix)
            for verb in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        }
        methods = [(each["httpMethod"], each["path"]) for each in methods_of(served)]
        assert (len(methods), {*methods}) == (count, routes)

    def test_the_newer_address_returns_the_same_document(self, client: Client) -> None:
        assert client.get("/$discovery/rest?version=v1beta2").get_json() == document(client)
        assert client.get("/$discovery/rest").get_json() == document(client)
        assert client.get("/$discovery/rest?version=v1beta1").get_json() == document(
            client, "v1beta1"
        )

    @pytest.mark.parametrize(
        "path",
        [
            DOCUMENT.format(version="v9"),
            "/discovery/v1/apis/drive/v3/rest",
            "/$discovery/rest?version=v9",
        ],
    )
    def test_the_document_of_an_unknown_api_is_not_found(self, client: Client, path: str) -> None:
        response = client.get(path)

        assert response.status_code == 404
        assert response.get_json()["error"]["errors"][0]["reason"] == "notFound"

    def test_the_directory_lists_all_apis_and_their_documents(self, client: Client) -> None:
        items = client.get("/discovery/v1/apis").get_json()["items"]

        assert [(item["id"], item["preferred"]) for item in items] == [
            ("taskqueue:v1beta1", False),
            ("taskqueue:v1beta2", True),
            ("cloudtasks:v2", True),
            ("cloudtasks:v2beta2", True),
            ("cloudtasks:v2beta3", True),
        ]
        for item in items:
            path = item["discoveryRestUrl"].removeprefix("http://localhost")
            assert client.get(path).get_json()["id"] == item["id"]
            assert item["discoveryLink"] == "." + path.removeprefix("/discovery/v1")

    @pytest.mark.parametrize(
        ("query", "count"),
        [("name=taskqueue", 2), ("name=drive", 0), ("preferred=true", 4), ("preferred=false", 5)],
    )
    def test_the_directory_can_be_narrowed(self, client: Client, query: str, count: int) -> None:
        assert len(client.get(f"/discovery/v1/apis?{query}").get_json()["items"]) == count
