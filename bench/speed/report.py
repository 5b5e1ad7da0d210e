"""What was measured in; lines of what was asked, measured and kept out. Pure. Milliseconds.

Added times are paired with the direct request of the same round. The noise control is the second direct way: what it
adds over the first is chance. CPU by stage is told by pairs of modes: `off` passes through, `read` recalls and
assembles besides, `write` finds the conversation and captures, and what is left behind is done by the other processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bench.figures import Line, at_least, none, status_shares, told
from bench.overhead.report import BASELINE, DIRECT

CONTROL: Final = f"{DIRECT} again"
OFF, ON, READ, WRITE, REPEATED = "memory off", "memory on", "memory read", "memory write", "memory on, repeated"
OFF_RATIO_MAX: Final = 1.15
ON_OVER_EMBEDDING_MS: Final = 3.0
TAIL_RATIO_MAX: Final = 1.5
UNIQUE_MIN: Final = 120.0
REPEATED_MIN: Final = 300.0

Found = Mapping[str, Any]


def lines_of(
    found: Found,
    embedding: Mapping[str, float],
    alone: Mapping[str, float],
    clients: int,
    left_out: Mapping[str, str],
) -> list[Line]:
    """All lines of one run; `found` is what bench.overhead.report.result_json gives, `embedding` a summary of the
    rounds' own, `alone` one of one question after the other.
    """
    latency, throughput = found["latency"], found["throughput"]
    failed = sum(entry["errors"] for entry in latency.values())
    failed += sum(level["errors"] for entry in throughput.values() for level in entry.values())
    return [
        none("all", "requests that failed", failed),
        *_off(latency, throughput),
        *_on(latency, embedding),
        told("on", "one embedding after the other, p50 and p99", f"{alone['p50']:.2f} and {alone['p99']:.2f} ms"),
        *_streams(throughput, str(clients)),
        *_stages(throughput, str(clients)),
        *_others(latency, throughput, str(clients), left_out),
    ]


def _off(latency: Found, throughput: Found) -> Iterator[Line]:
    ours, plain = latency[OFF], latency[BASELINE]
    if "added_ms" in ours and "added_ms" in plain:
        # Quantiles of the times, then their difference: a low quantile of differences would be the noise's own.
        own, base = (one["ttft_ms"]["p10"] - latency[DIRECT]["ttft_ms"]["p10"] for one in (ours, plain))
        yield _ratio("off", "first byte over direct, p10 / plain proxy", own, base, OFF_RATIO_MAX)
        own, base = ours["added_ms"]["p50"], plain["added_ms"]["p50"]
        yield _ratio("off", "added to the first byte, p50 / plain proxy", own, base, OFF_RATIO_MAX)
    for clients, level in throughput.get(OFF, {}).items():
        own, base = level.get("cpu_ms_per_stream"), throughput[BASELINE][clients].get("cpu_ms_per_stream")
        if own and base:
            yield _ratio("off", f"CPU a stream at {clients} clients / plain proxy", own, base, OFF_RATIO_MAX)


def _ratio(part: str, figure: str, value: float, base: float, bound: float) -> Line:
    if base <= 0:
        said = f"{value:.2f} / {base:.2f} ms: chance is larger than what is measured; on a quieter machine"
        return Line(part, figure, f"<= {bound:g}", said, None)
    share = value / base
    return Line(part, figure, f"<= {bound:g}", f"{share:.3f} ({value:.2f} / {base:.2f} ms)", share <= bound)


def _on(latency: Found, embedding: Mapping[str, float]) -> Iterator[Line]:
    added = latency[ON].get("added_ms")
    if not added:
        return
    control = latency[CONTROL]["added_ms"]["p99"]
    over = added["p50"] - embedding["p50"]
    yield Line(
        "on",
        "added to the first byte, p50, over the embedding",
        f"<= {ON_OVER_EMBEDDING_MS:g} ms",
        f"{over:.2f} ms ({added['p50']:.2f}, an embedding in the same rounds {embedding['p50']:.2f})",
        over <= ON_OVER_EMBEDDING_MS,
    )
    yield _ratio(
        "on",
        "added to the first byte, p99 / (noise control + embedding)",
        added["p99"],
        control + embedding["p99"],
        TAIL_RATIO_MAX,
    )
    yield told("on", "noise control and embedding, p99", f"{control:.2f} and {embedding['p99']:.2f} ms")
    statuses = latency[ON]["memory_status"]
    whole = (count for said, count in statuses.items() if said.startswith("injected") and "reason=" not in said)
    shown = ", ".join(f"{said} {count}" for said, count in statuses.items())
    # A request that memory was kept out of, or that was not embedded, is a cheap one.
    yield Line("on", "memory status", "injected, the most", shown, sum(whole) * 2 > sum(statuses.values()))


def _streams(throughput: Found, clients: str) -> Iterator[Line]:
    for name, figure, bound in (
        (ON, "unique questions", UNIQUE_MIN),
        (REPEATED, "repeated questions", REPEATED_MIN),
        (OFF, "memory off", REPEATED_MIN),
    ):
        if clients in throughput.get(name, {}):
            rate = throughput[name][clients]["streams_per_s"]
            yield at_least("streams/s", f"{clients} clients, {figure}", rate, bound)
            if said := status_shares(throughput[name][clients]):
                yield told("streams/s", f"{clients} clients, {figure}: memory status", said)
    for name in (DIRECT, BASELINE):
        if clients in throughput.get(name, {}):
            rate = throughput[name][clients]["streams_per_s"]
            yield told("streams/s", f"{clients} clients, {name}", f"{rate:.0f}")


def _stages(throughput: Found, clients: str) -> Iterator[Line]:
    levels = {name: entry[clients] for name, entry in throughput.items() if clients in entry}
    own = {name: level["cpu_ms_per_stream"] for name, level in levels.items() if "cpu_ms_per_stream" in level}
    if OFF not in own:
        return
    yield told("CPU a request", "pass through (off), proxy", f"{own[OFF]:.2f} ms")
    for name, figure in ((READ, "recall and assembly (read - off), proxy"), (WRITE, "capture (write - off), proxy")):
        if name in own:
            yield told("CPU a request", figure, f"{own[name] - own[OFF]:.2f} ms")
    if ON in own:
        yield told("CPU a request", "all of it (on), proxy", f"{own[ON]:.2f} ms")
        kinds = levels[ON].get("cpu_ms_by_kind_settled", {})
        said = ", ".join(f"{kind} {millis:.2f}" for kind, millis in kinds.items() if kind != "proxy")
        yield told("CPU a request", "left behind (on)", f"{said} ms")


def _others(latency: Found, throughput: Found, clients: str, left_out: Mapping[str, str]) -> Iterator[Line]:
    ours = {DIRECT, CONTROL, BASELINE, OFF, ON, READ, WRITE, REPEATED}
    for name in latency.keys() - ours:
        added, level = latency[name].get("added_ms"), throughput.get(name, {}).get(clients)
        rate = f", {level['streams_per_s']:.0f} streams/s at {clients}" if level else ""
        cpu = f", CPU {level['cpu_ms_per_stream']:.1f} ms" if level and "cpu_ms_per_stream" in level else ""
        yield told("others", name, f"added p50 {added['p50']:.2f} ms{rate}{cpu}" if added else "no figures")
    for name, why in left_out.items():
        yield told("others", name, f"left out: {why.splitlines()[0][:160]}")
