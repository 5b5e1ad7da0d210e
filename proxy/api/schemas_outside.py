"""The bodies of `POST /memory/v1/outside`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from policies.web_need import QUESTION_CHARS_MAX
from proxy.api.schemas import Asked, Moment, Said, SensitivityName


class OutsideAsked(Asked):
    """A question that is to be looked for in the web now."""

    question: str = Field(min_length=1, max_length=QUESTION_CHARS_MAX, description="The question, in words.")
    sensitivity: SensitivityName = Field(
        default="internal", description="Its label; from confidential on nothing leaves the machine."
    )


class PageSaid(Said):
    """A page that was read and is kept."""

    document: str = Field(description="The document it is, or is the next version of; stored behind the answer.")
    url: str
    title: str
    published: str = Field(description="ISO 8601 as the page says it; empty where it does not.")
    fetched_at: Moment
    cut: bool = Field(description="Whether the page says more than was kept.")


class MissedSaid(Said):
    """A result that gave no page."""

    url: str
    reason: str


class OutsideSaid(Said):
    """What came of it."""

    search: str = Field(description="found, nothing, withheld (the question may not leave the machine), or a reason.")
    pages: list[PageSaid]
    missed: list[MissedSaid]
    integrity: Literal["web"] = "web"
