"""The same on a real vLLM: its own figures with memory and without, for the same clients, in one run.

Both arms start on an emptied cache and play the same scripts with the model's own answers: `off` asks vLLM itself, `on`
asks a memory-proxy before it whose scope holds other conversations on the same subjects. Cached tokens are
`usage.prompt_tokens_details.cached_tokens`, the prompt is `prompt_token_ids`, the client's own tokens among them are
those that line up with `/tokenize` of what the client sent. Beside it, the server's counters, and how many of the
figures the simulator would have given. Raises RealFailed with the remedy.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.fake_vllm.prefix_cache import PrefixCache
from bench.prefix_cache.dialogues import Dialogue, Message, Request, Script, related_lines, scripts_of
from bench.prefix_cache.sources import dialogues_of
from bench.recall.client import import_turns, user_header
from bench.search_times.service import serving

QUESTION_CHARACTERS_MAX: Final = 240  # ten of them with their answers and blocks fit a window of 8,192 tokens
OTHERS_SHARE: Final = 5  # of the conversations, one in so many plays each of the other scenarios
SCENARIOS: Final = ("turn", "regenerate", "fork", "tools", "prompt")
_COUNTERS: Final = re.compile(r"^vllm:prefix_cache_(queries|hits)_total(?:\{.*\})?\s+(\S+)", re.MULTILINE)
_TIMEOUT: Final = aiohttp.ClientTimeout(total=600)

Say = Callable[[str], None]


class RealFailed(RuntimeError):
    """The server does not give what is measured; the text says what to start it with."""


@dataclass(frozen=True, slots=True)
class Given:
    """What one request came to: the prompt's tokens, how many were cached, and which are the client's own (1)."""

    ids: Sequence[int]
    cached: int
    own: bytes


@dataclass(frozen=True, slots=True)
class Arms:
    """Both arms of one scenario. Tokens; `*_hits` and `*_queries` are the server's counters over the arm."""

    scenario: str
    requests: int
    with_block: int
    off_tokens: int
    off_cached: int
    on_tokens: int
    on_cached: int
    own_tokens: int
    own_cached: int
    off_hits: float
    off_queries: float
    on_hits: float
    on_queries: float
    as_simulated: float  # share of the requests whose cached tokens are those the simulator says

    @property
    def off_share(self) -> float:
        """Cached share of the prompts without memory."""
        return self.off_cached / self.off_tokens if self.off_tokens else 0.0

    @property
    def on_share(self) -> float:
        """Cached share of the client's own tokens with memory."""
        return self.own_cached / self.own_tokens if self.own_tokens else 0.0

    @property
    def ratio(self) -> float | None:
        """The second against the first."""
        return self.on_share / self.off_share if self.off_share else None

    @property
    def raw_ratio(self) -> float | None:
        """The same with memory's tokens counted too."""
        return self.on_cached / self.on_tokens / self.off_share if self.off_share and self.on_tokens else None


