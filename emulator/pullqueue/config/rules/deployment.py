"""Rules on what a deployment leaves out, and what does not survive a migration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pullqueue.config.findings import Severity
from pullqueue.config.reports import Report
from pullqueue.config.rules.base import Rule
from pullqueue.config.text import shorten
from pullqueue.config.view import View

_IN_MIGRATION: Mapping[str, Severity | None] = {"migration": Severity.INFO}


class AclNotDeployed(Rule):
    """`acl` is not deployed by current versions of gcloud.

    They write queues through the Cloud Tasks API, which has no such field. What an older
    deployment has set stays.

    Bad:
        queue:
        - name: jobs
          mode: pull
          acl:
          - user_email: worker@example.com

    Good:
        queue:
        - name: jobs
          mode: pull

    Source: gcloud's deployment of queues.
    """

    code = "QY504"
    name = "acl-not-deployed"
    severity = Severity.INFO
    opt_in = True
    levels = _IN_MIGRATION

    def check(self, view: View) -> Iterator[Report]:
        """Report every `acl` of a pull queue."""
        for queue in view.queues:
            entry = queue.get("acl")
            if entry is not None and queue.mode == "pull":
                message = "gcloud no longer deploys `acl`: grant access with IAM roles instead"
                yield Report(at=entry.key_place, message=message, path=entry.path)


class StorageLimitNotDeployed(Rule):
    """`total_storage_limit` is not deployed by current versions of gcloud.

    They write queues through the Cloud Tasks API, which has no such field.

    Bad:
        total_storage_limit: 120M
        queue:
        - name: mail
          rate: 5/s

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: gcloud's deployment of queues.
    """

    code = "QY505"
    name = "storage-limit-not-deployed"
    severity = Severity.INFO
    opt_in = True
    levels = _IN_MIGRATION

    def check(self, view: View) -> Iterator[Report]:
        """Report the key."""
        entry = view.top.get("total_storage_limit")
        if entry is not None:
            message = "gcloud no longer deploys `total_storage_limit`: it has no effect"
            yield Report(at=entry.key_place, message=message, path=entry.path)


class PullToPubsub(Rule):
    """A pull queue has no place in Cloud Tasks.

    Google's advice is to move pull queues to Pub/Sub, before push queues are moved to Cloud
    Tasks. Pub/Sub knows neither leases by tag nor names that keep a task from being added twice,
    nor a deletion by name.

    Bad:
        queue:
        - name: jobs
          mode: pull

    Good:
        queue:
        - name: mail
          rate: 5/s

    Source: Google's guide to migrating pull queues.
    """

    code = "QY507"
    name = "pull-to-pubsub"
    severity = Severity.INFO
    opt_in = True
    levels = _IN_MIGRATION

    def check(self, view: View) -> Iterator[Report]:
        """Report every pull queue."""
        for queue in view.queues:
            entry = queue.get("mode")
            if queue.mode == "pull" and entry is not None:
                message = (
                    f"{queue.title} cannot move to Cloud Tasks, which has no pull queues: move it "
                    "to Pub/Sub first; it has no leases by tag and no unique names of tasks"
                )
                yield Report(at=entry.place, message=message, path=entry.path)


class QueueRemoved(Rule):
    """A queue of an earlier version of the file is gone.

    The next deployment disables it: its tasks stay, and nobody can reach them. Needs
    `--against`.

    Bad (against mail and jobs):
        queue:
        - name: mail
          rate: 5/s

    Good (against mail):
        queue:
        - name: mail
          rate: 5/s

    Source: documentation.
    """

    code = "QY509"
    name = "queue-removed"
    severity = Severity.WARNING

    def check(self, view: View) -> Iterator[Report]:
        """Report the queues that are missed, at `queue`."""
        names = {queue.name for queue in view.queues}
        missed = [name for name in view.settings.previous_names if name not in names | {"default"}]
        entry = view.top.entries.get("queue")
        if missed:
            listed = ", ".join(f'"{shorten(name)}"' for name in missed)
            message = (
                f"no longer here: {listed}; a deployment disables a removed queue and its tasks "
                "stay out of reach: empty it first, or keep it"
            )
            at = entry.key_place if entry else view.top.place
            yield Report(at=at, message=message, path="queue")
