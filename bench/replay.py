"""Replay after varied traffic: recorded dialogues through the proxy in, how many bodies are rebuilt byte for byte out.

    python -m bench.replay --answers 1000          with the tenant's cache_salt (--no-salt: without)

A service of its own with the product's defaults stands before a stand-in that keeps the SHA-256 of the bytes it got.
ShareGPT's dialogues are sent turn by turn as clients send them, ten dialogues a user. Each user has told ten facts
before, and asks for one of them in every second turn, so that memory is placed at several turns of a dialogue. The
bodies vary: parts lists, escapes, raw UTF-8, indentation, doubled keys, a `memory` object, tools, streams, a client's
salt. Then each answer is asked of `GET /memory/v1/replay/{id}`: identical are those whose `request` has the digest that
the stand-in saw. Exit 1: one is not, or none had memory in it. Exit 2: no data. No model judges.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import json
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web

from bench.hygiene import ASKED, TAUGHT
from bench.overhead.processes import NotStarted
from bench.recall.chat import settled
from bench.recall.client import CallFailed, import_turns, session, user_header
from bench.recall.corpus import SetUnreadable, read_objects
from bench.search_times.service import serving
from bench.standing_in import standing_in
from bench.work_folder import work_folder
from proxy.cli.whole_file import file_to_write

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "evaldata"
HOT_BYTES: Final = 256 << 20
SIDE_BY_SIDE: Final = 3
DIALOGUES_OF_A_USER: Final = 10
BODY_BYTES_MAX: Final = 200_000
_EXCHANGE: Final = "x-bench-exchange"
_TOOLS: Final = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]
Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request of a dialogue and what is answered; `variant` names the form of its bytes."""

    number: int
    user: str
    variant: str
    body: bytes
    answer: str


@dataclass(slots=True)
class StandIn:
    """The upstream; mutable. Answers what the exchange was answered, and keeps what it was sent by its number."""

    answers: dict[str, str] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)  # the last one: what an overflow retry sent

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One chat completion."""
        body = await request.read()
        number = request.headers[_EXCHANGE]
        self.seen[number] = hashlib.sha256(body).hexdigest()
        text = self.answers[number]
        head = {"id": f"c-{number}", "created": 1, "model": "m"}
        if not json.loads(body).get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            return web.json_response({**head, "object": "chat.completion", "choices": [choice]})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for delta, end in (({"role": "assistant", "content": text}, None), ({}, "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": end}
            event = {**head, "object": "chat.completion.chunk", "choices": [choice]}
            await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response

    async def models(self, _request: web.Request) -> web.Response:
        """What is served."""
        return web.json_response({"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": 131072}]})


def _raw(members: Mapping[str, Any], **options: Any) -> bytes:
    return json.dumps({"model": "m", **members}, **options).encode()


def _parts(messages: Sequence[Message]) -> list[Message]:
    return [{**one, "content": [{"type": "text", "text": one["content"]}]} for one in messages]


def _doubled(messages: Sequence[Message]) -> bytes:
    plain = _raw({"messages": list(messages), "temperature": 1.0})
    return b'{"model": "other", "x_unknown": 1.50e3, "messages": [], ' + plain[1:]


VARIANTS: Final[Mapping[str, Callable[[Sequence[Message]], bytes]]] = {
    "strings": lambda messages: _raw({"messages": list(messages)}),
    "parts": lambda messages: _raw({"messages": _parts(messages)}),
    "raw UTF-8": lambda messages: _raw({"messages": list(messages)}, ensure_ascii=False, separators=(",", ":")),
    "indented": lambda messages: _raw({"messages": list(messages)}, indent=2),
    "doubled keys": _doubled,
    "memory object": lambda messages: _raw({"memory": {"budget": 800}, "messages": list(messages), "seed": 7}),
    "tools": lambda messages: _raw(
        {"tools": _TOOLS, "messages": [{"role": "system", "content": "Be brief."}, *messages]}
    ),
    "stream": lambda messages: _raw({"messages": list(messages), "stream": True}),
    "client's salt": lambda messages: _raw({"cache_salt": "a client's own", "messages": list(messages)}),
}


def exchanges_of(dialogues: Sequence[Mapping[str, Any]], most: int) -> list[Exchange]:
    """The first `most` requests of the dialogues, each in another form than the one before."""
    return list(itertools.islice(_exchanges(dialogues), most))


def _exchanges(dialogues: Sequence[Mapping[str, Any]]) -> Iterator[Exchange]:
    numbers, names = itertools.count(), list(VARIANTS)
    for index, dialogue in enumerate(dialogues):
        messages = _asking(
            [{"role": one["role"], "content": str(one["content"])} for one in dialogue["messages"]], index
        )
        for at, (message, following) in enumerate(itertools.pairwise(messages)):
            if (message["role"], following["role"]) != ("user", "assistant"):
                continue
            number = next(numbers)
            variant = names[number % len(names)]
            body = VARIANTS[variant](messages[: at + 1])
            if len(body) <= BODY_BYTES_MAX:
                yield Exchange(number, f"u{index // DIALOGUES_OF_A_USER}", variant, body, following["content"])


def _asking(messages: list[dict[str, str]], first: int) -> list[dict[str, str]]:
    """The dialogue with a question for what was told before in place of every second turn of its user."""
    users = [at for at, one in enumerate(messages) if one["role"] == "user"]
    for number, at in enumerate(users[::2]):
        messages[at] = {"role": "user", "content": ASKED[(first + number) % len(ASKED)]}
    return messages


async def told(http: aiohttp.ClientSession, url: str, users: Sequence[str]) -> None:
    """Each user's facts, stored and searchable. Raises CallFailed."""
    for user in users:
        lines = [{"role": "user", "content": fact, "session": f"told-{n}"} for n, fact in enumerate(TAUGHT)]
        await import_turns(http, url, user, lines, lambda _: None)


