"""Why each candidate was given or not, as a table a person can read: candidates of the API in, lines out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

# Parts of a score as the API names them -> the heads of their columns. A column that says nothing is left out.
_COLUMNS: Final[Mapping[str, str]] = {
    "dense": "dense",
    "dense_place": "place",
    "lexical": "lexical",
    "lexical_place": "place",
    "demotion": "machine",
    "speaker": "speaker",
    "standing": "standing",
    "in_time": "in time",
    "prior": "prior",
    "said_next": "next",
    "session": "session",
    "reinforcement": "injected",
    "rerank": "rerank",
    "cosine": "cosine",
    "coverage": "covered",
    "margin": "margin",
    "speaker_gap": "gap",
    "admission": "chance",
}
LEGEND: Final = (
    "* given  place: among all that is visible, by that arm alone  machine: held back, a model or tool said it\n"
    "prior: importance and review  next, session: what was said right after it, and the best of its conversation\n"
    "covered: of the question's words  margin: of the cosine over all others'  gap: the one named against the others\n"
    "chance: that it is evidence  injected: by how often it was before, capped, fading since the last time\n"
)


def found(answer: Mapping[str, Any], chars: int) -> Iterable[str]:
    """What a search found, best first, a line each: a star marks what would be given."""
    for one in answer["candidates"]:
        mark = "*" if one["admitted"] else " "
        when = (one["occurred_at"] or "")[:10]
        yield f"{mark} {one['score']:.3f}  {when:10}  {short(one['content'], chars)}"
    yield f"{answer['admitted']} admitted (*), {answer['millis']:.1f} ms"


def record(said: Mapping[str, Any]) -> Iterable[str]:
    """What one request was given (`GET retrievals/{id}`): question, table, block, what the heads mean."""
    status = said["reason"] or said["status"]
    yield f"{said['created_at']}  {status}  {said['tokens']} tokens  {said['millis']:.1f} ms"
    yield said["query"] or ""
    yield from table(said["candidates"], "injected")
    yield from ("", said["block"]) if said["block"] else ("nothing was placed",)
    yield LEGEND.rstrip("\n")


def table(candidates: Sequence[Mapping[str, Any]], given: str) -> Iterable[str]:
    """Two lines for each candidate under one head: its figures, then who said it when, in which words, and why.

    `given` names the member that says whether it was (to be) put into the prompt.
    """
    columns = [name for name in _COLUMNS if any(one["scores"].get(name) for one in candidates)]
    yield "   #   score  " + "  ".join(f"{_COLUMNS[name]:>8}" for name in columns)
    for number, one in enumerate(candidates, 1):
        mark = "*" if one[given] else " "
        figures = "  ".join(f"{_figure(one['scores'].get(name)):>8}" for name in columns)
        yield f"{mark} {number:2}  {one['score']:6.3f}  {figures}"
        yield f"      {_described(one)}"


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value == int(value) else f"{value:.3f}"


def _described(one: Mapping[str, Any]) -> str:
    """Who, when, what where the API says it (a record holds ids only), and why."""
    if "content" in one:
        said = f"{(one['occurred_at'] or '')[:10]} {one['role']} ({one['integrity']}): {short(one['content'], 100)}"
        return f"{said}\n      {one['explain']['why']}"
    why = one.get("why_not") or one.get("why") or "given"
    return f"{one['kind']} {one['id']} v{one['version']}: {why}"


def short(text: str, chars: int) -> str:
    """A text on one line, cut."""
    line = " ".join(text.split())
    return line if len(line) <= chars else line[: chars - 1] + "…"
