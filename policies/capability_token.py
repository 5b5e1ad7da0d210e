"""Capability tokens: a key's authority in, a signed value that says less of it out, and back.

An HMAC chain as in Macaroons (Birgisson et al., NDSS 2014): the head is signed with a key derived from the API key's
secret, and each caveat with the signature before it, which then takes its place. So whoever holds a token can add a
caveat and nobody can take one off; verifying needs the root. Form: `mpt-<prefix>-<nonce>.<caveat>….<signature>`, all
ASCII. Signatures are over the text as it is sent and compared as text, so no second spelling of a token verifies.

Caveats are applied in order, each to what the ones before it left (`narrowed`). Refuses (TokenRefused) what it does not
know, what names another scope than is fixed, a user that the holder could not have named, and a token without an end.
Pure: the nonce and the time are arguments.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from policies.capabilities import ADMIN, ANY_USER, allows, expanded
from policies.key_limits import NO_LIMITS, KeyLimits, LimitsInvalid, limits_of, narrower
from policies.labels import Sensitivity, within_ceiling

NONCE_BYTES: Final = 12
TOKEN_CHARS_MAX: Final = 4_096
CAVEATS_MAX: Final = 16
NAME_BYTES_MAX: Final = 256
MARK: Final = "mpt-"
_ROOT: Final = b"memory-proxy capability token 1"
_HEAD: Final = re.compile(r"mpt-([0-9a-f]{8})-([A-Za-z0-9_-]{16})", re.ASCII)
_SCOPE: Final = ("user", "project", "agent")
_NAMES: Final = (*_SCOPE, "session")
_MOMENT_MAX: Final = 253_402_300_799  # the end of the year 9999, Unix seconds


class TokenRefused(ValueError):
    """Says what is wrong with a token or a caveat; never holds the token."""


@dataclass(frozen=True, slots=True)
class Caveat:
    """One narrowing; None narrows nothing. `until` in Unix seconds; `session` is the task: one conversation."""

    user: str | None = None
    project: str | None = None
    agent: str | None = None
    session: str | None = None
    capabilities: frozenset[str] | None = None
    until: int | None = None
    ceiling: Sensitivity | None = None
    injected_tokens_max: int | None = None
    models: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Authority:
    """What a holder may do. `fixed` and `defaults` go by scope member; `until` in Unix seconds, None for ever."""

    fixed: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    capabilities: frozenset[str] = frozenset()
    until: int | None = None
    ceiling: Sensitivity = Sensitivity.INTERNAL
    limits: KeyLimits = NO_LIMITS


@dataclass(frozen=True, slots=True)
class Token:
    """A token that has the right form; nothing is verified yet. `prefix` names the key whose secret signed it."""

    prefix: str
    nonce: str
    head: str
    parts: tuple[str, ...]
    signature: str
    caveats: tuple[Caveat, ...]


def root_of(secret: str) -> bytes:
    """What tokens of a key are signed with, from its secret."""
    return hmac.digest(secret.encode("utf-8", "surrogatepass"), _ROOT, hashlib.sha256)


def minted(prefix: str, root: bytes, nonce: bytes, caveat: Caveat) -> str:
    """A token of the key with this prefix. Raises TokenRefused."""
    if len(nonce) != NONCE_BYTES:
        raise TokenRefused(f"a nonce has {NONCE_BYTES} bytes")
    head = f"{MARK}{prefix}-{_encoded(nonce)}"
    if _HEAD.fullmatch(head) is None:
        raise TokenRefused("the prefix is not that of a key")
    if caveat.until is None:
        raise TokenRefused("a token needs an end: say until when it holds")
    part = _written(caveat)
    return _short_enough(f"{head}.{part}.{_signature(root, head, (part,))}")


def attenuated(token: str, caveat: Caveat) -> str:
    """The token with one caveat more: it needs no key. Raises TokenRefused."""
    known = read(token)
    if len(known.parts) == CAVEATS_MAX:
        raise TokenRefused(f"a token has at most {CAVEATS_MAX} caveats")
    part = _written(caveat)
    signature = _encoded(_link(_decoded(known.signature), part))
    return _short_enough(".".join((known.head, *known.parts, part, signature)))


def read(token: str) -> Token:
    """A token's parts. Raises TokenRefused for what is no token, or holds what is not understood."""
    if len(token) > TOKEN_CHARS_MAX or not token.isascii():
        raise TokenRefused(f"a token is ASCII and has at most {TOKEN_CHARS_MAX} characters")
    head, *parts = token.split(".")
    found = _HEAD.fullmatch(head)
    if found is None or len(parts) < 2:
        raise TokenRefused("it is cut, or no token of this proxy")
    *caveats, signature = parts
    if len(caveats) > CAVEATS_MAX:
        raise TokenRefused(f"a token has at most {CAVEATS_MAX} caveats")
    if len(_decoded(signature)) != hashlib.sha256().digest_size:
        raise TokenRefused("it is cut, or no token of this proxy")
    return Token(found[1], found[2], head, tuple(caveats), signature, tuple(_caveat(part) for part in caveats))


