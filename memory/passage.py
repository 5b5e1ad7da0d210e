"""A request's passage: stages and facts in as they come about, histograms, one log line and one trace out.

The passage at hand is found through a context variable, so that a step which is handed nothing (an embedding, three
calls down) can say how long it took. Nothing reads it to decide anything: without one every call here does nothing.
Refuses content: `Facts` is all that can be said of a request, ids, counts, times and closed words, beside the model's
name. docs/logs.md says what each is; a test compares.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from time import perf_counter, time_ns
from typing import Final, Protocol, TypedDict, Unpack

from memory.catalogue import Stage, Timings
from memory.telemetry import event

log = logging.getLogger("memory_proxy.request")
# What is kept as the status of a request whose client left before there was any answer (nginx's word for it).
CLIENT_LEFT: Final = 499
# A client names the model: bounded, since it may name anything.
MODEL_CHARS_MAX: Final = 128
# Stages that are spans of their own in a trace; `upstream` is one too, from the sending to the answer's end.
SPANS: Final = frozenset({"recall", "capture"})


class Facts(TypedDict, total=False):
    """What may be said of a request, in the order of its line."""

    route: str
    method: str
    http: int
    outcome: str
    code: str
    exchange: str | None
    retrieval: str | None
    memory: str
    reason: str | None
    rung: str
    placed: int
    kept: int
    tokens: int
    capture: str
    outside: str
    pages: int
    unknown_headers: list[str]
    model: str | None
    input_tokens: int
    output_tokens: int
    finish: list[str]
    added_ms: float
    ttfb_ms: float
    total_ms: float
    stages_ms: dict[str, float]
    bytes_in: int
    bytes_out: int
    trace: str


class Trace(Protocol):
    """The trace of one request. Nothing here waits, and nothing raises."""

    id: str

    def outgoing(self) -> Mapping[str, str]:
        """The headers with which vLLM continues it; each call begins the span `upstream` anew."""

    def answered(self) -> None:
        """The upstream's answer has ended."""

    def child(self, name: str, started_ns: int, ended_ns: int) -> None:
        """A span below the request's own, Unix time; `capture` may come after `end`."""

    def end(self, facts: Facts, response_id: str | None) -> None:
        """The request has ended."""


class Tracing(Protocol):
    """Where traces are begun."""

    def begin(self, headers: Mapping[str, str]) -> Trace:
        """A trace; it continues that of the `traceparent` and `tracestate` among these headers."""

    async def close(self) -> None:
        """Send what waits, for some seconds at most."""


class Passage:
    """One request. `counted` takes its stages; None for a route whose stages are of no interest."""

    __slots__ = ("_counted", "_last", "_response_id", "_stages", "_trace", "facts", "started")

    def __init__(self, counted: Timings[Stage] | None, trace: Trace | None, facts: Facts) -> None:
        self.facts = facts
        self.started = self._last = perf_counter()
        self._counted = counted
        self._trace = trace
        self._stages: dict[str, float] = {}
        self._response_id: str | None = None

    def lap(self, stage: Stage) -> None:
        """The time since the last lap was spent in `stage`."""
        last, self._last = self._last, perf_counter()
        self.took(stage, last, self._last)

    def took(self, stage: Stage, started: float, ended: float) -> None:
        """A stage lasted from `started` to `ended` (perf_counter)."""
        seconds = ended - started
        self._stages[stage] = self._stages.get(stage, 0.0) + seconds
        if self._counted is not None:
            self._counted.observe(stage, seconds)
        if self._trace is not None:
            if stage in SPANS:
                now = time_ns() - int((perf_counter() - ended) * 1e9)
                self._trace.child(stage, now - int(seconds * 1e9), now)
            elif stage == "stream":
                self._trace.answered()

    def outgoing(self) -> Mapping[str, str]:
        """The headers with which vLLM continues this trace; none where there is no trace."""
        return self._trace.outgoing() if self._trace is not None else {}

    def answer_is(self, response_id: str | None) -> None:
        """vLLM's id of its answer; for the trace."""
        self._response_id = response_id

    def finish(self, level: int) -> None:
        """Say it, once."""
        facts = self.facts
        ms = {stage: round(seconds * 1000, 3) for stage, seconds in self._stages.items()}
        facts["total_ms"] = round((perf_counter() - self.started) * 1000, 3)
        facts["stages_ms"] = ms
        if "upstream" in ms:
            facts["ttfb_ms"] = ms["upstream"]
        if self._trace is not None:
            self._trace.end(facts, self._response_id)
        if log.isEnabledFor(level):
            event(log, "request", level, **{name: facts[name] for name in _ORDER if facts.get(name) is not None})  # type: ignore[literal-required]


_ORDER: Final = tuple(Facts.__annotations__)
AT_HAND: Final[ContextVar[Passage | None]] = ContextVar("passage", default=None)


def lap(stage: Stage) -> None:
    """The time since the last lap was spent in `stage` of the request at hand."""
    passage = AT_HAND.get()
    if passage is not None:
        passage.lap(stage)


def took(stage: Stage, started: float) -> None:
    """`stage`, beside or inside the others, lasted from `started` (perf_counter) until now."""
    passage = AT_HAND.get()
    if passage is not None:
        passage.took(stage, started, perf_counter())


def note(**facts: Unpack[Facts]) -> None:
    """Facts of the request at hand; a later one takes the place of an earlier."""
    passage = AT_HAND.get()
    if passage is not None:
        passage.facts.update(facts)


def note_answer(response_id: str | None, usage: object, finish: list[str]) -> None:
    """What vLLM says of its answer: its id, the tokens it counted, why it ended."""
    passage = AT_HAND.get()
    if passage is None:
        return
    passage.answer_is(response_id)
    passage.facts["finish"] = [reason[:32] for reason in finish[:16]]
    if isinstance(usage, Mapping):
        for name, key in (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens")):
            if isinstance(count := usage.get(key), int):
                passage.facts[name] = count  # type: ignore[literal-required]


def trace_headers() -> Mapping[str, str]:
    """The headers with which vLLM continues the trace of the request at hand; none where it is not traced by us."""
    passage = AT_HAND.get()
    return passage.outgoing() if passage is not None else {}
