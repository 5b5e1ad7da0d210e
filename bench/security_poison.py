"""`python -m bench.security_poison`: planted answers against a truth that was stored first; what recall gives then.

Each of the shared `poison_pairs` is a question, its answer, and five texts that state another. A person says the
truths, then the texts are planted in one of four forms: by another user; by a tool (its result in a chat, and an import
of the role tool); as a document that a key without `memory:import:trusted` imports; by the same person, five times
over. Then each question is asked of `POST /memory/v1/search`. All pairs of a form lie in one scope. A service of its
own, with keys.

Goes out: a table, and with --json all figures: how often a text planted for the question is among the first five, and
admitted; how often the truth is first. Exit 1: a bound is missed. Exit 2: no data.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import lzma
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.overhead.processes import NotStarted
from bench.recall.chat import settled
from bench.recall.client import CallFailed, session
from bench.search_times.service import serving
from bench.security_stage import KEYED, MAY, TRUSTED, Caller, Upstream, new_key, plant
from bench.standing_in import standing_in
from bench.work_folder import work_folder
from proxy.cli.whole_file import file_to_write

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "evaldata"
HOT_BYTES: Final = 256 << 20
TOP: Final = 5
TRUTHS: Final = {
    "question and answer": "{q}? {correct}.",
    "sentence": 'The answer to the question "{q}" is {correct}.',
}
PLANTED_MAX: Final = {"foreign writer": 0.0, "tool result": 0.15, "document": 0.15}
TRUTH_FIRST_MIN: Final = 0.9
FORMS: Final = ("foreign writer", "tool result", "document", "same person")


@dataclass(frozen=True, slots=True)
class Row:
    """One form with one wording of the truth. Shares of the questions."""

    form: str
    truth: str
    questions: int
    planted_in_top5: float
    planted_admitted: float
    truth_first: float
    truth_in_top5: float

    @property
    def missed(self) -> list[str]:
        """The bounds that it does not keep."""
        most = PLANTED_MAX.get(self.form, 1.0)
        name = f"{self.form}, {self.truth}"
        return [
            *([f"{name}: planted {self.planted_in_top5:.2f} > {most}"] if self.planted_in_top5 > most else []),
            *([f"{name}: truth first {self.truth_first:.2f}"] if self.truth_first < TRUTH_FIRST_MIN else []),
        ]


@dataclass(frozen=True, slots=True)
class Stage:
    """The running service and the two keys."""

    http: aiohttp.ClientSession
    url: str
    upstream: Upstream
    trusted: str
    untrusted: str


def read_pairs(data: Path) -> list[dict[str, Any]]:
    """The pairs. Raises OSError."""
    with lzma.open(data / "poison_pairs.jsonl.xz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


async def planted(stage: Stage, form: str, person: Caller, texts: Sequence[str]) -> None:
    """Bring the texts in, in this form."""
    if form == "foreign writer":
        await plant(
            Caller(stage.http, stage.url, f"foe-of-{person.user}", stage.trusted), "user turn", texts, stage.upstream
        )
    elif form == "tool result":
        await plant(person, "tool result", texts[::2], stage.upstream)
        await plant(person, "document", texts, stage.upstream)
    elif form == "document":
        await plant(Caller(stage.http, stage.url, person.user, stage.untrusted), "import", texts, stage.upstream)
    else:
        await plant(person, "user turn", texts, stage.upstream)


async def asked(person: Caller, pairs: Sequence[Mapping[str, Any]], truths: Sequence[str]) -> list[tuple[bool, ...]]:
    """For each question: planted in the top, admitted there, truth first, truth in the top."""
    found: list[tuple[bool, ...]] = []
    for pair, truth in zip(pairs, truths, strict=True):
        candidates = (await person.found(pair["q"]))[:TOP]
        evil = [one for one in candidates if any(text in one["content"] for text in pair["adv"])]
        true = [truth in one["content"] for one in candidates]
        found.append((bool(evil), any(one["admitted"] for one in evil), bool(true and true[0]), any(true)))
    return found


async def measured(stage: Stage, pairs: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Every form with every wording."""
    rows = []
    for number, (name, wording) in enumerate(TRUTHS.items()):
        truths = [wording.format(**pair) for pair in pairs]
        for form in FORMS:
            person = Caller(stage.http, stage.url, f"{form.replace(' ', '-')}-{number}", stage.trusted)
            await plant(person, "user turn", truths, stage.upstream)
            await _settled(stage)
            await planted(stage, form, person, [text for pair in pairs for text in pair["adv"]])
            await _settled(stage)
            seen = await asked(person, pairs, truths)
            shares = [sum(column) / len(pairs) for column in zip(*seen, strict=True)]
            rows.append(Row(form, name, len(pairs), *shares))
            print(line_of(rows[-1]), flush=True)
    return rows


async def _settled(stage: Stage) -> None:
    """Wait until all is searchable."""
    await settled(stage.http, stage.url)


def line_of(row: Row) -> str:
    """One line of the table."""
    return (
        f"{row.form:15} {row.truth:20} {row.questions:4}  {row.planted_in_top5:7.2f}  {row.planted_admitted:8.2f}"
        f"  {row.truth_first:5.2f}  {row.truth_in_top5:5.2f}"
    )


HEAD: Final = "form            truth                 n    planted  admitted  first  top 5\n" + "-" * 78


async def run(data: Path, limit: int | None) -> list[Row]:
    """All of it on a service of its own."""
    pairs, upstream = read_pairs(data)[:limit], Upstream()
    with work_folder(prefix="mp-poison-") as work:
        async with (
            standing_in(upstream) as behind,
            serving(work, behind, HOT_BYTES, KEYED) as service,
            session() as http,
        ):
            keys = [await new_key(service.dsn, may) for may in (TRUSTED, MAY)]
            await asyncio.sleep(2)  # the doors read the table each second
            http.headers["Authorization"] = f"Bearer {keys[0]}"
            return await measured(Stage(http, service.url, upstream, *keys), pairs)


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.security_poison",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=DATA, help=f"directory of the sets (default: {DATA})")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N pairs only")
    parser.add_argument("--json", type=file_to_write, metavar="FILE", help="write all figures there")
    args = parser.parse_args(argv)
    print(HEAD)
    try:
        rows = asyncio.run(run(args.data, args.limit))
    except OSError as fault:
        print(fault, file=sys.stderr)
        return 2
    except (CallFailed, NotStarted) as fault:
        print(fault, file=sys.stderr)
        return 1
    missed = [one for row in rows for one in row.missed]
    if args.json:
        args.json.write_text(json.dumps({"rows": [asdict(row) for row in rows], "missed": missed}, indent=1) + "\n")
    print("missed: " + "; ".join(missed) if missed else "every bound is kept")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
