"""What one call asks: an aiohttp request in, who asks and what it says out.

Bodies are bounded, UTF-8 JSON objects; query parameters are named and single. Refuses, with the name of the header,
member or parameter and what was expected: malformed JSON (400, with its position), members that do not fit (422),
unknown or doubled parameters (400), too large bodies (413), and whoever lacks the capability (403).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NoReturn, Protocol, TypeVar
from uuid import UUID

from aiohttp import web
from pydantic import BaseModel, ValidationError

from memory.errors import (
    CapabilityMissing,
    MemoryConflict,
    MemoryInvalid,
    NotFound,
    ScopeDenied,
    StoreUnavailable,
    TooLarge,
    Unprocessable,
    VersionRequired,
)
from memory.keys import KeyRing
from memory.model import Scope, SessionRef
from memory.names import kept_name
from memory.read.conversation import session_ref
from memory.stored import SessionRecord
from policies.gate import Holder
from proxy.api.json_bounds import too_much
from proxy.app import Door
from proxy.auth import UNKNOWN_TENANT
from proxy.chat import CREDENTIAL
from proxy.gated import holder_of
from proxy.identity import NAME_CHARS_TOLD, TIME, Ask, Credential, identify, rfc3339

SESSION_CHARS_MAX: Final = 256
# Bound of a body that is read whole, in bytes. An import is not: it is read line by line.
BODY_BYTES_MAX: Final = 1_048_576
ID_FORM: Final = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_ID: Final = re.compile(ID_FORM)
_LOST_PLUS: Final = re.compile(r" (\d\d:\d\d)$", re.ASCII)
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and when: every call acts inside `scope`."""

    credential: Credential
    ask: Ask
    now: datetime

    @property
    def actor(self) -> str:
        """Who asks, for the audit log."""
        return self.credential.actor

    @property
    def scope(self) -> Scope:
        """The scope of the call."""
        return self.ask.scope

    def kept(self, name: str) -> str:
        """A name that a body, a path or a parameter says, as names are kept."""
        return kept_name(name, self.credential.hide)


def caller_of(request: web.Request, door: Door, capability: str) -> Caller:
    """Who asks. Raises InvalidApiKey, AuthUnavailable, ScopeDenied, CapabilityMissing, MemoryInvalid.

    Before the first complete start there is no tenant: StoreUnavailable.
    """
    return _caller(request, door, capability)


def admitted(request: web.Request, door: Door) -> Caller:
    """Who asks for what needs no capability. Raises as `caller_of`."""
    return _caller(request, door, None)


def _caller(request: web.Request, door: Door, capability: str | None) -> Caller:
    credential = request[CREDENTIAL] = door.admit(request)
    _refuse_other_sites(request, credential)
    if capability is not None:
        require(credential, capability)
    if credential.tenant == UNKNOWN_TENANT:
        raise StoreUnavailable("the store has not been reached yet; try again", retry_after_s=1)
    now = datetime.now(UTC)
    return Caller(credential, identify(request.raw_headers, None, None, credential, now), now)


def _refuse_other_sites(request: web.Request, credential: Credential) -> None:
    """Raise ScopeDenied for what a page of another site has a browser do where no key is asked for, which that page
    would lack. It reads no answer (`own`), so what only reads is let through; programs send no Origin.
    """
    origin = request.headers.get("Origin")
    if origin is None or credential.key_id is not None or request.method == "GET":
        return
    if request.headers.get("Sec-Fetch-Site") != "same-origin" and origin.partition("://")[2] != request.host:
        raise ScopeDenied("a page of another site may change nothing here", param="Origin")


async def holder_for(caller: Caller, keys: KeyRing) -> Holder:
    """The caller as the gate knows it. Raises StoreUnavailable while the tenant's key is not at hand."""
    session = caller.credential.session
    if session is None:
        return holder_of(caller.credential)
    chain_key = await keys.chain_key(caller.scope.tenant)
    return holder_of(caller.credential, session_ref(chain_key, caller.scope, session).session_id)


