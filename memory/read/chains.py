"""The chain of a history that this process has seen before: a request's messages in, `chain`'s digests out. No I/O.

A client sends its whole history again with each turn, and 400 messages in 400 kB took the event loop 4.3 ms to chain.
The same raw text has the same digests, so a run of messages is known by a keyed digest of all that stands in the
request up to its end, and only what is new is read. Keeps digests, never text.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from threading import Lock
from typing import Final

from memory.chain import BEFORE_THE_FIRST, DIGEST_BYTES, Digest, chain

RUN_MESSAGES: Final = 16
"""Of the messages behind the last whole run none is known: 16 cost 150 us, and to look a run up 12."""
RUNS_MAX: Final = 8_192
"""So many of some 750 bytes: 6 MiB, which is 300 conversations of 400 messages."""


class ChainsAtHand:
    """Bounded, what was asked for longest ago goes first. Large bodies are chained on threads, so it has a lock."""

    def __init__(self, runs_max: int = RUNS_MAX) -> None:
        self._runs_max = runs_max
        self._runs: dict[bytes, bytes] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._runs)

    def of(
        self, tenant_key: bytes, text: str, places: Sequence[tuple[int, int]], messages: Sequence[object]
    ) -> list[Digest | None]:
        """The digest at each message's place, as `chain` gives it. `messages` stand in `text` at `places`, JSON without
        lone surrogates.
        """
        digests: list[Digest | None] = []
        seen = hmac.new(tenant_key, digestmod="sha256")
        at, behind = places[0][0] if places else 0, BEFORE_THE_FIRST
        for first in range(0, len(messages) - RUN_MESSAGES + 1, RUN_MESSAGES):
            end = places[first + RUN_MESSAGES - 1][1]
            seen.update(text[at:end].encode())
            key, at = seen.copy().digest(), end
            run = self._get(key)
            if run is None:
                run = chain(tenant_key, messages[first : first + RUN_MESSAGES], behind)
                self._put(key, run)
            digests += run
            behind = next((digest for digest in reversed(run) if digest is not None), behind)
        return digests + chain(tenant_key, messages[len(digests) :], behind)

    def _get(self, key: bytes) -> list[Digest | None] | None:
        with self._lock:
            packed = self._runs.pop(key, None)
            if packed is None:
                return None
            self._runs[key] = packed
        each = (packed[at : at + DIGEST_BYTES] for at in range(0, len(packed), DIGEST_BYTES))
        return [None if one == BEFORE_THE_FIRST else Digest(one) for one in each]

    def _put(self, key: bytes, run: Sequence[Digest | None]) -> None:
        packed = b"".join(BEFORE_THE_FIRST if one is None else one for one in run)
        with self._lock:
            self._runs[key] = packed
            if len(self._runs) > self._runs_max:
                del self._runs[next(iter(self._runs))]
