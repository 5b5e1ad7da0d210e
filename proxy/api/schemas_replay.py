"""The bodies of replay, in and out."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from proxy.api.schemas import Asked, ErrorSaid, Id, Moment, Said

IDS_MAX = 1000


class ReplayAsked(Asked):
    """What is to be different. Nothing: what the same recall gives today of the store as it stood then."""

    as_of: Moment | None = Field(
        default=None, description="Recall as the store stood then; without it when the request came."
    )
    without: list[Id] = Field(default=[], max_length=IDS_MAX, description="Memories to leave out.")
    config: dict[str, int] = Field(
        default={},
        max_length=16,
        description="Settings by their name: recall.budget_tokens_max, recall.candidates_max, recall.episodes_max, "
        "recall.facts_max, recall.procedures_max, recall.tasks_max, session.replay_turns.",
    )
    in_prompt: list[Id] | None = Field(
        default=None,
        max_length=IDS_MAX,
        description="Memories taken as placed at earlier turns, so not placed anew; without it those that were.",
    )


class ReplayedBlock(Said):
    """A block in the rebuilt body."""

    position: int = Field(description="Index of the message in the request.")
    text: str
    tokens: int
    memory_ids: list[str] = Field(description="In the order of the block.")
    kept: bool = Field(description="Placed at an earlier turn, and again here, byte for byte.")


class DiffSaid(Said):
    """How the newly placed block differs from the one that was placed."""

    added: list[str] = Field(description="Ids of memories that were not placed.")
    removed: list[str] = Field(description="Ids of memories that would not be placed.")
    kept: list[str] = Field(description="Ids of memories in both.")
    text: str = Field(description="The two blocks as a unified diff; empty where they are the same.")


class ReplaySaid(Said):
    """The body of an answer, rebuilt; or, for a what-if, the body that would have gone upstream."""

    id: str
    exchange_id: str
    created_at: Moment
    request: str = Field(description="The body as text: its UTF-8 form is the bytes.")
    sha256_sent: str = Field(description="Of the bytes that went upstream.")
    sha256_rebuilt: str = Field(description="Of `request`.")
    identical: bool
    missing: str | None = Field(description="Where the bytes that went cannot be made again: what is not there for it.")
    placed: list[ReplayedBlock] = Field(description="Every block in `request`.")
    block: str | None = Field(description="The newly placed block.")
    position: int | None = Field(description="Index of the message that carries it.")
    tokens: int = Field(description="Of all blocks.")
    tokens_exact: bool
    diff: DiffSaid | None = Field(description="Of a what-if, against what was placed.")
    notes: list[str] = Field(description="Of a what-if: what could not be made as it was.")


class GoneMemory(Said):
    """A candidate as it was judged: no words."""

    id: str
    version: int
    kind: str
    score: float
    injected: bool


class GonePlaced(Said):
    """A block that was placed: no words."""

    position: int
    sha256: str | None
    tokens: int
    memory_ids: list[str]


class GoneSaid(ErrorSaid):
    """An answer that cannot be rebuilt: why, and the digests and ids that are left."""

    id: str
    exchange_id: str
    created_at: Moment
    why: Literal["retention", "erased", "key", "not_kept", "not_whole"] = Field(
        description="Past its retention; erased with what was forgotten; its key is gone; the request was not kept "
        "(mode `read`, too large); or not whole (data URLs by digest)."
    )
    sha256_sent: str
    placed: list[GonePlaced]
    memories: list[GoneMemory]
