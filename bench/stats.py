"""Small statistics that all benchmarks share: sequences of numbers in, frozen summaries out.

Quantiles interpolate linearly, as numpy's default does. Empty input is refused (ValueError), since a
figure without a measurement must not reach a report. Pure, standard library only.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0..1) of the values lie. Raises ValueError when there are none."""
    if not values:
        raise ValueError("no values to take a quantile of")
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share must lie in 0..1, not {share}")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values: Sequence[float]) -> float:
    return quantile(values, 0.5)


def paired_differences(values: Sequence[float], baseline: Sequence[float]) -> list[float]:
    """values[i] - baseline[i]. Raises ValueError when the lengths differ."""
    return [value - base for value, base in zip(values, baseline, strict=True)]


def ratio(value: float, baseline: float) -> float | None:
    """value / baseline, or None where the baseline is too small to divide by."""
    return value / baseline if abs(baseline) > 1e-12 else None


@dataclass(frozen=True, slots=True)
class Summary:
    """One distribution in the unit of its values. p10 is the figure least disturbed by a busy machine."""

    count: int
    mean: float
    p10: float
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, values: Sequence[float], scale: float = 1.0) -> "Summary":
        """Summarise values times `scale` (1000 turns seconds into milliseconds). Raises ValueError when empty."""
        scaled = [value * scale for value in values]
        return cls(
            count=len(scaled),
            p10=quantile(scaled, 0.1),
            p50=quantile(scaled, 0.5),
            p90=quantile(scaled, 0.9),
            p99=quantile(scaled, 0.99),
            mean=sum(scaled) / len(scaled),
        )

    def as_json(self) -> dict[str, float]:
        return asdict(self)


def median_interval(values: Sequence[float], *, resamples: int = 1000) -> tuple[float, float]:
    """Bootstrap 95 % confidence interval of the median (percentile method, fixed seed, so repeatable)."""
    draw = random.Random(20_260_101)
    medians = [median(draw.choices(values, k=len(values))) for _ in range(resamples)]
    return quantile(medians, 0.025), quantile(medians, 0.975)
