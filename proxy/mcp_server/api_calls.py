"""The tools as calls of the API: a name and its arguments in, what the API answers out, in words for a model.

A refusal is told with the API's own sentence, and where a key or the service is what is wrong, with what to do. Sends
the key to the one service it was given for: redirects are not followed, proxies of the environment not used. Raises
nothing of the network's: what goes wrong on the way is an answer too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from multidict import CIMultiDict

from proxy.api.tool_table import TOOLS
from proxy.beginning import beginning
from proxy.cli.client import quoted

# The longest call waits 10 s for an erasure; a store that is slow has some more.
CALL_S: Final = 60.0
ANSWER_BYTES_MAX: Final = 16 << 20
_FROM_CALLER: Final = frozenset(
    ("authorization", *(f"x-memory-{name}" for name in ("user", "project", "agent", "session", "as-of")))
)
Headers = Iterable[tuple[str, str]]
_PATHS: Final = {tool.name: tool.path for tool in TOOLS}


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the calls are made for, as headers. What is given here holds; a caller's own headers say the rest."""

    headers: Mapping[str, str]

    @classmethod
    def of(cls, key: str | None, names: Mapping[str, str | None]) -> Identity:
        """From a key and names, each of which may be left out."""
        said = {f"X-Memory-{name.capitalize()}": quoted(one) for name, one in names.items() if one is not None}
        return cls({**said, **({"Authorization": f"Bearer {key}"} if key else {})})

    def with_caller(self, headers: Headers) -> CIMultiDict[str]:
        """The headers of one call. `headers`: the caller's own, none where it has none. One that it sends twice goes on
        twice: the API refuses it, and nobody guesses which of two users is meant.
        """
        given = CIMultiDict(self.headers)
        own = [(name, value) for name, value in headers if name.lower() in _FROM_CALLER]
        # A caller's own key goes before the one that is lent to whoever has none.
        if any(name.lower() == "authorization" for name, _ in own):
            given.popall("Authorization", None)
        held = {name.lower() for name in given}
        given.extend((name, value) for name, value in own if name.lower() not in held)
        return given


@dataclass(frozen=True, slots=True)
class Answered:
    """What a call came to. `values` are the API's, None of a refusal."""

    text: str
    values: dict[str, Any] | None = None

    @property
    def refused(self) -> bool:
        """Whether it was refused or did not come through."""
        return self.values is None


class ApiCalls:
    """Calls one service."""

    def __init__(self, http: aiohttp.ClientSession, base: str, identity: Identity, how_to_name_a_key: str) -> None:
        self._http = http
        self._base = base
        self._identity = identity
        self._how_to_name_a_key = how_to_name_a_key

    async def call(self, tool: str, arguments: Mapping[str, Any], headers: Headers) -> Answered:
        """Call a tool; never raises for what the service or the network do."""
        path = _PATHS.get(tool)
        if path is None:
            return Answered(f"there is no tool {tool[:64]!r}; there are {', '.join(_PATHS)}")
        try:
            status, raw = await self._post(path, arguments, self._identity.with_caller(headers))
        except TimeoutError:
            return Answered(f"{self._base} did not answer within {CALL_S:g} s; try again later")
        except (aiohttp.ClientError, OSError) as fault:
            return Answered(
                f"{self._base} does not answer ({fault}); is `memory-proxy serve` running there? "
                "`memory-proxy mcp --url` says where"
            )
        return self._read(tool, status, raw)

    async def status_without_key(self) -> int:
        """What whoever sends no key is answered: 401 where keys are asked for. Raises aiohttp.ClientError, OSError,
        TimeoutError.
        """
        async with self._http.get(self._base + "/memory/v1/tools", allow_redirects=False) as answer:
            return answer.status

    async def _post(self, path: str, arguments: Mapping[str, Any], headers: CIMultiDict[str]) -> tuple[int, bytes]:
        async with self._http.post(
            self._base + path, json=dict(arguments), headers=headers, allow_redirects=False
        ) as answer:
            return answer.status, await beginning(answer.content, ANSWER_BYTES_MAX)

    def _read(self, tool: str, status: int, raw: bytes) -> Answered:
        try:
            said = json.loads(raw)
            if status in (200, 202):
                return Answered(str(said["text"]), {name: value for name, value in said.items() if name != "text"})
            error = said["error"]
            words = f"{status} {error['code']}: {error['message']}"
        except (ValueError, KeyError, TypeError, RecursionError):
            return Answered(f"{self._base} answered {status} to {tool}, and not as a memory-proxy with tools does")
        return Answered(f"{words} ({self._how_to_name_a_key})" if status == 401 else words)
