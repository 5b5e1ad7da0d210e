"""How many questions of ordinary conversations would be searched for on the web: `policies.web_need` on shared sets.

    python -m bench.outside_need [--show]

Questions of LoCoMo, BEAM and MemSim are asked with all that their conversation holds as known, and with nothing; of
ShareGPT every message of a user, with what was said before it. --show prints those that need it.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from policies.web_need import Known, need_of

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "evaldata"
SETS: Final = ("locomo", "beam_100K", "memsim_zh")
_NOW: Final = datetime(2026, 11, 1, tzinfo=UTC)


def _lines(name: str) -> Iterator[Any]:
    with lzma.open(DATA / f"{name}.jsonl.xz", "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def _report(name: str, asked: Sequence[tuple[str, Known]], show: bool) -> None:
    needs: Counter[str] = Counter()
    for question, known in asked:
        if (need := need_of(question, known, _NOW)) is not None:
            needs[need] += 1
            if show:
                print(f"    {need:8} {question[:150]}")
    share = 100 * needs.total() / max(1, len(asked))
    print(f"{name:34} {len(asked):6} asked, {needs.total():4} need the web ({share:.2f} %)  {dict(needs)}")


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description="How many ordinary questions would be searched for on the web.")
    parser.add_argument("--show", action="store_true", help="print the questions that need it")
    show = parser.parse_args().show
    for name in SETS:
        said: dict[str, list[str]] = defaultdict(list)
        turns = []
        for turn in _lines(f"{name}.corpus"):
            if turn["role"] != "assistant":
                turns.append((turn["text"], Known(tuple(said[turn["scope"]][-20:]))))
            said[turn["scope"]].append(turn["text"])
        questions = [(line["q"], line["scope"]) for line in _lines(f"{name}.queries")]
        _report(f"{name}, all known", [(q, Known(tuple(said[scope]))) for q, scope in questions], show)
        _report(f"{name}, nothing known", [(q, Known()) for q, _ in questions], show)
        _report(f"{name}, what people say", turns, show)
    messages = []
    for talk in _lines("sharegpt_300_multiturn"):
        before: list[str] = []
        for message in talk["messages"]:
            if message["role"] == "user":
                messages.append((message["content"], Known(tuple(before[-20:]))))
            before.append(message["content"])
    _report("sharegpt, what people say", messages, show)


if __name__ == "__main__":
    main()
