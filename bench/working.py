"""What a working context costs: microseconds for an exchange, and to make it anew, by the length of the conversation.

    python -m bench.working [--rounds 200]

The exchange is a question and an answer of some hundred words; every tenth answer calls a tool that gives 300,000
characters. Prints medians of the policy alone (two turns more), of packing and sealing with opening and unpacking, and
of the whole conversation read anew. No store: reading and keeping it is theirs to measure.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from uuid import UUID

from memory.adapters.tokenizer import EstimatedTokens
from memory.envelope import Binding, DataKey, seal, unseal
from memory.read.working_bytes import packed, unpacked
from policies.working import ENDS_CHARS, Call, Heard, WorkingContext, advance

BUDGET = 1_000
_ASKED = "How does part {n} of the archive work? We have read the catalogue, and step 2 is done. " + "It is long. " * 20
_TOLD = (
    "Part {n} reads the index first.\n\nThe plan:\n1. Read part {n}\n2. Write it down\n3. Ship it\n" + "So it is. " * 60
)
_BINDING = Binding(UUID(int=1), UUID(int=2), UUID(int=3), "working")


def turns_of(count: int) -> list[Heard]:
    """A conversation of so many turns."""
    return [_turn(n) for n in range(count)]


def _turn(n: int) -> Heard:
    if n % 20 == 18:
        return _heard(n, "assistant", "", calls=(Call(f"c{n}", "read", f'{{"part": {n}}}'),))
    if n % 20 == 19:
        return _heard(n, "tool", "line of a file\n" * 20_000, call_id=f"c{n}")
    return _heard(n, "user" if n % 2 == 0 else "assistant", (_ASKED if n % 2 == 0 else _TOLD).format(n=n))


def _heard(n: int, role: str, text: str, *, calls: tuple[Call, ...] = (), call_id: str | None = None) -> Heard:
    whole = len(text) <= 2 * ENDS_CHARS
    head, tail = (text, "") if whole else (text[:ENDS_CHARS], text[-ENDS_CHARS:])
    return Heard(UUID(int=n + 1), n, role, head, len(text), tail, calls=calls, call_id=call_id, chain=bytes(32))


def median_us(rounds: int, work: Callable[[], object]) -> float:
    """The median time of some calls, microseconds."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    key, count = DataKey(UUID(int=9), bytes(32)), EstimatedTokens().count

    def read(known: WorkingContext, turns: list[Heard]) -> WorkingContext:
        return advance(known, turns, budget_tokens=BUDGET, count=count)

    print("turns   two more, us   cached and back, us   anew, us   bytes")
    for length in (10, 100, 1_000):
        turns = turns_of(length + 2)
        known = read(WorkingContext(), turns[:length])
        sealed = seal(key, _BINDING, packed(known, BUDGET))
        more = median_us(rounds, lambda known=known, turns=turns, length=length: read(known, turns[length:]))  # type: ignore[misc]
        kept = median_us(
            rounds,
            lambda known=known: unpacked(unseal(key, _BINDING, seal(key, _BINDING, packed(known, BUDGET))), BUDGET),  # type: ignore[misc]
        )
        anew = median_us(max(3, rounds // length), lambda turns=turns: read(WorkingContext(), turns))  # type: ignore[misc]
        print(f"{length:5}   {more:12.0f}   {kept:19.0f}   {anew:8.0f}   {len(sealed):5}")


if __name__ == "__main__":
    main()
