"""The catalogue of metrics and its page say the same."""

import re
from pathlib import Path

import pytest
from prometheus_client import Gauge

from memory.telemetry import Metrics
from memory.write import meter

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


def test_what_is_put_back_is_not_said_to_be_counted_as_placed() -> None:
    """Of a long conversation nearly all of memory is put back: the count of what is placed said that it was all."""
    said = {family.name: family.documentation for family in Metrics().registry.collect()}
    assert said["memory_proxy_injected_memories"] == "Memories newly placed in prompts."
    assert said["memory_proxy_injected_tokens"] == "Tokens of these memories."
    for row in re.findall(r"^\| `memory_proxy_injected_\w+` .*", PAGE, re.MULTILINE):
        assert "memory_proxy_ledger_" in row


def test_names_follow_the_rules_and_no_label_is_chosen_by_a_client() -> None:
    metrics = Metrics()
    for collector in metrics.registry._collector_to_names:
        labels = set(getattr(collector, "_labelnames", ()))
        assert not labels & FORBIDDEN
        assert isinstance(collector, Gauge) or labels is not None
    assert all(name.startswith("memory_proxy_") for name in names())


@pytest.mark.parametrize(("metric", "of"), [("hand_off", "Hand-off"), ("work", "Worker")])
def test_the_page_says_what_each_count_of_the_write_path_is(metric: str, of: str) -> None:
    (row,) = (line for line in PAGE.splitlines() if line.startswith(f"| `memory_proxy_{metric}_total`"))
    listed = re.search(rf"{of}:(.*?)\.", meter.Meter.__doc__ or "", re.DOTALL)
    assert listed is not None
    named = set(re.findall(r"`([a-z_]+)`", listed[1]))
    assert len(named) >= 6 and named <= set(re.findall(r"`([a-z_]+)`", row))
