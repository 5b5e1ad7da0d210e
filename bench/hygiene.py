"""Hygiene after live traffic: recorded conversations through the proxy in, the hygiene table out.

    python -m bench.hygiene --sets locomo,beam      each turn of a person a request, answered as it was recorded
    python -m bench.hygiene --loop 500              500 turns in which the model quotes its memory back

Starts a service of its own with the product's defaults before a stand-in that answers what it is told. A conversation
is sent as a client does it: its session's history again and the newest turns of the person. Of LoCoMo's two speakers
the one who begins is the user, the other answers. Exit 1: junk and duplicates above JUNK_MAX, a fact without a valid
span, a memory made of memory, or a loop without a quotation. Exit 2: no data. No model judges.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import re
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from bench.overhead.processes import NotStarted
from bench.recall.chat import settled
from bench.recall.client import CallFailed, session, user_header
from bench.recall.corpus import SETS, EvalSet, SetUnreadable, read_set
from bench.search_times.service import serving
from bench.standing_in import standing_in
from bench.work_folder import work_folder
from memory.adapters.secret_rules import secret_detectors
from memory.write.redact import Redactor
from proxy.cli.hygiene_report import as_json, as_text, inspected

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "evaldata"
JUNK_MAX: Final = 0.05
HOT_BYTES: Final = 256 << 20
SIDE_BY_SIDE: Final = 3
SESSION_TURNS: Final = 25
_ITEM: Final = re.compile(r"^(?:\[[^\]\n]*\]|\|) (.*)$", re.MULTILINE)
_BLOCK: Final = re.compile(r"<memory>\n.*?</memory>\n\n", re.DOTALL)
_LEADS: Final = ("", "You told me: ", "From our previous conversations: ", "As you said before, ", "Yes. ")
TAUGHT: Final = (
    "My boat is called Halcyon and she lies in the harbour of Faro.",
    "I live in Lisbon with my sister Marta.",
    "My budget for the new sails is $4,500.",
    "The launch of the boat is on 4 May.",
    "I'm allergic to peanuts.",
    "My favourite painter is Vieira da Silva.",
    "I work as a marine biologist at the aquarium.",
    "We always use metric units in the log book.",
    "My dog is called Rex and he hates the sea.",
    "The spare key hangs behind the blue door of the shed.",
)
ASKED: Final = (
    "What is my boat called and where does she lie?",
    "Where do I live, and with whom?",
    "How much may the new sails cost?",
    "When is the launch of the boat?",
    "Which food am I allergic to?",
    "Who is my favourite painter?",
    "What do I work as at the aquarium?",
    "Which units do we use in the log book?",
    "What is my dog called?",
    "Where does the spare key hang?",
)


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a person says in one request, and what is answered."""

    said: tuple[Mapping[str, str], ...]
    answer: str


