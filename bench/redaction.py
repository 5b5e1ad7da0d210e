"""How well redaction finds secrets, and how well it leaves conversations alone: evaluation data -> a table or JSON.

Comes in: `--data` (directory of the shared evaluation files; missing files are named and skipped). Goes out: recall on
positives, false alarms on negatives, by the case's own family; findings per 1,000 turns of ordinary corpora with the
rules that fired; milliseconds (CPU) per 1,000 characters, on one message of 5 MB and on hostile input of 1 MB.
Refuses: to print what was found, unless `--show` asks for it.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from memory.adapters.secret_rules import secret_detectors
from memory.write.redact import Redactor

DATA = Path(__file__).resolve().parents[2] / "shared" / "evaldata"
CORPORA = ("sharegpt_300_multiturn", "locomo.corpus", "beam_100K.corpus", "memsim_zh.corpus")
LONG_CHARS = 5_000_000
HOSTILE_CHARS = 1_000_000
HOSTILE = (
    *("a", "=", "|", "://a:b@", "password", 'password="', "password:a", "api key ", "token ", "x-", "sk-", "eyJ-"),
    *("JQQJ99", "secret_access_key ", "jfrog AP", "-----BEGIN PRIVATE KEY-----\n", "密码", "sshpass -p ", "İ", "\x00"),
)
_TEMPLATE = re.compile(r"\[[^\]\s]*[a-zA-Z0-9]-[a-zA-Z0-9][^\]]*\][{+*]|\{\d+,?\d*\}|%s")
_DENSE = re.compile(r"\S{8,}")


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One family of cases. `whole` counts the positives that hold a whole secret (see `holds_a_secret`)."""

    family: str
    positives: int
    whole: int
    found: int
    found_whole: int
    negatives: int
    false_alarms: int


@dataclass(frozen=True, slots=True)
class CorpusRow:
    """One corpus of ordinary turns; `per_1000` is findings per 1,000 turns."""

    corpus: str
    turns: int
    characters: int
    findings: int
    per_1000: float
    rules: dict[str, int]
    cpu_ms_per_1000_chars: float


@dataclass(frozen=True, slots=True)
class SpeedRow:
    """CPU time of one redaction, all passes."""

    text: str
    characters: int
    cpu_s: float


def rows_of(data: Path, name: str) -> list[dict[str, object]]:
    """Lines of `<data>/<name>.jsonl.xz`; none, with a word on standard error, where the file is absent."""
    path = data / f"{name}.jsonl.xz"
    if not path.exists():
        print(f"skipped, not present: {path}", file=sys.stderr)
        return []
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def holds_a_secret(case: str) -> bool:
    """False for a bare prefix, a keyword or a pattern: the sources of some positives were cut at string borders."""
    dense = [t for t in _DENSE.findall(case) if any(c.isdigit() for c in t) or not t.isalpha()]
    return bool(dense) and len(case) >= 24 and not _TEMPLATE.search(case) and not case.endswith(("/", '-"', "token-"))


def measure_cases(redactor: Redactor, data: Path, show: bool) -> list[CaseRow]:
    """Recall and false alarms by the family named in the data, worst first."""
    counts: dict[str, Counter[str]] = {}
    for case in rows_of(data, "secret_cases"):
        text, positive = str(case["input"]), bool(case["positive"])
        hit = bool(redactor.redact(text).findings)
        count = counts.setdefault(str(case["rule"]), Counter())
        count["positives" if positive else "negatives"] += 1
        whole = positive and holds_a_secret(text)
        count["whole"] += whole
        count["found"] += positive and hit
        count["found_whole"] += whole and hit
        count["false_alarms"] += hit and not positive
        if show and hit != positive and (whole or not positive):
            print(f"{'missed' if positive else 'alarm '} {case['rule']}: {text[:140]!r}")
    table = [
        CaseRow(f, c["positives"], c["whole"], c["found"], c["found_whole"], c["negatives"], c["false_alarms"])
        for f, c in counts.items()
    ]
    return sorted(table, key=lambda r: (r.found_whole - r.whole, -r.false_alarms, r.family))


