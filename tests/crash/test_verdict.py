"""The judge itself: it must see what is missing and what is there twice."""

from __future__ import annotations

from bench.crash.verdict import Compared, Verdict, compare

FINE = Compared((), ())


def test_a_missing_mark_is_lost_and_a_second_one_is_doubled() -> None:
    found = compare({"a", "b", "c"}, {"a": 1, "c": 2, "not ours": 5})
    assert found == Compared(lost=("b",), doubled=("c",))


def test_one_fault_anywhere_breaks_the_promise() -> None:
    def verdict(**faults: object) -> Verdict:
        whole = {"acknowledged": 3, "turns": FINE, "exchanges": FINE, "memories": FINE, "gaps": (), "dead": 0}
        return Verdict(exchange_rows=3, **{**whole, **faults})  # type: ignore[arg-type]

    assert verdict().kept
    for faults in (
        {"turns": Compared(("a",), ())},
        {"exchanges": Compared((), ("a",))},
        {"memories": Compared(("a",), ())},
        {"gaps": ("a session",)},
        {"dead": 1},
        {"acknowledged": 0},
    ):
        assert not verdict(**faults).kept
