"""Facts without a model: what a person says, when and under which name in; the facts they state, by place, out.

Precision before recall: greetings, questions, wishes, requests, and everything pasted give nothing
(`policies/fact_patterns_prose.py`); what is left must match a rule of `policies/fact_patterns*.py`. Every fact rests on
an exact range of the text in which its object's words stand. Linear, and bounded: of a text above CHARS_MAX characters
only its two ends are read. Pure; refuses nothing. Not for words of models, tools or the web: the caller knows whose.

Keys: (subject, predicate) of a thing is its head noun and the kind of value; `qualifiers["of"]` are the words that tell
one such thing from another, `qualifiers["value"]` is the value in one way of writing (policies.fact.Aspect).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final

from policies import fact_patterns_tongues as tongues
from policies.fact import Fact
from policies.fact_answers_in import back_to_a_language, in_one_language
from policies.fact_decided import with_decision
from policies.fact_one_of import one_at_a_time
from policies.fact_patterns import FIRST, OF_PRONOUN, OPENS, SHE_OR_HE, TALE, UNREAL
from policies.fact_patterns_asked import asked_to_keep
from policies.fact_patterns_cjk import told_in_cjk
from policies.fact_patterns_denied import (
    asks_whether,
    doubted,
    in_part,
    ironic,
    no_date,
    no_event,
    no_value,
    no_version,
    one_of_two,
    taken_back,
    undone,
)
from policies.fact_patterns_kin import Antecedent
from policies.fact_patterns_objects import objects, whole_name
from policies.fact_patterns_prose import CHARS_KEPT, COVER, Sentence, both_ends, covered, sentences
from policies.fact_patterns_spoken import written_out
from policies.fact_patterns_team import DECLINES, corrects, only_corrects, told
from policies.fact_patterns_time import (
    DATE,
    OFF,
    is_ahead,
    is_over,
    meaning,
    passed,
    this_period,
    validity,
    values_in,
    while_it_lasts,
)
from policies.fact_patterns_time_elsewhere import in_english
from policies.fact_patterns_values import Stated, stated_values
from policies.fact_patterns_words import (
    NO_EMPLOYERS,
    NO_HOMES,
    TOOLS,
    as_object,
    head_and_rest,
    in_third_person,
    normalised,
)
from policies.fact_rule import IN_PASSING, STATED, Rule, Table, Told, told_by
from policies.fact_sentence import Voice, in_voice, value_sentence
from policies.standing import CHARS_MAX

__all__ = ["facts_in", "normalised"]

_TIMELESS: Final = frozenset(
    {
        "name",
        "born_in",
        "comes_from",
        "grew_up_in",
        "age",
        "hometown",
        "birthday",
        "birth_year",
        "likes",
        "prefers",
        "eats",
        "allergic_to",
    }
)
_FACTS_MAX: Final = 40  # of one text
_IRONY_CHARS: Final = 120  # so far behind a mark may stand
_DENIED: Final = re.compile(r"n't\b|\bnot\b", re.IGNORECASE)
_OR: Final = re.compile(r" (?:or|oder|ou|o) ")
_OVER: Final = re.compile(r"\b(?:no longer|any ?more|any longer|now|since|used to)\b", re.IGNORECASE)
_NOT_OVER: Final = {
    "is no longer": "is not",
    "no longer dislikes": "does not dislike",
    "no longer lives in": "does not live in",
    "no longer works at": "does not work at",
}
# What redaction has put in the place of a secret or of personal data.
_PLACEHOLDER: Final = re.compile(r"\[(?:redacted|kept):[\w:-]{1,60}\]")
_CONJUNCTION: Final = r"\b(?:and|but|so|because|while|though|although|whereas|plus|or)\b,?"
# Where another clause begins, whose time is its own: "and I'm away until Friday", ", my sister is here since Monday".
_NEXT_CLAUSE: Final = re.compile(
    rf"[;:—–]|(?:,|{_CONJUNCTION})(?: [\w'-]+){{0,3}}? (?:I|I'm|I've|I'll|we|we're|we've|he|she|they|it|it's|there)\b"
    rf"|(?:,|{_CONJUNCTION})(?: [\w'-]+){{1,4}}? (?:is|are|was|were|has|have|had|will)\b",
    re.IGNORECASE,
)
_LEAD: Final = re.compile(r"\W*(?:(?:and|but|so|y|et|und)\s+)?(?P<when>[^,;:.!?()\n]{1,60}),\s*", re.IGNORECASE)
# "Since 2019 I work at Google, …": a clause of its own.
_STATES: Final = re.compile(r"\b(?:I|we|ich|wir|je|nous|yo|eu|io|ik|wij)\b|\bj'", re.IGNORECASE)
_SAYS_WHEN: Final = re.compile(
    r"(?:until|till|through|up to|since|as of|from|starting|beginning|effective|for|in|next|last|tomorrow|yesterday)\b",
    re.IGNORECASE,
)


def facts_in(text: str, *, said_at: datetime, speaker: str | None = None) -> list[Fact]:
    """The facts that `speaker` (else "user") states in a text, in order of span; at most _FACTS_MAX."""
    voice = Voice(as_object(speaker), speaker) if speaker else Voice("user", "The user")
    given = written_out(text)
    read, shift = both_ends(given.text)
    said = _PLACEHOLDER.sub(lambda found: COVER * len(found[0]), covered(read))
    masked, values = values_in(said)
    found: dict[tuple[str, str, str, bool], Fact] = {}
    after_correction, spoken_of = False, Antecedent()
    for sentence in sentences(said):
        declines = DECLINES.match(read, sentence.start) is not None
        corrected = after_correction or (not declines and corrects(said, sentence.start, sentence.end))
        after_correction = not declines and only_corrects(said, sentence.start, sentence.end)
        facts = [
            *_ruled(said, sentence, voice, said_at),
            *_of_pronoun(said, sentence, spoken_of, voice, said_at),
            *(
                _from_told(_quoted(one, read), voice, validity(said[one.span[1] : sentence.end], said_at)[1])
                for one in (
                    *told(said, sentence.start, sentence.end),
                    *back_to_a_language(said, sentence.start, sentence.end),
                )
                if _holds(said, sentence, one, said_at)
            ),
            *(
                _from_value(said, one, sentence, voice, said_at)
                for one in stated_values(masked, sentence.start, sentence.end, values)
                if _is_so(said, sentence, one)
            ),
            *(
                _from_told(one, voice, None)
                for one in told_in_cjk(said, sentence.start, sentence.end)
                if one.predicate != "instruction" or len(said.strip()) <= CHARS_MAX
            ),
        ]
        facts = facts or [_from_told(one, voice, None) for one in asked_to_keep(said, sentence.start, sentence.end)]
        ranges = ((fact.span[0] - sentence.start, fact.span[1] - sentence.start) for fact in facts)
        spoken_of.read(said[sentence.start : sentence.end], ranges)
        for fact in facts:
            if _is_unsaid(said, fact, sentence) or _is_ironic(read, fact, sentence):
                continue
            if fact.object and COVER not in fact.object and read[fact.span[0] : fact.span[1]].strip():
                kept = replace(fact, correction=True) if corrected and not fact.correction else fact
                found.setdefault((fact.subject, fact.predicate, fact.object, fact.negated), kept)
    first = sorted(found.values(), key=lambda fact: fact.span)[:_FACTS_MAX]
    return [replace(fact, span=given.span(*_shifted(fact.span, shift))) for fact in first]


def _shifted(span: tuple[int, int], shift: int) -> tuple[int, int]:
    """A range of `both_ends` in the offsets of the whole text."""
    start, end = span
    return span if start <= CHARS_KEPT else (start + shift, end + shift)


def _ruled(said: str, sentence: Sentence, voice: Voice, said_at: datetime) -> Iterator[Fact]:
    """What the rules say of the one who speaks."""
    yield from _by_table(said, FIRST, sentence, voice, said_at)
    if tongues.TRIGGER.search(said, sentence.start, sentence.end):
        yield from _by_table(said, tongues.table(), sentence, voice, said_at)


def _by_table(said: str, table: Table, sentence: Sentence, voice: Voice, said_at: datetime) -> Iterator[Fact]:
    reached = sentence.start
    for pronoun in table.trigger.finditer(said, sentence.start, sentence.end):
        before = said[sentence.start : pronoun.start()]
        if pronoun.start() < reached or not sentence.states(pronoun.start()) or table.unreal.search(before):
            continue
        opens = table.opens.search(before) is not None or (sentence.bullet and len(before) < 6)
        for rule in table.rules:
            if not opens and rule.shape != "person":
                continue
            found = rule.pattern.match(said, pronoun.start(), sentence.end)
            if found is None or max(found.start("o"), found.end() if found.start("o") < 0 else 0) < reached:
                continue
            for fact in _by_rule(said, rule, found, sentence, voice, said_at):
                yield fact
                reached = fact.span[1]


def _of_pronoun(
    said: str, sentence: Sentence, spoken_of: Antecedent, voice: Voice, said_at: datetime
) -> Iterator[Fact]:
    """What the rules say of the one relative or friend that "she" or "he" can mean."""
    for pronoun in SHE_OR_HE.finditer(said, sentence.start, sentence.end):
        before = said[sentence.start : pronoun.start()]
        kind = spoken_of.of(pronoun[0])
        if kind is None or not sentence.states(pronoun.start()) or UNREAL.search(before) or not OPENS.search(before):
            continue
        for rule in OF_PRONOUN:
            found = rule.pattern.match(said, pronoun.start(), sentence.end)
            if found is not None:
                yield from _by_rule(said, rule, found, sentence, voice, said_at, kind)


def _by_rule(
    said: str,
    rule: Rule,
    found: re.Match[str],
    sentence: Sentence,
    voice: Voice,
    said_at: datetime,
    kind: str = "",
) -> Iterator[Fact]:
    groups = found.groupdict()
    at = found.span("o2") if groups.get("o2") else found.span("o")
    kind = tongues.KIN.get((groups.get("k") or "").casefold()) or normalised(groups.get("k") or kind)
    if kind in ("part", "thing", "one", "memory", "moment", "way", "time", "scene"):
        return
    for start, first_end in objects(said, at, rule.shape):
        thing = as_object(said[start:first_end])
        # One is called "Anna Lee" and is the Anna of before.
        end = whole_name(said, first_end, sentence.end) if rule.shape == "person" else first_end
        shown = in_third_person(said[start:end])
        if _is_none(rule, thing, said[end : sentence.end]):
            continue
        begins = found.start() if groups.get("v") is None else found.start("v")
        lead = _lead(said, begins, sentence)
        own = _clause(said, begins, end, sentence)
        clause = f"{lead}{own}"
        if is_over(clause, said_at) or is_ahead(said[end : sentence.end]) or is_ahead(f" {lead}"):
            continue
        since, until = validity(clause, said_at)
        if not rule.negated:
            until = until or while_it_lasts(said[sentence.start : begins], own, said_at)
        # What is always so does not begin last week.
        since = None if rule.predicate in _TIMELESS or rule.predicate.startswith("{k}_") or rule.ended else since
        ours = rule.predicate == "uses" and found[0][:2].casefold() == "we"  # "we use" is of the team too
        says = _as_denied(rule.says, clause)
        says = says.replace("{S}", "{P} team") if ours else says
        of = "team" if ours else "user"
        one = told_by(rule, said[start:first_end], (begins, end), kind, shown=shown, says=says, of=of)
        yield from (_from_told(each, voice, until, since) for each in with_decision(one, shown))


def _is_none(rule: Rule, thing: str, behind: str) -> bool:
    """Whether what a rule found is no such thing: a tool to live in, a state for a home."""
    if not thing:
        return True
    if rule.shape == "clause" and behind[:2].lstrip().startswith(COVER):  # "decided to use", and no what
        return True
    if rule.predicate.endswith("lives_in") and re.split(r"\W", thing, maxsplit=1)[0] in TOOLS:
        return True
    if rule.predicate == "uses" and rule.ended and in_part(behind):
        return True
    none = {"place": NO_HOMES, "employer": NO_EMPLOYERS}.get(rule.shape)
    return none is not None and none.fullmatch(thing) is not None


def _as_denied(says: str, clause: str) -> str:
    """What is only denied ("I'm not married") may never have been so: nothing is said to be over."""
    if _DENIED.search(clause) and not _OVER.search(clause):
        for over, denied in _NOT_OVER.items():
            says = says.replace(over, denied)
    return says


def _lead(said: str, start: int, sentence: Sentence) -> str:
    """The words that open a sentence and say when what is stated behind them holds: "Until June, I live in Rome"."""
    lead = _LEAD.fullmatch(said, sentence.start, start)
    if lead is None or _STATES.search(lead["when"]):
        return ""
    return f"{lead['when']} " if _SAYS_WHEN.match(in_english(lead["when"])) else ""


def _clause(said: str, start: int, end: int, sentence: Sentence) -> str:
    """The range [start, end) with the words behind it that are of the same clause."""
    other = _NEXT_CLAUSE.search(said, end, sentence.end)
    return said[start : other.start() if other else sentence.end]


def _holds(said: str, sentence: Sentence, one: Told, said_at: datetime) -> bool:
    """Whether a finding of the team's rules is stated, not asked or wished for."""
    if one.predicate == "instruction":
        return len(said.strip()) <= CHARS_MAX  # of a longer text it is a part
    behind = said[one.span[1] : sentence.end]
    if doubted(said[sentence.start : one.span[0]]) or is_over(behind, said_at) or is_ahead(behind):
        return False
    if one.predicate == "version":
        if no_version(said[sentence.start : one.span[0]]):
            return False
        return not UNREAL.search(said[sentence.start : one.span[0]]) or not sentence.states(one.span[0])
    return sentence.states(one.span[0]) and not UNREAL.search(said[sentence.start : one.span[0]])


