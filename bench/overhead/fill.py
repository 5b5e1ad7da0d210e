"""Memories and questions for the benchmark: a number in, the same invented past each time out.

The facts are written to the proxy by `POST /memory/v1/import`, so they take the product's own write
path; the questions ask for things that some of the facts hold. No text of a real person or data set.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta

import aiohttp

_WHO = ["cousin Ada", "neighbour Tom", "sister Ines", "colleague Priya", "friend Malik", "uncle Henrik", "boss Carla"]
_DID = ["moved to", "opened a bakery in", "studied law in", "bought a boat in", "teaches music in", "runs a clinic in"]
_PLACE = ["Lisbon", "Oslo", "Kyoto", "Lima", "Accra", "Porto", "Tallinn", "Quito", "Cork", "Bergen", "Hanoi", "Leeds"]
_THING = ["violin", "greenhouse", "sailing boat", "camera", "chess set", "bicycle", "telescope", "garden", "motorbike"]
_WHY = ["after the wedding", "because rents fell", "for the winter", "with two friends", "against all advice"]
SESSION_TURNS = 20
FIRST_TURN = datetime(2025, 1, 1, tzinfo=UTC)


class FillFailed(RuntimeError):
    """The proxy did not take the memories."""


def fact(index: int) -> str:
    """One remembered turn, about 20 tokens; `index` makes it unlike all others."""
    draw = random.Random(index)
    return (
        f"My {draw.choice(_WHO)} {draw.choice(_DID)} {draw.choice(_PLACE)} {draw.choice(_WHY)} "
        f"and keeps a {draw.choice(_THING)} there, number {index}."
    )


def question(index: int) -> str:
    """One question, at most 32 tokens of a word-piece vocabulary; `index` makes it unlike all others."""
    draw = random.Random(~index)
    return f"Where did my {draw.choice(_WHO)} go, who keeps a {draw.choice(_THING)} in {draw.choice(_PLACE)}? ({index})"


async def _lines(count: int) -> AsyncIterator[bytes]:
    for start in range(0, count, 500):
        block = [
            {
                "session": f"bench-{index // SESSION_TURNS}",
                "role": "user" if index % 4 else "assistant",
                "content": fact(index),
                "source_id": f"bench-{index}",
                "occurred_at": (FIRST_TURN + timedelta(minutes=index)).isoformat(),
            }
            for index in range(start, min(start + 500, count))
        ]
        yield b"".join(json.dumps(line).encode() + b"\n" for line in block)


async def fill(url: str, headers: dict[str, str], count: int, say: Callable[[str], None]) -> None:
    """Import `count` facts and wait until all are searchable. Raises FillFailed."""
    last: dict[str, object] = {}
    timeout = aiohttp.ClientTimeout(total=None, sock_read=300)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(
            f"{url}/memory/v1/import", data=_lines(count), headers={**headers, "Content-Type": "application/x-ndjson"}
        ) as answer,
    ):
        if answer.status != 200:
            raise FillFailed(f"import answered {answer.status}: {(await answer.text())[:300]}")
        async for raw in answer.content:
            last = json.loads(raw)
            if "error" in last:
                raise FillFailed(f"import refused line {last.get('line')}: {last['error']}")
            say(f"import: {last.get('done')} of {count} searchable")
    if not last.get("complete"):
        raise FillFailed(f"import ended early: {last}")


async def settled(url: str, headers: dict[str, str], timeout_s: float) -> bool:
    """Wait until the proxy's queue is empty; False where it has none or stays busy past the time."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + timeout_s
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        while loop.time() < until_s:
            async with session.get(f"{url}/memory/v1/queue", headers=headers) as answer:
                if answer.status != 200:
                    return False
                state = await answer.json()
            if state["pending"] + state["in_flight"] == 0:
                return True
            await asyncio.sleep(0.2)
    return False
