"""What a queue overrides in its HTTP tasks, in words."""

from __future__ import annotations

import pytest

from pullqueue.config.model import HttpTarget
from pullqueue.push.http_target import describe_target
from pullqueue.tasks import RequestToken


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (
            HttpTarget(scheme="https", host="api.example.com", path="/hooks", method="PUT"),
            "scheme https, host api.example.com, path /hooks, method PUT",
        ),
        (
            HttpTarget(port=0, query="", headers=(("X-Mine", "7"), ("X-Other", "8"))),
            "port (none), query (none), header X-Mine: 7, header X-Other: 8",
        ),
        (
            HttpTarget(host="b.example.com", if_not_exists=True),
            "host b.example.com (where the URL has none)",
        ),
        (HttpTarget(method="PUT", if_not_exists=True), "method PUT"),
        (
            HttpTarget(token=RequestToken("oidc_token", "a@example.com", "me")),
            "OIDC token of a@example.com, audience me",
        ),
        (
            HttpTarget(token=RequestToken("oauth_token", "a@example.com")),
            "OAuth token of a@example.com",
        ),
        (
            HttpTarget(token=RequestToken("oauth_token", "a@example.com", "all")),
            "OAuth token of a@example.com, scope all",
        ),
    ],
)
def test_a_target_is_described_in_words(target: HttpTarget, text: str) -> None:
    assert describe_target(target) == text
