"""Metrics as Prometheus reads them: the values of `projections.measured`, as its client library writes them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from projections.measured import FAMILIES, Family, Samples


class Exposed(Collector):
    """What the library collects: every metric there is, with the values that it has now."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        """The metrics, in their order."""
        for family in FAMILIES:
            yield _metric(family, self._samples)


def exposed(samples: Samples, accept: str = "") -> tuple[bytes, str]:
    """The text of *samples* in the format that the header *accept* prefers, and what that is called."""
    encode, content_type = choose_encoder(accept)
    return encode(Exposed(samples)), content_type


def _metric(family: Family, samples: Samples) -> Metric:
    made = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "summary": SummaryMetricFamily}[family.kind]
    metric: Metric = made(family.name, family.says, labels=family.labels)
    for labels, value in samples.get(family.name, []):
        metric.add_metric(labels, *(value if isinstance(value, tuple) else (value,)))  # type: ignore[attr-defined]
    return metric
