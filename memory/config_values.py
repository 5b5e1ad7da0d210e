"""What a value of the configuration may be: one that was read in, one that keeps its bounds out.

A URL, a path, a key, a time of day, each refused in words of ours: Pydantic's and Python's quote the value, which may
hold a password. `Section` is what all sections are: closed, frozen, without implicit conversions.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import SplitResult, parse_qsl, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

_LIBPQ_ALONE = frozenset(
    (
        "channel_binding",
        "connect_timeout",
        "fallback_application_name",
        "gssdelegation",
        "gssencmode",
        "hostaddr",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "load_balance_hosts",
        "require_auth",
        "requirepeer",
        "requiressl",
        "sslcertmode",
        "sslcompression",
        "sslcrldir",
        "sslsni",
        "tcp_user_timeout",
    )
)
_CLOCK_TIME = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]", re.ASCII)


@dataclass(frozen=True, slots=True)
class Expects:
    """What a field wants, in words, for error texts and for the comments of the generated file."""

    text: str


def _parts(value: str) -> SplitResult:
    """A URL taken apart. What is wrong with one is said in our words: Python's quote it, and it may hold a password."""
    try:
        return urlsplit(value)
    except ValueError:
        raise ValueError("a URL that can be read (in a password write %5B for [ and %5D for ])") from None


def _check_port(parts: SplitResult) -> None:
    try:
        _ = parts.port
    except ValueError:
        raise ValueError("a URL whose port is a number from 0 to 65535 (in a password write %2F for /)") from None


def _check_cluster(parts: SplitResult) -> None:
    """Several nodes may be named. Databases beside the first are what a cluster has none of."""
    for node in parts.netloc.rpartition("@")[2].split(","):
        _check_port(parts._replace(netloc=node))
    if parts.path not in ("", "/", "/0") or any(name == "db" for name, _ in parse_qsl(parts.query)):
        raise ValueError("a URL without a database: a cluster has only one (give each service a cluster of its own)")


def _check_options(parts: SplitResult) -> None:
    """What the driver does not know it takes for a setting, and the server ends each connection that brings one."""
    named = {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    for name in sorted(_LIBPQ_ALONE & named):
        raise ValueError(f"a URL without {name}, which libpq knows and nothing here")


def _http_url(value: str) -> str:
    if any(character.isspace() for character in value):  # urlsplit takes line breaks out before it looks
        raise ValueError("a URL without spaces")
    parts = _parts(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an http:// or https:// URL with a host")
    if "@" in parts.netloc:
        raise ValueError("a URL without credentials (they belong in upstream.api_key)")
    if parts.query or parts.fragment:
        raise ValueError("a URL without query or fragment")
    _check_port(parts)
    try:  # as whoever connects there does
        parts.hostname.encode("idna")
    except UnicodeError as exc:
        raise ValueError("a URL with a host whose name has parts of 1 to 63 characters") from exc
    return value.rstrip("/")


def _url_of(*schemes: str) -> AfterValidator:
    def check(value: SecretStr) -> SecretStr:
        parts = _parts(value.get_secret_value())
        if parts.scheme not in schemes:
            raise ValueError(f"a URL that begins with {', '.join(f'{scheme}://' for scheme in schemes)}")
        if parts.scheme in ("redis", "rediss"):  # Postgres' may name several hosts
            _check_port(parts)
        if parts.scheme in ("redis+cluster", "rediss+cluster"):
            _check_cluster(parts)
        if parts.scheme in ("postgresql", "postgres"):
            _check_options(parts)
        return value

    return AfterValidator(check)


def _not_blank(value: str) -> str:
    if not value or not value.isprintable() or any(character.isspace() for character in value):
        raise ValueError("printable text without spaces")
    return value


def _to_path(value: object) -> object:
    if not isinstance(value, str) or not value.strip():
        return value
    if any(unicodedata.category(character) == "Cc" for character in value):
        raise ValueError("a path without control characters")
    if any(unicodedata.category(character) == "Cs" for character in value):  # bytes of a name in another encoding
        raise ValueError("a path in UTF-8")
    try:  # absolute: commands beside the service are given elsewhere, and mean the same file
        return Path(value).expanduser().absolute()
    except RuntimeError:
        raise ValueError("a path whose ~ names somebody of this machine") from None


def _key(value: SecretStr) -> SecretStr:
    if any(character.isspace() or not character.isprintable() for character in value.get_secret_value()):
        raise ValueError("a key without spaces or line breaks")
    return value


def _without_v1(value: str) -> str:
    """As clients of OpenAI's name a server, which each call of ours would name twice."""
    return value.removesuffix("/v1").rstrip("/")


def _without_traces(value: str) -> str:
    """As other programs are told where their traces go; the path is the protocol's, and is put behind it."""
    return value.removesuffix("/v1/traces").rstrip("/")


def _host(value: str) -> str:
    """An IPv6 address with the brackets of a URL is meant without them."""
    bare = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    if bare.count(":") == 1 or bare.strip("[]") != bare:
        raise ValueError("an address without a port (listen.port says that)")
    return bare


def _clock_time(value: str) -> str:
    if not _CLOCK_TIME.fullmatch(value):
        raise ValueError("a time of day from 00:00 to 23:59")
    return value


Word = Annotated[str, AfterValidator(_not_blank), Expects("text without spaces")]
Host = Annotated[Word, AfterValidator(_host), Expects("an address without a port")]
ClockTime = Annotated[str, AfterValidator(_clock_time), Expects("a time of day from 00:00 to 23:59")]
HttpUrl = Annotated[str, AfterValidator(_http_url), Expects("an http:// or https:// URL")]
UpstreamUrl = Annotated[HttpUrl, AfterValidator(_without_v1)]
CollectorUrl = Annotated[HttpUrl, AfterValidator(_without_traces)]
PostgresUrl = Annotated[SecretStr, _url_of("postgresql", "postgres"), Expects("a postgresql:// URL")]
RedisUrl = Annotated[
    SecretStr,
    _url_of("redis", "rediss", "unix", "redis+cluster", "rediss+cluster"),
    Expects("a redis://, rediss://, unix://, redis+cluster:// or rediss+cluster:// URL"),
]
Directory = Annotated[Path, BeforeValidator(_to_path), Expects("a path")]
Key = Annotated[SecretStr, AfterValidator(_key), Expects("text without spaces")]
HttpUrls = Annotated[tuple[HttpUrl, ...], Field(strict=False), Expects("a list of http:// or https:// URLs")]


class Section(BaseModel):
    """What all sections share: frozen, strict, closed, and silent about the values they refuse."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True, validate_default=False
    )
