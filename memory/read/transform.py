"""What a question is searched by: (question, the turns before it) -> text. The default `QueryTransformer`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from policies.brought import asked_in
from policies.followup import leans


class FollowUp:
    """A question is searched by its own words, without the pages, files and rules that a program put around them; one
    that leans on the turns before it by theirs as well.
    """

    def transform(self, query: str, previous: Sequence[str]) -> str:
        """The question, under what it leans on."""
        asked = asked_in(query)
        return "\n".join((*previous, asked)) if previous and leans(asked) else asked
