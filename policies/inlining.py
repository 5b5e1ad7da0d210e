"""How a document reaches a conversation: its size and its uploader's choice in, whole, by what is found of it, or both.

A small document is read faster whole than searched, and nothing of it is missed; a large one would push everything else
out of the block. Pure; refuses nothing.
"""

from __future__ import annotations

from typing import Final, Literal

Inline = Literal["auto", "always", "never"]
Way = Literal["inline", "retrieved", "both"]

INLINE_SHARE: Final = 0.5
"""Of the tokens that a request may be given: what is placed whole leaves the other half for what is recalled."""
ALWAYS_SHARE: Final = 1.0
"""Of them, for a document that its uploader wants whole whatever else there is."""
CHARS_PER_TOKEN: Final = 4
"""As the estimate of the token counter has it, where the served model's own is not at hand."""


def way_of(choice: Inline, chars: int, budget_tokens: int) -> Way:
    """How a document of so many characters is given to the conversation that it was uploaded for. One that is placed
    whole and would not fit is found by its chunks too.
    """
    tokens = -(-chars // CHARS_PER_TOKEN)
    if choice == "never":
        return "retrieved"
    if choice == "always":
        return "inline" if tokens <= budget_tokens * ALWAYS_SHARE else "both"
    return "inline" if chars <= whole_chars_max(budget_tokens) else "retrieved"


def whole_chars_max(budget_tokens: int) -> int:
    """How many characters a document may have that is placed whole though nobody asked for that."""
    return int(budget_tokens * INLINE_SHARE) * CHARS_PER_TOKEN
