"""Figures beside what was asked of them: a line for each, a table of lines. Pure.

Every benchmark that is judged writes its lines into its JSON (member `lines`), so that the report page needs to know
nothing else of it. `kept` is None where nothing was asked, or where the run was too small to judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Line:
    """One figure. `kept` is None where nothing was asked of it."""

    part: str
    figure: str
    asked: str
    measured: str
    kept: bool | None


def none(part: str, figure: str, found: int, of: str = "") -> Line:
    """A count that has to be nought."""
    return Line(part, figure, "0", f"{found}{of}", found == 0)


def at_most(part: str, figure: str, found: float, bound: float) -> Line:
    """A figure with an upper bound."""
    return Line(part, figure, f"<= {bound:g}", f"{found:.3f}", found <= bound)


def at_least(part: str, figure: str, found: float, bound: float) -> Line:
    """A figure with a lower bound."""
    return Line(part, figure, f">= {bound:g}", f"{found:.3f}", found >= bound)


def told(part: str, figure: str, measured: str) -> Line:
    """A figure of which nothing was asked."""
    return Line(part, figure, "", measured, None)


def status_shares(level: Mapping[str, Any]) -> str:
    """How memory answered the streams of one level of throughput; nothing where it had no part in them."""
    statuses = level.get("memory_status") or {}
    total = sum(statuses.values())
    return ", ".join(f"{status} {count / total:.1%}" for status, count in statuses.items() if status not in ("", "off"))


def table(lines: Sequence[Line]) -> str:
    """The lines as a table in Markdown."""
    rows = ["| part | figure | asked | measured | kept |", "| --- | --- | --- | --- | --- |"]
    words = {True: "yes", False: "NO", None: ""}
    rows += [f"| {one.part} | {one.figure} | {one.asked} | {one.measured} | {words[one.kept]} |" for one in lines]
    return "\n".join(rows)


def as_json(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """The lines as they stand in a report."""
    return [asdict(line) for line in lines]


def from_json(rows: Iterable[Mapping[str, Any]]) -> list[Line]:
    """The lines of a report. Raises KeyError, TypeError where they are none."""
    return [Line(row["part"], row["figure"], row["asked"], row["measured"], row["kept"]) for row in rows]


def any_missed(lines: Iterable[Line]) -> bool:
    """Whether something that was asked for is not kept."""
    return any(line.kept is False for line in lines)