def refuse_two_values(caveats: Sequence[Caveat]) -> None:
    """Raises TokenRefused where the caveats name two users, projects, agents or sessions: whatever its key is, such a
    token is refused.
    """
    for name in _NAMES:
        if len({getattr(one, name) for one in caveats} - {None}) > 1:
            raise TokenRefused(f"it names two values of {name}")


def is_signed(token: Token, root: bytes) -> bool:
    """Whether this key, and whoever narrowed it since, made the token. In constant time for its length."""
    return hmac.compare_digest(_signature(root, token.head, token.parts), token.signature)


def authority_of(key: Authority, caveats: Sequence[Caveat]) -> Authority:
    """What a token of this key allows. Raises TokenRefused."""
    if all(caveat.until is None for caveat in caveats):
        raise TokenRefused("it has no end")
    for caveat in caveats:
        key = narrowed(key, caveat)
    return key


def narrowed(held: Authority, caveat: Caveat) -> Authority:
    """What is left of an authority under a caveat: never more than there was. Raises TokenRefused."""
    capabilities = held.capabilities
    if caveat.capabilities is not None:
        capabilities = expanded(capabilities) & expanded(caveat.capabilities)
    capabilities = _within(capabilities, held, caveat)
    ceiling = held.ceiling
    if caveat.ceiling is not None and within_ceiling(caveat.ceiling, ceiling):
        ceiling = caveat.ceiling
    models = held.limits.models
    if caveat.models is not None:
        models = caveat.models if models is None else models & caveat.models
    return Authority(
        fixed=_whole(_fixed(held, caveat), held.defaults),
        defaults=held.defaults,
        capabilities=capabilities,
        until=narrower(held.until, caveat.until),
        ceiling=ceiling,
        limits=replace(
            held.limits,
            injected_tokens_max=narrower(held.limits.injected_tokens_max, caveat.injected_tokens_max),
            models=models,
        ),
    )


def _within(capabilities: frozenset[str], held: Authority, caveat: Caveat) -> frozenset[str]:
    """Without what reaches beyond those whom it is for: who is made one user's, one project's or one agent's does not
    administer the tenant.
    """
    is_part = any(getattr(caveat, name) is not None and name not in held.fixed for name in _SCOPE)
    return expanded(capabilities) - {ADMIN} if is_part and ADMIN in capabilities else capabilities


def _whole(fixed: Mapping[str, str], defaults: Mapping[str, str]) -> Mapping[str, str]:
    """A conversation's name is that of one scope: in each other one another conversation may have it."""
    if "session" not in fixed:
        return fixed
    return {**{name: defaults.get(name, "default") for name in _SCOPE}, **fixed}


def _fixed(held: Authority, caveat: Caveat) -> Mapping[str, str]:
    fixed = dict(held.fixed)
    for name in _NAMES:
        asked = getattr(caveat, name)
        if asked is None:
            continue
        if fixed.setdefault(name, asked) != asked:
            raise TokenRefused(f"it names two values of {name}")
    asked = caveat.user
    if asked is None or "user" in held.fixed or allows(held.capabilities, ANY_USER):
        return fixed
    # Who may not name a user is one user already: a caveat must not make another of them.
    if asked != held.defaults.get("user", "default"):
        raise TokenRefused(f"it names a user, and its key lacks the capability {ANY_USER}")
    return fixed


