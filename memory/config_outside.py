"""The section `outside` of the configuration: what may be asked of the web, and within which bounds.

Entries of lists are read by `policies.web_address`, which says what a name stands for. Nothing here makes a private
address reachable: only the search service's own URL may be one.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from memory.config_values import Expects, HttpUrl, Section, Word
from policies.web_address import PORTS, rule_of


def _name(value: str) -> str:
    return str(rule_of(value))


def _name_or_network(value: str) -> str:
    return str(rule_of(value, networks=True))


_Port = Annotated[int, Field(ge=1, le=65_535)]
Names = Annotated[
    tuple[Annotated[str, AfterValidator(_name)], ...],
    Field(strict=False, max_length=10_000),
    Expects("a list of names like example.com"),
]
NamesAndNetworks = Annotated[
    tuple[Annotated[str, AfterValidator(_name_or_network)], ...],
    Field(strict=False, max_length=10_000),
    Expects("a list of names like example.com and networks like 203.0.113.0/24"),
]
Ports = Annotated[
    tuple[_Port, ...], Field(strict=False, min_length=1, max_length=64), Expects("a list of ports from 1 to 65535")
]


class Outside(Section):
    """Pages of the web for questions that need them. Off: a search tells another service what was asked."""

    enabled: bool = Field(default=False, description="Search the web where a question needs it.")
    search_url: HttpUrl | None = Field(
        default=None,
        description="A SearXNG-compatible service, without /search, with json among its formats. It may stand on a "
        "private address; what it finds may not.",
    )
    contact: Word | None = Field(
        default=None, description="Mail address or URL that the User-Agent names to the sites; null: none."
    )
    allow: Names = Field(
        default=(), description="Only these names, and all names below each; empty: every public name."
    )
    deny: NamesAndNetworks = Field(
        default=(),
        description="Never these names or any below them, nor addresses in these networks; goes before allow. Name "
        "your own public networks here.",
    )
    ports: Ports = Field(default=PORTS, description="Ports that may be asked.")
    results_max: int = Field(default=10, ge=1, le=100, description="Results of a search that are looked at.")
    pages_max: int = Field(default=3, ge=1, le=20, description="Pages read for one question.")
    page_bytes_max: int = Field(
        default=2_000_000, ge=1024, le=33_554_432, description="Largest page, as it comes and unpacked."
    )
    page_chars_max: int = Field(default=20_000, ge=100, le=1_000_000, description="Text taken from one page.")
    search_s: float = Field(default=5, gt=0, le=60, description="Bound on one search.")
    head_s: float = Field(default=5, gt=0, le=60, description="Bound until a site's answer begins, at each redirect.")
    page_s: float = Field(default=10, gt=0, le=300, description="Bound on one page, redirects and robots.txt included.")
    total_s: float = Field(default=20, gt=0, le=600, description="Bound on all that is done for one question.")
