"""Sealed envelopes, version 1: plaintext and a data key in, opaque bytes out, and back.

    byte 0        version, 1
    bytes 1..16   key id (UUID)
    bytes 17..28  nonce, random
    bytes 29..    AES-256-GCM ciphertext and its 16-byte tag

The associated data binds tenant, subject, exchange and purpose, so that an envelope moved to another row, tenant or
use does not open. Refuses, with EnvelopeUnreadable, whatever was altered, truncated, or sealed under another key.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final, Literal, Protocol
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from memory.errors import EnvelopeUnreadable

VERSION: Final = 1
KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_HEAD_BYTES: Final = 1 + 16 + _NONCE_BYTES

Purpose = Literal["exchange", "import", "retrieval", "ledger", "key", "working", "token", "erasure", "document"]


@dataclass(frozen=True, slots=True)
class DataKey:
    """A key that seals: its id goes into the envelope, its 32 bytes never leave the process."""

    key_id: UUID
    secret: bytes

    def __repr__(self) -> str:
        return f"DataKey({self.key_id})"


@dataclass(frozen=True, slots=True)
class Binding:
    """What an envelope belongs to; authenticated with it, not stored in it."""

    tenant_id: UUID
    subject_id: UUID
    object_id: UUID
    purpose: Purpose

    def associated_data(self) -> bytes:
        """Fixed-width ids, then the purpose: no two bindings share a form."""
        return self.tenant_id.bytes + self.subject_id.bytes + self.object_id.bytes + self.purpose.encode()


@dataclass(frozen=True, slots=True)
class RowBinding:
    """The column of a stored row that a sealed value belongs to: a value copied to another row does not open."""

    tenant_id: UUID
    row_id: UUID
    version: int
    column: str

    @property
    def purpose(self) -> str:
        """What it is, in an error's words."""
        return f"column {self.column}"

    def associated_data(self) -> bytes:
        """A word no UUID of ours begins with, fixed-width ids and version, then the column."""
        ids = self.tenant_id.bytes + self.row_id.bytes + self.version.to_bytes(4, "big")
        return b"row\x00" + ids + self.column.encode()


class Bound(Protocol):
    """What an envelope is bound to."""

    @property
    def purpose(self) -> str:
        """What it is, in an error's words."""

    def associated_data(self) -> bytes:
        """What is authenticated with the envelope."""


def seal(key: DataKey, binding: Bound, plaintext: bytes) -> bytes:
    """Seal `plaintext` (any length up to 2**31 - 1 bytes) under `key` for `binding`."""
    nonce = os.urandom(_NONCE_BYTES)
    sealed = AESGCM(key.secret).encrypt(nonce, plaintext, binding.associated_data())
    return bytes([VERSION]) + key.key_id.bytes + nonce + sealed


def key_id_of(envelope: bytes) -> UUID:
    """The id of the key that sealed this. Raises EnvelopeUnreadable when it is no envelope of version 1."""
    if len(envelope) < _HEAD_BYTES or envelope[0] != VERSION:
        raise EnvelopeUnreadable(f"not a sealed envelope of version {VERSION} ({len(envelope)} bytes)")
    return UUID(bytes=bytes(envelope[1:17]))


def unseal(key: DataKey, binding: Bound, envelope: bytes) -> bytes:
    """Open an envelope. Raises EnvelopeUnreadable when key, binding or bytes do not fit."""
    if key_id_of(envelope) != key.key_id:
        raise EnvelopeUnreadable(f"sealed under key {key_id_of(envelope)}, not {key.key_id}")
    try:
        return AESGCM(key.secret).decrypt(
            bytes(envelope[17:_HEAD_BYTES]), bytes(envelope[_HEAD_BYTES:]), binding.associated_data()
        )
    except InvalidTag as exc:
        raise EnvelopeUnreadable(f"envelope under key {key.key_id} does not authenticate as {binding.purpose}") from exc
