"""Whose reading of queue.yaml counts."""

from __future__ import annotations

PROFILES = ("gcloud", "sdk", "java", "rest", "migration")
"""Whose reading of the format is checked for.

`gcloud`: what `gcloud app deploy` refuses, the nearest to production. `sdk`: as lenient as
Google's Python library. `java`: the Java SDK's reader of queue.yaml. `rest`: gcloud's, for
queues whose tasks are leased over REST. `migration`: gcloud's, with what will not survive a move
away from pull queues.
"""
