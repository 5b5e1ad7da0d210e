"""What a question is searched by: (question, the turns before it) -> text. The default `QueryTransformer`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from policies.followup import leans


class FollowUp:
    """A question is searched by its own words, one that leans on the turns before it by theirs as well."""

    def transform(self, query: str, previous: Sequence[str]) -> str:
        """The question, under what it leans on."""
        return "\n".join((*previous, query)) if previous and leans(query) else query
