"""Results as a table, as JSON and as a list of what is wrong. Pure; no arithmetic but sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from bench.prefix_cache.real import Arms
from bench.prefix_cache.simulate import Result, Sums

# Fewer prompts with memory than this show nothing about memory.
BLOCKS_LEAST: Final = 0.5
_HEAD: Final = f"{'scenario':12}{'kind':12}{'family':10}{'requests':>9}{'blocks':>8}{'off':>8}{'own':>8}{'raw':>8}"
_HEAD_TAIL: Final = f"{'violations':>12}{'refused':>9}"


def table(results: Mapping[str, Sequence[Result]]) -> str:
    """One line a scenario and family, and one for each kind of request in it."""
    lines = [
        "prefix cache, simulated: off = cached share without memory; own, raw = with memory against that",
        _HEAD + _HEAD_TAIL,
    ]
    for scenario, some in results.items():
        for result in some:
            line = _line(scenario, "all", result.family, result.whole)
            lines.append(f"{line}{result.violations.total():>12}{result.unfit:>9}")
            if len(result.kinds) > 1:
                lines += [_line("", kind, result.family, sums) for kind, sums in result.kinds.items()]
    examples = [
        f"  {result.family}: {said}" for some in results.values() for result in some for said in result.examples
    ]
    if examples:
        lines += ["", "violations, for example:", *examples[:12]]
    return "\n".join(lines)


def _line(scenario: str, kind: str, family: str, sums: Sums) -> str:
    blocks = sums.with_block / sums.requests if sums.requests else 0.0
    off = sums.off_cached / sums.off_tokens if sums.off_tokens else 0.0
    figures = f"{sums.requests:>9}{blocks:>8.3f}{off:>8.3f}{_shown(sums.ratio)}{_shown(sums.raw_ratio)}"
    return f"{scenario:12}{kind:12}{family:10}{figures}"


def _shown(ratio: float | None) -> str:
    return f"{'-':>8}" if ratio is None else f"{ratio:>8.4f}"


def run_json(results: Mapping[str, Sequence[Result]]) -> dict[str, Any]:
    """By scenario and family."""
    return {scenario: {result.family: _result_json(result) for result in some} for scenario, some in results.items()}


def _result_json(result: Result) -> dict[str, Any]:
    return {
        "all": _sums_json(result.whole),
        "kinds": {kind: _sums_json(sums) for kind, sums in result.kinds.items()},
        "violations": dict(result.violations),
        "examples": result.examples,
        "refused_by_template": result.unfit,
    }


def _sums_json(sums: Sums) -> dict[str, Any]:
    return {**asdict(sums), "ratio": sums.ratio, "raw_ratio": sums.raw_ratio}


def run_failures(results: Mapping[str, Sequence[Result]], bound: float) -> list[str]:
    """What is wrong with a run, in words; empty when all is well."""
    failures: list[str] = []
    for scenario, some in results.items():
        for result in some:
            name, whole = f"{scenario}, {result.family}", result.whole
            if not whole.requests:
                failures.append(f"{name}: not one request could be rendered")
                continue
            if whole.ratio is None or whole.ratio < bound:
                failures.append(f"{name}: own tokens {_shown(whole.ratio).strip()} < {bound}")
            if result.violations["altered"]:
                failures.append(f"{name}: {result.violations['altered']} prompts changed by more than blocks")
            if whole.with_block < BLOCKS_LEAST * whole.requests:
                failures.append(f"{name}: memory in {whole.with_block} of {whole.requests} prompts shows nothing")
    return failures


def real_table(found: Sequence[Arms]) -> str:
    """One line a kind of client."""
    lines = [
        "prefix cache, vLLM's own figures: cached share of the client's own prompt tokens",
        f"{'scenario':12}{'requests':>9}{'blocks':>8}{'off':>8}{'on':>8}{'on/off':>8}{'raw':>8}{'sim':>8}{'counters':>17}",
    ]
    for one in found:
        blocks = one.with_block / one.requests if one.requests else 0.0
        counters = f"{one.off_hits:.0f}/{one.on_hits:.0f}"
        shares = f"{one.off_share:>8.3f}{one.on_share:>8.3f}{_shown(one.ratio)}{_shown(one.raw_ratio)}"
        lines.append(f"{one.scenario:12}{one.requests:>9}{blocks:>8.3f}{shares}{one.as_simulated:>8.3f}{counters:>17}")
    return "\n".join(lines)


def real_failures(found: Sequence[Arms], bound: float) -> list[str]:
    """What is wrong with a run on a real vLLM; a run of nothing, too."""
    failures = [] if found else ["none of the scenarios asked for is played on a real vLLM"]
    failures += [
        f"{one.scenario}: own tokens {_shown(one.ratio).strip()} < {bound}"
        for one in found
        if one.ratio is None or one.ratio < bound
    ]
    return failures + [
        f"{one.scenario}: memory in {one.with_block} of {one.requests} prompts shows nothing"
        for one in found
        if one.with_block < BLOCKS_LEAST * one.requests
    ]