@dataclass(slots=True)
class Model:
    """The stand-in; mutable. Answers `texts[metadata.answer]`, or by quoting the block in the newest message."""

    texts: dict[str, str] = field(default_factory=dict)
    quoted: Counter[str] = field(default_factory=Counter)

    async def answer(self, request: web.Request) -> web.Response:
        """One chat completion."""
        body = await request.json()
        name = str(body["metadata"]["answer"])
        text = self.texts.get(name) or self._quotation(body["messages"][-1]["content"], int(name))
        message = {"role": "assistant", "content": text}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return web.json_response({"id": f"c-{name}", "object": "chat.completion", "model": "m", "choices": choices})

    async def models(self, _request: web.Request) -> web.Response:
        """What is served."""
        return web.json_response({"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 131072}]})

    def _quotation(self, message: str, number: int) -> str:
        block = _BLOCK.search(message)
        if block is None:
            self.quoted["nothing was placed"] += 1
            return f"I have nothing on that, sorry (turn {number})."
        items = _ITEM.findall(block[0])
        way = number % 4
        self.quoted[("whole block", "all items", "first item", "items in one line")[way]] += 1
        quotation = (block[0], "\n".join(items), items[0], " ".join(items))[way]
        return _LEADS[number % len(_LEADS)] + quotation


def exchanges_of(lines: Sequence[Mapping[str, str]]) -> list[Exchange]:
    """A session's lines as requests and answers. What is said last and not answered is sent all the same."""
    person = lines[0].get("name")
    found: list[Exchange] = []
    said: list[Mapping[str, str]] = []
    for line in lines:
        answers = line["role"] == "assistant" if person is None else line.get("name") != person
        if not answers:
            said.append({"role": "user", "content": line["content"], **({"name": person} if person else {})})
        elif said:
            found.append(Exchange(tuple(said), line["content"]))
            said = []
        elif found:  # who answers goes on
            found[-1] = Exchange(found[-1].said, f"{found[-1].answer}\n{line['content']}")
    return [*found, Exchange(tuple(said), "Noted.")] if said else found


class Client:
    """One person in one session."""

    def __init__(self, http: aiohttp.ClientSession, url: str, user: str, label: str) -> None:
        self._http = http
        self._url = f"{url}/v1/chat/completions"
        self._headers = {**user_header(user), "X-Memory-Session": label}
        self._history: list[Mapping[str, str]] = []

    async def say(self, said: Iterable[Mapping[str, str]], answer: str) -> str:
        """Send the history and this; the status of memory. Raises CallFailed."""
        self._history += said
        body = {"model": "m", "messages": self._history, "metadata": {"answer": answer}}
        async with self._http.post(self._url, json=body, headers=self._headers) as got:
            if got.status != 200:
                raise CallFailed(f"a chat was answered {got.status}: {(await got.text())[:300]}")
            message = (await got.json())["choices"][0]["message"]
            self._history.append({"role": "assistant", "content": message["content"]})
            return got.headers["X-Memory-Status"].partition(";")[0]


async def replay(http: aiohttp.ClientSession, url: str, model: Model, of_set: EvalSet) -> Counter[str]:
    """A set as live traffic; how often memory was placed. Raises CallFailed."""
    statuses: Counter[str] = Counter()
    gate = asyncio.Semaphore(SIDE_BY_SIDE)

    async def person(scope: str, lines: Sequence[Mapping[str, str]]) -> None:
        async with gate:
            for label, of_session in itertools.groupby(lines, key=lambda line: line["session"]):
                client = Client(http, url, scope, label)
                for number, exchange in enumerate(exchanges_of(list(of_session))):
                    answer = f"{scope}/{label}/{number}"
                    model.texts[answer] = exchange.answer
                    statuses[await client.say(exchange.said, answer)] += 1
                    sys.stderr.write(f"\r{of_set.name}: {statuses.total()} requests ")
                await settled(http, url)  # the next session may remember this one

    await asyncio.gather(*(person(scope, lines) for scope, lines in of_set.lines.items()))
    sys.stderr.write("\n")
    return statuses


async def feed_back(http: aiohttp.ClientSession, url: str, model: Model, turns: int) -> Counter[str]:
    """Teach a few things, then ask for them over and over. Raises CallFailed."""
    teacher = Client(http, url, "loop", "taught")
    for number, text in enumerate(TAUGHT):
        model.texts[f"taught-{number}"] = f"That is entry {number} of the log."
        await teacher.say([{"role": "user", "content": text}], f"taught-{number}")
    await settled(http, url)
    statuses: Counter[str] = Counter()
    for number in range(turns):
        if number % SESSION_TURNS == 0:
            client = Client(http, url, "loop", f"asked-{number}")
        question = f"{ASKED[number % len(ASKED)]} I ask for the time number {number}."
        statuses[await client.say([{"role": "user", "content": question}], str(number))] += 1
        if number % 10 == 9:  # what was said is stored before it is asked for again
            await settled(http, url)
        sys.stderr.write(f"\rloop: {number + 1} of {turns} turns ")
    sys.stderr.write("\n")
    return statuses


async def table(dsn: str, *, user: str | None = None) -> dict[str, Any]:
    """The report of everything, or of one user. Raises StoreUnavailable."""
    options = Namespace(user=user, project=None, limit=None, unused_days=30.0, examples=5)
    return as_json(await inspected(options, dsn), Redactor(secret_detectors()), show=True)


def missed(told: Mapping[str, Any]) -> list[str]:
    """The bounds that a report does not keep."""
    found = {rate["rate"]: rate["count"] for rate in told["rates"]}
    spans = told["facts_with_a_valid_span"]
    return [
        *([f"junk + duplicate {told['junk_or_duplicate']:.2%}"] if told["junk_or_duplicate"] > JUNK_MAX else []),
        *([f"{spans['of'] - spans['count']} facts without a valid span"] if spans["count"] < spans["of"] else []),
        *([f"{found['loop']} memories made of memory"] if found["loop"] else []),
    ]


async def measured(args: Namespace, sets: Mapping[str, EvalSet]) -> list[str]:
    """Run what is asked for and print the tables; what was missed."""
    model, failed = Model(), list[str]()
    with work_folder(prefix="mp-hygiene-") as work:
        async with (
            standing_in(model) as upstream,
            serving(work, upstream, HOT_BYTES) as service,
            session() as http,
        ):
            for name, of_set in sets.items():
                began = time.monotonic()
                statuses = await replay(http, service.url, model, of_set)
                await settled(http, service.url)
                print(f"## {name}: {dict(statuses)}, {time.monotonic() - began:.0f} s", flush=True)
            if args.sets:
                told = await table(service.dsn)
                print(as_text(told), flush=True)
                failed += missed(told)
            if args.loop:
                failed += await _loop(http, service.url, service.dsn, model, args.loop)
    return failed


async def _loop(http: aiohttp.ClientSession, url: str, dsn: str, model: Model, turns: int) -> list[str]:
    statuses = await feed_back(http, url, model, turns)
    await settled(http, url)
    told = await table(dsn, user="loop")
    kinds = await _kinds(http, url)
    print(f"## loop of {turns}: {dict(statuses)}, quoted {dict(model.quoted)}, memories {dict(kinds)}")
    print(as_text(told))
    return [*missed(told), *unquoted(model)]


def unquoted(model: Model) -> list[str]:
    """A loop in which the model was given nothing to quote fed nothing back."""
    quoted = model.quoted.total() - model.quoted["nothing was placed"]
    return [] if quoted else ["no memory was quoted, so the loop shows nothing"]


async def _kinds(http: aiohttp.ClientSession, url: str) -> Counter[str]:
    """The memories of the loop's user by kind and role."""
    found: Counter[str] = Counter()
    query = {"limit": "1000"}
    while True:
        async with http.get(f"{url}/memory/v1/memories", params=query, headers=user_header("loop")) as got:
            page = await got.json()
        found.update(f"{one['kind']} of {one['role']}" for one in page["data"])
        if page["next_cursor"] is None:
            return found
        query["cursor"] = page["next_cursor"]


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help=f"directory of the sets (default: {DATA})")
    parser.add_argument("--sets", default="", help=f"of {', '.join(SETS)}, by comma; replayed as live traffic")
    parser.add_argument("--loop", type=int, default=0, metavar="N", help="N turns in which the model quotes its memory")
    args = parser.parse_args(argv)
    args.sets = [name for name in args.sets.split(",") if name]
    if set(args.sets) - set(SETS) or not (args.sets or args.loop):
        parser.error(f"give --loop, or --sets of {', '.join(SETS)}")
    try:
        sets = {name: read_set(args.data, name) for name in args.sets}
        failed = asyncio.run(measured(args, sets))
    except SetUnreadable as unreadable:
        print(unreadable, file=sys.stderr)
        return 2
    except (CallFailed, NotStarted) as fault:
        print(fault, file=sys.stderr)
        return 1
    print("missed: " + "; ".join(failed) if failed else "every bound is kept")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
