"""Reports for people: the JSON of the measurements in, tables out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Report = Mapping[str, Any]


def table(report: Report) -> str:
    """All that was measured."""
    parts: list[str] = [f"load before: {report['load_before']}"]
    if report.get("throughput"):
        parts.append(throughput_table(report["throughput"]))
    if report.get("lag"):
        parts.append(lag_table(report["lag"]))
    if report.get("catch_up"):
        parts.append(catch_up_table(report["catch_up"]))
    return "\n\n".join(parts)


def throughput_table(runs: Sequence[Report]) -> str:
    """A column for each mix."""
    lines = ["## throughput, one worker, a full queue"]
    lines += [_row("", [run["mix"] for run in runs])]
    lines += [
        _row("exchanges", [f"{run['exchanges']:,}" for run in runs]),
        _row("characters of an exchange", [f"{run['chars_per_exchange']:,.0f}" for run in runs]),
        _row("windows embedded", [f"{run['timed']['windows_per_exchange']:.1f}" for run in runs]),
        _row("stored a second", [f"{run['per_second']:.1f}" for run in runs]),
        _row("  by thirds", ["/".join(f"{rate:.0f}" for rate in run["per_second_by_third"]) for run in runs]),
        _row("  with the stop-watch", [f"{run['timed']['per_second']:.1f}" for run in runs]),
        "",
        "CPU ms of an exchange, by process",
    ]
    kinds = sorted({kind for run in runs for kind in run["cpu_ms_per_exchange"]})
    lines += [_row(f"  {kind}", [f"{run['cpu_ms_per_exchange'].get(kind, 0.0):.1f}" for run in runs]) for kind in kinds]
    lines += ["", "CPU ms of an exchange, by step of the worker"]
    steps = runs[0]["timed"]["cpu_ms_by_step"]
    lines += [_row(f"  {name}", [f"{run['timed']['cpu_ms_by_step'][name]:.2f}" for run in runs]) for name in steps]
    return "\n".join(lines)


def lag_table(run: Report) -> str:
    """One column."""
    beside = f", {run['import_turns']:,} turns imported beside it" if run["import_turns"] else ""
    lines = [f"## lag at {run['per_second']:.1f} exchanges a second for {run['seconds']:.0f} s ({run['mix']}){beside}"]
    lines += _spreads(run, "")
    lines += [
        f"waiting in the queue: p50 {run['queue']['p50']:.0f}, most {run['queue']['max']:.0f}, the oldest for "
        f"{run['queue']['oldest_s_max']:.1f} s",
        f"cores used: {_cores(run['cores_used'])}; {run['degraded']:.1%} of the chats had to do without memory",
    ]
    return "\n".join(lines)


def catch_up_table(run: Report) -> str:
    """The phases, one below the other."""
    counted = run["counted"]
    lines = [
        f"## catch-up: {run['backlog']:,} exchanges waited (an hour at 15/s times {run['scale']:g}; {run['mix']})",
        f"caught up in {run['seconds']:.0f} s, {run['per_second']:.1f} exchanges a second, by thirds "
        f"{'/'.join(f'{rate:.0f}' for rate in run['per_second_by_third'])}, with {run['chats_per_second']:g} chats a "
        "second beside it",
        f"queue {run['queue_mib']['idle']:.0f} MiB, full {run['queue_mib']['peak']:.0f} MiB; worker "
        f"{run['worker_mib']['before']:.0f} MiB, {run['worker_mib']['after']:.0f} after, "
        f"{run['worker_mib']['peak']:.0f} at its highest",
        f"cores used: {_cores(run['cores_used'])}",
    ]
    for phase in ("before", "stopped", "catching"):
        lines += _spreads(run[phase], phase)
    lines += [
        f"of the chats of the first half, {run['stored_before_the_backlog']:.0%} were stored before the backlog was",
        f"{counted['exchanges']:,} exchanges: {counted['missing']} missing, {counted['turns_missing']} turns missing, "
        f"{counted['turns_with_two_memories']} turns with two memories",
    ]
    return "\n".join(lines)


def _spreads(run: Report, phase: str) -> list[str]:
    lines = [f"{phase:24} {'p50':>9} {'p95':>9} {'p99':>9} {'most':>9} {'count':>7}"]
    for what, name in (
        ("lag_s", "stored after, s"),
        ("search_lag_s", "found after, s"),
        ("client_ms", "chat, ms"),
        ("memory_ms", "  of it for memory, ms"),
    ):
        if one := run.get(what):
            digits = 2 if what.endswith("_s") else 1
            figures = " ".join(f"{one[at]:9.{digits}f}" for at in ("p50", "p95", "p99", "max"))
            lines.append(f"{name:24} {figures} {one['count']:7}")
    return lines


def _cores(used: Mapping[str, float]) -> str:
    return ", ".join(f"{kind} {cores:.2f}" for kind, cores in used.items())


def _row(name: str, cells: Sequence[str]) -> str:
    return f"{name:28}" + "".join(f"{cell:>14}" for cell in cells)
