"""Who is asking, and for what: headers, the body's `memory` object and the credential in, an Ask out.

Precedence (DESIGN section 2): a key's fixed value > header > `memory` object > the key's default > OpenAI's
`safety_identifier`, then `user` (for the user only) > `default`. Fails closed: whatever cannot be understood is refused
with the name of the header or member, and nothing is guessed.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, get_args
from urllib.parse import unquote_to_bytes
from uuid import UUID

from memory.errors import CapabilityMissing, MemoryConflict, MemoryInvalid, ScopeDenied
from memory.model import Mode, Scope
from memory.passage import note
from policies.capabilities import allows
from policies.key_limits import NO_LIMITS, KeyLimits
from policies.labels import Sensitivity
from policies.persona import Style, style_of
from policies.text import normalised

VALUE_BYTES_MAX: Final = 256
# Of a name that a client made up, what a refusal repeats.
NAME_CHARS_TOLD: Final = 64
_RFC3339: Final = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,6})\d*)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
# At and beyond these lie what the store keeps as infinity, which is no time when it is read again, and what a float
# rounds to the year 10000. The zero time of a client's is the first of them.
_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
TIME: Final = "RFC 3339 with an offset, like 2026-11-21T09:30:00Z, behind 0001-01-01T00:00:00Z"
OURS: Final = b"x-memory-"
UNKNOWN_TOLD_MAX: Final = 8
_VISIBLE_ASCII: Final = re.compile(rb"[!-~]*")
_MEMBERS: Final = (
    "user", "project", "agent", "session", "mode", "checkpoint", "persona", "as_of", "budget", "outside"
)  # fmt: skip
_SCOPE_MEMBERS: Final = ("user", "project", "agent")
_NAMES_AND_MODE: Final = frozenset({*_SCOPE_MEMBERS, "mode"})
_MODES: Final = get_args(Mode)


def _header_name(member: str) -> str:
    return "X-Memory-" + "-".join(part.capitalize() for part in member.split("_"))


_HEADERS: Final = {name.lower().encode(): (name, member) for member in _MEMBERS for name in [_header_name(member)]}


@dataclass(frozen=True, slots=True)
class Credential:
    """What the caller's key or token says. In `open` mode there is one, with every capability and no limit.

    `fixed` and `defaults` go by scope member, a token's `session` among the fixed; `token` is a token's nonce,
    `until` its end in Unix seconds.
    """

    tenant: UUID
    key_id: UUID | None = None
    fixed: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    capabilities: frozenset[str] = frozenset()
    ceiling: Sensitivity | None = None
    limits: KeyLimits = NO_LIMITS
    token: str | None = None
    until: int | None = None
    hide: Callable[[str], str] = str  # names that are secrets, by another name (memory.names)

    @property
    def session(self) -> str | None:
        """The one conversation that a token is for, as its name is kept."""
        named = self.fixed.get("session")
        return None if named is None else self.hide(named)

    @property
    def actor(self) -> str:
        """Who it is in the audit log: the key's id, never its secret."""
        return "open" if self.key_id is None else str(self.key_id)

    def can(self, capability: str) -> bool:
        """Whether the key has this capability; a key without an id is the open mode's and has all."""
        return self.key_id is None or allows(self.capabilities, capability)


@dataclass(frozen=True, slots=True)
class Ask:
    """What one request asks of memory. `budget` is a cap in tokens, None for the configured one; `outside`: the answer
    waits for pages of the web.
    """

    scope: Scope
    mode: Mode = "on"
    session: str | None = None
    checkpoint: str | None = None
    persona: Style | None = None
    as_of: datetime | None = None
    budget: int | None = None
    outside: bool = False

    @property
    def inserts(self) -> bool:
        """Whether memory may be put into the prompt."""
        return self.mode in ("on", "read")

    @property
    def captures(self) -> bool:
        """Whether the exchange is kept."""
        return self.mode in ("on", "write")


