"""How candidates are ranked: the parts of one candidate's score in, one number out, larger is better.

    score = 0.45 * dense + 0.55 * lexical - 0.4 * demotion + 0.2 * speaker + 0.3 * standing + 0.2 * in_time
            + 0.1 * prior + 0.2 * said_next + 0.2 * session + 0.02 * reinforcement
    (dense and lexical scaled to 0..1 over the visible)

dense     best cosine of the candidate's windows with the query
lexical   best BM25 of its windows; a short turn borrows the words of the talk before it (`context_weight`)
demotion  0 for what a person said, rising to 1 with the length of what a model or a tool said
speaker   1 for what was said by one whom the query names, where others spoke too
standing  1 for the best few standing instructions, which share no words with the questions they are meant for
in_time   1 for what happened when the query speaks of ("in May 2023", "last week")
prior     -1..1, by what people said of it: its importance, and whether it was confirmed or disputed
said_next the score, so far, of what a person said right after it
session   the best score, so far, of its conversation
reinforcement  0..1, by how often it was placed in a prompt, capped, fading since the last time; lends nothing to others

Pure arithmetic: every function takes floats, `fuse` and `rescale` take arrays of floats as well. Refuses nothing.
Each number says which run fixed it; all of them are rows of `python -m bench.tune_recall`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar

# Terms of a turn up to which it takes its whole context: LoCoMo's turns have 12 on average, BEAM's users 50.
# 10 costs LoCoMo .012, the others nothing.
SHORT_TURN_TERMS: Final = 20
# Terms of context that count fully; a longer one is thinned to as much, so that it cannot drown the turn.
CONTEXT_TERMS: Final = 40
# Context that holds a question belongs to its answer (1.0); other context less: memos in a row are no talk.
# No context at all: LoCoMo .671 in place of .768. Other context 0, .2, 1.0: LoCoMo .762, .768, .775, MemSim .986, .986,
# .978. One turn of context, two, three: LoCoMo .740, .768, .770, MemSim .984, .986, .983; BEAM-100K never moves.
QUESTION_CONTEXT: Final = 1.0
OTHER_CONTEXT: Final = 0.2
# Latin, CJK, Arabic, Armenian, Ethiopic, Greek: that one is a semicolon, which anywhere else ends a line of code.
_QUESTION_MARK: Final = re.compile("[?？؟⸮՞፧\u037e]|[\u0370-\u03ff\u1f00-\u1fff] ?;")

# Terms at which what a model said is demoted in full. A shorter reply is talk: with LoCoMo's second speaker imported
# as assistant a flat demotion gives .621 in place of .768, this one .765, and BEAM-100K does not move.
LONG_REPLY_TERMS: Final = 200
_SPOKEN_BY_MACHINES: Final = frozenset({"assistant", "tool", "function"})


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each part counts."""

    dense: float
    lexical: float
    demotion: float
    speaker: float
    standing: float
    in_time: float
    prior: float
    said_next: float
    session: float
    reinforcement: float


# Of LoCoMo's questions that name one speaker 97 % are answered by that speaker's own turns. Its recall@1 / recall@10 /
# nDCG@10 with 0, .1, .2, .3, .4: .334 / .768 / .578, .380 / .777 / .611, .397 / .783 / .625, .399 / .784 / .627,
# .400 / .779 / .625; the other sets name nobody.
_SPEAKER: Final = 0.2
# BEAM-100K's recall@10 / nDCG@10 with .2, .25, .3, .35, .4 for its best three: .637 / .537, .646 / .541, .653 / .548,
# .651 / .546, .648 / .541 (.609 / .506 without); the other sets hold no standing instructions.
_STANDING: Final = 0.3
# The words of a date are indexed with every turn, so that this adds little where the question says the date itself:
# LoCoMo's recall@1 .412 to .415, recall@10 .803; .3 costs BEAM-100K .004. "Last week" shares no word with a date, and
# no set here asks so.
_IN_TIME: Final = 0.2
# What people said of a memory moves it past its near equals and no further: no set here has such marks.
_PRIOR: Final = 0.1
# What is said next: LoCoMo's recall@1 / recall@10 with 0, .1, .2, .3: .397 / .783, .403 / .792, .412 / .794,
# .414 / .790; MemSim's recall@10 .988, .989, .988, .985. Before a model's words it says nothing (BEAM-100K .653 to
# .636), hence only between people. The best of the session with 0, .2, .3, .5: LoCoMo's recall@10 .783, .796, .800,
# .799, BEAM-100K's .653, .654, .653, .647. Both: .803. Also measured and left out: what was said before (.775), how
# recent it is (weight .02: .780 / .643), diversity by MMR (.785 / .626 at .2), names weighed more (.786 / .651 at 1.5).
_SAID_NEXT: Final = 0.2
_SESSION: Final = 0.2
# Moves a memory past its near equals and no further: no shared set has such marks, so what fixed the number is what it
# may cost where it helps nobody. Each set's questions in random order, what was admitted counted, nothing faded,
# recall@10 / nDCG@10 with 0, .02, .05, .1, .2: LoCoMo .801 / .640, .799 / .638, .798 / .637, .794 / .633, .794 / .628;
# BEAM-100K .653 / .548, .652 / .546, .652 / .547, .649 / .546, .643 / .543; MemSim stays. A tenth of the memories, any,
# at their full: LoCoMo's recall@1 .413, .410, .411, .406, .387. Added last, so that no other turn borrows of it.
_REINFORCEMENT: Final = 0.02
# Turn recall@10 of LoCoMo / BEAM-100K / MemSim, `--ablate`: .768 / .604 / .986 as it is; lexical .45 .763 / .614 / .983
# (plain BM25 has .986 on MemSim, which decided), .65 .761 / .588 / .986; demotion 0, .2, .3:
# BEAM-100K .477, .565, .590.
FULL: Final = Weights(
    dense=0.45,
    lexical=0.55,
    demotion=0.4,
    speaker=_SPEAKER,
    standing=_STANDING,
    in_time=_IN_TIME,
    prior=_PRIOR,
    said_next=_SAID_NEXT,
    session=_SESSION,
    reinforcement=_REINFORCEMENT,
)
# A query in a script without spaces: its words are character n-grams, exact by themselves, and the packaged model is
# English. MemSim recall@10 .986 as FULL, .988 so (with no context, see context_weight; dense .1 .989, 0 .9875).
UNSPACED: Final = replace(FULL, dense=0.2, lexical=0.8)
# The weight of words on the rung without an embedder.
LEXICAL_ALONE: Final = 1.0


