"""People and things as the API shows them: no body grows with what has been said of one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from memory.entities import Entity
from proxy.api.entity_words import entity_said, taken_along

NOW = datetime(2026, 11, 29, tzinfo=UTC)


def named_by(count: int) -> Entity:
    by = tuple(UUID(int=number) for number in range(1, count + 1))
    return Entity(by[0], 1, "host", "db7", (), None, None, by, None, (), (), "internal", "", NOW, NOW)


def test_of_those_that_name_one_the_newest_are_shown_and_all_are_counted() -> None:
    said = entity_said(named_by(20_000))
    assert said.named_by == [str(UUID(int=number)) for number in range(19_901, 20_001)]
    assert said.named_by_total == 20_000
    assert len(said.model_dump_json()) < 5_000


def test_where_few_name_one_all_are_shown() -> None:
    said = entity_said(named_by(3))
    assert (len(said.named_by), said.named_by_total) == (3, 3)


def test_a_checkpoint_takes_the_newest_memories_that_name_it_or_its_card() -> None:
    """Each is read by itself: 20,000 of them were, before they were too many."""
    many = named_by(20_000)
    assert list(taken_along(many, 64)) == [UUID(int=number) for number in range(19_937, 20_001)]
    assert list(taken_along(named_by(3), 64)) == [UUID(int=number) for number in range(1, 4)]
    card = UUID(int=7)
    assert list(taken_along(replace(many, card_id=card), 64)) == [card]
