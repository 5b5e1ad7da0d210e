"""Every failure this project can name, drawn once.

    MemoryProxyFault
    |- Refused                     the caller's to mend: an HTTP status, a code, a parameter
    |  |- MemoryInvalid            400 memory_invalid
    |  |- MemoryConflict           400 memory_conflict
    |  |- InvalidApiKey            401 invalid_api_key
    |  |- ScopeDenied              403 scope_denied
    |  |- CapabilityMissing        403 capability_missing
    |  |- NotFound                 404 not_found (also for what exists outside the scope)
    |  |- TooSlow                  408 timeout
    |  |- Conflict                 409 conflict
    |  |- Gone                     410 gone (replay after its retention)
    |  |- TooLarge                 413 too_large
    |  |- EncodingRefused          415 memory_invalid
    |  |- RangeUnmet               416 memory_invalid
    |  |- Unprocessable            422 unprocessable
    |  |- VersionRequired          428 version_required
    |  |- RateLimited              429 rate_limited
    |  |- HeadTooLarge             431 too_large
    |  |- UpstreamUnreachable      502 upstream_unreachable
    |  |- AuthUnavailable          503 auth_unavailable
    |  |- StoreUnavailable         503 store_unavailable
    |  |- Draining                 503 draining
    |  `- TimedOut                 504 timeout
    |- EmbedderUnavailable         no vector now: recall goes on lexically, storing waits
    |  `- EmbedderBusy             it says so at once: too many wait, or it is not loaded yet
    |- RerankerUnavailable         no scores now: the order stays as it is
    |- QueueUnavailable            Redis refused or was too slow: the spool takes the envelope
    |- SpoolUnavailable            the spool refused: the envelope stays in bounded memory
    |- EnvelopeUnreadable          sealed bytes that no key opens: never retried, kept as a dead letter
    |  `- KeyShredded              its key went with whom it was of: what was in it is forgotten, and goes
    |- StoreRefused                Postgres refuses the data itself: counted, in the end a dead letter
    |- LeaseLost                   another worker owns the lane: the transaction is rolled back
    |- TokenizerUnavailable        the served model's count is not to be had: an estimate is used
    |  |- TokenizerRefused         it answered, and not with a count: it is not to be left alone for that
    |- ChatModelUnavailable        no generative answer: the heuristic path takes over
    |- OutsideUnavailable          nothing of the web now; `reason` is one of a closed list: the answer goes on without
    |  |- FetchRefused             our own law: refused_address, robots
    |  |- FetchFailed              the other side: redirects, http_status, media_type, too_large, too_slow, unreachable
    |  |- SearchFailed             the search service: the same reasons, or unreadable
    |  `- PageUnreadable           a page that is not read within its bounds: unreadable
    |- ModelFileInvalid            a model's file is missing, altered, or not of the kind that is needed
    |- ConfigInvalid               the configuration cannot be used: the start stops
    `- StartFailed                 a part that must run does not: the start stops, with the remedy

Foreign exceptions are translated into these where they arise, `raise ... from exc`.
"""

from __future__ import annotations

from typing import Final, Literal

TRY_AGAIN: Final = 75
"""EX_TEMPFAIL, the exit code of what cannot be done now: a store is away, or another process is at it."""
REFUSED: Final = 2
"""The exit code of what stays so until somebody mends it, which is said on stderr."""
WebReason = Literal[
    "refused_address",
    "robots",
    "redirects",
    "http_status",
    "media_type",
    "too_large",
    "too_slow",
    "unreachable",
    "unreadable",
]
"""Why something of the web was not had. Counted and audited; a closed list."""


class MemoryProxyFault(Exception):
    """A failure with a name. Its text is for people; it never holds message text or a secret."""


