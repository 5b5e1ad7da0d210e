"""A running service that asks for keys, and the command that makes them."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import openai
from pydantic import SecretStr

from memory.config import settings_from_environ
from memory.key_command import keys
from proxy.cli.parser import build_parser
from tests.service_fixture import Service
from tests.waiting import wait_until

MODEL = "fake-model"


@dataclass(frozen=True, slots=True)
class Keyed:
    """A service in keys mode, with two workers where nothing else is said, and the command that makes its keys."""

    service: Service
    workers: int = 2

    def cli(self, *words: str, ok: bool = True) -> subprocess.CompletedProcess[str]:
        """`memory-proxy key …` beside it."""
        argv = [sys.executable, "-m", "proxy", "key", *words, "--data-dir", str(self.service.data)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        assert (done.returncode == 0) is ok, done.stdout + done.stderr
        return done

    def act(self, *words: str, cache_url: str | None = None) -> tuple[int, str, str]:
        """What `memory-proxy key …` does and says, in this process: the command takes 1.5 s, most of it loading."""
        options = build_parser().parse_args(["key", *words, "--data-dir", str(self.service.data)])
        asked = json.dumps({"act": options.verb, "json": options.json, **options.asks(options)})
        settings = settings_from_environ({"MEMORY_PROXY_SETTINGS": str(self.service.data / "run" / "settings.json")})
        if cache_url is not None:
            redis = settings.redis.model_copy(update={"cache_url": SecretStr(cache_url)})
            settings = settings.model_copy(update={"redis": redis})
        said, warned = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(warned),
            ThreadPoolExecutor(1) as beside,
        ):
            code = beside.submit(asyncio.run, keys(settings, asked)).result()
        return code, said.getvalue(), warned.getvalue()

    def make(self, *words: str) -> dict[str, Any]:
        """A new key, known to every worker when this returns."""
        code, said, warned = self.act("create", *words, "--json")
        assert code == 0, warned
        made: dict[str, Any] = json.loads(said)
        if self.workers > 1:
            time.sleep(1.2)
        else:
            wait_until(lambda: not self._is_unknown(made["secret"]), 10, "the worker knows the key")
        return made

    def _is_unknown(self, secret: str) -> bool:
        answer = self.own(secret, "GET", "/memory/v1/memories?limit=1")
        return bool(answer.get("error", {}).get("code") == "invalid_api_key")

    def client(self, secret: str, **names: str) -> openai.OpenAI:
        """The SDK with this key and nothing else changed."""
        headers = {f"X-Memory-{name.capitalize()}": value for name, value in names.items()}
        return openai.OpenAI(base_url=self.service.openai, api_key=secret, max_retries=0, default_headers=headers)

    def ask(self, secret: str, text: str, model: str = MODEL, **names: str) -> Any:
        """One answer, with its headers. Raises what the SDK raises."""
        with self.client(secret, **names) as client:
            return client.chat.completions.with_raw_response.create(
                model=model, messages=[{"role": "user", "content": text}]
            )

    def own(self, secret: str, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """A call of the proxy's own API."""
        return self.service.call(method, path, body, Authorization=f"Bearer {secret}", **headers)

    def settle(self, secret: str) -> None:
        self.service.settle(Authorization=f"Bearer {secret}")
