"""An upgrade that nobody may notice, and the way back: older code, the present code, older code, on the same data.

Streams that begin on the older code are heard to their end; a conversation goes on through all three, and what its
model was sent stays the beginning of what it is sent next: else its prefix cache would be lost at each upgrade.
"""

import asyncio
import base64
import io
import json
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.crash.rounds import settled
from bench.crash.service import Service, Shape
from bench.crash.upstream import KeptUpstream
from bench.faults.restarts import TOKENS, all_whole, ended_under_streams, not_in_store
from bench.faults.result import Finding, Skipped, at_least, at_most, none
from bench.faults.scene import Place
from bench.faults.streams import to_the_end

REPOSITORY: Final = Path(__file__).parents[2]
# How many commits ago the older code is, where none is named: far enough to be other code, near enough to start.
OLD: Final = "HEAD~25"
READY_S: Final = 60.0
USER: Final = "dialogue"
TOLD: Final = ("My cat is called Momo.", "My boat is called Petrel.", "My robot is called Clank.")
ASKED: Final = ("What is my cat called?", "And my boat?", "And my robot?", "Which of them is a boat?", "Which a robot?")
ANSWER_S: Final = 60.0


class Dialogue:
    """One conversation about what was told before it. `broken` prompts did not begin with the one before; `given` had
    memory placed in them.
    """

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._said: list[dict[str, str]] = []
        self._prompt: list[Any] = []
        self.broken = 0
        self.given = 0

    async def ask(self, service: str, words: str) -> None:
        """The next question of it. Raises aiohttp's fault where that is not answered."""
        self._said.append({"role": "user", "content": words})
        status, answer = await chat(service, self._said)
        self._said.append({"role": "assistant", "content": answer})
        self.given += status.startswith("injected")
        prompt = await self._sent()
        self.broken += prompt[: len(self._prompt)] != self._prompt
        self._prompt = prompt

    async def _sent(self) -> list[Any]:
        async with aiohttp.ClientSession() as http, http.get(f"{self._upstream}/__last?n=1") as last:
            (seen,) = (await last.json())["data"]
        return list(json.loads(base64.b64decode(seen["body"]))["messages"])


async def chat(service: str, messages: list[dict[str, str]]) -> tuple[str, str]:
    """X-Memory-Status and the answer. Raises aiohttp's fault."""
    body = {"model": "fake-model", "messages": messages}
    timeout = aiohttp.ClientTimeout(total=ANSWER_S)
    async with (
        aiohttp.ClientSession(timeout=timeout, raise_for_status=True) as http,
        http.post(f"{service}/v1/chat/completions", json=body, headers={"X-Memory-User": USER}) as answer,
    ):
        said = await answer.json()
        return answer.headers["X-Memory-Status"], said["choices"][0]["message"]["content"]


async def upgrade(place: Place) -> tuple[list[Finding], dict[str, Any]]:
    """From older code to the present and back on its data: nothing dropped or lost, every prompt goes on as it was."""
    old, revision = _older_code(place)
    async with KeptUpstream() as upstream:
        before, now = Shape(place.root, upstream.url, checkout=old), Shape(place.root, upstream.url)
        service, dialogue = Service(before), Dialogue(upstream.url)
        try:
            place.say(f"the code of {revision}")
            await service.start()
            for words in TOLD:
                await chat(service.url, [{"role": "user", "content": words}])
            await settled(service)
            for words in ASKED[:2]:
                await dialogue.ask(service.url, words)
            streams, code, stop_s = await ended_under_streams(place, service)
            place.say("the present code, on the same data")
            service.shape = now
            began = time.monotonic()
            ready_s, _ = await service.start()
            gap_s = time.monotonic() - began
            later = await asyncio.gather(*(to_the_end(service.url, 500 + n, TOKENS, 1.0) for n in range(8)))
            for words in ASKED[2:4]:
                await dialogue.ask(service.url, words)
            lost, settle_s = await not_in_store(service, [*streams, *later])
            await service.stop()
            place.say(f"the way back: the code of {revision}")
            service.shape = before
            back_s, _ = await service.start()
            for words in ASKED[4:]:
                await dialogue.ask(service.url, words)
            lost_then, _ = await not_in_store(service, [*streams, *later])
        finally:
            await service.stop()
        return [
            *all_whole(streams),
            none("exit code of the older one", code),
            none("streams of the present one not whole", sum(not stream.whole for stream in later)),
            none("acknowledged and lost", len(lost), lost[:3]),
            at_most("until the present one was ready", ready_s, READY_S, "s"),
            at_most("until the older one was ready again", back_s, READY_S, "s"),
            none("acknowledged and lost on the way back", len(lost_then), lost_then[:3]),
            at_least("prompts of a conversation that had memory", dialogue.given, 2),
            none("prompts of it that did not begin with the one before", dialogue.broken),
        ], {"from": revision, "stop_s": stop_s, "ready_s": ready_s, "started_s": gap_s, "settle_s": settle_s}


def _older_code(place: Place) -> tuple[Path, str]:
    """The code of another commit in a directory of its own, and its name. Raises Skipped."""
    wanted = place.old or OLD
    archived = subprocess.run(["git", "archive", wanted], cwd=REPOSITORY, check=False, capture_output=True)
    if archived.returncode != 0:
        said = archived.stderr.decode(errors="replace").strip().splitlines()
        raise Skipped(f"no older code: git archive {wanted}: {said[0] if said else 'failed'}")
    named = subprocess.run(
        ["git", "log", "-1", "--format=%h", wanted], cwd=REPOSITORY, check=False, capture_output=True, text=True
    )
    where = place.root / "older"
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
        archive.extractall(where, filter="data")
    return where, f"{wanted} ({named.stdout.strip()})"
