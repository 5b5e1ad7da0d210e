"""The bodies of the calls for agents: the arguments of each tool in, what it answers with out.

A tool's definition is made of its arguments' model (`tool_table`), so what a model is told and what is checked cannot
differ. Arguments are closed and strict; a null stands for a member that is left out, as models write it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field, model_validator

from proxy.api.schemas import Asked, Moment, Said

QUERY_CHARS_MAX: Final = 4_000
CONTENT_CHARS_MAX: Final = 8_000
K_DEFAULT: Final = 8
Id = Annotated[str, Field(min_length=1, max_length=64)]


class MemorySearchArguments(Asked):
    """What to look for."""

    query: str = Field(min_length=1, max_length=QUERY_CHARS_MAX, description="What you want to know, in words.")
    k: int | None = Field(default=None, ge=1, le=50, description=f"Most memories to give; {K_DEFAULT} without it.")
    session: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(
        default=None, description="Only what was said in this conversation."
    )
    occurred_after: Moment | None = Field(default=None, description="Only what happened then or later, RFC 3339.")
    occurred_before: Moment | None = Field(default=None, description="Only what happened then or earlier, RFC 3339.")


class MemoryRememberArguments(Asked):
    """What to remember."""

    content: str = Field(
        min_length=1,
        max_length=CONTENT_CHARS_MAX,
        description="One statement that is understood without the conversation around it.",
    )


class MemoryCorrectArguments(Asked):
    """What takes the place of what."""

    memory: Id = Field(description="The id of the memory that is wrong, from memory_search.")
    version: int = Field(ge=1, description="Its version, from memory_search.")
    content: str = Field(min_length=1, max_length=CONTENT_CHARS_MAX, description="The statement that holds instead.")


class MemoryForgetArguments(Asked):
    """What is to go."""

    memory: Id | None = Field(default=None, description="The id of one memory; or give query.")
    query: Annotated[str, Field(min_length=1, max_length=QUERY_CHARS_MAX)] | None = Field(
        default=None, description="Forget what a search for this finds; or give memory."
    )
    confirm: Annotated[str, Field(min_length=1, max_length=128)] | None = Field(
        default=None, description="The confirm of the first call: forget exactly what it counted."
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> MemoryForgetArguments:
        if (self.memory is None) == (self.query is None):
            raise ValueError("give memory or query, one of the two")
        return self


class MemoryWhyArguments(Asked):
    """Of which answer."""

    retrieval: Id = Field(description="The id of a search or an answer: retrieval, or its X-Memory-Retrieval.")


class ToolList(Said):
    """The definitions as an OpenAI client adds them to `tools`: always the same bytes."""

    data: list[dict[str, Any]]
    next_cursor: None = None


class ToolSaid(Said):
    """What every tool answers with."""

    tool: str
    text: str = Field(description="For the model: the answer in words, memory in it quoted as data.")
    retrieval: str | None = Field(description="The record of this call (`retrievals/{id}`); null where none was kept.")


class MemoryFound(Said):
    """One memory that was found."""

    id: str
    version: int
    kind: str
    content: str = Field(description="As it may be shown to a model; a long one by the part that answers best.")
    role: str
    integrity: str
    occurred_at: Moment | None
    session: str | None
    admitted: bool = Field(description="Whether a chat completion would be given it.")
    score: float


class MemorySearchSaid(ToolSaid):
    """What was found, best first."""

    memories: list[MemoryFound]


class MemoryRememberSaid(ToolSaid):
    """What is kept. Until `stored` it is durable and not yet searchable."""

    id: str
    version: int
    session: str
    integrity: str
    stored: bool
    held_back: str | None = Field(description="Why it is in no answer until a person has confirmed it.")


class MemoryCorrectSaid(MemoryRememberSaid):
    """What is kept in place of another memory, which is hidden and can be shown again."""

    replaced: str | None = Field(description="The memory that was hidden; null where it still stands.")


class MemoryForgetSaid(ToolSaid):
    """What would go, with `confirm`; or what went, with its receipt; or an erasure that takes longer."""

    counts: dict[str, int]
    sample_ids: list[str]
    confirm: str | None
    receipt: dict[str, Any] | None
    erasure: str | None = Field(description="Ask `forget/{id}` for the receipt.")


class MemoryGiven(Said):
    """One memory that an answer was given, or not."""

    id: str
    version: int
    kind: str
    score: float
    given: bool
    why: str


class MemoryWhySaid(ToolSaid):
    """What one answer was given, and why."""

    query: str | None
    block: str | None
    created_at: Moment
    memories: list[MemoryGiven]
