"""No pattern that is searched for in whole texts is slower than linear, whatever piece of its own is repeated."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from itertools import chain

import pytest

from memory.parse import html, plain, sniff
from policies.injection import encoded, judge, normal, render
from policies.injection.rules import RULES
from policies.injection.search import Between, Inside, Sought, Words
from tests.hostile_pieces import pieces

CHARS = 4_000
TIMES = 4
# Of processor time; what takes less is not looked at, as a clock may tick in hundredths.
SECONDS_LOOKED_AT = 0.15
# Read at one place and in so many characters only.
AT_ONE_PLACE = {render._ANGLE_NAMES, render._SQUARE_NAMES, sniff._PROLOGUE, sniff._SPACE, plain._SETEXT}


def searched(sought: Sought) -> Iterator[re.Pattern[str]]:
    match sought:
        case Words(pattern):
            yield pattern
        case Between(_, middle, _):  # the two others are asked for at one place, in 100 characters
            yield middle
        case Inside(patterns):
            yield from patterns


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    for module in (encoded, judge, normal, render, html, plain, sniff):
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern) and isinstance(value.pattern, str) and value not in AT_ONE_PLACE:
                yield f"{module.__name__}.{name}", value
    for rule in RULES:
        for number, pattern in enumerate(chain.from_iterable(map(searched, rule.sought))):
            yield f"{rule.name}.{number}", pattern


def seconds(pattern: re.Pattern[str], piece: str, chars: int) -> float:
    text = piece * (chars // len(piece) + 1) + "\0"
    began = time.process_time()
    for _ in pattern.finditer(text):
        pass
    return time.process_time() - began


@pytest.mark.parametrize(("name", "pattern"), list(patterns()), ids=lambda one: one if isinstance(one, str) else "")
def test_a_text_of_its_own_pieces_is_read_in_linear_time(name: str, pattern: re.Pattern[str]) -> None:
    """Of what takes long at all, four times the text takes four times as long; sixteen times where it is quadratic."""
    for piece in pieces(pattern, texts=6 + len(pattern.pattern) // 160):
        seconds(pattern, piece, 200)  # what doubles with each piece ends by pytest's limit of time
        if (long := seconds(pattern, piece, TIMES * CHARS)) > SECONDS_LOOKED_AT:
            assert long < 2 * TIMES * seconds(pattern, piece, CHARS), f"{name} on {piece!r}: {long:.2f} s"
