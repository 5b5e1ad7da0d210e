"""Checkpoints: synthetic dialogues in, how many are restored exactly in what the upstream receives out.

    python -m bench.checkpoints                    100 dialogues, a user each, with a restart in between
    python -m bench.checkpoints --dialogues 10     a look

Each dialogue (words made up from a seed, so that nothing of it is anywhere else) has six turns with a goal, a plan, an
open question and three facts; it is saved under a name with notes and two entities. Then the service is stopped and
started again, and each user opens a new conversation with words that share none with the dialogue: once with the name
in X-Memory-Checkpoint, once without. Exact means: under our heading stand the lines that were saved, all of them, no
other, in order, in the newest user message alone; in the next turn, where the name is sent again, the message has the
same bytes and nothing is said a second time; replay rebuilds the body byte for byte; and without the name none of the
dialogue's words is in the body. No model judges. Exit 1: one of them is not.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import random
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from aiohttp import web

from bench.figures import Line, any_missed, as_json, told
from bench.figures import table as lines_table
from bench.overhead.processes import NotStarted
from bench.recall.chat import settled
from bench.recall.client import CallFailed, session, user_header
from bench.search_times.service import serving
from bench.standing_in import standing_in
from bench.work_folder import work_folder
from policies.checkpoint import LABELS
from proxy.cli.whole_file import file_to_write

HOT_BYTES: Final = 256 << 20
NAME: Final = "where we stood"
HEADING: Final = "Restored from a checkpoint:\n"
OPENING, NEXT = "Please go on.", "Thank you. And after that?"
_ASKED: Final = "x-bench-asked"
_SYLLABLES: Final = (
    "bra",
    "dol",
    "fen",
    "gri",
    "hul",
    "kor",
    "lim",
    "mar",
    "nov",
    "pel",
    "quo",
    "ras",
    "tiv",
    "ulm",
    "zan",
)
_ITEM: Final = re.compile(r"^\[(?:\d{4}-\d\d-\d\d )?([^\]]*)\] ")


@dataclass(frozen=True, slots=True)
class Dialogue:
    """What one user says, and what is saved beside it; `words` are made up and stand nowhere else."""

    user: str
    turns: tuple[tuple[str, str], ...]
    notes: str
    entities: tuple[str, ...]
    words: tuple[str, ...]


@dataclass(slots=True)
class StandIn:
    """The upstream; mutable. Keeps the body of each request by its number, and answers what the dialogue says."""

    answers: dict[str, str] = field(default_factory=dict)
    bodies: dict[str, bytes] = field(default_factory=dict)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One chat completion."""
        number = request.headers[_ASKED]
        self.bodies[number] = await request.read()
        message = {"role": "assistant", "content": self.answers.get(number, "Gladly.")}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response(
            {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        )

    async def models(self, _request: web.Request) -> web.Response:
        """What is served."""
        return web.json_response({"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 131072}]})


def dialogues_of(number: int, seed: int) -> list[Dialogue]:
    """So many dialogues, each in words of its own."""
    draw = random.Random(seed)
    seen: set[str] = set()

    def word() -> str:
        while True:
            made = "".join(draw.choice(_SYLLABLES) for _ in range(4)).capitalize()
            if made not in seen:
                seen.add(made)
                return made

    return [_dialogue(f"u{n}", [word() for _ in range(8)]) for n in range(number)]


def _dialogue(user: str, words: Sequence[str]) -> Dialogue:
    ship, brother, town, firm, step, asked, note, thing = words
    turns = (
        (f"Please help me rebuild the engine of the {ship}.", "Gladly."),
        (f"My brother is called {brother}.", "Noted."),
        (f"I live in {town}.", "Noted."),
        (f"I work for {firm}.", "Noted."),
        (f"The plan:\n1. Drain the tank\n2. Weld the {step} plate", "Very well."),
        (f"Step 1 is done. Who owns the {asked} crane?", "I don't know that."),
    )
    return Dialogue(
        user, turns, f"Begin with the {note} valve.", (f"{thing}: the yard", f"{ship}: the boat"), tuple(words)
    )


async def _chat(
    http: aiohttp.ClientSession, url: str, user: str, number: str, messages: Sequence[Mapping[str, str]], **headers: str
) -> Mapping[str, str]:
    """One chat completion; its X-Memory-* headers in lower case. Raises CallFailed."""
    named = {f"X-Memory-{name.capitalize()}": quote(value) for name, value in headers.items()}
    sent = {**user_header(user), _ASKED: number, **named}
    async with http.post(
        f"{url}/v1/chat/completions", json={"model": "m", "messages": messages}, headers=sent
    ) as answer:
        if answer.status != 200:
            raise CallFailed(f"{number}: {answer.status} {(await answer.text())[:300]}")
        return {name.lower(): value for name, value in answer.headers.items()}


async def _call(http: aiohttp.ClientSession, method: str, url: str, user: str, body: Any = None) -> Any:
    async with http.request(method, url, json=body, headers=user_header(user)) as answer:
        said = await answer.json()
        if answer.status != 200:
            raise CallFailed(f"{method} {url}: {answer.status} {json.dumps(said)[:300]}")
        return said


async def held(http: aiohttp.ClientSession, url: str, model: StandIn, one: Dialogue) -> None:
    """Hold one dialogue, turn by turn, in a session of a name."""
    messages: list[dict[str, str]] = []
    for at, (said, answer) in enumerate(one.turns):
        number = f"{one.user}-{at}"
        model.answers[number] = answer
        messages.append({"role": "user", "content": said})
        await _chat(http, url, one.user, number, messages, session="the-first")
        messages.append({"role": "assistant", "content": answer})


async def saved(http: aiohttp.ClientSession, url: str, one: Dialogue) -> list[str]:
    """Save it; the lines that a load is to put into a prompt, by what the API says is in it."""
    body = {"name": NAME, "session": "the-first", "notes": one.notes, "entities": list(one.entities)}
    said = await _call(http, "POST", f"{url}/memory/v1/checkpoints", one.user, body)
    return [_line(part) for part in said["parts"]]


def _line(part: Mapping[str, Any]) -> str:
    label = LABELS[part["part"]]
    role = f"{part['role']}, {label}" if label and label != part["role"] else part["role"]
    return f"[{role}] " + "\n| ".join(line for line in part["content"].splitlines() if line.strip())


def items_of(text: str) -> list[str]:
    """The items under the heading of a checkpoint, without their dates."""
    section = text.partition(HEADING)[2].partition("</memory>")[0].partition("From earlier conversations:\n")[0]
    items: list[str] = []
    for line in section.splitlines():
        if line.startswith("| ") and items:
            items[-1] += f"\n{line}"
        else:
            items.append(_ITEM.sub(r"[\1] ", line))
    return items


def faults_of(
    one: Dialogue, wanted: Sequence[str], first: Any, second: Any, without: Any, replay: Mapping[str, Any], sha256: str
) -> list[str]:
    """What is not as it should be; bodies as the upstream got them, parsed."""
    faults = []
    opened = first["messages"][-1]["content"]
    if sorted(items_of(opened)) != sorted(wanted) or items_of(opened) != list(wanted):
        faults.append(f"the prompt has {items_of(opened)}, saved were {list(wanted)}")
    if not {one.notes, one.turns[0][0], *one.entities} <= {item.partition("] ")[2] for item in items_of(opened)}:
        faults.append("notes, goal or entities are missing")
    if sum(word in opened for word in one.words) < len(one.words):
        faults.append(f"not all of its words: {[word for word in one.words if word not in opened]}")
    if second["messages"][0]["content"] != opened:
        faults.append("the block has other bytes in the next turn")
    if HEADING in second["messages"][-1]["content"]:
        faults.append("it is said a second time")
    if any(word in json.dumps(without) for word in one.words) or HEADING in json.dumps(without):
        faults.append("without the name something of it is there")
    if not replay.get("identical") or replay.get("sha256_rebuilt") != sha256:
        faults.append("replay does not rebuild it")
    return faults


async def judged(
    http: aiohttp.ClientSession, url: str, model: StandIn, one: Dialogue, wanted: Sequence[str]
) -> list[str]:
    """A new conversation with the name, one without, and the replay of the first."""
    first = [{"role": "user", "content": OPENING}]
    more = [*first, {"role": "assistant", "content": "Gladly."}, {"role": "user", "content": NEXT}]
    numbers = [f"{one.user}-{what}" for what in ("named", "named-again", "plain")]
    head = await _chat(http, url, one.user, numbers[0], first, checkpoint=NAME)
    await settled(http, url)
    await _chat(http, url, one.user, numbers[1], more, checkpoint=NAME)
    await _chat(http, url, one.user, numbers[2], first, session="another")
    replay = await _call(http, "GET", f"{url}/memory/v1/replay/{head['x-memory-retrieval']}", one.user)
    named, again, plain = (json.loads(model.bodies[number]) for number in numbers)
    sha256 = hashlib.sha256(model.bodies[numbers[0]]).hexdigest()
    return faults_of(one, wanted, named, again, plain, replay, sha256)


async def measured(dialogues: Sequence[Dialogue], work: Path, keys: str) -> tuple[list[tuple[str, list[str]]], float]:
    """Hold, save, restart, ask: what was wrong by user, and the median milliseconds of a save."""
    model, wanted, times = StandIn(), dict[str, list[str]](), []
    async with standing_in(model) as upstream, session() as http:
        async with serving(work, upstream, HOT_BYTES, keys) as service:
            for at, one in enumerate(dialogues):
                await held(http, service.url, model, one)
                _say(f"held {at + 1} of {len(dialogues)}")
            await settled(http, service.url)
            for one in dialogues:
                began = time.perf_counter()
                wanted[one.user] = await saved(http, service.url, one)
                times.append((time.perf_counter() - began) * 1000)
        async with serving(work, upstream, HOT_BYTES, keys) as service:
            found = []
            for at, one in enumerate(dialogues):
                found.append((one.user, await judged(http, service.url, model, one, wanted[one.user])))
                _say(f"asked {at + 1} of {len(dialogues)}")
    return found, sorted(times)[len(times) // 2]


def _say(text: str) -> None:
    print(f"[checkpoints] {text}", file=sys.stderr, end="\r" if sys.stderr.isatty() else "\n", flush=True)


def wilson(hits: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share (Wilson 1927)."""
    z, share = 1.959964, hits / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return middle - half, min(1.0, middle + half)


def lines_of(found: Sequence[tuple[str, Sequence[str]]], save_ms: float) -> list[Line]:
    """The figures beside what was asked."""
    exact = sum(not faults for _, faults in found)
    low, high = wilson(exact, len(found))
    said = f"{exact} of {len(found)} ({low:.3f} to {high:.3f})"
    return [
        Line("checkpoints", "restored exactly after a restart, and nothing without the name", "all", said,
             exact == len(found)),
        told("checkpoints", "a save, median", f"{save_ms:.0f} ms"),
    ]  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dialogues", type=int, default=100, metavar="N", help="how many (default %(default)s)")
    parser.add_argument("--seed", type=int, default=7, help="of the made-up words (default %(default)s)")
    parser.add_argument("--work", type=Path, metavar="DIR", help="where the service keeps its data meanwhile")
    parser.add_argument("--json", type=file_to_write, metavar="FILE", help="the report, there")
    args = parser.parse_args(argv)
    dialogues = dialogues_of(args.dialogues, args.seed)
    try:
        with work_folder(args.work) as work:
            found, save_ms = asyncio.run(measured(dialogues, work, "upstream:\n  cache_salt: tenant\n"))
    except (CallFailed, NotStarted) as fault:
        print(fault, file=sys.stderr)
        return 1
    lines = lines_of(found, save_ms)
    print(lines_table(lines))
    for user, faults in found:
        for wrong in faults:
            print(f"{user}: {wrong}")
    if args.json:
        report = {"bench": "checkpoints", "dialogues": len(found), "seed": args.seed, "lines": as_json(lines)}
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if any_missed(lines) else 0


if __name__ == "__main__":
    raise SystemExit(main())
