"""Clients that drop their oldest messages: the chain of what is left, joined to the conversation it was cut from.

A chain begins with the first message, so a history without it has another one, and each request of a sliding window
would open a conversation of its own. What is left still holds answers of ours, each behind the message it answered; the
first such pair that is recognised says where the history stands, and the chain goes on from there as if nothing had
been dropped: what was placed stands again, and what was stored is not stored anew. Pure; refuses nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from operator import itemgetter
from typing import Final

from memory.chain import Digest, extend, message_text, pair_digest
from memory.model import SessionRef

# The first answers that are looked for, and the last, in one trip: a client drops from the front or cuts out of the
# middle, and of a talk that goes on for days Redis has forgotten what was said first.
PAIRS_LOOKED_UP_MAX: Final = 16
# Characters that a pair must have to be told from others: "Thanks." and "You are welcome." end many conversations.
PAIR_CHARACTERS_MIN: Final = 48


@dataclass(frozen=True, slots=True)
class Joint:
    """Where a pair stands: its conversation, and the digests of the message and of the answer behind it."""

    session: SessionRef
    before: Digest
    answer: Digest


def pair_of(chain_key: bytes, before: object, answer: object) -> Digest | None:
    """What a message and its answer are recognised by; None where they could be anybody's."""
    if len(message_text(before)) + len(message_text(answer)) < PAIR_CHARACTERS_MIN:
        return None
    return pair_digest(chain_key, before, answer)


def pairs_of(
    chain_key: bytes, messages: Sequence[object], digests: Sequence[Digest | None], known: int
) -> dict[int, Digest]:
    """The pairs behind place `known`, by the place of their answer, PAIRS_LOOKED_UP_MAX from either end. Of one that
    was said more than once the last: that is where it is known to stand.
    """
    chained = [at for at, digest in enumerate(digests) if digest is not None]
    answers = [(before, at) for before, at in pairwise(chained) if at > known and _is_answer(messages[at])]

    def first(places: Iterable[tuple[int, int]]) -> list[tuple[int, Digest]]:
        said = ((at, pair_of(chain_key, messages[before], messages[at])) for before, at in places)
        return list(islice(((at, pair) for at, pair in said if pair is not None), PAIRS_LOOKED_UP_MAX))

    last = {pair: at for at, pair in sorted({*first(answers), *first(reversed(answers))})}
    return {at: pair for pair, at in sorted(last.items(), key=itemgetter(1))}


def newest_pair(
    chain_key: bytes, session: SessionRef, messages: Sequence[object], digests: Sequence[Digest | None]
) -> dict[Digest, Joint]:
    """Where the newest answer that is sent stands, by what it and the message before it are known by."""
    chained = [(at, digest) for at, digest in enumerate(digests) if digest is not None]
    both = [(one, other) for one, other in pairwise(chained) if _is_answer(messages[other[0]])]
    return {
        pair: Joint(session, before, answer)
        for (at, before), (place, answer) in both[-1:]
        if (pair := pair_of(chain_key, messages[at], messages[place])) is not None
    }


def _is_answer(message: object) -> bool:
    return isinstance(message, Mapping) and message.get("role") == "assistant"


def rejoined(
    chain_key: bytes,
    messages: Sequence[object],
    digests: Sequence[Digest | None],
    known: int,
    at: int,
    joint: Joint,
) -> tuple[Digest | None, ...]:
    """The chain with the answer at place `at` where `joint` says it stands; up to `known` it is right already, and what
    lies between is of no known place.
    """
    before = next(place for place in range(at - 1, -1, -1) if digests[place] is not None)
    joined: list[Digest | None] = [*digests[: known + 1], *[None] * (at - known - 1), joint.answer]
    joined[before] = joint.before
    previous = joint.answer
    for message, digest in zip(messages[at + 1 :], digests[at + 1 :], strict=True):
        if digest is not None:
            previous = extend(chain_key, previous, message)
        joined.append(None if digest is None else previous)
    return tuple(joined)


def with_kept(
    digests: Sequence[Digest | None], joined: Sequence[Digest | None], ledger: Collection[bytes]
) -> tuple[Digest | None, ...]:
    """The joined chain with what stands before the gap as it stood: many clients keep the first message and drop what
    came behind it. It is of a known place where the `ledger` of the conversation has that.
    """
    both = zip(digests, joined, strict=True)
    return tuple(whole if left is None and whole in ledger else left for whole, left in both)
