"""The section of the configuration for uploaded documents: plain values in, values within their bounds out."""

from __future__ import annotations

from pydantic import Field

from memory.config_sections import Section


class Documents(Section):
    """Files that are uploaded to be remembered: what one may take."""

    bytes_max: int = Field(
        default=5_242_880, ge=1024, le=46_137_344, description="Largest file, else 413. Its text may be longer."
    )
    chars_max: int = Field(
        default=20_000_000, ge=1000, le=100_000_000, description="Longest text of one file, once it is unpacked."
    )
    rows_max: int = Field(default=100_000, ge=1, le=10_000_000, description="Rows of a table, elements of a JSON.")
    parse_s: int = Field(default=60, ge=1, le=3600, description="Longest time to read one file.")
    parse_memory_bytes: int = Field(
        default=536_870_912,
        ge=134_217_728,
        le=17_179_869_184,
        description="Memory of the process that reads a file; one runs at a time for each proxy process.",
    )
    waiting_max: int = Field(
        default=16, ge=1, le=10_000, description="Uploads of one scope that wait to be stored, else 429."
    )
