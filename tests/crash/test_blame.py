"""The judge of completions that failed: memory is to blame unless who serves was down at that moment."""

from __future__ import annotations

import pytest

from bench.crash.blame import SLACK_S, Failure, blamed
from bench.crash.rounds import Round
from bench.crash.victims import Blow, Kind


def hit(kind: Kind, began_s: float, ended_s: float) -> Round:
    return Round((Blow(kind, 0.0, True),), 0.1, 0.2, began_s, ended_s)


@pytest.mark.parametrize("kind", ["proxy worker", "supervisor", "upstream"])
def test_what_fails_while_who_serves_is_down_is_not_memorys_fault(kind: Kind) -> None:
    blame = blamed([Failure(9.0, 10.5, "cut"), Failure(9.0, 11.0 + SLACK_S, "cut")], [hit(kind, 10.0, 11.0)])
    assert (blame.memory, blame.of_serving) == (0, {"cut": 2})


@pytest.mark.parametrize("kind", ["postmaster", "backend", "valkey", "memory worker"])
def test_what_fails_while_memory_is_down_is_memorys_fault(kind: Kind) -> None:
    assert blamed([Failure(9.0, 10.5, "cut")], [hit(kind, 10.0, 11.0)]).of_memory == {"cut": 1}


def test_what_fails_outside_of_a_round_is_memorys_fault() -> None:
    late = 11.0 + SLACK_S + 0.1
    blame = blamed([Failure(9.0, 9.9, "early"), Failure(10.5, late, "late")], [hit("upstream", 10.0, 11.0)])
    assert (blame.memory, blame.of_serving) == (2, {})
