"""Clients of a service that is being killed: a base URL in, what they took for acknowledged out.

An exchange is acknowledged when its last byte has arrived (of a stream: `[DONE]` and the end of the body) and its
X-Memory-Capture said `queue` or `spool`. The last user message of every request holds a mark of its own. Four kinds of
client: single questions; a named session that sends its history again; a named session that does not; a conversation
recognised by its message chain. A client that was refused goes on with another mark. Never retries. What did not
arrive whole is a Failure; an answer that came whole and promised nothing is none.
"""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import aiohttp

from bench.crash.blame import Failure

Kind = Literal["single", "named", "named-bare", "chained"]
KINDS: Final[tuple[Kind, ...]] = ("single", "named", "chained", "named-bare")
DURABLE: Final = ("queue", "spool")
TURNS_MAX: Final = 6  # of one conversation
REQUEST_TIMEOUT_S: Final = 30.0
REFUSED_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """One exchange that must be there at the end, once. `taken_s`: seconds from sending to the last byte."""

    mark: str
    kind: Kind
    user: str
    conversation: str
    capture: str
    status: str
    session: str
    taken_s: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, kept or not: when it ended (monotonic), what its head said, milliseconds that memory added."""

    ended_s: float
    taken_s: float
    capture: str
    status: str
    added_ms: float


class NotAcknowledged(Exception):
    """The answer did not arrive whole, or its head promised nothing."""


class NotKept(NotAcknowledged):
    """The answer is whole; its head said that it is not kept."""


class Client:
    """One client, one user. Several run side by side on one HTTP session."""

    def __init__(self, number: int, url: str, http: aiohttp.ClientSession, pause_s: float, seed: int) -> None:
        self._number = number
        self._url = f"{url}/v1/chat/completions"
        self._http = http
        self._pause_s = pause_s
        self._dice = random.Random(seed * 1000 + number)
        self._kind = KINDS[number % len(KINDS)]
        self._user = f"user-{number % 5}"  # several clients share a user, hence a lane and a scope
        self._sent = 0
        self._conversation = 0
        self._history: list[dict[str, Any]] = []
        self.acknowledged: list[Acknowledged] = []
        self.refusals: Counter[str] = Counter()
        self.failures: list[Failure] = []
        self.answers: list[Answer] = []

    @property
    def sent(self) -> int:
        """Requests sent so far."""
        return self._sent

    async def talk(self, stop: asyncio.Event) -> None:
        """Ask until `stop` is set."""
        while not stop.is_set():
            began_s = time.monotonic()
            try:
                self.acknowledged.append(await self._ask())
            except (NotAcknowledged, aiohttp.ClientError, TimeoutError, OSError) as exc:
                why = str(exc) if isinstance(exc, NotAcknowledged) else type(exc).__name__
                self.refusals[why] += 1
                if not isinstance(exc, NotKept):
                    self.failures.append(Failure(began_s, time.monotonic(), why))
                await asyncio.sleep(REFUSED_PAUSE_S)
            if len(self._history) >= 2 * TURNS_MAX:
                self._history.clear()
                self._conversation += 1
            await asyncio.sleep(self._dice.uniform(0.2, 1.8) * self._pause_s)

    async def _ask(self) -> Acknowledged:
        self._sent += 1
        mark = f"mark-{self._number:03d}-{self._sent:06d}"
        message = {"role": "user", "content": f"{mark} is what I say now."}
        with_history = self._kind in ("named", "chained")
        streamed = self._dice.random() < 0.6
        body = {
            "model": "fake-model",
            "stream": streamed,
            "max_tokens": 24,
            "messages": [*self._history, message] if with_history else [message],
        }
        conversation = f"{self._kind}-{self._number}-{self._conversation}"
        started = time.monotonic()
        async with self._http.post(self._url, json=body, headers=self._headers(conversation)) as answer:
            raw = await answer.read()
            head = answer.headers
            if answer.status != 200:
                raise NotAcknowledged(f"status {answer.status}")
        said = _answer_text(raw, streamed=streamed)
        capture, status = head.get("X-Memory-Capture", "absent"), head.get("X-Memory-Status", "absent")
        added_ms = float(head.get("X-Memory-Millis", "0"))
        now_s = time.monotonic()
        self.answers.append(Answer(now_s, now_s - started, capture, status, added_ms))
        if capture not in DURABLE:
            raise NotKept(f"capture {capture}, {status}")
        self._history += [message, {"role": "assistant", "content": said}]
        return Acknowledged(
            mark=mark,
            kind=self._kind,
            user=self._user,
            conversation=conversation,
            capture=head["X-Memory-Capture"],
            status=head.get("X-Memory-Status", ""),
            session=head.get("X-Memory-Session", ""),
            taken_s=time.monotonic() - started,
        )

    def _headers(self, conversation: str) -> dict[str, str]:
        headers = {"X-Memory-User": self._user, "X-Fake-Token-Ms": str(self._dice.choice((0, 2, 10)))}
        if self._kind.startswith("named"):
            headers["X-Memory-Session"] = conversation
        return headers


class Traffic:
    """All clients of a run."""

    def __init__(self, url: str, clients: int, pause_s: float, seed: int) -> None:
        self._url = url
        self._numbers = range(clients)
        self._pause_s = pause_s
        self._seed = seed
        self.clients: list[Client] = []

    async def run(self, stop: asyncio.Event) -> None:
        """Talk until `stop` is set, then let what is under way end."""
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http:
            self.clients = [Client(n, self._url, http, self._pause_s, self._seed) for n in self._numbers]
            async with asyncio.TaskGroup() as group:
                for client in self.clients:
                    group.create_task(client.talk(stop))

    @property
    def acknowledged(self) -> Sequence[Acknowledged]:
        """All that must be there."""
        return [exchange for client in self.clients for exchange in client.acknowledged]

    @property
    def refusals(self) -> Counter[str]:
        """Requests that were not acknowledged, by the reason."""
        return sum((client.refusals for client in self.clients), Counter[str]())

    @property
    def failures(self) -> Sequence[Failure]:
        """Completions that did not arrive whole."""
        return [failure for client in self.clients for failure in client.failures]

    @property
    def answers(self) -> Sequence[Answer]:
        """Whole answers, kept or not."""
        return [answer for client in self.clients for answer in client.answers]

    @property
    def sent(self) -> int:
        """Requests sent."""
        return sum(client.sent for client in self.clients)


def _answer_text(raw: bytes, *, streamed: bool) -> str:
    """What the assistant said. Raises NotAcknowledged when it is not whole."""
    try:
        if not streamed:
            return str(json.loads(raw)["choices"][0]["message"]["content"])
        if not raw.endswith(b"data: [DONE]\n\n"):
            raise NotAcknowledged("no [DONE]")
        events = [json.loads(line[6:]) for line in raw.split(b"\n\n") if line.startswith(b"data: {")]
        if any("error" in event for event in events):
            raise NotAcknowledged("an error event")
        return "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])
    except (ValueError, KeyError, IndexError) as exc:
        raise NotAcknowledged("not readable") from exc
