"""When things happened: what a block says of it, and which questions ask for it. Text in, dates or yes and no out.

A turn is dated where an item of the block that was made of it opens with the turn's own day: `[2024-03-15 user] `.
The words of the turn do not count, since a model cannot tell what `yesterday` in them means without the item's date.
Relative dates are those that point at a day, a week, a month or a year from where one stands: `yesterday`, `last
Friday`, `two weeks ago`; not `recently`, and not `the last week of August`. Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from bench.recall.corpus import Question

_ITEM: Final = re.compile(r"^\[(?:(\d{4}-\d\d-\d\d) )?\w+(?:, changed later)?\] ", re.MULTILINE)
_UNIT: Final = r"(?:day|night|weekend|week|fortnight|month|season|spring|summer|autumn|fall|winter|year|decade)"
_WEEKDAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTH: Final = r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
_COUNT: Final = r"(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|few|a few|several|couple of|a couple of)"
_ENGLISH: Final = re.compile(
    rf"\b(?:yesterday|today|tonight|tomorrow"
    rf"|{_COUNT} {_UNIT}s? ago"
    rf"|(?:in|within|over) the (?:last|past|next|coming) (?:{_COUNT} )?{_UNIT}s?"
    rf"|(?:last|next) {_MONTH}"  # `this may` is mostly no month
    rf"|(?:last|this|next|past|coming) (?:{_UNIT}|{_WEEKDAY}))\b(?! of\b)",
    re.IGNORECASE,
)
_CHINESE: Final = re.compile(
    r"[今昨明前后](?:天|日|晚|早)|[今去明前后]年|(?:上|下|这|本)个?(?:周|星期|礼拜|月|季度)|[\d一二两三四五六七八九十几]+个?(?:天|周|星期|月|年)(?:之|以)?前"
)


def dates_shown(record: Mapping[str, Any]) -> dict[str, frozenset[str]] | None:
    """The days under which each turn stands in the blocks of a retrieval; None where their text is gone.

    A turn whose item has no date has no entry.
    """
    turns = {one["id"]: one["source_ids"] for one in record["candidates"]}
    found: dict[str, set[str]] = defaultdict(set)
    for block in record["placed"]:
        if block["text"] is None:
            return None
        for memory_id, day in zip(block["memory_ids"], _ITEM.findall(block["text"]), strict=True):
            for turn_id in turns.get(memory_id, ()) if day else ():
                found[turn_id].add(day)
    return {turn_id: frozenset(days) for turn_id, days in found.items()}


def dated_share(
    question: Question, placed: frozenset[str], shown: Mapping[str, frozenset[str]], dates: Mapping[str, str]
) -> float | None:
    """Of the gold turns that were placed and have a date: the share that stands under it; None without such a turn."""
    gold = [turn_id for turn_id in question.gold & placed if turn_id in dates]
    if not gold:
        return None
    return sum(dates[turn_id] in shown.get(turn_id, ()) for turn_id in gold) / len(gold)


def asks_when(question: Question) -> bool:
    """Whether the set calls it a question of time: `temporal`, `temporal_reasoning`."""
    return question.kind.startswith("temporal")


def has_relative_date(question: Question) -> bool:
    """Whether its text holds a relative date, in English or Chinese."""
    return _ENGLISH.search(question.text) is not None or _CHINESE.search(question.text) is not None
