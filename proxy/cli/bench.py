"""`memory-proxy bench`: what memory costs and saves on one's own vLLM: options in, a table out, 1 when nobody answers.

Speaks to a running proxy as any client does. Some short conversations, each twice at the same time: with memory
(`X-Memory-Mode: read`) and without (`off`), turn by turn, in turn first, so that whatever the server does hits both
alike. Nothing that is said is captured by either mode; the ledger that `read` keeps (where which bytes of memory were
placed) is forgotten at the end, with the conversations it belongs to. What stays are counts: how often each memory was
given, and the audit's note of the forgetting. Refuses to go on when a turn fails: half a table says nothing.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
import uuid
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from proxy.cli.chat_words import printable
from proxy.cli.client import CallFailed, scope_headers
from proxy.cli.progress import Progress

TEACHES: Final = """\
  memory-proxy bench                                  against http://127.0.0.1:8080, about a minute on a GPU
  memory-proxy bench --conversations 8 --turns 10 --json bench.json
  memory-proxy bench --user ada                       with what is remembered of ada in the prompts

Every conversation is held twice at once, with memory and without, turn by turn, so both meet the same load.
  first token   from sending to the first token of the answer, and what memory added to it, turn by turn (median)
  added         what the proxy itself says it added before vLLM was asked (X-Memory-Millis)
  cached        prompt tokens that vLLM had in its prefix cache (start vLLM with --enable-prompt-tokens-details)
No word stays: the modes are `read` and `off`, which keep nothing of what is said, and what `read` notes of the placing
is forgotten at the end (with --key that takes memory:erase). Counts do: each memory in a prompt was given once more,
which ranking weighs a little. Without --user, or with one of whom nothing is remembered, the prompts carry no memory
and the figures show the proxy's own cost only.
"""
ASKED: Final = (
    "I want to lay out a small vegetable garden. Where do I begin?",
    "Which of these should I do first, and why?",
    "Say that again in two sentences, for somebody who has never done it.",
    "What usually goes wrong at this point?",
    "How much would that cost, roughly, and what can be left out?",
    "Suppose I only have one hour a week. What changes?",
    "Make a list of five steps out of what we have so far.",
    "Which of the five would you drop if you had to?",
    "Write the first line of a letter to a neighbour who could help me.",
    "Sum up our conversation in one sentence.",
)
NOBODY: Final = "memory-proxy-bench"
"""Whose memory, where nobody is named. Always the same: who was asked for once has a scope and a key for good."""
TIMEOUT_S: Final = 300.0
STORED_S: Final = 30.0
Mode = Literal["read", "off"]
Say = Callable[[str], None]


class BenchFailed(Exception):
    """There is nothing to measure; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer. Milliseconds, of the first token None where none came; tokens as the server counts them, None where
    it does not say.
    """

    mode: str
    conversation: int
    turn: int
    first_ms: float | None
    total_ms: float
    added_ms: float | None
    status: str
    prompt_tokens: int | None
    cached_tokens: int | None
    answer_tokens: int | None
    text: str


class Service:
    """A running proxy: one connection, one request at a time. Raises BenchFailed."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        try:
            parts, port = urlsplit(url), urlsplit(url).port
        except ValueError as exc:
            raise BenchFailed(f"--url must be an http:// or https:// URL, not {url}: {exc}") from exc
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BenchFailed(f"--url must be an http:// or https:// URL, not {url}")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, port, timeout=TIMEOUT_S)
        self._prefix = parts.path.rstrip("/")
        self._url = url
        self._headers = dict(headers)

    def model(self) -> str:
        """The first model that is served."""
        try:
            answer = self._asked("GET", "/v1/models", None, {})
            raw = answer.read()
            if answer.status != 200:
                raise BenchFailed(f"{self._url}/v1/models answered {answer.status}: {_reason(raw)}")
            return str(json.loads(raw)["data"][0]["id"])
        except http.client.HTTPException as exc:
            raise BenchFailed(f"the list of models broke off ({type(exc).__name__}); is vLLM still running?") from exc
        except (KeyError, IndexError, TypeError, ValueError) as exc:
            raise BenchFailed(f"{self._url}/v1/models names no model; say one with --model") from exc

    def turn(self, body: Mapping[str, Any], mode: Mode, session: str, place: tuple[int, int]) -> Turn:
        """One streamed chat of a session; `place` is (conversation, turn)."""
        began = time.perf_counter()
        raw = json.dumps(body).encode()
        try:
            answer = self._asked(
                "POST", "/v1/chat/completions", raw, {"X-Memory-Mode": mode, "X-Memory-Session": session}
            )
            if answer.status != 200:
                raise BenchFailed(f"a chat answered {answer.status}: {_reason(answer.read())}")
            if "X-Memory-Status" not in answer.headers:
                raise BenchFailed(f"{self._url} is no memory-proxy, but a model without one: name the proxy with --url")
            return _read(answer, began, mode, place)
        except BenchFailed:
            self.close()  # the next request opens it anew
            raise
        except (http.client.HTTPException, OSError, ValueError) as exc:
            self.close()
            raise BenchFailed(f"an answer broke off ({type(exc).__name__} {exc}); is vLLM still running?") from exc

    def stored(self) -> bool:
        """Wait until what was handed to the queue so far is stored; False where that takes too long or is not told."""
        until_s = time.monotonic() + STORED_S
        while time.monotonic() < until_s:
            answer = self._asked("GET", "/memory/v1/queue", None, {})
            raw = answer.read()
            if answer.status != 200:
                return False
            waiting = json.loads(raw)
            if waiting["pending"] + waiting["in_flight"] == 0:
                return True
            time.sleep(0.2)
        return False

    def forget(self, session: str) -> str | None:
        """Forget one conversation; what hinders it, or None. One that left no trace is forgotten already."""
        try:
            answer = self._asked("POST", "/memory/v1/forget", json.dumps({"session": session}).encode(), {})
            raw = answer.read()
        except (BenchFailed, http.client.HTTPException, OSError) as fault:
            return str(fault)
        return None if answer.status in (200, 202, 404) else _reason(raw)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _asked(self, method: str, path: str, body: bytes | None, more: Mapping[str, str]) -> http.client.HTTPResponse:
        headers = {**self._headers, **more, "Content-Type": "application/json"}
        try:
            self._connection.request(method, self._prefix + path, body, headers)
            return self._connection.getresponse()
        except (http.client.HTTPException, OSError) as exc:
            self._connection.close()
            raise BenchFailed(
                f"{self._url} does not answer ({type(exc).__name__}); is `memory-proxy serve` running there? (--url)"
            ) from exc