class FindsSessions(Protocol):
    """The store, as far as a list of one conversation needs it."""

    async def session(self, scope: Scope, name: str) -> SessionRecord:
        """A conversation by its label, else its id. Raises NotFound."""


async def session_listed(caller: Caller, records: FindsSessions, given: Mapping[str, str]) -> UUID | None:
    """The conversation whose part of a list is asked for; None for all. Raises NotFound, where the list is empty."""
    if "session" not in given:
        return None
    return (await records.session(caller.scope, caller.kept(given["session"]))).session_id


async def session_named(caller: Caller, keys: KeyRing, in_body: str | None) -> SessionRef | None:
    """The conversation that a call names: in its body, by its token, by its head. Raises MemoryConflict for two."""
    of_token, in_head = caller.credential.session, caller.ask.session
    named = caller.kept(in_body) if in_body is not None else None
    if named is not None and (of_token or in_head) not in (None, named):
        raise MemoryConflict("the body and the request name different sessions", param="session")
    label = of_token or named or in_head
    return None if label is None else session_ref(await keys.chain_key(caller.scope.tenant), caller.scope, label)


def require(credential: Credential, capability: str) -> None:
    """Raise CapabilityMissing unless the credential has it."""
    if not credential.can(capability):
        raise CapabilityMissing(f"this key lacks the capability {capability}")


def require_not_one_session(caller: Caller, why: str) -> None:
    """Raise ScopeDenied for a token that is for one conversation, whatever else it may."""
    if caller.credential.session is not None:
        raise ScopeDenied(f"this token is for one session, and {why}")


def parameters(request: web.Request, known: Collection[str]) -> dict[str, str]:
    """The query parameters, each given once. Raises MemoryInvalid for one that is unknown or given twice."""
    found: dict[str, str] = {}
    for name, value in request.query.items():
        if name not in known:
            said, name = ", ".join(sorted(known)) if known else "none", name[:NAME_CHARS_TOLD]
            raise MemoryInvalid(f"the parameter {name} is unknown; known here: {said}", param=name)
        if name in found:
            raise MemoryInvalid(f"the parameter {name} was given twice; give it once", param=name)
        found[name] = value
    if not 1 <= len(found.get("session", "s")) <= SESSION_CHARS_MAX:
        raise MemoryInvalid(f"a session has 1 to {SESSION_CHARS_MAX} characters", param="session")
    return found


def is_waiting(given: Mapping[str, str], default: bool) -> bool:
    """Whether the caller waits for all of it: `wait`. Raises MemoryInvalid for what says neither yes nor no."""
    raw = given.get("wait", "true" if default else "false")
    if raw not in ("true", "false"):
        raise MemoryInvalid("wait must be true or false", param="wait")
    return raw == "true"


def id_in_path(request: web.Request, what: str) -> UUID:
    """The `{id}` of the path. Raises NotFound for what is no id: it names nothing that exists."""
    return as_id(request.match_info["id"], what)


def is_id(text: str) -> bool:
    """Whether a text has the form of an id."""
    return _ID.fullmatch(text) is not None


def as_id(raw: str, what: str, param: str | None = None) -> UUID:
    """A text as an id. Raises NotFound for what is none."""
    if not is_id(raw):
        raise NotFound(f"there is no such {what} in this scope", param=param)
    return UUID(raw)


async def body_as(request: web.Request, model: type[M]) -> M:
    """The JSON body as a validated value. Raises MemoryInvalid, TooLarge, Unprocessable."""
    return validated(model, json_object(await _read(request)))


def require_change(asked: BaseModel, version: int | None, how: Collection[str] = ()) -> int:
    """The version that a change is made from. Raises VersionRequired where none is named, and Unprocessable for a
    change of nothing. `how`: members that only say how it is made.
    """
    if version is None:
        raise VersionRequired("send If-Match with the version the change was made from", param="If-Match")
    if not asked.model_fields_set.difference(how):
        known = ", ".join(sorted(type(asked).model_fields))
        raise Unprocessable(f"nothing to change; known: {known}", param="body")
    return version