def identify(
    headers: Iterable[tuple[bytes, bytes]],
    memory: Mapping[str, Any] | None,
    openai_user: str | None,
    credential: Credential,
    now: datetime,
) -> Ask:
    """Decide who asks. Raises MemoryInvalid, MemoryConflict, ScopeDenied, CapabilityMissing.

    `headers` are the raw pairs as they arrived; `openai_user` is what the body says in OpenAI's own fields, already
    chosen by the caller, or None where configuration forbids it.
    """
    given = _reconcile(_from_headers(headers), _from_object(memory) if memory else {})
    names = {m: credential.hide(_scope_value(m, given, credential, openai_user)) for m in _SCOPE_MEMBERS}
    session = _session(given.get("session"), credential)
    if "user" in given and "user" not in credential.fixed and not credential.can("act:any_user"):
        raise CapabilityMissing(
            "this key fixes no user, so naming one needs the capability act:any_user", param="X-Memory-User"
        )
    return Ask(
        scope=Scope(tenant=credential.tenant, **names),
        mode=_mode(given.get("mode", "on")),
        session=session,
        checkpoint=credential.hide(given["checkpoint"]) if "checkpoint" in given else None,
        persona=_style(given.get("persona"), credential),
        as_of=_as_of(given.get("as_of"), now),
        budget=_budget(given.get("budget")),
        outside=_outside(given),
    )


def require_clear(headers: Iterable[tuple[bytes, bytes]], credential: Credential, now: datetime) -> None:
    """Refuse a head that `identify` would refuse, for whom it does not matter who asks. An open door with names and a
    mode leaves nothing to refuse beyond their spelling."""
    pairs = list(headers)
    given = _from_headers(pairs)
    if credential.fixed or not credential.can("act:any_user") or not given.keys() <= _NAMES_AND_MODE:
        identify(pairs, None, None, credential, now)
    else:
        _mode(given.get("mode", "on"))


def openai_user_of(body: Mapping[str, Any]) -> str | None:
    """OpenAI's `safety_identifier`, else `user`, where it is a text. One that can be no name is not ours to refuse: its
    digest is the name, since all whose texts were passed over would have one memory.
    """
    for member in ("safety_identifier", "user"):
        value = body.get(member)
        if isinstance(value, str) and value:
            return unicodedata.normalize("NFC", value) if _fits(value) else _digest_name(value)
    return None