def _short_enough(made: str) -> str:
    if len(made) > TOKEN_CHARS_MAX:
        raise TokenRefused(f"the token would have {len(made)} characters; at most {TOKEN_CHARS_MAX}")
    return made


def _signature(root: bytes, head: str, parts: Sequence[str]) -> str:
    signature = hmac.digest(root, head.encode("ascii"), hashlib.sha256)
    for part in parts:
        signature = _link(signature, part)
    return _encoded(signature)


def _link(before: bytes, part: str) -> bytes:
    return hmac.digest(before, part.encode("ascii"), hashlib.sha256)


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _decoded(text: str) -> bytes:
    """The bytes of unpadded base64url; of the spellings that base64 allows only ours. Raises TokenRefused."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as exc:
        raise TokenRefused("it is cut, or no token of this proxy") from exc
    if _encoded(raw) != text:
        raise TokenRefused("it is cut, or no token of this proxy")
    return raw


def _written(caveat: Caveat) -> str:
    """A caveat as it travels. Raises TokenRefused for one that narrows nothing or cannot be read back."""
    said: dict[str, Any] = {name: getattr(caveat, name) for name in (*_NAMES, "until")}
    said["can"] = None if caveat.capabilities is None else sorted(caveat.capabilities)
    said["ceiling"] = None if caveat.ceiling is None else caveat.ceiling.value
    said["injected"] = caveat.injected_tokens_max
    said["models"] = None if caveat.models is None else sorted(caveat.models)
    kept = {name: value for name, value in said.items() if value is not None}
    if not kept:
        raise TokenRefused("a caveat must narrow something")
    text = json.dumps(kept, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    part = _encoded(text.encode("ascii"))
    _caveat(part)
    return part


def _caveat(part: str) -> Caveat:
    """A caveat as it came. Raises TokenRefused for an unknown member: what is not understood cannot be kept to."""
    try:
        said = json.loads(_decoded(part).decode("ascii"), object_pairs_hook=_once)
    except TokenRefused:
        raise
    except (ValueError, RecursionError) as exc:  # ValueError: also a number of too many digits
        raise TokenRefused("it holds a caveat that cannot be read") from exc
    if not isinstance(said, dict) or not said or not said.keys() <= _READERS.keys():
        raise TokenRefused("it holds a caveat that this version does not know")
    fields: dict[str, Any] = {}
    for name, value in said.items():
        field_name, reads = _READERS[name]
        fields[field_name] = reads(name, value)
    return Caveat(**fields)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise TokenRefused("it holds a caveat that says something twice")
    return found


def scope_name(member: str, value: Any) -> str:
    """A text that can be the name of a user, project, agent or session. Raises TokenRefused."""
    if not isinstance(value, str) or not value or "\x00" in value:
        raise TokenRefused(f"{member} must be a text")
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError as exc:
        raise TokenRefused(f"{member} must be a text") from exc
    if size > NAME_BYTES_MAX or unicodedata.normalize("NFC", value) != value:
        raise TokenRefused(f"{member} must be a text of at most {NAME_BYTES_MAX} bytes in NFC")
    return value


def _count(member: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOMENT_MAX:
        raise TokenRefused(f"{member} must be a whole number")
    return value


def _names(member: str, value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise TokenRefused(f"{member} must be a list of names")
    return frozenset(value)


def _models(member: str, value: Any) -> frozenset[str]:
    try:
        return limits_of({"models": value}).models or frozenset()
    except LimitsInvalid as exc:
        raise TokenRefused(str(exc)) from exc


def _ceiling(member: str, value: Any) -> Sensitivity:
    try:
        return Sensitivity(value)
    except ValueError as exc:
        raise TokenRefused(f"{member} is not a sensitivity") from exc


_READERS: Final = {
    **{name: (name, scope_name) for name in _NAMES},
    "until": ("until", _count),
    "can": ("capabilities", _names),
    "ceiling": ("ceiling", _ceiling),
    "injected": ("injected_tokens_max", _count),
    "models": ("models", _models),
}
