"""What a checkpoint is worth to a real model: questions that only its notes answer, with it and without.

    python -m bench.checkpoint_answers --upstream http://127.0.0.1:8000            40 checkpoints, 80 questions each way

Each checkpoint holds a note and an entity in made-up words that stand nowhere else. A new conversation asks for the
one word, once with the checkpoint's name in X-Memory-Checkpoint and once without, at temperature 0. Exact: the word is
in the answer; with Wilson's 95 % interval. What is measured is model and proxy together; that the proxy restores
exactly what was saved is `bench.checkpoints`. No model judges.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import aiohttp

from bench.checkpoints import Dialogue, dialogues_of, wilson
from bench.overhead.processes import NotStarted
from bench.recall.__main__ import running_service
from bench.recall.chat import served_model
from bench.recall.client import CallFailed, session, user_header

NAME: Final = "where we stood"
ANSWER_TOKENS: Final = 24
AT_ONCE: Final = 4
_ONLY: Final = "Answer with the one word only."


def questions_of(one: Dialogue) -> list[tuple[str, str]]:
    """Questions and the word that answers each: of the note, of an entity."""
    note, thing = one.words[6], one.words[7]
    return [
        (f"With which valve do I begin? {_ONLY}", note),
        (f"What is the name of the yard? {_ONLY}", thing),
    ]


async def saved(http: aiohttp.ClientSession, url: str, one: Dialogue) -> None:
    """Keep a checkpoint of the note and the entity. Raises CallFailed."""
    body = {"name": NAME, "notes": one.notes, "entities": [f"{one.words[7]}: the name of the yard"]}
    async with http.post(f"{url}/memory/v1/checkpoints", json=body, headers=user_header(one.user)) as answer:
        if answer.status != 200:
            raise CallFailed(f"{one.user}: {answer.status} {(await answer.text())[:300]}")


async def asked(http: aiohttp.ClientSession, url: str, model: str, user: str, question: str, named: bool) -> str:
    """The model's answer in a conversation of its own. Raises CallFailed."""
    # A session of its own: the same opening again is another attempt at one conversation, and keeps its block.
    of = {"X-Memory-Session": quote(f"{named} {question}"), "X-Memory-Mode": "read"}
    headers = {**user_header(user), **of, **({"X-Memory-Checkpoint": quote(NAME)} if named else {})}
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": ANSWER_TOKENS,
    }
    async with http.post(f"{url}/v1/chat/completions", json=body, headers=headers) as answer:
        said = await answer.json()
        if answer.status != 200:
            raise CallFailed(f"{user}: {answer.status} {json.dumps(said)[:300]}")
    return str(said["choices"][0]["message"]["content"] or "")


async def measured(upstream: str, dialogues: Sequence[Dialogue]) -> dict[bool, list[bool]]:
    """Which answers have the word, with the checkpoint (True) and without."""
    exact: dict[bool, list[bool]] = {True: [], False: []}
    room = asyncio.Semaphore(AT_ONCE)
    async with running_service(upstream) as url, session() as http:
        model = await served_model(http, url)
        for one in dialogues:
            await saved(http, url, one)

        async def ask(one: Dialogue, question: str, word: str, named: bool) -> None:
            async with room:
                said = await asked(http, url, model, one.user, question, named)
            exact[named].append(word.lower() in said.lower())
            done = sum(map(len, exact.values()))
            print(f"[checkpoint answers] {done} of {4 * len(dialogues)}", file=sys.stderr, flush=True)

        every = [(one, *pair, named) for one in dialogues for pair in questions_of(one) for named in (True, False)]
        await asyncio.gather(*(ask(*each) for each in every))
    return exact


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.checkpoint_answers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--upstream", required=True, metavar="URL", help="a vLLM that serves a real model")
    parser.add_argument("--dialogues", type=int, default=40, metavar="N", help="checkpoints (default %(default)s)")
    parser.add_argument("--seed", type=int, default=7, help="of the made-up words (default %(default)s)")
    options = parser.parse_args(argv)
    try:
        exact = asyncio.run(measured(options.upstream.rstrip("/"), dialogues_of(options.dialogues, options.seed)))
    except (CallFailed, NotStarted) as fault:
        print(f"checkpoint_answers: {fault}", file=sys.stderr)
        return 1
    for named, what in ((True, "with the checkpoint"), (False, "without")):
        hits, of = sum(exact[named]), len(exact[named])
        low, high = wilson(hits, of)
        print(f"{what:20} exact {hits} of {of}  ({low:.3f} to {high:.3f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
