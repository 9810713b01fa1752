"""Local room: numbers about the service. Their labels are addresses, statuses and the release: no item and no person."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from lowkey.serving.http.served import Current

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
OTHER = "other"


class Metrics:
    """One registry per service; ``paths`` are the only addresses that are told apart."""

    def __init__(self, current: Current, paths: Iterable[str]) -> None:
        self.registry, self.paths = CollectorRegistry(), frozenset(paths)
        self.requests = Counter("lowkey_requests", "Answers.", ["path", "status"], registry=self.registry)
        self.seconds = Histogram(
            "lowkey_request_seconds", "Time to answer.", ["path"], registry=self.registry, buckets=SECONDS
        )
        self.under_way = Gauge("lowkey_requests_under_way", "Requests that wait for their answer.", registry=self.registry)
        self.registry.register(_Release(current))

    def answered(self, path: str, status: int, seconds: float) -> None:
        known = path if path in self.paths else OTHER
        self.requests.labels(known, str(status)).inc()
        self.seconds.labels(known).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _Release(Collector):
    def __init__(self, current: Current) -> None:
        self.current = current

    def collect(self) -> Iterable[InfoMetricFamily | CounterMetricFamily]:
        served = self.current.served
        yield InfoMetricFamily("lowkey_release", "What is served.", {"id": served.id, "method": served.model.method})
        swaps = CounterMetricFamily("lowkey_swaps", "New release folders.", labels=["outcome"])
        for outcome, times in self.current.swaps.items():
            swaps.add_metric([outcome], times)
        yield swaps
