"""The sessions of the last answers that a process gave: a scope's key and a digest in, a session out. No I/O.

They are known here where Redis is slow or away; the store knows all. An answer takes some 230 bytes (as objects in an
OrderedDict it took 490): bytes alone, in the order in which they were given.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from memory.model import SessionRef

ANSWERS_MAX: Final = 16_384
"""So many: 3.6 MiB, which is the last ten minutes of 27 answers a second."""
_SCOPE_BYTES: Final = 8
_DIGEST_BYTES: Final = 24
_ID_BYTES: Final = 16


class AnswersAtHand:
    """Bounded, the oldest go first."""

    def __init__(self, answers_max: int = ANSWERS_MAX) -> None:
        self._answers_max = answers_max
        self._sessions: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def put(self, scope_key: bytes, digest: bytes, session: SessionRef) -> None:
        """Keep an answer as the newest. Both keys are digests of the tenant's key: their beginnings tell them apart."""
        key = _key(scope_key, digest)
        self._sessions.pop(key, None)
        self._sessions[key] = session.session_id.bytes + session.label.encode("utf-8", "surrogatepass")
        if len(self._sessions) > self._answers_max:
            del self._sessions[next(iter(self._sessions))]

    def clear(self) -> None:
        """Keep none."""
        self._sessions.clear()

    def get(self, scope_key: bytes, digest: bytes) -> SessionRef | None:
        """The session of an answer, None where it is not at hand."""
        kept = self._sessions.get(_key(scope_key, digest))
        if kept is None:
            return None
        return SessionRef(UUID(bytes=kept[:_ID_BYTES]), kept[_ID_BYTES:].decode("utf-8", "surrogatepass"))


def _key(scope_key: bytes, digest: bytes) -> bytes:
    return scope_key[:_SCOPE_BYTES] + digest[:_DIGEST_BYTES]