class Refused(MemoryProxyFault):
    """The request cannot be served as it stands; `status` and `code` are part of the HTTP surface."""

    status = 500
    code = "error"

    def __init__(self, message: str, *, param: str | None = None, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s


class MemoryInvalid(Refused):
    """A memory header or member that cannot be understood; `param` names it."""

    status, code = 400, "memory_invalid"


class MemoryConflict(Refused):
    """A header and the body's `memory` object that say different things."""

    status, code = 400, "memory_conflict"


class InvalidApiKey(Refused):
    """No key, an unknown one, or one that was revoked or has expired."""

    status, code = 401, "invalid_api_key"


class ScopeDenied(Refused):
    """The key fixes a scope and the request names another."""

    status, code = 403, "scope_denied"


class CapabilityMissing(Refused):
    """The key may not do this."""

    status, code = 403, "capability_missing"


class NotFound(Refused):
    """Not there, or not inside the caller's scope: the two look alike on purpose."""

    status, code = 404, "not_found"


class Conflict(Refused):
    """The thing changed since it was read."""

    status, code = 409, "conflict"


class Gone(Refused):
    """It was here; its retention is over."""

    status, code = 410, "gone"


class TooLarge(Refused):
    """Beyond a configured bound, which the message names."""

    status, code = 413, "too_large"


class Unprocessable(Refused):
    """Well-formed JSON that does not fit the call."""

    status, code = 422, "unprocessable"


class VersionRequired(Refused):
    """A change without `If-Match`."""

    status, code = 428, "version_required"


class RateLimited(Refused):
    """Too many; `retry_after_s` says when to come again."""

    status, code = 429, "rate_limited"


class TooSlow(Refused):
    """The client stopped sending in the middle of its body."""

    status, code = 408, "timeout"


class HeadTooLarge(Refused):
    """A request line, a header or their number beyond its bound."""

    status, code = 431, "too_large"


class EncodingRefused(Refused):
    """A compressed body where its members must be read: it is not expanded, so that no bound can be passed by it."""

    status, code = 415, "memory_invalid"


class RangeUnmet(Refused):
    """A range of bytes in which the file has none."""

    status, code = 416, "memory_invalid"


class UpstreamUnreachable(Refused):
    """vLLM refused the connection or died before its first byte."""

    status, code = 502, "upstream_unreachable"


class AuthUnavailable(Refused):
    """The key table cannot be read and what is held of it is too old, or a tenant's salt cannot be read."""

    status, code = 503, "auth_unavailable"


class StoreUnavailable(Refused):
    """Postgres does not answer. Only the proxy's own API says so; completions go on without memory."""

    status, code = 503, "store_unavailable"


class Draining(Refused):
    """This process is going; come again."""

    status, code = 503, "draining"


class TimedOut(Refused):
    """It took longer than its bound."""

    status, code = 504, "timeout"


class EmbedderUnavailable(MemoryProxyFault):
    """No vector can be had now."""


class EmbedderBusy(EmbedderUnavailable):
    """The embedder says at once that it takes no more now, or not yet: nothing is won by leaving it alone."""


class RerankerUnavailable(MemoryProxyFault):
    """No scores can be had now."""


class QueueUnavailable(MemoryProxyFault):
    """The durable queue refused or exceeded its bound."""


class SpoolUnavailable(MemoryProxyFault):
    """The spool is full or cannot be written."""


class EnvelopeUnreadable(MemoryProxyFault):
    """Sealed bytes that cannot be opened: another key, another purpose, or altered."""


class KeyShredded(EnvelopeUnreadable):
    """Sealed under a key that was shredded: nobody can open them any more, and nobody may."""


class StoreRefused(MemoryProxyFault):
    """Postgres refuses these very rows (a constraint, a value out of range): trying again cannot help."""


class LeaseLost(MemoryProxyFault):
    """The lane's fencing number has moved on."""


class TokenizerUnavailable(MemoryProxyFault):
    """The served model's tokens cannot be counted now."""


class TokenizerRefused(TokenizerUnavailable):
    """The served model's tokenizer answered, and not with a count."""


class ChatModelUnavailable(MemoryProxyFault):
    """The background chat model gave no usable answer."""


class ExtractorUnavailable(MemoryProxyFault):
    """The serving vLLM gave no whole answer within its bounds of time and bytes."""


class ExtractorRefused(MemoryProxyFault):
    """The serving vLLM refuses the question itself (a 4xx) or answers it without end: asking again cannot help."""


class OutsideUnavailable(MemoryProxyFault):
    """Something of the web that was not had. The text names a host at most, never a query or a page's words."""

    def __init__(self, reason: WebReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class FetchRefused(OutsideUnavailable):
    """An address that our lists, the law of addresses or the site's robots.txt keep us from."""


class FetchFailed(OutsideUnavailable):
    """The other side did not give a page within the bounds."""


class SearchFailed(OutsideUnavailable):
    """The search service gave no results that can be read within the bounds."""


class PageUnreadable(OutsideUnavailable):
    """A page whose text was not found within the bounds of time and memory."""

    def __init__(self, message: str) -> None:
        super().__init__("unreadable", message)


class ModelFileInvalid(MemoryProxyFault):
    """Names the file, what was expected, what was found and the remedy."""


class ConfigInvalid(MemoryProxyFault):
    """Names file, line, key, what was expected and what was found."""


class StartFailed(MemoryProxyFault):
    """Names the part that does not run and how to mend it."""
