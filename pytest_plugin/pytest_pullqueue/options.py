"""The names of the plugin's options: what every pytest run has to know of them."""

from __future__ import annotations

import pytest

MARKER = "pullqueue"
INI_OPTIONS = {
    "pullqueue_config": "queue.yaml of the tests, relative to this file",
    "pullqueue_project": "application id that callers of the REST API must name",
    "pullqueue_profile": "how strictly queue.yaml is read: gcloud (the default) or sdk",
    "pullqueue_lease_rate_limit": "true: hold tests to production's 10 lease calls a second",
    "pullqueue_acl": "true: let pullqueue_server and pullqueue_responses ask who may do what",
    "pullqueue_store": "where tasks are kept: memory, sqlite:///FILE or postgresql://...",
    "pullqueue_start": "where pullqueue_clock starts, such as 2026-01-01T00:00Z",
}
MARKER_USAGE = (
    f"{MARKER}(config=None, queues=None, total_storage_limit=None, profile=None, project=None, "
    "lease_rate_limit=False, acl=False, store=None, start=None): settings of a test's pull queues"
)


def own_ini_names(config: pytest.Config) -> list[str]:
    """Give the names in the ini file that begin like those of this plugin."""
    # `inicfg` is deprecated since pytest 9, without a successor for names that nobody announced.
    given = vars(config).get("_inicfg")
    return [
        name
        for name in (config.inicfg if given is None else given)
        if name.startswith(f"{MARKER}_")
    ]
