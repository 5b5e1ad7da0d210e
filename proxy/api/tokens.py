"""`POST /memory/v1/tokens`: the caller's own key and what to leave of it in, a capability token out.

The key in the request signs it, so nothing of it need be stored; a token in the request is narrowed further. Nothing is
kept of what was minted: a token ends by itself, or with its key. It ends with
what it is made from at the latest. Refuses (422) whatever would widen. In open mode there is no key to sign with: 409.
"""

from __future__ import annotations

import os
import unicodedata
from datetime import UTC, datetime
from typing import Final

from aiohttp import web

from memory.errors import Conflict, Unprocessable
from policies.api_key import prefix_of
from policies.capabilities import unknown
from policies.capability_token import (
    MARK,
    NONCE_BYTES,
    Authority,
    Caveat,
    TokenRefused,
    attenuated,
    authority_of,
    minted,
    read,
    root_of,
)
from policies.labels import Sensitivity
from proxy.api.answers import said
from proxy.api.asking import Caller, admitted, body_as, parameters
from proxy.api.parts import OwnParts
from proxy.api.schemas import TokenAsked, TokenSaid
from proxy.auth import bearer_of
from proxy.identity import Credential

EXPIRES_IN_S: Final = 3_600


class Tokens:
    """The handler that mints."""

    def __init__(self, parts: OwnParts) -> None:
        self._parts = parts

    async def mint(self, request: web.Request) -> web.Response:
        """A token of the caller's key or token."""
        caller = admitted(request, self._parts.door)
        parameters(request, ())
        asked = await body_as(request, TokenAsked)
        if caller.credential.key_id is None:
            raise Conflict("auth.mode is open: there is no key that could sign a token")
        made = bearer_of(request)
        caveat = _caveat(asked, caller)
        try:
            authority = authority_of(_authority(caller.credential), [caveat])
            token = _signed(made, caveat)
        except TokenRefused as fault:
            raise Unprocessable(f"no such token can be made: {fault}") from None
        return said(
            TokenSaid(
                token=token,
                id=read(token).nonce,
                expires_at=datetime.fromtimestamp(authority.until or 0, UTC),
                capabilities=sorted(authority.capabilities),
                fixed=dict(authority.fixed),
            )
        )


def _caveat(asked: TokenAsked, caller: Caller) -> Caveat:
    if asked.capabilities is not None and (fault := unknown(asked.capabilities)) is not None:
        raise Unprocessable(f"capabilities: {fault}", param="capabilities")
    return Caveat(
        user=_nfc(asked.user),
        project=_nfc(asked.project),
        agent=_nfc(asked.agent),
        session=_nfc(asked.session),
        capabilities=None if asked.capabilities is None else frozenset(asked.capabilities),
        until=int(caller.now.timestamp()) + (asked.expires_in_s or EXPIRES_IN_S),
        ceiling=None if asked.sensitivity_max is None else Sensitivity(asked.sensitivity_max),
        injected_tokens_max=asked.injected_tokens_max,
        models=None if asked.models is None else frozenset(asked.models),
    )


def _nfc(name: str | None) -> str | None:
    return None if name is None else unicodedata.normalize("NFC", name)


def _authority(credential: Credential) -> Authority:
    """What the caller may do, to say what the token will leave of it."""
    return Authority(
        fixed=credential.fixed,
        defaults=credential.defaults,
        capabilities=credential.capabilities,
        until=credential.until,
        ceiling=credential.ceiling or Sensitivity.INTERNAL,
        limits=credential.limits,
    )


def _signed(secret: str, caveat: Caveat) -> str:
    if secret.startswith(MARK):
        return attenuated(secret, caveat)
    prefix = prefix_of(secret)
    if prefix is None:
        raise TokenRefused("this key is of an older form, which has no tokens: rotate it (memory-proxy key rotate)")
    return minted(prefix, root_of(secret), os.urandom(NONCE_BYTES), caveat)