async def _read(request: web.Request) -> bytes:
    refuse_encodings(request)
    too_large = TooLarge(f"the body may have {BODY_BYTES_MAX} bytes", param="body")
    if (request.content_length or 0) > BODY_BYTES_MAX:
        raise too_large
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise too_large
    return bytes(body)


def refuse_encodings(request: web.Request) -> None:
    """Raise Unprocessable for a compressed body: it is not expanded, so that no bound can be passed by it."""
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", ""):
        raise Unprocessable(f"Content-Encoding {encoding[:32]!r}: send the body uncompressed", param="Content-Encoding")


def json_object(raw: bytes) -> dict[str, Any]:
    """The object in a body. Raises MemoryInvalid with the position, Unprocessable for what is another or too much."""
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=no_constant, object_pairs_hook=_each_once)
    except UnicodeDecodeError as exc:
        raise MemoryInvalid(f"the body is not UTF-8 at byte {exc.start}", param="body") from exc
    except json.JSONDecodeError as exc:
        place = f"line {exc.lineno} column {exc.colno} (character {exc.pos})"
        raise MemoryInvalid(f"the body is no JSON: {exc.msg} at {place}", param="body") from exc
    except (ValueError, RecursionError) as exc:
        raise MemoryInvalid(f"the body is no JSON: {str(exc)[:100]}", param="body") from exc
    if not isinstance(value, dict):
        raise Unprocessable(f"the body must be a JSON object, not {json_type(value)}", param="body")
    if (found := too_much(value)) is not None:
        raise Unprocessable(": ".join(found), param=found[0])
    return value


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a body. Raises Unprocessable: of two members of a name one would go unsaid, a dry_run for one."""
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0][:NAME_CHARS_TOLD]
        raise Unprocessable(f"{twice} was given twice; give it once", param=twice)
    return found


def no_constant(name: str) -> NoReturn:
    """Refuse NaN and the infinities, which are no JSON. Raises ValueError."""
    raise ValueError(f"{name} is not a JSON number")


def json_type(value: object) -> str:
    """What JSON calls a value: for messages."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "a boolean"
    names = {str: "a string", int: "a number", float: "a number", list: "an array", dict: "an object"}
    return names.get(type(value), "a value")


def validated(model: type[M], value: dict[str, Any]) -> M:
    """The value as a model. Raises Unprocessable naming the first member that does not fit and what was expected."""
    try:
        return model.model_validate(value, strict=True)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        member = ".".join(str(part)[:NAME_CHARS_TOLD] for part in first["loc"]) or "body"
        if first["type"] == "extra_forbidden":
            known = ", ".join(sorted(field.alias or name for name, field in model.model_fields.items()))
            said = f"; known: {known}" if len(first["loc"]) == 1 else ""  # those of the call, not of a part of it
            raise Unprocessable(f"{member} is not a member of this call{said}", param=member) from None
        said = first["msg"].removeprefix("Value error, ")  # of a check of ours, which says it in words
        raise Unprocessable(f"{member}: {said}", param=member) from None


def moment_in(given: Mapping[str, str], name: str) -> datetime | None:
    """The time that a parameter says. A plus that was not percent-encoded is a space by the time it is here. Raises
    MemoryInvalid for what is none.
    """
    raw = given.get(name)
    moment = None if raw is None else rfc3339(_LOST_PLUS.sub(r"+\1", raw))
    if raw is not None and moment is None:
        raise MemoryInvalid(f"{name} must be {TIME}", param=name)
    return moment


def to_rfc3339(moment: datetime | None) -> str | None:
    """A time as this API writes it: UTC, `Z`, microseconds only where there are some."""
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