def _is_so(said: str, sentence: Sentence, one: Stated) -> bool:
    """Whether a value is what the sentence says of its thing."""
    before, behind = said[sentence.start : one.value.start], said[one.value.end : sentence.end]
    if doubted(before) or TALE.search(before):
        return False
    if one.value.kind == OFF:
        return sentence.states(one.value.start) and not UNREAL.search(before)
    if not sentence.states(one.value.start):
        asked = said[max(sentence.start, sentence.asks[0]) : _begin(said, one, sentence)]
        if asks_whether(asked, said[max(one.end, one.value.end) : sentence.end]):
            return False
    if one.value.kind == DATE:
        return not (no_event(before, behind) if one.shape == "time" else no_date(before))
    return not no_value(before, behind)


def _is_unsaid(said: str, fact: Fact, sentence: Sentence) -> bool:
    """Whether the sentence goes on to say that this is not so, or no more. Behind a denial a "no" only denies again."""
    _, end = fact.span
    if fact.cardinality == "one" and not fact.negated and _is_open(said, fact, sentence):
        return True
    return undone(said, end, sentence.end) or (not fact.negated and taken_back(said, end, sentence.end))


def _is_ironic(read: str, fact: Fact, sentence: Sentence) -> bool:
    """Whether a liking is none: its sentence or a mark in its line says so."""
    start = fact.span[0]
    behind = read[start : start + _IRONY_CHARS].split("\n", 1)[0]
    return fact.predicate == "likes" and ironic(read[sentence.start : start], behind)


