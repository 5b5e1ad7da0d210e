"""How an admitted memory enters the block: whole, or by an excerpt of how many characters. The default `ContextRouter`.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memory.model import Candidate

# A long memory is shown by the sentences that matter, in fewer characters where it ranks lower. On BEAM-100K, whose
# turns are long, median tokens of the block / share of the evidence placed / share of the answers' own words, with 400
# characters for the best four and 80 below: 670 / .623 / .436; 100 below: 690 / .616 / .443; three and 100: 645 / .626
# / .430. LoCoMo's turns are short: 567 / .788 / .686 with these. The best window of 1,200 characters, under an earlier
# ranking: 966 / .577 / .486 and 606 / .772 / .686 (`python -m bench.tune_recall --block`).
EXCERPT_CHARS: Final = 400
EXCERPTS_LONG: Final = 4
EXCERPT_CHARS_BELOW: Final = 80
# What stands for a part of the conversation that is not sent: its 8 sentences, as a rule.
SUMMARY_CHARS: Final = 2_000
WHOLE_CHARS: Final = 200  # a memory that is no longer than this is shown whole wherever it ranks


class ByLength:
    """A short memory stands whole, a long one by an excerpt; whatever its kind and whatever was asked."""

    def excerpt_chars(self, candidate: Candidate, place: int, terms: Mapping[str, float]) -> int | None:
        """400 characters of each of the best four, 80 of one below; None for one that is no longer, or 200 at most, and
        for a procedure: one without some of its steps is wrong. 2,000 of a conversation's own summary.
        """
        if candidate.kind == "procedural":
            return None
        if candidate.kind == "summary" and candidate.session_id is not None:
            return None if len(candidate.content) <= SUMMARY_CHARS else SUMMARY_CHARS
        chars = EXCERPT_CHARS if place < EXCERPTS_LONG else EXCERPT_CHARS_BELOW
        return None if len(candidate.content) <= max(chars, WHOLE_CHARS) else chars
