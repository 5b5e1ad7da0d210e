"""Clients that drop or rewrite messages they have sent: what is left, joined to the conversation it was cut from.

A chain begins with the first message, so a history without it has another one, and each request of a sliding window
would open a conversation of its own. What is left still holds answers of ours, each behind the message it answered; the
first such pair that is recognised says where the history stands, and the chain goes on from there as if nothing had
been dropped: what was placed stands again, and what was stored is not stored anew.

Many clients send a message once with pages, rules or the state of an editor, and from then on without: no pair with
such a message is recognised. Where none is, answers are, behind the first line of a person's words. Pure; refuses
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from operator import itemgetter
from typing import Final

from memory.chain import Digest, extend, message_text, pair_digest
from memory.model import SessionRef
from policies.brought import own_words

# The first answers that are looked for, and the last, in one trip: a client drops from the front or cuts out of the
# middle, and of a talk that goes on for days Redis has forgotten what was said first.
PAIRS_LOOKED_UP_MAX: Final = 16
# Characters that a pair must have to be told from others: "Thanks." and "You are welcome." end many conversations.
PAIR_CHARACTERS_MIN: Final = 48
# A longer message is not read for a person's words: 1 to 2 ms each, on the event loop.
LINE_CHARACTERS_READ_MAX: Final = 65_536


@dataclass(frozen=True, slots=True)
class Joint:
    """Where a pair stands: its conversation, and the digests of the message and of the answer behind it."""

    session: SessionRef
    before: Digest
    answer: Digest


@dataclass(frozen=True, slots=True)
class Joined:
    """A chain that was joined to its conversation; `is_cut` where a part of that is not sent any more."""

    digests: tuple[Digest | None, ...]
    is_cut: bool


def pair_of(chain_key: bytes, before: object, answer: object) -> Digest | None:
    """What a message and its answer are recognised by; None where they could be anybody's."""
    if len(message_text(before)) + len(message_text(answer)) < PAIR_CHARACTERS_MIN:
        return None
    return pair_digest(chain_key, before, answer)


def line_pair_of(chain_key: bytes, before: object, answer: object) -> Digest | None:
    """The same by the first line of a person's words, without what a program brought; the answer alone must be no
    other's.
    """
    if not isinstance(before, Mapping) or before.get("role") != "user":
        return None
    text = message_text(before)
    if len(text) > LINE_CHARACTERS_READ_MAX or len(message_text(answer)) < PAIR_CHARACTERS_MIN:
        return None
    line = next(filter(None, map(str.strip, own_words(text).splitlines())), None)
    if line is None:
        return None
    return pair_digest(chain_key, {"role": "first line", "content": line}, answer)


def known_by(chain_key: bytes, before: object, answer: object) -> list[Digest]:
    """All that an answer and the message before it are recognised by."""
    both = (pair_of(chain_key, before, answer), line_pair_of(chain_key, before, answer))
    return [pair for pair in both if pair is not None]


def pairs_of(
    chain_key: bytes,
    messages: Sequence[object],
    digests: Sequence[Digest | None],
    known: int,
    pair_of: Callable[[bytes, object, object], Digest | None] = pair_of,
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


def joined(
    chain_key: bytes,
    messages: Sequence[object],
    digests: Sequence[Digest | None],
    known: int,
    mine: SessionRef | None,
    pairs: Mapping[int, Joint],
    lines: Mapping[int, Joint],
) -> Joined | None:
    """The chain joined to `mine`, else to the conversation of the first pair that stands elsewhere than here, else of
    the newest of the `lines`; None where there is none. Up to `known` it is right already.
    """
    first: dict[int, Joint] = {}
    for at, joint in pairs.items():
        if mine is not None and joint.session != mine:
            continue
        if joint.answer not in digests:
            first, mine = {at: joint}, joint.session
            break
        known = max(known, digests.index(joint.answer))  # here, or where the same was said before
    others = {at: joint for at, joint in lines.items() if at > known and at not in pairs}
    if mine is None and others:
        mine = others[max(others)].session
    others = {at: joint for at, joint in others.items() if joint.session == mine}
    if not others and not first:
        return None
    begins = min((*others, *first))
    asides = {} if begins in first else {at: one for at, one in pairs.items() if at > begins and one.session == mine}
    chain = rejoined(chain_key, messages, digests, known, others if asides else others | first, asides)
    gap = any(whole is not None and one is None for whole, one in zip(digests, chain, strict=True))
    return Joined(chain, gap or begins in first)


def rejoined(
    chain_key: bytes,
    messages: Sequence[object],
    digests: Sequence[Digest | None],
    known: int,
    joints: Mapping[int, Joint],
    asides: Mapping[int, Joint],
) -> tuple[Digest | None, ...]:
    """The chain with each answer that has a joint, by its place, where that says it stands, and what it answered where
    that stood as it was sent then; up to `known` it is right already, and what lies between that and the first joint is
    of no known place. An aside has its place as well, and what comes behind it none: a client may put the same words
    of its own behind its history each time.
    """
    places = [at for at, digest in enumerate(digests) if digest is not None]
    answered = {at: place for place, at in pairwise(places)}
    begins = answered[min(joints)]
    joined: list[Digest | None] = [*digests[: known + 1], *[None] * (begins - known - 1)]
    previous: Digest | None = None
    for at in range(len(joined), len(digests)):
        joint = joints.get(at) or asides.get(at)
        if joint is not None and answered[at] > known and not _is_answer(messages[answered[at]]):
            joined[answered[at]] = joint.before
        if at in joints:
            previous = joints[at].answer
        elif digests[at] is not None and previous is not None:
            previous = extend(chain_key, previous, messages[at])
        here = joint.answer if joint is not None else previous
        joined.append(digests[at] if digests[at] is None or here is None else here)
    return tuple(joined)


def with_kept(
    digests: Sequence[Digest | None], joined: Sequence[Digest | None], ledger: Collection[bytes]
) -> tuple[Digest | None, ...]:
    """The joined chain with what stands before the gap as it stood: many clients keep the first message and drop what
    came behind it. It is of a known place where the `ledger` of the conversation has that.
    """
    both = zip(digests, joined, strict=True)
    return tuple(whole if left is None and whole in ledger else left for whole, left in both)
