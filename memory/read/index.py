"""The hot scope: items in and out, (query, vector) -> scored candidates, best first.

Dense and lexical search over everything one caller may see, in this process, no I/O. What a filter hides, and what has
expired, is taken out before anything is ranked. One owner, not thread-safe. The caller clears each item for
this scope and sensitivity first: an index checks labels, it does not know the law.
Refuses (ValueError): vectors of another shape than [windows, dim], an unknown sensitivity label.

Windows are the unit of both arms: a long turn is as good as its best window. Numbers of freed items and windows are
used again; arrays double. A put costs about 0.1 ms a window, a search of 12,000 windows about 3 ms.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, repeat
from typing import Any, Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memory.model import Injections
from memory.ports import Evaluator
from memory.read.arms import Arms, Floats, Part, best, best_of, best_standing, explained_by, places, spread, unaided
from memory.read.columns import Columns, Visible, grown
from memory.read.dense import DenseIndex
from memory.read.facts import Facts
from memory.read.items import Filter, IndexItem
from memory.read.lexical import LexicalIndex, stem, tokenise, told, weigh
from memory.read.names import Names
from memory.read.newest_first import Found, NewestFirst
from memory.read.prepared import Prepared, judged
from memory.read.speakers import Speakers
from memory.read.styles import Styles, Wish
from memory.read.talk import Talk
from memory.read.ties import Ties
from memory.read.vouched import Vouched
from memory.read.words import OwnWords, date_terms, fingerprint
from policies import admission, ranking
from policies.labels import Sensitivity
from policies.newest import asks_of_the_past
from policies.timespan import SAID_AFTER, asked_span, asks_what_was, names_time

# The index has the vectors, and the terms of the context: an item must not hold them a second time.
_KEPT: Final = np.empty((0, 0), np.float32)
# Python objects around one item beside its text and arrays (dataclass, tuples, ids, dict entries): measured with
# tracemalloc on LoCoMo, bytes.
_BYTES_PER_ITEM: Final = 1_300
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
# Candidates looked at beyond k, so that folding duplicates seldom leaves the list short; then so many times more are.
_FOLD_SLACK: Final = 32
_DEEPER: Final = 4
# Of what is said over and over so many are looked at, the best and the latest.
_SAID_MAX: Final = 64
# A query of so few terms that names a time asks for that time: "what did I say yesterday?"
TIMELY_TERMS_MAX: Final = 3
# Turns of the named and of the others that are compared, best first.
_SPEAKER_TURNS: Final = 10
# Context beyond this is not read: it would be thinned to `ranking.CONTEXT_TERMS` anyway, and costs 1 us a character.
_CONTEXT_CHARS_MAX: Final = 2_000
_TWO_BYTES: Final = re.compile("[\u0100-\uffff]")
_FOUR_BYTES: Final = re.compile("[\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Scored:
    """One candidate. `parts` explain `score`, `features` and `why` explain `admitted`; `best_window` is a range of its
    content. The place (from 1) that each arm alone gives it is among the parts.

    `folded` are other memories, left out of the list for this one, of very many the latest; `later` says it otherwise,
    and was said later.
    """

    item: IndexItem
    score: float
    parts: dict[str, float]
    best_window: tuple[int, int]
    admitted: bool
    why: str
    features: admission.Features
    folded: tuple[UUID, ...] = ()
    later: UUID | None = None


class ScopeIndex:
    """All that one caller's recall may look at, kept current item by item; or what of it is nearest to one question.

    `part_of`: how many items the scope has at least, where this index does not have all of them.
    """

    def __init__(self, dim: int, *, part_of: int | None = None, evaluate: Evaluator = admission.admit) -> None:
        self._dim = dim
        self._evaluate = evaluate
        self._part_of = part_of
        self._items: dict[int, IndexItem] = {}
        self._units: dict[int, tuple[int, ...]] = {}
        self._slots: dict[UUID, int] = {}
        self._by_event: dict[UUID, tuple[int, ...]] = {}  # mostly of one: a set takes four times as much
        self._prints: NDArray[np.uint64] = np.zeros(16, np.uint64)  # of the words of each slot's text
        self._attributed: set[int] = set()  # the slots with attributes: few
        self._free_slots: list[int] = []
        self._free_units: list[int] = []
        self._slot_count = 0
        self._unit_count = 0
        self._columns = Columns()
        self._speakers = Speakers()
        self._talk = Talk()
        self._dense = DenseIndex(dim)
        self._facts = Facts()
        self._names = Names()
        self._ties = Ties(self._names)
        self._styles = Styles(self._items, self._facts)
        self._lexical = LexicalIndex()
        self._words = OwnWords(self._items, self._units, self._lexical)
        self._newest = NewestFirst(self._items, self._units, self._dense, self._facts, self._words)
        self._vouched = Vouched(self._items, self._units, self._dense)
        self._owners: NDArray[np.int32] = np.full(16, -1, np.int32)
        self._text_bytes = 0
        self._state = object()

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, memory_id: UUID) -> bool:
        return memory_id in self._slots

    def held(self, memory_id: UUID) -> IndexItem | None:
        """The item of this id, without its vectors and context. Asked on the event loop as well, while the recall
        thread takes items out and puts others into their slots.
        """
        slot = self._slots.get(memory_id)
        item = None if slot is None else self._items.get(slot)
        return item if item is not None and item.memory_id == memory_id else None

    def replacing(self, event_ids: Iterable[UUID]) -> list[IndexItem]:
        """The facts and procedures that have taken the place of something said in these turns. Asked on the event loop
        as well, like `held`.
        """
        said = frozenset(event_ids)
        slots = {slot for event_id in said for slot in tuple(self._facts.replacing(event_id))}
        items = (self._items.get(slot) for slot in sorted(slots))
        return [item for item in items if item is not None and not said.isdisjoint(item.outdates)]

    @property
    def bytes_held(self) -> int:
        """Estimated memory, bytes, free room in the arrays included."""
        arrays = self._owners.nbytes + self._prints.nbytes + self._columns.bytes_held
        parts = arrays + self._dense.bytes_held + self._lexical.bytes_held + self._text_bytes
        return parts + len(self._items) * _BYTES_PER_ITEM

    def put(self, item: IndexItem) -> None:
        """Add an item, or replace the one with its id. Raises ValueError, leaving the index as it was."""
        if item.vectors.shape != (len(item.windows), self._dim) or not item.windows:
            raise ValueError(f"vectors are {item.vectors.shape}, not {(len(item.windows), self._dim)}")
        sensitivity = Sensitivity(item.sensitivity)
        self.remove(item.memory_id)
        self._state = object()
        slot = self._free_slots.pop() if self._free_slots else self._slot_count
        self._slot_count = max(self._slot_count, slot + 1)
        units = tuple(self._take_unit() for _ in item.windows)
        own_terms = self._put_terms(item, units)
        self._owners[list(units)] = slot
        self._dense.put(units, item.vectors)
        self._columns.put(slot, item, sensitivity, ranking.demotion(item.role, own_terms))
        self._speakers.put(slot, item.speaker)
        self._talk.put(slot, item)
        self._facts.put(slot, item)
        self._names.put(slot, item)
        self._ties.put(slot, item)
        self._styles.put(slot, item)
        self._items[slot] = replace(item, vectors=_KEPT, context="")
        self._units[slot] = units
        self._slots[item.memory_id] = slot
        if slot >= len(self._prints):
            self._prints = grown(self._prints, 0)
        self._prints[slot] = fingerprint(item.content)
        if item.attributes:
            self._attributed.add(slot)
        for event_id in dict.fromkeys(item.event_ids):
            self._by_event[event_id] = (*self._by_event.get(event_id, ()), slot)
        self._text_bytes += _bytes_of(item.content)

    def count(self, counted: Iterable[Injections]) -> None:
        """Take over how often these were injected; those that it does not hold are passed over."""
        for one in counted:
            slot = self._slots.get(one.memory_id)
            if slot is not None:
                item = replace(self._items[slot], injected=one.injected, last_injected_at=one.last_injected_at)
                self._items[slot] = item
                self._columns.count(slot, item.injected, item.last_injected_at)
                self._state = object()

    def remove(self, memory_id: UUID) -> bool:
        """Take an item out; False when it was not there."""
        slot = self._slots.pop(memory_id, None)
        if slot is None:
            return False
        self._state = object()
        item = self._items.pop(slot)
        units = self._units.pop(slot)
        for unit in units:
            self._lexical.remove(unit)
        self._owners[list(units)] = -1
        self._dense.drop(units)
        self._columns.drop(slot)
        self._speakers.drop(slot)
        self._talk.drop(slot, item)
        self._facts.drop(slot, item)
        self._names.drop(slot, item)
        self._ties.drop(slot, item)
        self._styles.drop(slot)
        self._attributed.discard(slot)
        for event_id in dict.fromkeys(item.event_ids):
            self._by_event[event_id] = tuple(held for held in self._by_event[event_id] if held != slot)
            if not self._by_event[event_id]:
                del self._by_event[event_id]
        heapq.heappush(self._free_slots, slot)
        for unit in units:
            heapq.heappush(self._free_units, unit)
        self._text_bytes -= _bytes_of(item.content)
        return True

    def search(
        self,
        query: str,
        query_vector: NDArray[np.float32] | None,
        k: int,
        *,
        now: datetime,
        where: Filter,
    ) -> list[Scored]:
        """`prepare` and `rank` at once."""
        return self.rank(self.prepare(query, now=now, where=where), query_vector, k)

    def prepare(self, query: str, *, now: datetime, where: Filter) -> Prepared:
        """All of a search that needs no vector."""
        allowed = self._visible(where, now)
        visible = Visible.of(self._facts.without_those_of_turns(allowed))
        asked_for = judged(query)
        raw = self._lexical.asked(query)
        asked = self._ties.expanded(self._names.expanded(raw, allowed), raw, allowed)
        forms = {term: others for term, others in asked.items() if others}
        terms = self._lexical.weights(asked, forms)
        unit_lexical, unit_holds = self._lexical.score(terms, self._unit_count, forms)
        lexical = self._best_by_item(unit_lexical, 0.0)[visible.pick]
        traits = self._columns.traits(visible, now)
        named = self._speakers.named(asked_for, visible)
        weights = ranking.weights_for(query)
        parts: dict[str, Part] = {
            "lexical": ranking.rescale(lexical, 0.0, float(lexical.max(initial=0.0))),
            "demotion": traits.demotion,
            "speaker": 0.0 if named is None else named.theirs.astype(np.float32),
            "prior": traits.prior,
        }
        in_time = self._in_time(asked_for, visible, now)
        if in_time is not None:
            parts["in_time"] = in_time
        return Prepared(
            query=query,
            now=now,
            where=where,
            state=self._state,
            terms=terms,
            forms=forms,
            personal=admission.is_personal(asked_for),
            unspaced=ranking.is_unspaced(query),
            weights=weights,
            named=named,
            timely=len(terms) <= TIMELY_TERMS_MAX and asks_what_was(query),
            allowed=allowed,
            visible=visible,
            traits=traits,
            together=self._talk.among(visible.pick),
            unit_lexical=unit_lexical,
            unit_holds=unit_holds,
            lexical=lexical,
            parts=parts,
            unaided=unaided(parts, weights),
        )

    @property
    def state(self) -> object:
        """Another object after every change."""
        return self._state

    def is_of_now(self, prepared: Prepared) -> bool:
        """Whether it was prepared from this index, and nothing in it changed since."""
        return prepared.state is self._state

    def rank(self, prepared: Prepared, query_vector: NDArray[np.float32] | None, k: int) -> list[Scored]:
        """The k best of what `where` lets be seen, best first, same words folded.

        `query_vector` has shape [dim], unit length; None ranks by words alone. What was prepared before the index
        changed is prepared again, so that nothing taken out since is found.
        """
        if not self.is_of_now(prepared):
            prepared = self.prepare(prepared.query, now=prepared.now, where=prepared.where)
        if k <= 0 or not prepared.visible.count:
            return []
        arms = self._arms(prepared, query_vector)
        scores, parts = self._scores(prepared, arms)
        settled, later = self._newest.first(self._found(scores, k, prepared), prepared)
        settled, later = self._vouched.first(settled, later, arms.dense)
        chosen = settled[:k]
        positions = [found.at for found in chosen]
        features = self._features_of(positions, prepared, arms, self._speaker_gap(prepared, scores))
        verdicts = self._newest.with_replacements(chosen, self._evaluate(features), later)
        explained = explained_by(parts, places(arms, positions), positions)
        return [
            Scored(
                item=self._items[found.slot],
                score=float(scores[found.at]),
                parts={**said, "admission": verdict.probability},
                best_window=self._best_window(found.slot, arms, prepared.weights),
                admitted=verdict.admitted,
                why=verdict.why,
                features=known,
                folded=found.folded,
                later=later.get(found.at),
            )
            for found, said, verdict, known in zip(chosen, explained, verdicts, features, strict=True)
        ]

    def styles(self, where: Filter, now: datetime) -> list[Wish]:
        """How answers are wished to be written, of each facet one wish, the strongest first."""
        return self._styles.vector(self._visible(where, now), now) if self._styles else []

    def last_said(self, session_id: UUID, count: int, prepared: Prepared) -> list[IndexItem]:
        """The last turns of a session that the question may see, newest first, at most `count`."""
        slots = np.flatnonzero(prepared.allowed & self._columns.of_session(session_id, len(prepared.allowed)))
        turns = [self._items[slot] for slot in slots.tolist()]
        return heapq.nlargest(count, (one for one in turns if one.kind == "episodic"), key=lambda one: one.seq)

    def _take_unit(self) -> int:
        if self._free_units:
            return heapq.heappop(self._free_units)
        unit = self._unit_count
        self._unit_count += 1
        if unit >= len(self._owners):
            self._owners = grown(self._owners, -1)
        return unit

    def _put_terms(self, item: IndexItem, units: Iterable[int]) -> int:
        """Index the words of each window with the date and the context; returns the terms of the whole content."""
        language = item.language
        whole = tokenise(item.content, language)
        context = tokenise(item.context[-_CONTEXT_CHARS_MAX:], language)
        weight = ranking.context_weight(len(whole), item.context, len(context))
        date = date_terms(item.occurred_at)
        for unit, (start, end) in zip(units, item.windows, strict=True):
            own = whole if end - start >= len(item.content) else tokenise(item.content[start:end], language)
            self._lexical.put(unit, weigh((*own, *date), context, weight), language, own=len(set(own)))
        return len(whole)

    def _visible(self, where: Filter, now: datetime) -> NDArray[np.bool_]:
        """Which slots the request may see, shape [slots]."""
        mask = self._columns.mask(self._slot_count, where, now)
        if where.attributes:
            having = [slot for slot in self._attributed if _has(self._items[slot].attributes, where.attributes)]
            mask &= np.isin(np.arange(self._slot_count), having)
        for memory_id in where.exclude_memory_ids:
            slot = self._slots.get(memory_id)
            if slot is not None:
                mask[slot] = False
        for event_id in where.exclude_event_ids:
            for slot in self._by_event.get(event_id, ()):
                mask[slot] = False
        return mask

    def _arms(self, query: Prepared, vector: NDArray[np.float32] | None) -> Arms:
        if vector is None:
            return Arms(query.unit_lexical, None, query.lexical, None)
        unit_dense = self._dense.products(vector, self._unit_count)
        return Arms(
            query.unit_lexical, unit_dense, query.lexical, self._best_by_item(unit_dense, -1.0)[query.visible.pick]
        )

    def _best_by_item(self, by_unit: NDArray[np.float32], floor: float) -> NDArray[np.float32]:
        """The best unit of each slot, shape [slots]; freed units (owner -1) fall into a spare last place."""
        best = np.full(self._slot_count + 1, floor, np.float32)
        np.maximum.at(best, self._owners[: self._unit_count], by_unit)
        return best[:-1]

    def _scores(self, query: Prepared, arms: Arms) -> tuple[Floats, dict[str, Part]]:
        """Scores of the visible items and the parts they are made of."""
        weights, traits = query.weights, query.traits
        parts: dict[str, Part]
        if arms.dense is None:
            parts = dict(query.parts)
            scores = unaided(parts, replace(weights, lexical=ranking.LEXICAL_ALONE))
        else:
            dense = ranking.rescale(arms.dense, float(arms.dense.min()), float(arms.dense.max()))
            parts = {"dense": dense, **query.parts}
            scores = ranking.fuse(dense, query.unaided, weights)
        slots = np.asarray(query.visible.slots(traits.standing), np.intp)
        parts["standing"] = best_standing(
            traits.standing, slots, scores, self._columns.occurred, self._columns.identity
        )
        scores += parts["standing"] * weights.standing
        parts["said_next"] = said_next = query.together.said_next(scores)
        parts["session"] = session = query.together.best_of_session(scores)
        scores += said_next * weights.said_next + session * weights.session
        parts["reinforcement"] = traits.reinforcement
        scores += traits.reinforcement * weights.reinforcement
        return scores, parts

    def _in_time(self, query: str, visible: Visible, now: datetime) -> NDArray[np.float32] | None:
        """1 for each visible item that happened when the query speaks of, or up to `SAID_AFTER` later."""
        if not names_time(query):
            return None
        occurred = self._columns.occurred[visible.pick]
        newest = float(occurred.max(initial=-np.inf))
        reached = datetime.fromtimestamp(newest, UTC) if -np.inf < newest < now.timestamp() else now
        span = asked_span(query, now, reached)
        if span is None:
            return None
        start, end = span.start.timestamp(), span.end.timestamp() + SAID_AFTER.total_seconds()
        return ((occurred >= start) & (occurred < end)).astype(np.float32)

    def _found(self, scores: Floats, k: int, query: Prepared) -> list[Found]:
        """The best in rank order, the same words folded: k at least, where there are so many."""
        count, (occurred, identity) = k + _FOLD_SLACK, (self._columns.occurred, self._columns.identity)
        while True:
            order = best(scores, count, query.visible.pick, occurred, identity)
            slots = query.visible.slots(order)
            prints = self._prints[slots]
            different = len(set(prints.tolist()))
            if different == len(order):
                return [Found(at, slot, ()) for at, slot in zip(order.tolist(), slots, strict=True)]
            if different >= k or len(order) < count:
                return self._fold(order, np.asarray(slots), prints, k + _FOLD_SLACK, query)
            count *= _DEEPER  # what is said over and over must not hide all else

    def _fold(
        self, order: NDArray[np.intp], slots: NDArray[np.intp], prints: NDArray[np.uint64], most: int, query: Prepared
    ) -> list[Found]:
        """So many at most of what is found, in rank order; later ones that say the same words fold into the first."""
        of_now = "in_time" not in query.parts and not asks_of_the_past(judged(query.query))
        _, first, group = np.unique(prints, return_index=True, return_inverse=True)
        found = []
        for one in np.argsort(first)[:most].tolist():
            said = np.flatnonzero(group == one)
            found.append(self._folded(slots[said], int(order[said[0]]), of_now))
        return found

    def _folded(self, said: NDArray[np.intp], at: int, of_now: bool) -> Found:
        """These slots as one, which ranks at the first one's position. `of_now`: it is shown as its speaker said it
        last, since what was said between the two may have been taken back by it.
        """
        if len(said) > _SAID_MAX:
            latest = np.argsort(-self._columns.occurred[said[1:]], kind="stable")[: _SAID_MAX - 1]
            said = np.concatenate((said[:1], said[1:][latest]))
        slots = said.tolist()
        speaker = _said_by(self._items[slots[0]])
        same = (slot for slot in slots if _said_by(self._items[slot]) == speaker)
        shown = max(same, key=lambda slot: _said_at(self._items[slot])) if of_now and len(slots) > 1 else slots[0]
        return Found(at, shown, tuple(self._items[slot].memory_id for slot in slots if slot != shown))

    def same_words(self, memory_id: UUID, prepared: Prepared) -> tuple[UUID, ...]:
        """All others that the question may see and that say the words of a memory."""
        slot = self._slots.get(memory_id)
        if slot is None:
            return ()
        alike = np.flatnonzero(self._prints[: self._slot_count][prepared.visible.pick] == self._prints[slot])
        return tuple(self._items[other].memory_id for other in prepared.visible.slots(alike) if other != slot)

    def _features_of(self, positions: list[int], query: Prepared, arms: Arms, gap: float) -> list[admission.Features]:
        """What admission looks at, for what ranks at these positions."""
        total = sum(query.terms.values())
        mean, deviation = spread(arms)
        slots = query.visible.slots(positions)
        cosines = repeat(None) if arms.dense is None else arms.dense[positions].tolist()
        found = []
        for at, slot, bits, dense in zip(positions, slots, self._held(slots, query), cosines, strict=False):
            held = [query.terms[term] for term in told(bits, query.terms)]
            coverage = sum(held) / total if total else 0.0
            found.append(
                admission.Features(
                    dense=dense,
                    dense_margin=None if dense is None else (dense - mean) / deviation,
                    coverage=coverage,
                    terms_held=math.log1p(len(held)),
                    breadth=admission.breadth_of(coverage, len(query.terms)),
                    machine=self._items[slot].role != "user",
                    standing=bool(self._columns.standing[slot]),
                    personal=query.personal,
                    visible=self._part_of or query.visible.count,
                    unspaced=query.unspaced,
                    partial=self._part_of is not None,
                    speaker_gap=gap,
                    timely=query.timely and self._is_in_time(at, query),
                )
            )
        return found

    def _held(self, slots: Sequence[int], query: Prepared) -> list[int]:
        """Which of the terms the units of each item hold, one bit each."""
        units = [self._units[slot] for slot in slots]
        starts = np.cumsum([0, *map(len, units[:-1])])
        held: list[int] = np.bitwise_or.reduceat(query.unit_holds[list(chain.from_iterable(units))], starts).tolist()
        return held

    def _is_in_time(self, at: int, query: Prepared) -> bool:
        """Whether the item at this position happened when the query speaks of."""
        in_time = query.parts.get("in_time", 0.0)
        return bool(in_time if isinstance(in_time, float) else in_time[at])

    def _speaker_gap(self, query: Prepared, scores: NDArray[np.float32]) -> float:
        """How much more of what is asked the best of those named says than the best of the others, -1..1.

        Of the idf of the query without the names, in a turn's own words; 0 where nobody is named.
        """
        if query.named is None:
            return 0.0
        names = {stem(word) for word in query.named.words}
        asked = {term: idf for term, idf in query.terms.items() if term not in names}
        total = sum(asked.values())
        if not total:
            return 0.0
        theirs, others = (
            self._words.of(query.visible.slots(best_of(said_by, scores, _SPEAKER_TURNS)), asked, query.forms)
            for said_by in (query.named.theirs, query.named.others)
        )
        said, also = (max(sum(asked[term] for term in own) / total for own in side) for side in (theirs, others))
        return said - also

    def _best_window(self, slot: int, arms: Arms, weights: ranking.Weights) -> tuple[int, int]:
        """The window that ranks best by the same fusion, role aside."""
        if len(self._units[slot]) == 1:
            return self._items[slot].windows[0]
        units = list(self._units[slot])
        lexical = ranking.rescale(arms.unit_lexical[units], 0.0, float(arms.lexical.max()))
        if arms.unit_dense is None or arms.dense is None:
            return self._items[slot].windows[int(np.argmax(lexical))]
        dense = ranking.rescale(arms.unit_dense[units], float(arms.dense.min()), float(arms.dense.max()))
        return self._items[slot].windows[int(np.argmax(ranking.fuse(dense, lexical * weights.lexical, weights)))]


def _bytes_of(text: str) -> int:
    """What a text takes: for each character as much as the widest of them does."""
    if text.isascii():
        return len(text)
    return len(text) * (4 if _FOUR_BYTES.search(text) else 2 if _TWO_BYTES.search(text) else 1)


def _said_by(item: IndexItem) -> tuple[object, ...]:
    """What two have in common where the same words are the same person's."""
    return item.kind, item.role, item.speaker, item.scope_id, item.integrity


def _said_at(item: IndexItem) -> tuple[datetime, datetime, int]:
    return item.occurred_at or _LONG_AGO, item.created_at or _LONG_AGO, item.seq


def _has(attributes: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether all wanted members are there and equal as JSON, where true is not 1."""
    return all(
        name in attributes
        and attributes[name] == value
        and isinstance(attributes[name], bool) == isinstance(value, bool)
        for name, value in wanted.items()
    )
