"""The bodies of preferences, in and out."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from proxy.api.schemas import Asked, Moment, Said


class PreferenceSaid(Said):
    """What was learnt of a user's taste from the user's own words."""

    memory_id: str
    version: int
    statement: str
    predicate: str
    strength: float = Field(description="From 0 to 1: how often, in how many conversations and how lately it was said.")
    said: int = Field(description="How often it was said.")
    sessions: int = Field(description="In how many conversations.")
    since: Moment
    last_said: Moment
    pinned: bool
    evidence: list[str] = Field(description="The latest turns that say it.")


class PreferenceList(Said):
    """The preferences that hold, strongest first."""

    data: list[PreferenceSaid]
    more: bool = Field(description="Whether more hold than are shown: the 500 that were said last.")
    next_cursor: None = None


class PreferencesReset(Asked):
    """Which are to be hidden."""

    memories: list[Annotated[str, Field(min_length=1, max_length=64)]] | None = Field(
        default=None, min_length=1, max_length=500, description="Their ids; without it all that the key may see."
    )


class PreferencesGone(Said):
    """What was hidden; each can be shown again as a memory."""

    memories: list[str]
    undo_until: Moment
