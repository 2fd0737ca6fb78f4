"""The operation that returns the server's numbers to Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pullqueue
from pullqueue.api.errors import ApiError
from pullqueue.control.models import Queue
from pullqueue.control.operations import operation
from pullqueue.control.state import ServerState

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_GAUGES = (
    ("exhausted", "exhausted_tasks", "Exhausted tasks that are stored."),
    ("bytes_stored", "stored_bytes", "Payloads, names and tags."),
    ("leased_last_minute", "leased_last_minute", "Tasks leased in the last minute."),
    ("leased_last_hour", "leased_last_hour", "Tasks leased in the last hour."),
    ("oldest_age_seconds", "oldest_task_age_seconds", "Since the first eta, if past."),
)
"""Field of a queue, name and description of the metric."""


@operation("GET", "/metrics", content_type="text/plain; version=0.0.4; charset=utf-8")
def get_metrics(state: ServerState) -> str:
    """Return the numbers of queues and requests to Prometheus."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 - extra
    except ImportError:
        message = "metrics need an extra: pip install 'pullqueue[metrics]'"
        raise ApiError(message, status=501, reason="notImplemented") from None
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(state))
    return generate_latest(registry).decode()


class _Collector:
    """The current numbers, in the form that the client library asks for."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        yield from self._of_queues()
        yield from self._of_requests()

    def _of_queues(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 - extra

        tasks = GaugeMetricFamily(
            "pullqueue_tasks", "Tasks now in a queue, by state.", labels=["queue", "state"]
        )
        gauges = {
            field: GaugeMetricFamily(f"pullqueue_{name}", text, labels=["queue"])
            for field, name, text in _GAUGES
        }
        for queue in map(Queue.of, self._state.pull_queues()):
            for state in ("available", "leased", "scheduled"):
                tasks.add_metric([queue.name, state], getattr(queue, state))
            for field, gauge in gauges.items():
                gauge.add_metric([queue.name], getattr(queue, field) or 0)
        yield tasks
        yield from gauges.values()

    def _of_requests(self) -> Iterator[Metric]:
        from prometheus_client.core import (  # noqa: PLC0415 - extra
            CounterMetricFamily,
            GaugeMetricFamily,
            InfoMetricFamily,
        )

        log = self._state.requests
        requests = CounterMetricFamily(
            "pullqueue_requests", "Requests to the API.", labels=["verb", "status"]
        )
        for (verb, status), count in log.counts.copy().items():
            requests.add_metric([verb, str(status)], count)
        yield requests
        yield CounterMetricFamily(
            "pullqueue_request_seconds", "Duration of all requests together.", value=log.seconds
        )
        now = self._state.emulator.clock.now()
        yield GaugeMetricFamily("pullqueue_clock_seconds", "The clock.", value=now.timestamp())
        yield InfoMetricFamily("pullqueue", "What runs.", {"version": pullqueue.__version__})
