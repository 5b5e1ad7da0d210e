"""The facts of a set as the product would have them after all its turns: turns in, items of kind semantic out.

By the rules of `policies/extraction.py` and `policies/reconcile.py`, without a store: what is current of each key, with
the turns it was said in and those in which was said what it has taken the place of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from uuid import NAMESPACE_URL, UUID, uuid5

import numpy as np

from memory.adapters.postgres.fact_rows import attributes_of
from memory.read.items import IndexItem
from policies.extraction import facts_in
from policies.fact import Fact, aspect_of
from policies.labels import Integrity
from policies.reconcile import Saying, Statement, fact_key, settle, statement_of

_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
_Said = tuple[Saying, Fact, IndexItem]


def facts_of(turns: Sequence[IndexItem]) -> list[tuple[IndexItem, str]]:
    """The current facts of one scope, each with the text to embed; `turns` are its items in order."""
    keys: dict[tuple[str, str], list[_Said]] = {}
    for number, turn in enumerate(turns):
        if turn.role != "user":
            continue
        said = turn.content.removeprefix(f"{turn.speaker}: ") if turn.speaker else turn.content
        at = turn.occurred_at or _LONG_AGO
        for fact in facts_in(said, said_at=at, speaker=turn.speaker):
            if fact.subject != "it":
                keys.setdefault(fact_key(fact.subject, fact.predicate), []).append(
                    (_saying(fact, at, number), fact, turn)
                )
    return [item for (subject, predicate), said in keys.items() for item in _current(subject, predicate, said)]


def _saying(fact: Fact, at: datetime, number: int) -> Saying:
    return Saying(
        statement=statement_of(fact),
        said_at=at,
        integrity=Integrity.USER,
        seq=number,
        at=fact.span[0],
        correction=fact.correction,
        valid_from=fact.valid_from,
        valid_to=fact.valid_to,
        aspect=aspect_of(fact),
    )


def _current(subject: str, predicate: str, said: Sequence[_Said]) -> Iterable[tuple[IndexItem, str]]:
    standings = settle(saying for saying, _, _ in said)
    replaced: dict[Statement, set[Statement]] = {}
    for one, standing in standings.items():
        by = standing.by if standing.state == "superseded" else None
        while by is not None and by not in replaced.setdefault(by, set()) | {one}:
            replaced[by].add(one)
            by = standings[by].by if standings[by].state == "superseded" else None
    for one, standing in standings.items():
        if standing.state == "current":
            outdates = _turns(said, replaced.get(one, set()))
            yield _item(subject, predicate, [entry for entry in said if entry[0].statement == one], outdates)


def _turns(said: Sequence[_Said], statements: set[Statement]) -> tuple[UUID, ...]:
    return tuple(dict.fromkeys(turn.event_ids[0] for saying, _, turn in said if saying.statement in statements))


def _item(subject: str, predicate: str, said: Sequence[_Said], outdates: tuple[UUID, ...]) -> tuple[IndexItem, str]:
    _, fact, first = said[0]
    item = IndexItem(
        memory_id=uuid5(NAMESPACE_URL, f"{first.source_ids[0]} {subject} {predicate} {fact.object} {fact.negated}"),
        kind="semantic",
        role="user",
        content=fact.statement,
        context=first.context,
        occurred_at=first.occurred_at,
        session_id=first.session_id,
        seq=first.seq,
        integrity="user",
        sensitivity="internal",
        importance=fact.importance,
        expires_at=None,
        scope_id=first.scope_id,
        source_ids=tuple(dict.fromkeys(turn.source_ids[0] for _, _, turn in said)),
        event_ids=tuple(dict.fromkeys(turn.event_ids[0] for _, _, turn in said)),
        windows=((0, len(fact.statement)),),
        vectors=np.empty((0, 0), np.float32),
        created_at=first.created_at,
        speaker=first.speaker,
        attributes=attributes_of(fact),
        outdates=outdates,
    )
    return item, (f"{first.occurred_at:%d %B %Y}: " if first.occurred_at else "") + fact.statement
