"""What a learnt wish about answers does to a real model's answers: their length with the wish, and without any.

    python -m bench.style_answers --upstream http://127.0.0.1:8000          30 questions, three users, some minutes

One user has said nothing, one "I prefer short answers.", one "I prefer detailed answers."; each asks the same
questions, every one as a new conversation, at temperature 0, learning nothing. The wish reaches the model as a note of
the memory block ("Style asked for:"). Compared are the answers' lengths in tokens, question by question; the interval
is Wilson's 95 % of the share of questions whose answer is shorter. An answer that is cut counts with the tokens it has.
No model judges.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final
from urllib.parse import quote

import aiohttp

from bench.checkpoints import wilson
from bench.overhead.processes import NotStarted
from bench.recall.__main__ import running_service
from bench.recall.chat import served_model, settled
from bench.recall.client import CallFailed, session, user_header

WISHES: Final[Mapping[str, str]] = {
    "none": "",
    "short": "I prefer short answers.",
    "detailed": "I prefer detailed answers.",
}
SUBJECTS: Final = (
    "a rainbow",
    "tides",
    "sourdough bread",
    "a compass",
    "photosynthesis",
    "inflation",
    "a suspension bridge",
    "chess",
    "vaccines",
    "the seasons",
    "a violin",
    "coffee roasting",
    "earthquakes",
    "a lighthouse",
    "recycling glass",
    "an eclipse",
    "a sundial",
    "honey",
    "a steam engine",
    "coral reefs",
    "paper making",
    "a thermos flask",
    "sleep",
    "volcanoes",
    "a sailing boat",
    "cheese",
    "a bicycle",
    "thunder",
    "glaciers",
    "a microwave oven",
)
ANSWER_TOKENS: Final = 320
AT_ONCE: Final = 6


def questions(count: int) -> list[str]:
    """So many questions that can be answered in a line or a page."""
    return [f"Can you tell me about {one}?" for one in SUBJECTS[:count]]


async def said(
    http: aiohttp.ClientSession, url: str, model: str, user: str, words: str, *, mode: str, tokens: int
) -> tuple[int, bool]:
    """Tokens of the answer in a conversation of its own, and whether a style was given to it. Raises CallFailed."""
    headers = {**user_header(user), "X-Memory-Mode": mode, "X-Memory-Session": quote(words)}
    messages = [{"role": "user", "content": words}]
    body: dict[str, Any] = {"model": model, "messages": messages, "temperature": 0, "max_tokens": tokens}
    async with http.post(f"{url}/v1/chat/completions", json=body, headers=headers) as answer:
        if answer.status != 200:
            raise CallFailed(f"{user}: {answer.status} {(await answer.text())[:300]}")
        told = int(answer.headers.get("X-Memory-Count", "0")) > 0
        return int((await answer.json())["usage"]["completion_tokens"]), told


async def measured(upstream: str, count: int) -> dict[str, list[int]]:
    """Tokens of each answer by wish, in the order of the questions. Raises CallFailed, NotStarted."""
    room, lengths = asyncio.Semaphore(AT_ONCE), {wish: [0] * count for wish in WISHES}
    done = 0
    async with running_service(upstream) as url, session() as http:
        model = await served_model(http, url)
        for wish, words in WISHES.items():
            if words:
                await said(http, url, model, wish, words, mode="on", tokens=4)
        await settled(http, url)

        async def ask(at: int, question: str, wish: str) -> None:
            nonlocal done
            async with room:
                answer = said(http, url, model, wish, question, mode="read", tokens=ANSWER_TOKENS)
                lengths[wish][at], told = await answer
            if told is not bool(WISHES[wish]):
                raise CallFailed(f"{wish}: {question!r} was {'' if told else 'not '}given memory")
            done += 1
            print(f"[style answers] {done} of {count * len(WISHES)}", file=sys.stderr, flush=True)

        pairs = [(at, question, wish) for at, question in enumerate(questions(count)) for wish in WISHES]
        await asyncio.gather(*(ask(*one) for one in pairs))
    return lengths


def compared(lengths: Sequence[int], others: Sequence[int]) -> str:
    """The answers to the same questions, as the median ratio of their lengths and how many are shorter."""
    ratio = median(one / other for one, other in zip(lengths, others, strict=True))
    shorter = sum(one < other for one, other in zip(lengths, others, strict=True))
    low, high = wilson(shorter, len(lengths))
    return f"{ratio:.2f} of its length, shorter {shorter} of {len(lengths)} ({low:.3f} to {high:.3f})"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.style_answers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--upstream", required=True, metavar="URL", help="a vLLM that serves a real model")
    parser.add_argument(
        "--questions",
        type=int,
        default=30,
        choices=range(1, len(SUBJECTS) + 1),
        metavar="N",
        help="default %(default)s",
    )
    options = parser.parse_args(argv)
    try:
        lengths = asyncio.run(measured(options.upstream.rstrip("/"), options.questions))
    except (CallFailed, NotStarted) as fault:
        print(f"style_answers: {fault}", file=sys.stderr)
        return 1
    for wish, of in lengths.items():
        print(f"{wish:9} median {median(of):.0f} tokens, {sum(one >= ANSWER_TOKENS for one in of)} cut")
    for wish, other in (("short", "none"), ("detailed", "none"), ("short", "detailed")):
        print(f"{wish} / {other}: {compared(lengths[wish], lengths[other])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
