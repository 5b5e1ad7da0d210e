"""The master key: a file, an environment variable or a KMS in, wrapped tenant keys out.

MasterKey is the seam. LocalMaster holds 32 bytes and what was before them, so that wrapped keys can be moved from one
to the other beside live traffic. Refuses a key file that others can read, a key that is no 32 bytes, with the remedy.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import glob
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol
from uuid import UUID

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from memory.envelope import KEY_BYTES, Bound, DataKey, key_id_of, seal, unseal
from memory.errors import EnvelopeUnreadable, StartFailed
from memory.on_disk import synced

ENVIRONMENT: Final = "MEMORY_PROXY_MASTER_KEY"
RECEIPTS: Final = b"receipts"


class MasterKey(Protocol):
    """Wraps tenant keys. A KMS is asked once for each tenant and process; what it gives back is kept in memory."""

    async def wrap(self, binding: Bound, secret: bytes) -> bytes:
        """32 bytes wrapped, bound to what `binding` says. Raises StoreUnavailable while it cannot be asked."""

    async def unwrap(self, binding: Bound, wrapped: bytes) -> bytes:
        """The 32 bytes. Raises EnvelopeUnreadable (another key, altered, another row), StoreUnavailable."""

    def is_current(self, wrapped: bytes) -> bool:
        """Whether this lies under the key in force and not under a previous one."""

    async def derived(self, info: bytes) -> bytes:
        """32 bytes that follow from the key in force and from `info`, and do not tell it. Raises StoreUnavailable."""


class LocalMaster:
    """32 bytes in this process. Wraps under the current key, opens under the previous ones too."""

    def __init__(self, current: bytes, previous: Sequence[bytes] = ()) -> None:
        self._keys = {key.key_id: key for key in map(_named, (*previous, current))}
        self._current = _named(current)

    async def wrap(self, binding: Bound, secret: bytes) -> bytes:
        """Wrapped in a sealed envelope under the current key."""
        return seal(self._current, binding, secret)

    async def unwrap(self, binding: Bound, wrapped: bytes) -> bytes:
        """Opened by whichever of the keys sealed it. Raises EnvelopeUnreadable."""
        key = self._keys.get(key_id_of(wrapped))
        if key is None:
            raise EnvelopeUnreadable(f"wrapped under master key {key_id_of(wrapped)}, which this process does not hold")
        return unseal(key, binding, wrapped)

    def is_current(self, wrapped: bytes) -> bool:
        """Whether the current key sealed it."""
        return key_id_of(wrapped) == self._current.key_id

    async def derived(self, info: bytes) -> bytes:
        """HKDF-SHA256 of the current key."""
        return hkdf(self._current.secret, info)


def master_key(path: Path, previous: Path | None, environ: Mapping[str, str]) -> LocalMaster:
    """The master key: of MEMORY_PROXY_MASTER_KEY (base64 of 32 bytes) where it is set, else of the file `path`.

    The file is made where it is not there; that of `previous` never is. Raises StartFailed with the remedy.
    """
    given = environ.get(ENVIRONMENT)
    current = load_or_create_master_key(path) if given is None else _of_environment(given)
    if previous is None:
        return LocalMaster(current)
    if not is_there(previous):
        raise StartFailed(f"encryption.previous_master_key_file {previous} is not there; take the setting out")
    return LocalMaster(current, (load_or_create_master_key(previous),))


def _of_environment(given: str) -> bytes:
    try:
        secret = base64.b64decode(given.strip(), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise StartFailed(f"{ENVIRONMENT} is not base64; make one with: openssl rand -base64 32") from exc
    if len(secret) != KEY_BYTES:
        raise StartFailed(f"{ENVIRONMENT} holds {len(secret)} bytes, not {KEY_BYTES}: openssl rand -base64 32")
    return secret


def _named(secret: bytes) -> DataKey:
    """A master key with the id that its envelopes carry. Raises StartFailed."""
    if len(secret) != KEY_BYTES:
        raise StartFailed(f"the master key has {len(secret)} bytes, not {KEY_BYTES}")
    return DataKey(UUID(bytes=hkdf(secret, b"key id")[:16], version=4), secret)


def load_or_create_master_key(path: Path) -> bytes:
    """The 32 bytes in `path`; made with mode 0600 when the file is not there. Raises StartFailed with the remedy.

    Two processes that start at once get the same key: the file appears whole or not at all, and the first one stays.
    """
    if not is_there(path):
        _create_once(path, os.urandom(KEY_BYTES))
    _keep_name(path)
    try:
        known = path.stat()
        secret = path.read_bytes()
    except OSError as exc:
        raise StartFailed(
            f"the master key {path} cannot be read ({exc.strerror}); give this user access to it"
        ) from exc
    _require_closed(path, known)
    if known.st_nlink > 1:
        _drop_drafts(path)
    if len(secret) != KEY_BYTES:
        raise StartFailed(
            f"the master key {path} has {len(secret)} bytes, not {KEY_BYTES}; restore it from the backup (without it "
            "nothing sealed can be opened), or remove it where the store is empty"
        )
    return secret


def _require_closed(path: Path, known: os.stat_result) -> None:
    """That nobody else may read it; another's, as Kubernetes mounts a secret for who is not root, its group may."""
    mode, is_ours = stat.S_IMODE(known.st_mode), known.st_uid == os.geteuid()
    if mode & (0o077 if is_ours else 0o037):
        remedy = f"run: chmod 600 {path}" if is_ours else "mount it with mode 0440 (defaultMode), or 0400 and as ours"
        raise StartFailed(f"the master key {path} has mode {mode:04o}, others can read it; {remedy}")


def is_there(path: Path) -> bool:
    """Whether there is a file. Raises StartFailed where that cannot be told."""
    try:
        return path.exists()
    except OSError as exc:
        raise StartFailed(
            f"the master key {path} cannot be looked for ({exc.strerror}); give this user access"
        ) from exc


def _create_once(path: Path, secret: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secret)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError as exc:
        raise StartFailed(
            f"the master key {path} cannot be made ({exc.strerror}); see that {path.parent} is there and can be "
            "written, or choose another --data-dir or encryption.master_key_file"
        ) from exc
    finally:
        with contextlib.suppress(OSError):  # also where there is no such place
            draft.unlink()


def _drop_drafts(path: Path) -> None:
    """Take away the key's other name, which whoever made it and was killed then has left."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.*"):
        with contextlib.suppress(OSError):  # its maker may be about to do so himself
            if draft.samefile(path):
                draft.unlink()


def _keep_name(path: Path) -> None:
    """Its name is on disk before anything is sealed under it: whoever made it may have been broken off before that."""
    try:
        if os.access(path.parent, os.W_OK):  # else nobody here has made it: it is mounted, or another account's
            synced(path.parent)
    except OSError as exc:
        raise StartFailed(f"the master key {path} cannot be kept ({exc.strerror}); see to the disk it is on") from exc


def hkdf(secret: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869), 32 bytes, no salt: the input is uniformly random."""
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)
