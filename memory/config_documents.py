"""The sections of the configuration for uploaded files: plain values in, values within their bounds out."""

from __future__ import annotations

from pydantic import Field

from memory.config_values import Directory, HttpUrl, Key, Section, Word


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


class Artifacts(Section):
    """Files that are kept outside the database, sealed; a prompt is given what they are and an excerpt."""

    dir: Directory | None = Field(
        default=None, description="Where their bytes lie, with s3_bucket their parts; null: artifacts in data.dir."
    )
    s3_bucket: Word | None = Field(default=None, description="Bucket of an S3-compatible service; null: the directory.")
    s3_url: HttpUrl | None = Field(default=None, description="Address of that service; null: Amazon's.")
    s3_region: Word = Field(default="us-east-1", description="Its region.")
    s3_prefix: Word = Field(default="memory-proxy", description="What all names in the bucket begin with.")
    s3_access_key: Key | None = Field(
        default=None, description="Its key; null with s3_secret_key: as boto3 finds one (environment, instance role)."
    )
    s3_secret_key: Key | None = Field(default=None, description="The secret of that key.")
    bytes_max: int = Field(default=52_428_800, ge=1024, le=17_179_869_184, description="Largest file, else 413.")
    scope_bytes_max: int = Field(
        default=1_073_741_824, ge=0, le=1_125_899_906_842_624, description="All files of one scope, else 413."
    )
