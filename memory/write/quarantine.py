"""What is held back of an exchange or an import: clean turns in, the reason for each that waits for a person out.

A turn that addresses the model is kept as it was said, in the transcript; its memory is stored held back, and nothing
is made of it: no fact, procedure, summary or episode, until somebody confirms it. A turn that would make no memory
(a tool's output of the live path, an empty answer's quotation) makes one where it is held back, so that the review has
it and whoever tells the session passes it over. A tool's output that a client sent as the user's message is judged as a
tool's. Reads text after redaction. Pure; refuses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from memory.model import Turn
from memory.write.quoted import quoted
from policies.brought import output_in
from policies.injection.judge import Detector, Judgement, judge, origin_of


def held_back(turns: Sequence[Turn], detectors: Sequence[Detector] = ()) -> dict[UUID, str]:
    """The reason of each turn that is held back, by its event id."""
    return {turn.event_id: verdict.reason for turn in turns if (verdict := _judged(turn, detectors)).quarantined}


def free(turns: Sequence[Turn], held: Mapping[UUID, str]) -> list[Turn]:
    """The turns that nothing holds back."""
    return [turn for turn in turns if turn.event_id not in held]


def _judged(turn: Turn, detectors: Sequence[Detector]) -> Judgement:
    verdict = judge(quoted(turn), origin_of(turn.integrity), detectors)
    output = output_in(turn.content) if turn.role == "user" and not verdict.quarantined else ""
    return judge(output, "foreign", detectors) if output else verdict