async def measure_real(arguments: argparse.Namespace, work: Path, say: Say) -> list[Arms]:
    """All scenarios. Raises RealFailed, NotStarted, CallFailed."""
    vllm = arguments.vllm.rstrip("/")
    dialogues = long_dialogues(
        dialogues_of(arguments.file, 10_000), number=arguments.conversations, turns=arguments.turns
    )
    more = f"  deadline_ms: 10000\nlisten:\n  workers: {arguments.workers}\n"
    found: list[Arms] = []
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as http, serving(work, vllm, 1 << 28, more) as served:
        server = Server(http, vllm, arguments.answer_tokens)
        for scenario in (name for name in arguments.scenarios if name in SCENARIOS):
            some = dialogues if scenario == "turn" else dialogues[: max(1, len(dialogues) // OTHERS_SHARE)]
            scripts = scripts_of(scenario, some)
            user = f"prefix-{scenario}"
            lines = related_lines(scripts, {dialogue.id: dialogue for dialogue in some})
            await import_turns(http, served.url, user, lines, lambda _: None)
            say(f"{scenario}: {sum(len(script.requests) for script in scripts)} requests without memory")
            off, off_counted = await _arm(server, vllm, {}, scripts)
            say(f"{scenario}: the same with memory")
            on, on_counted = await _arm(server, served.url, user_header(user), scripts)
            found.append(arms_of(scenario, off, on, off_counted, on_counted))
    return found


def long_dialogues(dialogues: Sequence[Dialogue], *, number: int, turns: int) -> list[Dialogue]:
    """So many conversations of so many turns, each of short questions taken from as few dialogues as have them."""
    pairs = chain.from_iterable(dialogue.pairs for dialogue in dialogues)
    short = [pair for pair in pairs if len(pair[0]["content"][:QUESTION_CHARACTERS_MAX].strip()) >= 10]
    if len(short) < number * turns:
        raise ValueError(f"{number} conversations of {turns} turns need {number * turns} questions, not {len(short)}")
    made = []
    for at in range(number):
        some = short[at * turns : (at + 1) * turns]
        # The number makes answers tell questions apart: a live answer takes the place of the recorded one by it.
        messages = (
            message
            for turn, (question, answer) in enumerate(some)
            for message in (
                {"role": "user", "content": question["content"][:QUESTION_CHARACTERS_MAX]},
                {"role": "assistant", "content": f"{at}.{turn} {answer['content'][:80]}"},
            )
        )
        made.append(Dialogue(f"long-{at}", tuple(messages)))
    return made


class Server:
    """A vLLM as this needs it."""

    def __init__(self, http: aiohttp.ClientSession, url: str, answer_tokens: int) -> None:
        self._http = http
        self._url = url
        self._answer_tokens = answer_tokens
        self._model = ""

    async def model(self) -> str:
        """The served model's name."""
        if not self._model:
            async with self._http.get(f"{self._url}/v1/models") as answer:
                self._model = str((await answer.json())["data"][0]["id"])
        return self._model

    async def empty_cache(self) -> None:
        """Forget all prefixes. Raises RealFailed."""
        async with self._http.post(f"{self._url}/reset_prefix_cache") as answer:
            if answer.status != 200:
                raise RealFailed(
                    f"/reset_prefix_cache answered {answer.status}: start vLLM with VLLM_SERVER_DEV_MODE=1"
                )

    async def counters(self) -> dict[str, float]:
        """Queries and hits of the prefix cache, in tokens, since the server's start."""
        async with self._http.get(f"{self._url}/metrics") as answer:
            found = _COUNTERS.findall(await answer.text())
        sums = {"queries": 0.0, "hits": 0.0}
        for name, value in found:
            sums[name] += float(value)
        return sums

    async def ids_of(self, body: Mapping[str, Any]) -> list[int]:
        """The tokens of a chat body by the served template."""
        asked = {key: body[key] for key in ("model", "messages", "tools") if key in body}
        async with self._http.post(f"{self._url}/tokenize", json=asked) as answer:
            if answer.status != 200:
                raise RealFailed(f"/tokenize answered {answer.status}: {(await answer.text())[:300]}")
            return list((await answer.json())["tokens"])

    async def ask(
        self, url: str, headers: Mapping[str, str], messages: Sequence[Message], request: Request
    ) -> tuple[Given, Message]:
        """One request to vLLM or to the proxy before it. Raises RealFailed."""
        body: dict[str, Any] = {
            "model": await self.model(),
            "messages": list(messages),
            "temperature": 0,
            "max_tokens": self._answer_tokens,
            "return_token_ids": True,
        }
        if request.tools:
            body |= {"tools": list(request.tools), "tool_choice": _choice(request)}
            body["max_tokens"] = max(self._answer_tokens, 48)  # a call that is cut short is no JSON
        async with self._http.post(f"{url}/v1/chat/completions", json=body, headers=headers) as answer:
            text = await answer.text()
        if answer.status != 200:
            raise RealFailed(f"a request was answered {answer.status}: {text[:300]}")
        said = json.loads(text)
        cached = (said["usage"].get("prompt_tokens_details") or {}).get("cached_tokens")
        ids = said.get("prompt_token_ids") or said["choices"][0].get("prompt_token_ids")
        if ids is None:
            raise RealFailed("answers hold no prompt_token_ids: a vLLM that knows return_token_ids is needed")
        if cached is None and "prompt_tokens_details" not in said["usage"]:
            raise RealFailed("usage has no cached_tokens: start vLLM with --enable-prompt-tokens-details")
        own = own_of(await self.ids_of(body), ids)
        return Given(ids, int(cached or 0), own), _as_sent_back(said["choices"][0]["message"])


def _choice(request: Request) -> object:
    calls = request.answer.get("tool_calls")
    return {"type": "function", "function": {"name": calls[0]["function"]["name"]}} if calls else "none"


def _as_sent_back(message: Mapping[str, Any]) -> Message:
    kept: Message = {"role": "assistant", "content": message.get("content")}
    return {**kept, "tool_calls": message["tool_calls"]} if message.get("tool_calls") else kept


async def _arm(
    server: Server, url: str, headers: Mapping[str, str], scripts: Sequence[Script]
) -> tuple[list[Given], tuple[float, float]]:
    """One arm: what each request came to, and how the server's hits and queries grew."""
    await server.empty_cache()
    before = await server.counters()
    given: list[Given] = []
    for script in scripts:
        live: dict[str, Message] = {}
        for request in script.requests:
            one, answer = await server.ask(url, headers, with_live(request.messages, live), request)
            live[_key(request.answer)] = answer
            given.append(one)
    after = await server.counters()
    return given, (after["hits"] - before["hits"], after["queries"] - before["queries"])


def with_live(messages: Sequence[Message], live: Mapping[str, Message]) -> list[Message]:
    """A script's messages with the answers that the model really gave; results name the call they belong to."""
    out: list[Message] = []
    for message in messages:
        if message["role"] == "assistant":
            out.append(live[_key(message)])
        elif message["role"] == "tool" and out and out[-1].get("tool_calls"):
            out.append({**message, "tool_call_id": out[-1]["tool_calls"][0]["id"]})
        else:
            out.append(message)
    return out


def _key(message: Message) -> str:
    return json.dumps(message, sort_keys=True)


def own_of(client: Sequence[int], prompt: Sequence[int]) -> bytes:
    """Which tokens of a prompt are its client's (1): those that line up with what the client sent, in order."""
    own = bytearray(len(prompt))
    for match in SequenceMatcher(None, client, prompt, autojunk=False).get_matching_blocks():
        own[match.b : match.b + match.size] = b"\x01" * match.size
    return bytes(own)


def arms_of(
    scenario: str,
    off: Sequence[Given],
    on: Sequence[Given],
    off_counted: tuple[float, float],
    on_counted: tuple[float, float],
) -> Arms:
    """Both arms summed."""
    return Arms(
        scenario=scenario,
        requests=len(on),
        with_block=sum(0 in one.own for one in on),
        off_tokens=sum(len(one.ids) for one in off),
        off_cached=sum(one.cached for one in off),
        on_tokens=sum(len(one.ids) for one in on),
        on_cached=sum(one.cached for one in on),
        own_tokens=sum(sum(one.own) for one in on),
        own_cached=sum(sum(one.own[: one.cached]) for one in on),
        off_hits=off_counted[0],
        off_queries=off_counted[1],
        on_hits=on_counted[0],
        on_queries=on_counted[1],
        as_simulated=min(as_simulated(off), as_simulated(on)),
    )


def as_simulated(given: Sequence[Given]) -> float:
    """Share of requests whose cached tokens are the simulator's, or two blocks more: the server keeps its answers too.

    The block's size is what all the figures are multiples of. 0 where nothing was cached.
    """
    block = math.gcd(*(one.cached for one in given))
    if not block:
        return 0.0
    cache = PrefixCache(block, blocks_max=1 << 60)
    said = [(cache.use(one.ids, "").cached, one.cached) for one in given]
    return sum(0 <= real - ours <= 2 * block for ours, real in said) / len(said)
