"""Receipts: members in, canonical JSON signed with the installation's key out; and whether one is genuine.

Ed25519 over the canonical form (keys sorted, no spaces, UTF-8) of all but the signature. The key follows from
the master key, so every machine of an installation signs alike and a restored one verifies what it signed before. A
receipt holds counts, times and HMACs, never content.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

VERSION: Final = 1


def canonical(receipt: Mapping[str, Any]) -> bytes:
    """What is signed."""
    unsigned = {name: value for name, value in receipt.items() if name != "signature"}
    return json.dumps(unsigned, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def public_key(seed: bytes) -> str:
    """The installation's public key, as hex. `seed`: 32 bytes."""
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def signed(members: Mapping[str, Any], seed: bytes) -> dict[str, Any]:
    """The receipt of these members."""
    receipt = {**members, "version": VERSION, "key": public_key(seed)}
    return {**receipt, "signature": Ed25519PrivateKey.from_private_bytes(seed).sign(canonical(receipt)).hex()}


def is_genuine(receipt: Mapping[str, Any], key: str) -> bool:
    """Whether `key` (hex) signed exactly this. A receipt that names another key, or no receipt at all, is not."""
    try:
        signature, ours = bytes.fromhex(receipt["signature"]), Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        ours.verify(signature, canonical(receipt))
    except (InvalidSignature, ValueError, KeyError, TypeError):
        return False
    return bool(receipt.get("key") == key)
