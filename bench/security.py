"""The security report: every figure of the law beside what was asked of it.

Each part is a bench of its own, run as a process, which writes its figures as JSON into --out. The table is made of
those files, so a run that was broken off goes on where it stood: a part with a file is not run again, unless --again.

  leaks     20,000 requests with forged identities; then row-level security alone
  attacks   planted five ways, then benign questions: what becomes of the block
  poison    a truth stored first, then falsehoods in four forms: which is found
  secrets   what is found, what is left behind in any file, what looking costs
  forget    users forgotten under live chats: what is left, before and after --scrub, and in an older copy
  cost      a service with everything on beside one with everything off
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.figures import Line, any_missed, as_json, at_least, at_most, none, table
from proxy.cli.whole_file import file_to_write
from proxy.supervisor.children import dies_with

OUT: Final = Path("bench/out/security")
SHARE_OF_SECRETS: Final = 0.98
SHARE_OF_NEGATIVES: Final = 0.02
BENIGN_HELD_MAX: Final = 0.05
UNTRUSTED_MAX: Final = 0.15
TRUTH_FIRST_MIN: Final = 0.9

Report = Mapping[str, Any]


class PartFailed(Exception):
    """A part gave no figures."""


@dataclass(frozen=True, slots=True)
class Part:
    """One bench: its module, what --quick adds to it, about how long it takes, and its lines."""

    module: str
    quick: tuple[str, ...]
    minutes: int
    lines: Callable[[Report], Iterator[Line]]


def leaks(report: Report) -> Iterator[Line]:
    """Of bench.security_leaks."""
    wall = report["second_wall_alone"]
    yield none("leaks", "foreign ids and canaries, anywhere", report["leaks"], f" in {report['requests']:,} requests")
    yield none("leaks", "served that had to be refused", report["served_that_had_to_be_refused"])
    yield none("leaks", "foreign rows, row-level security alone", wall["foreign_rows"], f" in {wall['runs']} reads")
    yield from _blind("leaks", report.get("unseen", ()))


def _blind(part: str, places: Sequence[str]) -> Iterator[Line]:
    """A part that could not have seen a fault has found none: said only where it is so."""
    if places:
        yield Line(part, "looked at where nothing could be seen", "nowhere", ", ".join(places), False)


def attacks(report: Report) -> Iterator[Line]:
    """Of bench.security_attacks: the sums over all ways, and the worst way."""
    rows = report["rows"]
    planted = sum(row["attacks"] for row in rows)
    yield none("attacks", "role or delimiter escapes", sum(row["escapes"] for row in rows), f" of {planted:,} planted")
    yield none("attacks", "in an instruction-bearing position", sum(row["instructing"] for row in rows))
    worst = max(row["benign_held_back"] for row in rows)
    yield at_most("attacks", "benign look-alikes held, worst way", worst, BENIGN_HELD_MAX)
    yield from _blind("attacks", [f"{row['way']}: no block in {row['questions']}" for row in rows if not row["blocks"]])


def poison(report: Report) -> Iterator[Line]:
    """Of bench.security_poison: the worse wording of each form."""
    bounds = {"foreign writer": 0.0, "tool result": UNTRUSTED_MAX, "document": UNTRUSTED_MAX}
    for form in dict.fromkeys(row["form"] for row in report["rows"]):
        rows = [row for row in report["rows"] if row["form"] == form]
        if form in bounds:
            planted = max(row["planted_in_top5"] for row in rows)
            yield at_most("poison", f"{form}: planted in the top 5", planted, bounds[form])
        yield at_least("poison", f"{form}: the truth first", min(row["truth_first"] for row in rows), TRUTH_FIRST_MIN)


def secrets(report: Report) -> Iterator[Line]:
    """Of bench.security_secrets."""
    cases, canaries = report.get("cases"), report.get("canaries")
    if not cases:
        yield Line("secrets", "redacted", f">= {SHARE_OF_SECRETS:g}", "not measured: no secret_cases in --data", False)
    else:
        held = cases["positives"] - cases["empty"]
        yield at_least("secrets", f"redacted, of {held} that hold one", cases["found"] / held, SHARE_OF_SECRETS)
        touched = cases["touched"] / cases["negatives"]
        yield at_most("secrets", f"touched, of {cases['negatives']} negatives", touched, SHARE_OF_NEGATIVES)
    if canaries:
        yield none("secrets", "raw bytes left behind", len(canaries["traces"]), f" of {canaries['planted']} planted")
        yield from _blind("secrets", canaries.get("unseen", ()))
    for cost in report["cost"]:
        figure = f"an exchange of {cost['characters']:,} characters"
        yield Line("secrets", figure, "", f"{cost['median_ms']:.2f} ms ({cost['p95_ms']:.2f} p95)", None)


def forget(report: Report) -> Iterator[Line]:
    """Of bench.security_forget."""
    users = f" of {report['forgotten']} users"
    for figure, name in (
        ("traces found by the probe", "probe_traces"),
        ("in dumps", "in_dumps"),
        ("in exports", "in_exports"),
        ("in searches", "in_searches"),
        ("in files after --scrub", "in_files_after_scrub"),
    ):
        yield none("forget", figure, report[name], users)
    yield none("forget", "others whose memories changed", report["others_changed"], f" of {report['others']}")
    whole = report["forgotten"] == report["complete"] == report["genuine"]
    yield Line("forget", "receipts complete and genuine", "all", f"{report['genuine']}{users}", whole)
    without = report["older_copy_answers_without_journal"]
    yield none("forget", "answers of an older copy", report["older_copy_answers"], f" ({without} without the journal)")
    if not report["scrub_complete"]:
        yield Line("forget", "the scrub whole", "yes", "no", False)
    seen = f"users' words before: {report['power']} of {report['have_words_of_their_own']}"
    blind = [] if 0 < report["power"] == report["have_words_of_their_own"] else [seen]
    yield from _blind("forget", [*blind, *([] if without else ["the older copy"])])
    took = report["forget_s"]
    yield Line("forget", "seconds to the receipt", "", f"{took['p50']:.1f} ({took['p95']:.1f} p95)", None)
    yield Line("forget", "seconds of a scrub", "", f"{report['scrub_s']:.1f}", None)


def cost(report: Report) -> Iterator[Line]:
    """Of bench.security_cost."""
    request, storing = report["request"], report["storing_a_line"]
    for figure, of in (
        ("a request, added before it goes upstream", request["millis_before_upstream"]),
        ("a request, added processor time", request["cpu_ms_of_the_proxy"]),
        ("a line stored, added until searchable", storing["millis_until_searchable"]),
    ):
        yield Line("cost", figure, "", f"{of['added_p50']:.2f} ms ({of['added_p95']:.2f} p95)", None)
    added = sum(storing["cpu_ms"]["on"].values()) - sum(storing["cpu_ms"]["off"].values())
    yield Line("cost", "a line stored, added processor time", "", f"{added:.2f} ms", None)


PARTS: Final[Mapping[str, Part]] = {
    "leaks": Part("bench.security_leaks", ("--requests", "1000", "--lines-max", "6", "--scopes-max", "8"), 40, leaks),
    "attacks": Part("bench.security_attacks", ("--every", "14"), 15, attacks),
    "poison": Part("bench.security_poison", ("--limit", "20"), 10, poison),
    "secrets": Part("bench.security_secrets", (), 3, secrets),
    "forget": Part("bench.security_forget", ("--users", "10", "--turns", "4"), 20, forget),
    "cost": Part("bench.security_cost", ("--memories", "200", "--requests", "60", "--batches", "3"), 10, cost),
}


def measured(name: str, out: Path, quick: bool) -> None:
    """Run one part; its own table goes to stderr. Raises `PartFailed` where it left no figures."""
    part, file = PARTS[name], out / f"{name}.json"
    file.unlink(missing_ok=True)
    _say(f"[security] {name}: {part.module}, " + ("a small run" if quick else f"about {part.minutes} minutes"))
    began = time.monotonic()
    argv = [sys.executable, "-m", part.module, "--json", str(file), *(part.quick if quick else ())]
    status = _run(argv)
    if not file.exists():
        raise PartFailed(f"{part.module} ended with {status} and no figures; what it says stands above")
    _say(f"[security] {name}: {time.monotonic() - began:.0f} s")


def _run(argv: Sequence[str]) -> int:
    """The exit code of a part. At Ctrl-C it is told to end and waited for: it has a service and stores to take down."""
    arm = dies_with(os.getpid(), signal.SIGTERM)

    def armed() -> None:
        if arm is not None:
            arm()
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's `&` has its programs ignore it, and theirs

    process = subprocess.Popen(argv, stdout=sys.stderr, start_new_session=True, preexec_fn=armed)
    try:
        return process.wait()
    except BaseException:
        process.send_signal(signal.SIGINT)
        process.wait()
        raise


def read(out: Path, names: Sequence[str]) -> list[Line]:
    """The lines of the parts that have their file."""
    found = [(name, out / f"{name}.json") for name in names]
    return [line for name, file in found if file.exists() for line in PARTS[name].lines(json.loads(file.read_text()))]


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    minutes = sum(part.minutes for part in PARTS.values())
    parser = argparse.ArgumentParser(
        prog="python -m bench.security",
        description=__doc__,
        epilog=f"All of it: about {minutes} minutes. Exit 1 where a bound is not kept, 2 where a part did not run.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", metavar="PARTS", default=",".join(PARTS), help="by comma (default: all)")
    parser.add_argument("--quick", action="store_true", help="a small run of each part, about four minutes together")
    parser.add_argument("--again", action="store_true", help="run parts that have their figures already, too")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help="where figures lie (default: %(default)s)")
    parser.add_argument("--json", type=file_to_write, metavar="FILE", help="write the lines of the table there")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = _parser()
    args = parser.parse_args(argv)
    names = args.only.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"no part named {', '.join(unknown)}; there are {', '.join(PARTS)}")
    out = args.out / ("quick" if args.quick else "full")
    out.mkdir(parents=True, exist_ok=True)
    faults = []
    for name in names:
        if args.again or not (out / f"{name}.json").exists():
            try:
                measured(name, out, args.quick)
            except PartFailed as fault:
                faults.append(str(fault))
            except KeyboardInterrupt:
                _say(f"[security] {name}: ended before it was done; the same command goes on with it")
                return 2
    lines = read(out, names)
    print(table(lines))
    if args.json:
        args.json.write_text(json.dumps(as_json(lines), indent=1) + "\n")
    for told in faults:
        _say(told)
    return 2 if faults else int(any_missed(lines))


if __name__ == "__main__":
    raise SystemExit(main())
