"""What `chat` says: texts and headers of the service in, lines for a person out. Pure.

`printable` is the wall between a text and the terminal: whoever wrote it, a model or a memory, cannot steer the cursor,
set a title, write to the clipboard or turn the order of what is read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

SHOWN_INSTEAD: Final = "\N{REPLACEMENT CHARACTER}"
# Embeddings, overrides and isolates: they show a line in another order than it has. The marks U+200E, U+200F and
# U+061C stay: they turn nothing around, and Arabic and Hebrew need them.
_BIDI: Final = frozenset((*range(0x202A, 0x202F), *range(0x2066, 0x206A)))
_ANNOTATIONS: Final = frozenset(range(0xFFF9, 0xFFFC))
_TAGS: Final = frozenset(range(0xE0000, 0xE0080))  # letters that nobody sees: text hidden for whoever copies it
_HIDDEN: Final = _BIDI | _ANNOTATIONS | _TAGS
# C0, DEL and C1, but line feed and tab. A carriage return goes: what it would overwrite is the beginning of its line.
_CONTROLS: Final = {code: SHOWN_INSTEAD for code in (*range(32), *range(127, 160)) if code not in (9, 10, 13)}
_LINES: Final = {13: "", 0x2028: "\n", 0x2029: "\n"}
_TABLE: Final = {**_CONTROLS, **_LINES, **dict.fromkeys(_HIDDEN, SHOWN_INSTEAD)}

_COMMAND: Final = re.compile(r"(?:\n|[.;,] )(?:What came is kept; )?/\w+ .*$")
_REASONS: Final[Mapping[str, str]] = {
    "deadline": "it was not found in time",
    "store": "its store does not answer",
    "embedder": "no meaning could be computed, so it was looked for by words alone",
    "queue": "the queue does not answer",
    "ledger": "what was placed before could not be read",
    "overflow": "it does not fit into the model's context",
    "auth": "the keys cannot be read",
    "overload": "the service has too much to do",
    "error": "the service met an error; its log says which",
}
_UPSTREAM: Final = "the model behind the service does not answer; `memory-proxy doctor` says why. /retry asks again"
_REMEDIES: Final[Mapping[str, str]] = {
    "invalid_api_key": "give a key with --key or in MEMORY_PROXY_KEY; `memory-proxy key create NAME` makes one",
    "scope_denied": "the key is for somebody or something else: start chat without that option, or with another key",
    "capability_missing": "the key may not do this; `memory-proxy key create NAME --can …` makes one that may",
    "rate_limited": "/retry asks again",
    "upstream_unreachable": _UPSTREAM,
    "auth_unavailable": "the service cannot read its keys now; /retry asks again",
    "store_unavailable": "the service's store does not answer now; `memory-proxy doctor` says why",
    "draining": "the service is going down or restarting; /retry asks again",
}
_BY_PARAM: Final[Mapping[str, str]] = {
    "X-Memory-Persona": "/persona list shows those that there are; /persona - asks for none",
    "X-Memory-Checkpoint": "/checkpoint list shows those that there are; /checkpoint load NAME gives that one instead",
}
_BY_STATUS: Final[Mapping[int, str]] = {
    401: "give a key with --key or in MEMORY_PROXY_KEY",
    403: "this key may not do that",
    404: "/model lists the models that are served",
    413: "it is too long; /undo drops the last exchange, /session new begins anew",
    429: "/retry asks again",
    502: _UPSTREAM,
    503: "the model behind the service is not ready; /retry asks again",
    504: "it took too long; /retry asks again",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no answer, or no whole one. `status` None: nobody refused, it is away or broke off."""

    kind: Literal["away", "refused", "broke"]
    message: str
    status: int | None = None
    code: str = ""
    param: str = ""
    retry_after: str = ""


def printable(text: str) -> str:
    """The text without anything that steers a terminal; line feeds and tabs stay, what goes is seen to be gone."""
    shown = text.translate(_TABLE)
    # Half a surrogate pair has no form in UTF-8: JSON can say one, a terminal cannot be sent it.
    return shown if shown.isascii() else "".join(SHOWN_INSTEAD if _is_half(c) else c for c in shown)


