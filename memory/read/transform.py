"""What a question is searched by: (question, the turns before it) -> text. The default `QueryTransformer`. Pure."""

from __future__ import annotations

from collections.abc import Sequence


class AsAsked:
    """A question is searched by its own words."""

    def transform(self, query: str, previous: Sequence[str]) -> str:
        """The question."""
        return query