def _reason(raw: bytes) -> str:
    """What an error's body says, and the remedy where it is known."""
    try:
        error = json.loads(raw)["error"]
        said = f"{error.get('code')}: {error.get('message')}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return raw[:200].decode(errors="replace")
    remedies = {
        "upstream_unreachable": "; start vLLM where upstream.url says, or see `memory-proxy doctor`",
        "invalid_api_key": "; give one with --key",
    }
    return said + remedies.get(str(error.get("code")), "")


def _read(answer: http.client.HTTPResponse, began: float, mode: Mode, place: tuple[int, int]) -> Turn:
    """The stream to its end."""
    first: float | None = None
    text, usage = "", dict[str, Any]()
    for chunk in _events(answer):
        if "error" in chunk:
            raise BenchFailed(f"the model failed in the middle of an answer: {chunk['error']}")
        usage = chunk.get("usage") or usage
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            piece = delta.get("content") or ""
            if first is None and (piece or delta.get("reasoning") or delta.get("reasoning_content")):
                first = time.perf_counter()
            text += piece
    ended = time.perf_counter()
    millis = answer.headers.get("X-Memory-Millis")
    return Turn(
        mode=mode,
        conversation=place[0],
        turn=place[1],
        first_ms=None if first is None else (first - began) * 1000,
        total_ms=(ended - began) * 1000,
        added_ms=float(millis) if millis else None,
        status=_status(answer.headers["X-Memory-Status"]),
        prompt_tokens=usage.get("prompt_tokens"),
        cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        answer_tokens=usage.get("completion_tokens"),
        text=text,
    )


def _status(said: str) -> str:
    """What became of memory, with the reason where nothing of it could be placed."""
    return said if said.startswith("degraded") else said.partition(";")[0]