def _digest_name(text: str) -> str:
    in_form = normalised("NFC", text)  # as names are compared
    return f"sha256-{hashlib.sha256(in_form.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _from_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """What the headers say. An X-Memory-* header of another name is taken off like these before the request goes on;
    the request's line says it, since a misspelt X-Memory-User has what it remembers go to `default`.
    """
    found: dict[str, str] = {}
    unknown: list[str] = []
    for raw_name, raw_value in headers:
        known = _HEADERS.get(lowered := raw_name.lower())
        if known is None:
            if lowered.startswith(OURS) and len(unknown) < UNKNOWN_TOLD_MAX:
                unknown.append(raw_name[:NAME_CHARS_TOLD].decode("ascii", "replace"))
            continue
        name, member = known
        if member in found:
            raise MemoryInvalid(f"{name} was sent twice; send it once", param=name)
        found[member] = _header_value(name, raw_value)
    if unknown:
        note(unknown_headers=unknown)
    return found


def _header_value(name: str, raw: bytes) -> str:
    if not raw:
        raise MemoryInvalid(f"{name} is empty; leave it out or give a value", param=name)
    if not _VISIBLE_ASCII.fullmatch(raw):
        raise MemoryInvalid(f"{name} has bytes outside visible ASCII; percent-encode its UTF-8", param=name)
    value = unquote_to_bytes(raw) if b"%" in raw else raw
    if len(value) > VALUE_BYTES_MAX:  # of what it says, as in the object: encoded, most letters take three times that
        raise MemoryInvalid(f"{name} has {len(value)} bytes; at most {VALUE_BYTES_MAX}", param=name)
    if value is raw:
        return raw.decode("ascii")
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise MemoryInvalid(f"{name} is not percent-encoded UTF-8", param=name) from exc
    return _normalised(name, text)


def _from_object(memory: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for member, value in memory.items():
        param = f"memory.{member[:NAME_CHARS_TOLD]}"
        if member not in _MEMBERS:
            raise MemoryInvalid(f"{param} is unknown; known members: {', '.join(_MEMBERS)}", param=param)
        if value is None:
            continue
        if member == "budget":
            if isinstance(value, bool) or not isinstance(value, int):
                raise MemoryInvalid(f"{param} must be a whole number of tokens", param=param)
            found[member] = str(value)
            continue
        if not isinstance(value, str):
            raise MemoryInvalid(f"{param} must be a string", param=param)
        if not value:
            raise MemoryInvalid(f"{param} is empty; leave it out or give a value", param=param)
        if not _fits(value):
            raise MemoryInvalid(f"{param} is not a text of at most {VALUE_BYTES_MAX} bytes of UTF-8", param=param)
        found[member] = _normalised(param, value)
    return found


def _fits(value: str) -> bool:
    try:
        return len(value.encode("utf-8")) <= VALUE_BYTES_MAX and "\x00" not in value
    except UnicodeEncodeError:  # a lone surrogate is no text
        return False


def _normalised(param: str, text: str) -> str:
    if "\x00" in text:
        raise MemoryInvalid(f"{param} holds a NUL character", param=param)
    return unicodedata.normalize("NFC", text)


def _reconcile(header: dict[str, str], body: dict[str, str]) -> dict[str, str]:
    if not body:
        return header
    for member in header.keys() & body.keys():
        if header[member] != body[member]:
            raise MemoryConflict(
                f"the header and memory.{member} say different things; send one of them", param=f"memory.{member}"
            )
    return {**body, **header}


def _scope_value(member: str, given: Mapping[str, str], credential: Credential, openai_user: str | None) -> str:
    asked = given.get(member)
    fixed = credential.fixed.get(member)
    if fixed is not None:
        if asked is not None and asked != fixed:
            raise ScopeDenied(f"this key fixes the {member}; leave it out", param=f"X-Memory-{member.capitalize()}")
        return fixed
    if asked is not None:
        return asked
    default = credential.defaults.get(member)
    if default is not None:
        return default
    if member == "user" and openai_user is not None and credential.can("act:any_user"):
        return openai_user
    return "default"


def _session(asked: str | None, credential: Credential) -> str | None:
    fixed, named = credential.session, None if asked is None else credential.hide(asked)
    if fixed is not None and named not in (None, fixed):
        raise ScopeDenied("this token is for one session; leave it out", param="X-Memory-Session")
    return fixed or named


def _mode(value: str) -> Mode:
    for mode in _MODES:
        if value == mode:
            return mode  # type: ignore[no-any-return]  # get_args is untyped; the value is one of Mode's literals
    raise MemoryInvalid(f"mode must be one of {', '.join(_MODES)}", param="X-Memory-Mode")


def _style(value: str | None, credential: Credential) -> Style | None:
    try:
        style = None if value is None else style_of(value)
        return style and replace(style, name=credential.hide(style.name))
    except ValueError as exc:
        raise MemoryInvalid(f"persona: {exc}", param="X-Memory-Persona") from None


def rfc3339(value: str) -> datetime | None:
    """A time with an offset (RFC 3339) in UTC; None when it is none, or at an end of the calendar. Digits beyond
    microseconds are cut.
    """
    found = _RFC3339.fullmatch(value)
    if found is None:
        return None
    day, time, fraction, offset = found.groups()
    try:
        said = datetime.fromisoformat(f"{day}T{time}.{(fraction or '0').ljust(6, '0')}{offset.upper()}")
        moment = said.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if _FIRST < moment <= _LAST else None


def _as_of(value: str | None, now: datetime) -> datetime | None:
    """RFC 3339 with an offset. The future means now."""
    if value is None:
        return None
    moment = rfc3339(value)
    if moment is None or "T" not in value.upper():
        raise MemoryInvalid("as_of must be RFC 3339 with an offset, like 2026-11-21T09:30:00Z", param="X-Memory-As-Of")
    return min(moment, now)


def _budget(value: str | None) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdigit()):
        raise MemoryInvalid("budget must be a whole number of tokens, 0 or more", param="X-Memory-Budget")
    return int(value)


def _outside(given: Mapping[str, str]) -> bool:
    """Whether pages of the web are asked for. They are kept and then recalled: both must be wanted, and now."""
    value = given.get("outside")
    if value is None:
        return False
    if value != "now":
        raise MemoryInvalid("outside must be now", param="X-Memory-Outside")
    if given.get("mode", "on") != "on" or "as_of" in given:
        raise MemoryInvalid("outside goes with mode on and without as_of", param="X-Memory-Outside")
    return True