def _is_open(said: str, fact: Fact, sentence: Sentence) -> bool:
    """Whether this is one of two that it may be: "Rome or Milan", "between $500 and $600"."""
    return one_of_two(said, fact.span[1], sentence.end) or _OR.search(f" {fact.object} ") is not None


def _quoted(one: Told, read: str) -> Told:
    """An instruction in the words in which it was given."""
    if one.predicate != "instruction":
        return one
    return replace(one, says=f"{{S}} said: “{read[slice(*one.span)].strip(' ,')}”")


def _from_told(one: Told, voice: Voice, until: datetime | None, since: datetime | None = None) -> Fact:
    one = one_at_a_time(in_one_language(one))
    subject = voice.subject if one.subject == "user" else one.subject
    return Fact(
        subject=subject,
        predicate=one.predicate,
        object=one.object,
        statement=in_voice(one.says, voice),
        span=one.span,
        category=one.category,
        cardinality=one.cardinality,
        negated=one.negated,
        correction=one.correction,
        valid_from=since,
        valid_to=until,
        confidence=one.confidence,
        importance=one.importance,
        qualifiers=one.qualifiers,
    )


def _begin(said: str, one: Stated, sentence: Sentence) -> int:
    """Where the words begin that a value rests on: with a word."""
    start = min(one.start, one.value.start)
    while start > sentence.start and said[start - 1].isalnum():
        start -= 1
    return start


def _from_value(said: str, one: Stated, sentence: Sentence, voice: Voice, said_at: datetime) -> Fact:
    head, rest = head_and_rest(one.thing) if one.thing else ("", ())
    stated = sentence.states(one.value.start)
    value = meaning(one.value, said_at)
    _, until = validity(said[one.value.end : one.end], said_at)
    if one.value.kind == DATE:
        until = until or passed(one.value.words, said_at)
    elif not one.changed:
        around = said[sentence.start : one.value.start], said[max(one.end, one.value.end) : sentence.end]
        until = until or this_period(*around, said_at)
    return Fact(
        subject=(f"{head}s" if head == voice.subject else head)
        or voice.subject,  # "12 users" are not the one who speaks
        predicate=one.predicate,
        object=as_object(one.value.words),
        statement=value_sentence(one, voice),
        span=(_begin(said, one, sentence), max(one.end, one.value.end)),
        cardinality="one",
        valid_to=until,
        confidence=STATED if stated else IN_PASSING,
        importance=0.6,
        qualifiers={"value": value}
        | ({"of": " ".join(rest)} if rest else {})
        | ({"changed": "yes"} if one.changed else {}),
    )