def _events(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """The events of a whole answer. Raises ValueError for one that ends without its last."""
    data = b""
    for line in answer:
        if line.startswith(b"data:") and (data := line[5:].strip()) != b"[DONE]":
            yield json.loads(data)
    if data != b"[DONE]":  # http.client takes a connection that is closed for the end of the chunks
        raise ValueError("no last event")


def measured(service: Service, model: str, options: Namespace, run: str, say: Say) -> list[Turn]:
    """All conversations, both ways. Raises BenchFailed."""
    found: list[Turn] = []
    for number in range(options.conversations):
        history: dict[Mode, list[dict[str, str]]] = {"read": [], "off": []}
        for turn in range(options.turns):
            # The opening is new in every conversation and way, so that neither profits from another's prefix.
            for mode in _in_turn(number + turn):
                asked = ASKED[turn % len(ASKED)]
                opening = f"Note {run}-{number}-{mode}: answer briefly. {asked}"
                history[mode].append({"role": "user", "content": asked if turn else opening})
                body = {
                    "model": model,
                    "messages": history[mode],
                    "max_tokens": options.tokens,
                    "temperature": 0,
                    "stream": True,
                    "stream_options": {"include_usage": True},
                }
                one = service.turn(body, mode, session_of(run, number, mode), (number, turn))
                history[mode].append({"role": "assistant", "content": one.text})
                found.append(one)
            say(f"conversation {number + 1} of {options.conversations}, turn {turn + 1} of {options.turns}")
    return found


def session_of(run: str, number: int, mode: Mode) -> str:
    """The conversation's name. It has one, since an answer that is not captured is not recognised by what it said."""
    return f"bench-{run}-{number}-{mode}"


def forgotten(service: Service, conversations: int, run: str) -> str | None:
    """Forget what `read` noted of the conversations, once it is stored; what is left and why, or None."""
    service.close()  # an answer that Ctrl-C broke off would be read in place of the next
    try:
        stored = service.stored()
    except (BenchFailed, http.client.HTTPException, OSError, ValueError, KeyError) as fault:
        return f"the conversations bench-{run}-… may be left, without a word of theirs ({fault})"
    for number in range(conversations):
        hindered = service.forget(session_of(run, number, "read"))
        if hindered:
            return f"the conversations bench-{run}-… are left, without a word of theirs ({hindered})"
    return None if stored else f"the queue did not settle: some of the conversations bench-{run}-… may be left, empty"


def _in_turn(number: int) -> tuple[Mode, Mode]:
    return ("read", "off") if number % 2 else ("off", "read")


def summary(turns: Sequence[Turn]) -> dict[str, Any]:
    """Medians by mode, sums of tokens, and what memory added, paired by turn. None where the server does not say."""
    by_mode = {mode: [turn for turn in turns if turn.mode == mode] for mode in ("read", "off")}
    pairs = zip(
        sorted(by_mode["read"], key=lambda turn: (turn.conversation, turn.turn)),
        sorted(by_mode["off"], key=lambda turn: (turn.conversation, turn.turn)),
        strict=True,
    )
    says = any(turn.cached_tokens is not None for turn in turns)
    return {
        "memory": _of(by_mode["read"], says),
        "off": _of(by_mode["off"], says),
        "added_first_ms": _median(
            [
                ours.first_ms - base.first_ms
                for ours, base in pairs
                if ours.first_ms is not None and base.first_ms is not None
            ]
        ),
    }


def _of(turns: Sequence[Turn], says: bool) -> dict[str, Any]:
    """`says`: the server tells what it had cached. vLLM then leaves it out of an answer for which that was nothing."""
    speeds = [
        (turn.answer_tokens - 1) / (turn.total_ms - turn.first_ms) * 1000
        for turn in turns
        if turn.answer_tokens and turn.answer_tokens > 1 and turn.first_ms is not None and turn.total_ms > turn.first_ms
    ]
    prompt_tokens = sum(turn.prompt_tokens or 0 for turn in turns) or None
    return {
        "turns": len(turns),
        "without_token": sum(turn.first_ms is None for turn in turns),
        "first_ms": _median([turn.first_ms for turn in turns if turn.first_ms is not None]),
        "tokens_per_s": _median(speeds),
        "added_ms": _median([turn.added_ms for turn in turns if turn.added_ms is not None]),
        "prompt_tokens": prompt_tokens,
        "cached_share": sum(turn.cached_tokens or 0 for turn in turns) / prompt_tokens
        if says and prompt_tokens
        else None,
        "statuses": {
            status: sum(turn.status == status for turn in turns) for status in sorted({t.status for t in turns})
        },
    }


def _median(values: Sequence[float]) -> float | None:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if not ordered:
        return None
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def table(found: Mapping[str, Any]) -> str:
    """For people."""
    rows = [("", "memory", "off"), *(_row(found, label, name, digits) for label, name, digits in _ROWS)]
    lines = [f"{label:<34}{ours:>12}{base:>12}" for label, ours, base in rows]
    lines.append(f"{'memory adds to the first token':<34}{_number(found['added_first_ms'], 1):>12} ms, turn by turn")
    statuses = found["memory"]["statuses"]
    lines.append("status with memory: " + ", ".join(f"{status} {count}" for status, count in statuses.items()))
    if any(status.startswith("degraded") for status in statuses):
        lines.append("where it is degraded, the figures are of prompts without memory: see `memory-proxy doctor`")
    elif not statuses.get("injected"):
        lines.append("no prompt carried memory: name somebody of whom something is remembered with --user")
    if empty := found["memory"]["without_token"] + found["off"]["without_token"]:
        lines.append(f"answers without a token, so without a first: {empty}; thoughts that are not shown need --tokens")
    if found["off"]["cached_share"] is None:
        lines.append("vLLM does not say what it had cached: start it with --enable-prompt-tokens-details")
    return "\n".join(lines) + "\n"


_ROWS: Final = (
    ("turns", "turns", 0),
    ("first token, ms (median)", "first_ms", 1),
    ("tokens a second after it (median)", "tokens_per_s", 1),
    ("added before vLLM, ms (median)", "added_ms", 1),
    ("prompt tokens", "prompt_tokens", 0),
    ("cached share of them", "cached_share", 3),
)


def _row(found: Mapping[str, Any], label: str, name: str, digits: int) -> tuple[str, str, str]:
    return label, _number(found["memory"][name], digits), _number(found["off"][name], digits)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def run_bench(options: Namespace) -> int:
    """The command."""
    if min(options.conversations, options.turns, options.tokens) < 1:
        sys.stderr.write("memory-proxy: --conversations, --turns and --tokens are 1 or more\n")
        return 2
    run, left, progress = uuid.uuid4().hex[:8], None, Progress()
    try:
        headers = scope_headers(options)
        if options.user is None and "Authorization" not in headers:  # a key says whose memory
            headers["X-Memory-User"] = NOBODY
        service = Service(options.url.rstrip("/"), headers)
        try:
            model = options.model or service.model()
            try:
                turns = measured(service, model, options, run, progress.say)
            finally:
                progress.clear()
                left = forgotten(service, options.conversations, run)
        finally:
            service.close()
        told = {"model": model, **summary(turns)}
    except (BenchFailed, CallFailed, OSError) as fault:
        _say_why(str(fault), left)
        return 1
    except KeyboardInterrupt:
        _say_why(left)
        return 130
    sys.stdout.write(printable(f"{model} at {options.url}\n\n{table(told)}"))
    _say_why(left)
    return _written(options.json, told, turns) if options.json else 0


def _say_why(*why: str | None) -> None:
    """On stderr; a server's words in it steer no terminal."""
    sys.stderr.writelines(printable(f"memory-proxy: {one}\n") for one in why if one)


def _written(file: Path, told: Mapping[str, Any], turns: Sequence[Turn]) -> int:
    """The exit code."""
    rows = [{name: value for name, value in asdict(turn).items() if name != "text"} for turn in turns]
    try:
        file.write_text(json.dumps({**told, "each": rows}, indent=1) + "\n", encoding="utf-8")
    except OSError as fault:
        sys.stderr.write(f"memory-proxy: {fault}\n")
        return 1
    return 0
