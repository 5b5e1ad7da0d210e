"""`python -m bench.report --out docs/benchmarks.md DIR`: the latest figures of every benchmark into the page.

In: a directory of the JSON files that benchmarks write, at any depth, and the page. Out: the page, in which what stands
between `<!-- figures NAME -->` and `<!-- end -->` is what its newest whole report says. Where DIR has none, what stands
there stays ("Not measured yet." on a new page), so that benchmarks can be run on different days. A figure is never
typed by hand. Refuses (exit 1) a page that names no benchmark, and names on stderr every file that is no report;
`--check` writes nothing and says whether the page is as it would be written.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.figures import Line, at_least, from_json, status_shares, table, told
from bench.trace.bounds import BOUNDS

# A soak shorter than this is a look, and takes no hour's place on the page.
SOAK_MINUTES_MIN: Final = 15
_PLACE: Final = re.compile(r"(<!-- figures ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

Report = Mapping[str, Any]


class PageUnfit(Exception):
    """A page that cannot be filled; the text says why."""


def reports_below(folder: Path, say: Callable[[str], None]) -> dict[str, tuple[Path, Report]]:
    """The newest whole report of each benchmark, by its name."""
    found: dict[str, tuple[Path, Report]] = {}
    for path in sorted(folder.rglob("*.json")):
        try:
            report = json.loads(path.read_text())
            named = named_report(report, path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
            say(f"{path}: no report ({type(exc).__name__} {exc})")
            continue
        if named is None:
            say(f"{path}: passed over, not of a benchmark known here or not whole")
            continue
        whole = report if isinstance(report, dict) else {"lines": report}
        if named not in found or _when(path, whole) >= _when(*found[named]):
            found[named] = (path, whole)
    return found


def _when(path: Path, report: Report) -> str:
    """When it was made, as it says itself; else when its file was written."""
    return str(report.get("at") or datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat())


def named_report(report: Any, path: Path) -> str | None:
    """Which benchmark wrote this. None: none that is known, or one that was cut off."""
    if isinstance(report, list):  # the security report is its lines alone
        from_json(report)
        return "security"
    if report.get("complete") is False:
        return None
    if "bench" in report and "lines" in report:
        if report["bench"] == "trace":
            return f"trace-{report['settings']['trace']}"
        if report["bench"] == "soak" and float(report["settings"]["minutes"]) < SOAK_MINUTES_MIN:
            return None  # a look
        return _soak(report["settings"]) if report["bench"] == "soak" else str(report["bench"])
    return _by_its_members(report)


def _soak(settings: Mapping[str, Any]) -> str:
    """A soak by its speed, and whether its caches were full from the first minutes on."""
    speed = float(settings["speed"])
    bounded = "-bounded" if BOUNDS.keys() & settings.keys() else ""
    return f"soak{bounded}" if speed == 1 else f"soak{bounded}-x{speed:g}"


def _by_its_members(report: Report) -> str | None:
    """Which benchmark wrote a report that does not say so."""
    if "scenarios" in report and "kept" in report:
        only = report["setting"]["only"]
        return "faults" if only is None else "faults-rounds" if only == ["rounds"] else None  # some of them: a look
    if "sets" in report and all("ours" in one for one in report["sets"].values()):
        return "recall"
    return "overhead" if "paces" in report else "prefix-cache-vllm" if "real" in report else None


def lines_of(name: str, report: Report) -> list[Line]:
    """Its lines; of benchmarks older than lines, those that say the most."""
    if "lines" in report:
        return from_json(report["lines"])
    return list(_OLDER[name](report))


def _recall(report: Report) -> Iterable[Line]:
    for name, one in report["sets"].items():
        for figure in ("recall@10", "ndcg@10"):
            if figure in one["ours"]:
                yield told(name, figure, f"{one['ours'][figure]['mean']:.3f}")


def _overhead(report: Report) -> Iterable[Line]:
    for pace, found in report["paces"].items():
        for way, entry in found["latency"].items():
            if "added_ms" in entry and way != "direct":
                added = entry["added_ms"]
                said = f"{added['p10']:.2f} / {added['p50']:.2f} / {added['p99']:.2f} ms"
                yield told(pace, f"{way}: added to the first byte, p10 / p50 / p99", said)
        for way, levels in found["throughput"].items():
            said = ", ".join(f"{level['streams_per_s']:.0f} ({clients})" for clients, level in levels.items())
            yield told(pace, f"{way}: streams a second (clients)", said)
            for clients, level in levels.items():
                if shares := status_shares(level):
                    yield told(pace, f"{way}: memory status at {clients} clients", shares)


def _prefix_cache_vllm(report: Report) -> Iterable[Line]:
    bound = float(report["settings"]["bound"])
    for one in report["real"]:
        figure = "cached share of the client's own tokens, on / off"
        if one["ratio"] is None:
            yield Line(one["scenario"], figure, f">= {bound:g}", "nothing was cached without memory", False)
            continue
        yield at_least(one["scenario"], figure, one["ratio"], bound)
        yield told(one["scenario"], "the same of all tokens, memory's own among them", f"{one['raw_ratio']:.3f}")


def _faults(report: Report) -> Iterable[Line]:
    for one in report["scenarios"]:
        findings = one["findings"]
        kept = sum(found["kept"] for found in findings)
        said = one["skipped"] or one["broken"] or f"{kept} of {len(findings)}"
        yield Line(one["name"], "promises kept", "all", said, None if one["skipped"] else one["verdict"] == "kept")
        if one["name"] == "rounds":
            yield told("rounds", "rounds of this run", str(report["setting"]["rounds"]))
        yield from (
            Line(one["name"], found["promise"], found["asked"], found["found"], found["kept"])
            for found in findings
            if not found["kept"] or one["name"] == "rounds"
        )


_OLDER: Final[Mapping[str, Callable[[Report], Iterable[Line]]]] = {
    "recall": _recall,
    "overhead": _overhead,
    "prefix-cache-vllm": _prefix_cache_vllm,
    "faults": _faults,
    "faults-rounds": _faults,
}


def figures(name: str, report: Report) -> str:
    """What the page says of one benchmark."""
    machine = report.get("machine") or {}
    about = [str(report["at"])[:10]] if report.get("at") else []
    if machine:
        about.append(f"{machine.get('cpus', '?')} cores, load {machine.get('load_before', '?')} before")
        about += [f"Python {machine['python']}"] if "python" in machine else []
    settings = ", ".join(f"{key} {value}" for key, value in (report.get("settings") or {}).items() if value is not None)
    head = "; ".join([*about, *([settings] if settings else [])])
    return (f"Measured {head}.\n\n" if head else "") + table(lines_of(name, report)) + "\n"


def filled(page: str, found: Mapping[str, tuple[Path, Report]]) -> str:
    """The page with the figures in their places. Raises PageUnfit."""
    if not _PLACE.search(page):
        raise PageUnfit("the page has no place for figures: <!-- figures NAME --> … <!-- end -->")
    if doubled := {name for name in places(page) if places(page).count(name) > 1}:
        raise PageUnfit(f"the page has two places for {', '.join(sorted(doubled))}")

    def told_anew(place: re.Match[str]) -> str:
        name = place[2]
        return f"{place[1]}{figures(name, found[name][1])}{place[3]}" if name in found else place[0]

    return _PLACE.sub(told_anew, page)


def places(page: str) -> list[str]:
    """The benchmarks that a page has a place for."""
    return [place[1] for place in _PLACE.findall(page)]


def main(argv: Sequence[str] | None = None) -> int:
    """Fill the page."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="where the JSON files of benchmarks lie")
    parser.add_argument("--out", type=Path, required=True, metavar="PAGE", help="the page; it has to be there")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where the page would change")
    arguments = parser.parse_args(argv)
    if not arguments.folder.is_dir():
        parser.error(f"{arguments.folder} is no directory")
    found = reports_below(arguments.folder, lambda text: print(f"report: {text}", file=sys.stderr))
    try:
        page = arguments.out.read_text()
        new = filled(page, found)
    except (OSError, PageUnfit, KeyError, TypeError) as exc:
        print(f"report: {arguments.out}: {type(exc).__name__} {exc}", file=sys.stderr)
        return 1
    for name in sorted(found.keys() - set(places(page))):
        print(f"report: {found[name][0]}: the page has no place for {name}", file=sys.stderr)
    if arguments.check:
        return int(new != page)
    arguments.out.write_text(new)
    print(f"{arguments.out}: {', '.join(name for name in places(page) if name in found) or 'no figures'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
