"""The operation that gives the server's numbers to Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pullqueue
from pullqueue.control.operations import Answer, Call
from pullqueue.control.queues import pull_queues
from pullqueue.control.serializers import queue_json

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""What Prometheus reads whatever it asks for."""


def metrics(call: Call) -> Answer:
    """Queues and requests as numbers."""
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 - late

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Numbers(call))
    return Answer(body=generate_latest(registry).decode(), content_type=CONTENT_TYPE)


class _Numbers:
    """The numbers of one moment, in the form that the client library asks for."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def collect(self) -> Iterator[Metric]:
        """Give every metric."""
        yield from self._of_queues()
        yield from self._of_requests()

    def _of_queues(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 - late

        tasks = GaugeMetricFamily(
            "pullqueue_tasks", "Tasks now in a queue, by state.", labels=["queue", "state"]
        )
        gauges = {
            field: GaugeMetricFamily(f"pullqueue_{name}", text, labels=["queue"])
            for field, name, text in (
                ("exhausted", "exhausted_tasks", "Exhausted tasks that are remembered."),
                ("bytes_stored", "stored_bytes", "Payloads, names and tags."),
                ("leased_last_minute", "leased_last_minute", "Tasks leased in the last minute."),
                ("leased_last_hour", "leased_last_hour", "Tasks leased in the last hour."),
                ("oldest_age_seconds", "oldest_task_age_seconds", "Since the first eta, if past."),
            )
        }
        now_usec = self._call.emulator.clock.now_usec()
        for queue in pull_queues(self._call):
            numbers = queue_json(queue, now_usec=now_usec)
            for state in ("available", "leased", "scheduled"):
                tasks.add_metric([queue.name, state], numbers[state])
            for field, gauge in gauges.items():
                gauge.add_metric([queue.name], numbers[field] or 0)
        yield tasks
        yield from gauges.values()

    def _of_requests(self) -> Iterator[Metric]:
        from prometheus_client.core import (  # noqa: PLC0415 - late
            CounterMetricFamily,
            GaugeMetricFamily,
            InfoMetricFamily,
        )

        log = self._call.state.requests
        requests = CounterMetricFamily(
            "pullqueue_requests", "Requests to the API.", labels=["verb", "status"]
        )
        for (verb, status), count in log.counts.copy().items():
            requests.add_metric([verb, str(status)], count)
        yield requests
        yield CounterMetricFamily(
            "pullqueue_request_seconds", "What all requests took together.", value=log.seconds
        )
        now = self._call.emulator.clock.now()
        yield GaugeMetricFamily("pullqueue_clock_seconds", "The clock.", value=now.timestamp())
        yield InfoMetricFamily("pullqueue", "What runs.", {"version": pullqueue.__version__})
