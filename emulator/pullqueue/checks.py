"""The checks that production makes of every call, and what turns on those that are off here.

What production refuses is refused here, too, where that costs nothing. A check that needs a fact of
the user's app is off until an option names it. The greeting of `serve`, reports of failed tests,
the help of `--strict` and the reference follow from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

LEASES, FILE, INDEXES, PROJECT, LOCATION, ACCOUNTS, PERMISSIONS = (
    *("lease rate", "queue.yaml", "indexes"),
    *("project", "location", "service accounts", "permissions"),
)


class Check(NamedTuple):
    """One check of production."""

    name: str
    refuses: str
    """What it refuses, in a few words."""
    option: str = ""
    """What turns it on in `serve`; empty: it is always on."""
    argument: str = ""
    """What turns it on in tests, an argument of the marker and an option of the ini file; empty: it
    is always on, or always off.
    """
    facts: str = ""
    """What of the user's app it needs to know; empty: nothing."""


CHECKS: Final = (
    Check("names", "names of projects, locations, queues and tasks that are malformed"),
    Check(
        "regions", "locations that are not regions of Google Cloud, other than that of the server"
    ),
    Check("requests", "JSON that is not the request, and fields, times and sizes out of range"),
    Check("tombstones", "names of tasks and queues that were deleted recently"),
    Check("deadlines", "calls over gRPC whose deadline is more than 30 seconds ahead"),
    Check("routing", "calls over gRPC without the metadata `x-goog-request-params`"),
    Check("https", "tokens for an `http://` URL, other than one of this machine"),
    Check(FILE, "what gcloud does not deploy", "--profile gcloud", 'profile="gcloud"'),
    Check(
        LEASES,
        "more than 10 leases a second on a queue, which return no tasks",
        "--lease-rate-limit",
        "lease_rate_limit=True",
    ),
    Check(
        INDEXES,
        "queries of the datastore whose composite index is not in index.yaml",
        "--strict",
        "strict=True",
    ),
    Check(
        name=PROJECT,
        refuses="calls that name another project",
        option="--project ID --strict-project",
        argument="project=ID",
        facts="the id of your project",
    ),
    Check(
        name=LOCATION,
        refuses="calls that name another location",
        option="--location REGION",
        argument="location=REGION",
        facts="the region of your app",
    ),
    Check(
        name=ACCOUNTS,
        refuses="tokens of other service accounts",
        option="--service-account EMAIL",
        argument="service_accounts=[EMAIL]",
        facts="the service accounts that your tasks name",
    ),
    Check(
        name=PERMISSIONS,
        refuses="calls without a token, and callers without a permission on a queue",
        option="--auth acl",
        argument="acl=True",
        facts="tokens of your callers, and the `acl` of each queue",
    ),
)


WITHOUT_FACTS: Final = ", ".join(each.name for each in CHECKS if each.option and not each.facts)
"""The names of the checks that `--strict` turns on."""


def describe_off(on: Mapping[str, bool], *, in_tests: bool = False) -> str:
    """Return the checks that are off, each with what turns it on; empty: none is.

    `on` has the names of those that can be off, and whether they are on.
    """
    off = [check for check in CHECKS if not on.get(check.name, True)]
    shown = [f"{check.name} ({check.argument if in_tests else check.option})" for check in off]
    return f"Not checked, unlike in production: {', '.join(shown)}" if off else ""