def _is_half(char: str) -> bool:
    return unicodedata.category(char) == "Cs"


def failure_words(failure: Failure, url: str, *, in_talk: bool = True) -> str:
    """One sentence or two: what happened, and what to do; of our commands only in a talk, where they can be typed."""
    said = _failure_words(failure, url)
    return said if in_talk else _COMMAND.sub("", said)


def _failure_words(failure: Failure, url: str) -> str:
    if failure.kind == "away":
        return f"{url} does not answer ({failure.message}); is `memory-proxy serve` running there? --url says where"
    if failure.kind == "broke":
        return f"the answer broke off ({failure.message}). What came is kept; /retry asks again"
    said = f"{failure.status}: {failure.message}"
    if failure.retry_after:
        said += f" (come again in {failure.retry_after} s)"
    if failure.status == 400 and "context length" in failure.message:
        do = "the conversation is too long for this model; /undo drops the last exchange, /session new begins anew"
    else:
        do = remedy(failure.code) or _BY_PARAM.get(failure.param) or _BY_STATUS.get(failure.status or 0, "")
    return f"{said}\n{do}" if do else said


def remedy(code: str) -> str:
    """What to do about an error of the service's own; "" where its message says it."""
    return _REMEDIES.get(code, "")


def status_line(memory: Mapping[str, str], seconds: float, mode: str, *, in_talk: bool = True) -> str:
    """What memory did for an answer, by its X-Memory-* headers (names without the prefix, small)."""
    parts = [_placed(memory)]
    if (reason := _parameter(memory.get("status", ""), "reason")) is not None:
        parts.append(_REASONS.get(reason, reason))
    if (outside := memory.get("outside")) is not None:
        parts.append(_web(outside))
    if (millis := memory.get("millis")) is not None:
        parts.append(f"{millis} ms")
    if (kept := _kept(memory.get("capture"), mode)) is not None:
        parts.append(kept)
    retrieval = memory.get("retrieval") if _begins(memory, "injected") else None
    shows = "/why" if in_talk else f"`memory-proxy search --retrieval {retrieval}`, as the same user,"
    why = f"; {shows} shows it" if retrieval else ""
    return f"memory: {', '.join(part for part in parts if part)}{why} · {seconds:.1f} s in all"


def _placed(memory: Mapping[str, str]) -> str:
    status = memory.get("status", "")
    word = status.partition(";")[0].strip()
    if word == "injected":
        new, again = memory.get("count", "0"), memory.get("kept", "0")
        counts = [f"{new} new"] if new != "0" else []
        counts += [f"{again} from before"] if again != "0" else []
        return f"{' and '.join(counts) or 'placed'}, {memory.get('tokens', '?')} tokens"
    known = {"empty": "nothing recalled", "off": "off", "degraded": "none this time"}
    return known.get(word, word or "this is no memory-proxy")


def _web(outside: str) -> str:
    """What came of the search: "found; pages=2"."""
    search, pages = outside.partition(";")[0], _parameter(outside, "pages")
    return f"{pages} pages of the web" if search == "found" else f"no pages of the web ({search})"


def _kept(capture: str | None, mode: str) -> str | None:
    """What is worth saying of the keeping: only where it is not as asked."""
    if capture == "none":
        return "this exchange could NOT be kept"
    if capture == "off" and mode in ("on", "write"):
        return "this exchange is not kept: the key may not write"
    if capture == "off":
        return "not kept"
    return None


def _begins(memory: Mapping[str, str], word: str) -> bool:
    return memory.get("status", "").partition(";")[0].strip() == word


def _parameter(status: str, name: str) -> str | None:
    """A parameter of X-Memory-Status: `value *("; " name "=" token)`."""
    for part in status.split(";")[1:]:
        key, _, value = part.strip().partition("=")
        if key == name:
            return value
    return None