async def _send(http: aiohttp.ClientSession, url: str, one: Exchange) -> str:
    """The id of the answer's retrieval. Raises CallFailed."""
    headers = {**user_header(one.user), "Content-Type": "application/json", _EXCHANGE: str(one.number)}
    async with http.post(f"{url}/v1/chat/completions", data=one.body, headers=headers) as answer:
        text = await answer.text()
        if answer.status != 200 or "X-Memory-Retrieval" not in answer.headers:
            raise CallFailed(f"exchange {one.number}: {answer.status} {text[:300]}")
        return str(answer.headers["X-Memory-Retrieval"])


async def sent(http: aiohttp.ClientSession, url: str, exchanges: Sequence[Exchange]) -> dict[int, str]:
    """Send them, each user's in order, SIDE_BY_SIDE users at once; retrieval ids by number."""
    made: dict[int, str] = {}
    users = [list(group) for _, group in itertools.groupby(exchanges, lambda one: one.user)]
    gate = asyncio.Semaphore(SIDE_BY_SIDE)

    async def of_user(mine: Sequence[Exchange]) -> None:
        async with gate:
            for one in mine:
                made[one.number] = await _send(http, url, one)
                if len(made) % 50 == 0:
                    print(f"sent {len(made)} of {len(exchanges)}", file=sys.stderr, flush=True)

    await asyncio.gather(*map(of_user, users))
    return made


async def _replayed(http: aiohttp.ClientSession, url: str, one: Exchange, retrieval: str) -> dict[str, Any]:
    async with http.get(f"{url}/memory/v1/replay/{retrieval}", headers=user_header(one.user)) as answer:
        said: dict[str, Any] = await answer.json()
        return said


def differs(said: Mapping[str, Any], seen: str) -> str | None:
    """How a replay differs from what the upstream saw; None where it is byte-identical."""
    if "error" in said:
        return str(said.get("why") or said["error"]["code"])
    if hashlib.sha256(said["request"].encode()).hexdigest() != seen:
        return "other bytes"
    if not said["identical"] or said["sha256_sent"] != seen or said["sha256_rebuilt"] != seen:
        return "same bytes, other digests"
    return None


