"""Locations: which there are, which one of them is the app's, and the methods on them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pullqueue.address import DEFAULT_LOCATION
from pullqueue.cloudtasks import texts
from pullqueue.cloudtasks.calls import Call, ResourceName
from pullqueue.cloudtasks.errors import invalid
from pullqueue.cloudtasks.messages import Message
from pullqueue.text import closest

REGION_IDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "asia-east2": "df",
        "asia-northeast1": "an",
        "asia-northeast2": "dt",
        "asia-northeast3": "du",
        "asia-south1": "el",
        "asia-southeast1": "as",
        "asia-southeast2": "et",
        "australia-southeast1": "ts",
        "europe-central2": "lm",
        "europe-west1": "ew",
        "europe-west2": "nw",
        "europe-west3": "ey",
        "europe-west6": "oa",
        "northamerica-northeast1": "nn",
        "southamerica-east1": "rj",
        "us-central1": "uc",
        "us-east1": "ue",
        "us-east4": "uk",
        "us-west2": "wl",
        "us-west3": "wm",
        "us-west4": "wn",
    }
)
"""What App Engine's host names call a location; where it is not known, they name none."""
REGIONS: Final = frozenset(REGION_IDS) | {
    *("africa-south1", "asia-east1", "asia-south2", "asia-southeast3", "australia-southeast2"),
    *("europe-north1", "europe-north2", "europe-southwest1", "europe-west4", "europe-west8"),
    *("europe-west9", "europe-west10", "europe-west12", "me-central1", "me-central2", "me-west1"),
    *("northamerica-northeast2", "northamerica-south1", "southamerica-west1"),
    *("us-east5", "us-south1", "us-west1"),
}
"""The regions of Google Cloud, whether Cloud Tasks is there or not: that changes more often."""


def check_location(name: ResourceName, text: str, field: str, own: str | None) -> None:
    """Check the location of a resource; `own` is the only one that is served, None: any region.

    Raises:
        CloudTasksError: INVALID_ARGUMENT: it is another one, or there is none of this name.
    """
    given = name.location
    if given in ("", own) or (own is None and given in REGIONS):
        return
    advice = f'{field} is "{text:.200}": '
    if own is not None:
        message = texts.OTHER_LOCATION if given in REGIONS else texts.LOCATION
        advice += f"use the location {own}"
    else:
        message, meant = texts.LOCATION, closest(given, REGIONS) or DEFAULT_LOCATION
        advice += (
            f"use a region of Google Cloud such as {meant}; for another name start the server with "
            f"--location {given}"
        )
    raise invalid(message.format(location=given, app=own), advice=advice)


def list_locations(call: Call) -> Message:
    """ListLocations: the one location that is listed."""
    name = call.name._replace(location=call.own_location)
    return call.message("ListLocationsResponse", locations=[_location(call, name)])


def get_location(call: Call) -> Message:
    """GetLocation: the location that is asked for."""
    return _location(call, call.name)


def _location(call: Call, name: ResourceName) -> Message:
    labels = {"cloud.googleapis.com/region": name.location}
    return call.message("Location", name=str(name), location_id=name.location, labels=labels)
