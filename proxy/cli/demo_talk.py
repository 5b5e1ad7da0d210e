"""The demo's client: what any program with the OpenAI SDK does, its base_url aside. Questions in, streamed answers out.

The SDK is imported by this module alone. Refuses with DemoFailed what the SDK raises, and what it lets through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import httpx
import openai

from proxy.cli.demo_model import DemoFailed
from proxy.cli.demo_terminal import Terminal, printable

ANSWER_TOKENS_MAX = 40
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with the proxy's own headers (names without `x-memory-`)."""

    text: str
    memory: Mapping[str, str]


class Talk:
    """One conversation: the history is sent along, as chat clients do."""

    def __init__(self, url: str, model: str, terminal: Terminal, *, headers: Mapping[str, str] | None = None) -> None:
        self._client = openai.AsyncOpenAI(
            base_url=f"{url}/v1",
            api_key="not-needed",
            timeout=TIMEOUT_S,
            max_retries=0,
            default_headers=headers,
            # It is on this machine: nobody asks it through the proxy that HTTP_PROXY names.
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False),
        )
        self._model = model
        self._terminal = terminal
        self._messages: list[dict[str, str]] = []

    async def say(self, text: str) -> Answer:
        """Send the next message, show the answer as it streams. Raises DemoFailed."""
        self._messages.append({"role": "user", "content": text})
        self._terminal.says("you")
        self._terminal.line(text)
        self._terminal.says("model")
        try:
            answer = await self._streamed()
        except (openai.OpenAIError, httpx.HTTPError, ValueError) as error:  # the last two in the middle of a stream
            raise DemoFailed(f"the model did not answer: {error}") from error
        finally:
            self._terminal.line()
        self._messages.append({"role": "assistant", "content": answer.text})
        return answer

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _streamed(self) -> Answer:
        raw = await self._client.chat.completions.with_raw_response.create(
            model=self._model,
            messages=self._messages,
            temperature=0,
            max_tokens=ANSWER_TOKENS_MAX,
            stream=True,
        )
        memory = {name[9:].lower(): value for name, value in raw.headers.items() if name.lower()[:9] == "x-memory-"}
        said = ""
        async for chunk in raw.parse():
            piece = (chunk.choices[0].delta.content or "") if chunk.choices else ""
            said += piece
            self._terminal.write(printable(piece).replace("\n", " "))
        return Answer(said, memory)


def shown_headers(memory: Mapping[str, str], names: Iterable[str]) -> str:
    """The proxy's headers in one line, as a person would look for them."""
    return "  ".join(f"X-Memory-{name.capitalize()}: {memory[name]}" for name in names if name in memory)