def turns_of(rows: list[dict[str, object]]) -> Iterator[str]:
    """Texts of a corpus line, or of each message of a conversation line."""
    for row in rows:
        messages = row.get("messages")
        if isinstance(messages, list):
            yield from (str(message["content"]) for message in messages)
        else:
            yield str(row["text"])


def measure_corpus(redactor: Redactor, data: Path, name: str, show: bool) -> CorpusRow | None:
    """Findings in ordinary conversation: nearly all are false alarms, so look at them with `--show`."""
    turns = list(turns_of(rows_of(data, name)))
    if not turns:
        return None
    rules: Counter[str] = Counter()
    started = time.process_time()
    for turn in turns:
        for finding in redactor.redact(turn).findings:
            rules[finding.rule] += 1
            if show:
                print(f"{name} {finding.rule}: {turn[max(0, finding.start - 60) : finding.end][:160]!r}")
    cpu_ms = (time.process_time() - started) * 1e3
    characters = sum(map(len, turns))
    total = rules.total()
    per_1000 = round(1e3 * total / len(turns), 3)
    return CorpusRow(name, len(turns), characters, total, per_1000, dict(rules), round(cpu_ms * 1e3 / characters, 3))


def measure_speed(redactor: Redactor, data: Path) -> list[SpeedRow]:
    """One long message of ordinary text, and inputs made to hurt."""
    words = "\n".join(turns_of(rows_of(data, "beam_100K.corpus"))) or "an ordinary sentence about nothing. "
    texts = {"5 MB of conversation": (words * (LONG_CHARS // len(words) + 1))[:LONG_CHARS]}
    texts |= {f"hostile {p!r}": (p * (HOSTILE_CHARS // len(p) + 1))[:HOSTILE_CHARS] for p in HOSTILE}
    rows = []
    for name, text in texts.items():
        started = time.process_time()
        redactor.redact(text)
        rows.append(SpeedRow(name, len(text), round(time.process_time() - started, 2)))
    return rows


def print_tables(cases: list[CaseRow], corpora: list[CorpusRow], speed: list[SpeedRow]) -> None:
    """Human form of the three tables."""
    whole, found = sum(c.whole for c in cases), sum(c.found_whole for c in cases)
    positives, all_found = sum(c.positives for c in cases), sum(c.found for c in cases)
    negatives, alarms = sum(c.negatives for c in cases), sum(c.false_alarms for c in cases)
    print(f"\nrecall: {found}/{whole} whole secrets, {all_found}/{positives} of all positives")
    print(f"false alarms: {alarms}/{negatives} negatives\n")
    print(f"{'family':<18}{'found':>6}{'whole':>6}{'alarms':>8}{'negatives':>10}")
    for case in cases:
        print(f"{case.family:<18}{case.found_whole:>6}{case.whole:>6}{case.false_alarms:>8}{case.negatives:>10}")
    print(f"\n{'corpus':<26}{'turns':>7}{'findings':>9}{'per 1000':>9}{'ms/1000 ch':>12}  rules")
    for row in corpora:
        name, ms = row.corpus, row.cpu_ms_per_1000_chars
        print(f"{name:<26}{row.turns:>7}{row.findings:>9}{row.per_1000:>9.2f}{ms:>12.3f}  {row.rules}")
    print(f"\n{'text':<48}{'characters':>11}{'CPU s':>8}")
    for line in speed:
        print(f"{line.text:<48}{line.characters:>11}{line.cpu_s:>8.2f}")


def main() -> None:
    """Command line: `python -m bench.redaction [--data DIR] [--json] [--show]`."""
    parser = argparse.ArgumentParser(description="Recall, false alarms and speed of redaction.")
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the evaluation files")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--show", action="store_true", help="print misses and alarms (they contain the found text)")
    args = parser.parse_args()
    redactor = Redactor(secret_detectors())
    cases = measure_cases(redactor, args.data, args.show)
    corpora = [r for n in CORPORA if (r := measure_corpus(redactor, args.data, n, args.show)) is not None]
    speed = measure_speed(redactor, args.data)
    if args.json:
        tables = {"cases": list(map(asdict, cases)), "corpora": list(map(asdict, corpora))}
        print(json.dumps(tables | {"speed": list(map(asdict, speed))}, indent=1))
    else:
        print_tables(cases, corpora, speed)


if __name__ == "__main__":
    main()
