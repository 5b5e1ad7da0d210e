"""The bodies of erasure, in and out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from memory.erasure.model import KINDS, Step, TargetKind
from proxy.api.schemas import Asked, Moment, Said
from proxy.api.schemas_search import QUERY_CHARS_MAX


def _named(value: str) -> str:
    if "\x00" in value:
        raise ValueError("it holds a NUL character, which nothing is named with")
    return value


Name = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_named)]


class ForgetAsked(Asked):
    """What is to be forgotten: exactly one of the six."""

    user: Name | None = Field(default=None, description="All of a user, in every project.")
    project: Name | None = Field(default=None, description="All of a project, of every user.")
    session: Name | None = Field(default=None, description="One conversation of the caller's scope.")
    memory: Name | None = Field(
        default=None, description="One memory, with the turns it rests on and all made of these."
    )
    source_id: Annotated[str, Field(min_length=1, max_length=1024), AfterValidator(_named)] | None = Field(
        default=None,
        description="The turn that was imported under this name, or that has this id, as `source_ids` says it.",
    )
    query: Annotated[str, Field(min_length=1, max_length=QUERY_CHARS_MAX)] | None = Field(
        default=None, description="What a search for this would put into a prompt."
    )
    dry_run: bool | None = Field(default=None, description="Only say what would go. Default: true for `query`.")
    confirm: str | None = Field(
        default=None, max_length=128, description="Of a dry run: forget exactly that, else 409."
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> ForgetAsked:
        if sum(getattr(self, kind) is not None for kind in KINDS) != 1:
            raise ValueError(f"name exactly one of {', '.join(KINDS)}")
        return self

    def named(self) -> tuple[TargetKind, str]:
        """The one that was given."""
        return next((kind, value) for kind in KINDS if (value := getattr(self, kind)) is not None)


class ForgetPlanned(Said):
    """What would go. With `confirm` sent back, exactly that does."""

    counts: dict[str, int]
    sample_ids: list[str]
    confirm: str


class ForgetReceipt(Said):
    """It is done. `complete`: the probe found no trace. The signature is over the canonical form of all the rest."""

    id: str
    tenant: str
    kind: TargetKind
    target: str = Field(description="HMAC of what was forgotten.")
    level: Literal["logical", "physical"]
    complete: bool
    requested_at: str
    finished_at: str
    counts: dict[str, int]
    ids: dict[str, Any] = Field(description="HMACs of what went: their number, one over all, and the first.")
    processes: dict[str, Any]
    probe: dict[str, Any]
    scrub: dict[str, Any] | None = Field(default=None, description="Of the physical level.")
    version: int
    key: str
    signature: str


class ErasureListed(Said):
    """One erasure; its receipt is at `/memory/v1/forget/{id}`."""

    id: str
    kind: TargetKind
    status: Literal["running", "ended"]
    step: Step
    complete: bool | None = Field(description="Whether the probe found no trace. Null: it goes on.")
    requested_at: Moment
    finished_at: Moment | None


class ErasureList(Said):
    """Erasures, the newest first; a page may have fewer than `limit`."""

    data: list[ErasureListed]
    next_cursor: str | None


class ForgetWaits(Said):
    """It goes on; ask again."""

    id: str
    status: Literal["running"]
    step: Step
