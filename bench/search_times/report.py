"""Measurements in; the report as JSON, the table for people, and whether the promise is kept, out. Pure.

A figure that was not measured is None in JSON and `-` in the table. Quantiles come with their number of values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench.search_times.calls import Timed
from bench.search_times.measure import First, Hot
from bench.stats import Summary, median, paired_differences, quantile

# The promise: at so many memories in scope a hot search takes at most so much more than the embedding alone.
PROMISED_AT: Final = 10_000
PROMISED_MS: Final = 2.0


def size_json(hot: Hot | None, firsts: Sequence[First], never: Sequence[Timed]) -> dict[str, Any]:
    """All about one number of memories in scope. `never`: chats in a scope that may not be held."""
    loads = [first.load_s for first in firsts if first.load_s is not None]
    return {
        "hot": _hot_json(hot) if hot else None,
        "first_chat": {
            "service_ms": [round(first.chat.service_ms, 1) for first in firsts],
            "client_ms": [round(first.chat.client_ms, 1) for first in firsts],
            "answered": _answered([first.chat for first in firsts]),
            "loaded_after_s": [round(load_s, 2) for load_s in loads],
            "never_loaded": len(firsts) - len(loads),
            "held_bytes": max((first.held_bytes for first in firsts), default=0),
        },
        "cold": _timed_json(never),
    }


def _hot_json(hot: Hot) -> dict[str, Any]:
    service, client = [one.service_ms for one in hot.searches], [one.client_ms for one in hot.searches]
    return {
        "embedding_ms": Summary.of(hot.embedding_ms).as_json(),
        "search": _timed_json(hot.searches),
        "chat": _timed_json(hot.chats),
        "over_embedding_ms": {
            "service": median(service) - median(hot.embedding_ms),
            "client": median(client) - median(hot.embedding_ms),
            "service_p10": quantile(service, 0.1) - quantile(hot.embedding_ms, 0.1),
            "service_paired": median(paired_differences(service, hot.embedding_ms)),
        },
        "cpu_ms": dict(hot.cpu_ms),
    }


def _timed_json(several: Sequence[Timed]) -> dict[str, Any] | None:
    if not several:
        return None
    return {
        "service_ms": Summary.of([one.service_ms for one in several]).as_json(),
        "client_ms": Summary.of([one.client_ms for one in several]).as_json(),
        "answered": _answered(several),
    }


def _answered(several: Sequence[Timed]) -> dict[str, int]:
    return dict(sorted(Counter(one.answered for one in several).items()))


def promise(sizes: Mapping[str, Any]) -> str | None:
    """The line about the promise; None where its size was not measured hot."""
    hot = sizes.get(str(PROMISED_AT), {}).get("hot")
    if not hot:
        return None
    over_ms = hot["over_embedding_ms"]
    return (
        f"{'kept' if over_ms['service'] <= PROMISED_MS else 'MISSED'}: a hot search of {PROMISED_AT:,} takes "
        f"{over_ms['service']:+.2f} ms over the embedding alone (p50 against p50, service's own time; promised "
        f"{PROMISED_MS:g} ms); {over_ms['service_p10']:+.2f} by p10, which a busy machine disturbs least; "
        f"{over_ms['client']:+.2f} with HTTP and JSON"
    )


def table(report: Mapping[str, Any]) -> str:
    """For people: one table hot, one cold, milliseconds unless said otherwise."""
    sizes = report["sizes"]
    lines = [f"{report['store']:,} memories in the store; milliseconds; p50 / p99", ""]
    lines += _hot_lines(sizes)
    lines += ["", *_cold_lines(sizes)]
    kept = promise(sizes)
    return "\n".join([*lines, "", kept] if kept else lines)


def _hot_lines(sizes: Mapping[str, Any]) -> list[str]:
    heads = ("embedding", "search, service", "search, client", "chat, added", "CPU proxy", "CPU postgres", "answered")
    rows: list[Sequence[str]] = [("hot: in scope", *heads)]
    for size, one in sizes.items():
        hot = one["hot"]
        if hot is None:
            rows.append((f"{int(size):,}", "never held", *["-"] * (len(heads) - 1)))
            continue
        times = (hot["embedding_ms"], hot["search"]["service_ms"], hot["search"]["client_ms"])
        cells = [*map(_pair, times), _pair(hot["chat"]["service_ms"])]
        cells += [_number(hot["cpu_ms"].get(kind)) for kind in ("proxy", "postgres")]
        rows.append((f"{int(size):,}", *cells, _counts(hot["search"]["answered"])))
    return _grid(rows)


def _cold_lines(sizes: Mapping[str, Any]) -> list[str]:
    heads = ("first chat, added", "answered", "loaded after s", "index MiB", "never held, added", "client", "answered")
    rows: list[Sequence[str]] = [("cold: in scope", *heads)]
    for size, one in sizes.items():
        first, cold = one["first_chat"], one["cold"]
        cells = [_range(first["service_ms"]), _counts(first["answered"]), _range(first["loaded_after_s"])]
        cells.append(_number(first["held_bytes"] / 2**20 or None))
        cells += [_pair(cold["service_ms"]), _pair(cold["client_ms"]), _counts(cold["answered"])] if cold else ["-"] * 3
        rows.append((f"{int(size):,}", *cells))
    return _grid(rows)


def _grid(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as they must be, to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def _pair(summary: Mapping[str, float]) -> str:
    return f"{summary['p50']:.1f} / {summary['p99']:.1f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _range(values: Sequence[float]) -> str:
    """The least and the largest."""
    if not values:
        return "-"
    return f"{values[0]:.1f}" if len(values) == 1 else f"{min(values):.1f}..{max(values):.1f}"


def _counts(answered: Mapping[str, int]) -> str:
    return " ".join(f"{name}:{number}" for name, number in answered.items()) or "-"