async def measured(args: Namespace, exchanges: Sequence[Exchange]) -> dict[str, Any]:
    """Send everything, then replay everything. Raises CallFailed, NotStarted."""
    model = StandIn({str(one.number): one.answer for one in exchanges})
    more = "" if args.no_salt else "upstream:\n  cache_salt: tenant\n"
    with work_folder(args.work) as work:
        async with (
            standing_in(model) as upstream,
            serving(Path(work), upstream, HOT_BYTES, more) as service,
            session() as http,
        ):
            await told(http, service.url, list(dict.fromkeys(one.user for one in exchanges)))
            made = await sent(http, service.url, exchanges)
            await settled(http, service.url)
            began = time.perf_counter()
            placed, kept, faults = 0, 0, []
            of, identical = Counter[str](), Counter[str]()
            for one in exchanges:
                said = await _replayed(http, service.url, one, made[one.number])
                fault = differs(said, model.seen[str(one.number)])
                of[one.variant] += 1
                identical[one.variant] += fault is None
                placed += bool(said.get("placed"))
                kept += any(block["kept"] for block in said.get("placed", ()))
                if fault is not None:
                    faults.append({"exchange": one.number, "variant": one.variant, "fault": fault})
            millis = (time.perf_counter() - began) * 1000 / len(exchanges)
    return {
        "answers": len(exchanges),
        "identical": sum(identical.values()),
        "with_memory": placed,
        "with_kept_blocks": kept,
        "salted": not args.no_salt,
        "replay_ms_mean": round(millis, 2),
        "variants": {name: {"answers": of[name], "identical": identical[name]} for name in VARIANTS},
        "faults": faults,
    }


def as_text(report: Mapping[str, Any]) -> str:
    """The report as a table."""
    lines = [f"{'':<16}{'answers':>9}{'identical':>11}"]
    lines += [f"{name:<16}{one['answers']:>9}{one['identical']:>11}" for name, one in report["variants"].items()]
    lines.append(f"{'all':<16}{report['answers']:>9}{report['identical']:>11}")
    lines.append(
        f"{report['with_memory']} with memory in them ({report['with_kept_blocks']} with blocks of earlier turns), "
        f"{'with' if report['salted'] else 'without'} the tenant's salt, {report['replay_ms_mean']} ms a replay"
    )
    if not report["with_memory"]:
        lines.append("not one prompt had memory in it: nothing is shown")
    lines += [f"exchange {one['exchange']} ({one['variant']}): {one['fault']}" for one in report["faults"][:20]]
    return "\n".join(lines)


def passed(report: Mapping[str, Any]) -> bool:
    """Whether all is byte-identical, some of it with memory: a body that nothing was placed in is the client's own."""
    return bool(report["with_memory"] > 0 and report["identical"] == report["answers"])


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help=f"directory of the sets (default: {DATA})")
    parser.add_argument("--answers", type=int, default=1000, metavar="N", help="how many (default %(default)s)")
    parser.add_argument("--no-salt", action="store_true", help="without the tenant's cache_salt")
    parser.add_argument("--work", type=Path, metavar="DIR", help="where the service keeps its data meanwhile")
    parser.add_argument("--json", type=file_to_write, metavar="FILE", help="the report, there")
    args = parser.parse_args(argv)
    try:
        exchanges = exchanges_of(read_objects(args.data / "sharegpt_300_multiturn.jsonl.xz"), args.answers)
        report = asyncio.run(measured(args, exchanges))
    except SetUnreadable as unreadable:
        print(unreadable, file=sys.stderr)
        return 2
    except (CallFailed, NotStarted) as fault:
        print(fault, file=sys.stderr)
        return 1
    print(as_text(report))
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if passed(report) else 1


if __name__ == "__main__":
    raise SystemExit(main())
