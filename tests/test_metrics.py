"""The catalogue of metrics and its page say the same."""

import re
from pathlib import Path

from prometheus_client import Gauge

from memory.telemetry import Metrics

PAGE = (Path(__file__).parent.parent / "docs" / "metrics.md").read_text()
FORBIDDEN = {"tenant", "user", "model", "project", "agent", "session"}


def names() -> set[str]:
    """Every metric as Prometheus shows it."""
    found = set()
    for family in Metrics().registry.collect():
        found.add(family.name + ("_total" if family.type == "counter" else ""))
    return found


def test_every_metric_is_on_the_page_and_none_that_is_not() -> None:
    assert set(re.findall(r"`(memory_proxy_[a-z_]+)`", PAGE)) == names()


def test_names_follow_the_rules_and_no_label_is_chosen_by_a_client() -> None:
    metrics = Metrics()
    for collector in metrics.registry._collector_to_names:
        labels = set(getattr(collector, "_labelnames", ()))
        assert not labels & FORBIDDEN
        assert isinstance(collector, Gauge) or labels is not None
    assert all(name.startswith("memory_proxy_") for name in names())