_UNSPACED_LETTERS: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_SCRIPT_CHARS_MAX: Final = 2_000
_QUESTION_CHARS_MAX: Final = 4_096


def is_unspaced(text: str) -> bool:
    """Whether a text is written mostly in a script without spaces between words (Chinese, Japanese), by its head."""
    head = text[:_SCRIPT_CHARS_MAX]
    if head.isascii():
        return False
    return 2 * len(_UNSPACED_LETTERS.findall(head)) > sum(map(str.isalpha, head))


def weights_for(query: str) -> Weights:
    """How much each part counts for this query; what a model said is not held back where its words are asked for."""
    weights = UNSPACED if is_unspaced(query) else FULL
    end = query[-_QUESTION_CHARS_MAX:].casefold()  # a long request ends with what it asks
    return replace(weights, demotion=0.0) if _ASKS_THE_MODEL.search(end) else weights


# How many standing instructions may take a place that their words would not earn them.
STANDING_MAX: Final = 3
# "How did you recommend to start?" asks for the model's own words: BEAM-100K's questions for information .552 to .615.
_ASKS_THE_MODEL: Final = re.compile(
    r"\b(?:did|have|had) you (?:\w+ ){0,2}(?:recommend|suggest|advise|say|said|tell|told|explain|propos|mention"
    r"|giv|gave|list|describ|outlin|show|provid|come up|came up|teach|taught)\w*"
    r"|\byou (?:\w+ )?(?:recommended|suggested|advised|said|told|explained|proposed|mentioned|gave|listed|described"
    r"|outlined|showed|provided)\b"
    r"|\byour (?:\w+ )?(?:suggestions?|recommendations?|advice|answers?|explanations?|proposals?)\b"
)


class Scores(Protocol):
    """A float, or an array of them."""

    def __add__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...


S = TypeVar("S", bound=Scores)


def unaided(lexical: S, demotion: S, speaker: S, prior: S, weights: Weights) -> S:
    """The part of the score that needs no vector. `lexical` is rescaled to 0..1, the others are as their functions."""
    score: S = lexical * weights.lexical - demotion * weights.demotion
    return score + (speaker * weights.speaker + prior * weights.prior)  # type: ignore[no-any-return]


def fuse(dense: S, without: S, weights: Weights) -> S:
    """The score: `dense` is rescaled to 0..1, `without` is what all else gives; result -1.1..1.3."""
    score: S = dense * weights.dense + without
    return score


def rescale(values: S, low: float, high: float) -> S:
    """Map low..high to 0..1; everything to 0 where there is no spread to speak of."""
    scaled: S = (values - low) * (1.0 / (high - low) if high - low > 1e-9 else 0.0)
    return scaled


def context_weight(own_terms: int, context: str, context_terms: int) -> float:
    """How much the words of the turns before a turn count for it, 0..1. Lengths are in terms.

    Without spaces, context that asks nothing counts nothing: its n-grams meet those of the query by chance (MemSim
    recall@10 .984 with it, .988 without, under UNSPACED).
    """
    if not context_terms:
        return 0.0
    kind = QUESTION_CONTEXT
    if not _QUESTION_MARK.search(context):
        kind = 0.0 if is_unspaced(context) else OTHER_CONTEXT
    return kind * min(1.0, SHORT_TURN_TERMS / max(own_terms, 1)) * min(1.0, CONTEXT_TERMS / context_terms)


_REVIEWED: Final = {"confirmed": 0.5, "disputed": -0.5}


def prior(importance: float, validation_status: str) -> float:
    """What is known of a memory before any question, -1..1; 0 for one that nobody weighed or reviewed."""
    return max(-1.0, min(1.0, 2.0 * importance - 1.0 + _REVIEWED.get(validation_status, 0.0)))


# Placed so often, a memory gains nothing more by it: the first time is worth a quarter of the fifteenth.
INJECTED_MAX: Final = 15
REINFORCEMENT_HALF_LIFE_S: Final = 30 * 86_400.0


def strength(injected: int) -> float:
    """How strong so many injections leave a memory before it fades: 0..1, logarithmic, capped, 0 for none."""
    return math.log1p(min(max(injected, 0), INJECTED_MAX)) / math.log1p(INJECTED_MAX)


def faded(strong: S, age_s: S) -> S:
    """What is left of a strength so many seconds (0 or more) after the last injection."""
    left: S = strong * 0.5 ** (age_s * (1.0 / REINFORCEMENT_HALF_LIFE_S))
    return left


def reinforcement(injected: int, age_s: float) -> float:
    """How much being placed in prompts speaks for a memory, 0..1; a last time that is yet to come counts as now."""
    return faded(strength(injected), max(age_s, 0.0))


def demotion(role: str, own_terms: int) -> float:
    """How far a turn stands back because a machine said it, 0..1, by its length in terms."""
    return min(1.0, own_terms / LONG_REPLY_TERMS) if role in _SPOKEN_BY_MACHINES else 0.0
