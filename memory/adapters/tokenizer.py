"""How many tokens a text has for the served model, three ways, from exact to guessed.

`LocalTokenizer`: its tokenizer.json at hand; exact, and it says where tokens lie. `UpstreamTokenizer`: vLLM's
`/tokenize`, for a text or a whole conversation with its template and tools; exact, one round trip, cached.
`estimate`: from bytes alone, meant to be too high. Counts are of the text alone: inside a prompt two neighbours may
join, so a part counted by itself is at most a token or two off.

Refused: files that are no tokenizer (ModelFileInvalid), texts over a bound and upstreams that do not answer in time
(TokenizerUnavailable). No text is logged or kept; caches hold digests.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import string
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from memory.errors import ModelFileInvalid, TokenizerUnavailable

PostJson = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""(path, body) -> the JSON object answered with status 200. Raises TokenizerUnavailable, OSError or ValueError."""

# Half of UTF-16's pairs, alone: legal in JSON escapes and Python strings, refused by tokenizers (and by UTF-8).
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

# Tokens per byte of a class, in 1/100; see `estimate`. UTF-8 lead bytes stand for their whole character.
_WEIGHTS: tuple[tuple[bytes, int], ...] = (
    (string.ascii_lowercase.encode(), 21),
    (string.ascii_uppercase.encode(), 120),
    (string.digits.encode(), 135),
    (string.punctuation.encode(), 95),
    (b" \t\r", 25),
    (b"\n", 30),
    (bytes(range(0xC2, 0xE0)), 100),  # two bytes: Latin with accents, Greek, Cyrillic, Hebrew, Arabic
    (bytes(range(0xE0, 0xF0)), 200),  # three: Chinese, Japanese, Korean, Indic scripts, symbols
    (bytes(range(0xF0, 0xF5)), 290),  # four: emoji, rare ideographs
)
_ASCII_WEIGHTS = tuple(one for one in _WEIGHTS if one[0].isascii())


def open_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a tokenizer.json, without the truncation and padding baked into the file."""
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as exc:  # the library raises bare Exception for every fault of the file
        raise ModelFileInvalid(f"{path}: expected a tokenizer.json, found: {exc}; export it again") from exc
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def sayable(text: str) -> str:
    """The text with lone surrogates replaced one for one by U+FFFD, so that positions stay."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def estimate(text: str) -> int:
    """About how many tokens, rather too many than too few: a weighted count of bytes by class, 70 MB/s.

    Weights: 0.9 quantile regression on the larger count of two tokenizers (BERT's WordPiece, 30k; SmolLM2's BPE, 49k)
    over 1,900 real texts of 8 tokens and more, rounded up. Estimate / true count, 5th / 50th / 95th percentile, the
    worse of the two: friends' chat 1.05 / 1.2 / 1.4, assistants' chat 1.05 / 1.3 / 1.55, Python 1.1 / 1.3 / 1.65, JSON
    1.1 / 1.15 / 1.3, base64 1.0; Chinese 1.0 / 1.15 / 1.4 for the BPE and 2.0 / 2.1 / 2.4 for WordPiece. Too low for
    2 % of the chats, 1 % of Python files, 5 % of the Chinese; German .8 and Korean .75 with the (English) BPE.
    Tokenizers with large multilingual vocabularies need far less than the 2.0 a Chinese character is given here.
    """
    raw = text.encode("utf-8", "surrogatepass")
    size, weights = len(raw), _ASCII_WEIGHTS if text.isascii() else _WEIGHTS
    return -(-sum([weight * (size - len(raw.translate(None, kind))) for kind, weight in weights]) // 100)


class EstimatedTokens:
    """TokenCounter that guesses: for when neither a tokenizer file nor an upstream is at hand."""

    exact = False

    def count(self, text: str) -> int:
        """`estimate(text)`."""
        return estimate(text)


class LocalTokenizer:
    """TokenCounter over `<directory>/tokenizer.json`. Thread-safe.

    0.5 ms a thousand characters (49k BPE, busy machine): off the event loop when it may be more than a few thousand.
    """

    exact = True

    def __init__(self, directory: Path, *, text_chars_max: int = 1_000_000) -> None:
        """Raises ModelFileInvalid. `text_chars_max`: longer texts are refused, 0.8 s at the default."""
        self._tokenizer = open_tokenizer(directory / "tokenizer.json")
        self._text_chars_max = text_chars_max

    def count(self, text: str) -> int:
        """Tokens of the text, no template and no special tokens added. Raises TokenizerUnavailable (too long)."""
        return len(self._encode(text).ids)

    def offsets(self, text: str) -> Sequence[tuple[int, int]]:
        """Character ranges of the text's tokens, ascending. Raises TokenizerUnavailable (too long)."""
        offsets: list[tuple[int, int]] = self._encode(text).offsets
        return offsets

    def _encode(self, text: str) -> Any:
        if len(text) > self._text_chars_max:
            raise TokenizerUnavailable(f"{len(text)} characters, over the bound of {self._text_chars_max}")
        return self._tokenizer.encode(sayable(text), add_special_tokens=False)


def counter_in(directory: Path | None) -> LocalTokenizer | EstimatedTokens:
    """The served model's own tokenizer where a directory is given, else an estimate."""
    return LocalTokenizer(directory) if directory else EstimatedTokens()


class UpstreamTokenizer:
    """Counts by vLLM's `/tokenize`: the served model's own tokenizer and template."""

    exact = True

    def __init__(self, post_json: PostJson, *, timeout_s: float = 0.2, cache_entries: int = 4096) -> None:
        """`post_json` is the pooled client's; `timeout_s` bounds one count; answers are kept by digest, oldest out."""
        self._post_json = post_json
        self._timeout_s = timeout_s
        self._cache_entries = cache_entries
        self._cache: OrderedDict[bytes, int] = OrderedDict()

    async def count_messages(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        within_s: float | None = None,
    ) -> int:
        """Tokens of a conversation as the model gets it, template and tools included; `within_s` where another bound
        than everybody's holds. Raises TokenizerUnavailable.
        """
        body: dict[str, Any] = {"model": model, "messages": list(messages), "add_generation_prompt": True}
        if tools:
            body["tools"] = list(tools)
        if chat_template_kwargs:
            body["chat_template_kwargs"] = dict(chat_template_kwargs)
        return await self._ask(body, within_s)

    async def _ask(self, body: Mapping[str, Any], within_s: float | None = None) -> int:
        bound_s = self._timeout_s if within_s is None else within_s
        # ensure_ascii keeps lone surrogates as escapes, so that every body has a digest.
        key = hashlib.blake2b(json.dumps(body, sort_keys=True).encode("ascii"), digest_size=16).digest()
        known = self._cache.get(key)
        if known is not None:
            self._cache.move_to_end(key)
            return known
        try:
            async with asyncio.timeout(bound_s):
                answer = await self._post_json("/tokenize", body)
            found = _count_in(answer)
        except TimeoutError as exc:
            raise TokenizerUnavailable(f"no answer from /tokenize within {bound_s} s") from exc
        except (OSError, ValueError) as exc:
            raise TokenizerUnavailable(f"/tokenize: {type(exc).__name__}") from exc
        self._cache[key] = found
        while len(self._cache) > self._cache_entries:
            self._cache.popitem(last=False)
        return found


def _count_in(answer: Mapping[str, Any]) -> int:
    """Raises ValueError for an answer without a count."""
    count = answer.get("count")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ValueError("no count in the answer")
    return count
