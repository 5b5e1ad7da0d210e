"""The demo: options in, a remembered conversation shown and a service left to try out; 0 once it was stopped.

    you -> OpenAI SDK -> memory-proxy (own stores) -> SmolLM2-135M-Instruct (or --upstream URL)

Two sessions with a restart of the proxy between them; the second knows what only the first was told, the same question
without memory does not. Ctrl-C at any moment stops all children; the kernel stops them where this process is killed.
A fresh data directory is removed at the end; one that was given stays. Refuses with one line for people, exit code 1.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from memory.at_terminal import at_terminal, hear_interrupts, say_no_more
from proxy.cli.become import told_options
from proxy.cli.demo_model import MODEL_NAME, DemoFailed, demo_cache_dir, fetched_model, model_server, sweep
from proxy.cli.demo_service import Service, chosen_port
from proxy.cli.demo_talk import Answer, Talk, shown_headers
from proxy.cli.demo_terminal import Terminal
from proxy.cli.progress import steers

TOLD = (
    "Hello! My name is Ada.",
    "My dog's name is Biscuit.",
    "I work as a marine biologist.",
)
QUESTION, EXPECTED = "What is my dog's name?", "Biscuit"
STEPS = 6
STOP_PATIENCE_S = 75.0
FRESH = "memory-proxy-demo-"
LOGS = "logs-"
_GONE = frozenset({errno.EPIPE, errno.EIO})
"""Whoever read the output, or the terminal it was shown on, is gone."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for. `upstream` None: the small model; `data_dir` None: a fresh one."""

    port: int
    data_dir: Path | None
    upstream: str | None
    leave: bool


def main(arguments: list[str]) -> int:
    """Entry point of the process."""
    options = told_options(arguments[0])
    plan = plan_of(options)
    terminal = Terminal(sys.stdout, sys.stdout.isatty() and steers(os.environ), STEPS)
    try:
        return asyncio.run(_until_signalled(plan, os.environ, terminal))
    except DemoFailed as fault:
        terminal.bad(f"\nmemory-proxy demo: {fault}")
        return 1
    except OSError as fault:
        if fault.errno not in _GONE:
            raise
        say_no_more()
        return 1


def plan_of(options: argparse.Namespace) -> Plan:
    """The plan of parsed options."""
    upstream = getattr(options, "upstream", None)
    return Plan(
        port=options.port,
        data_dir=Path(options.data_dir).absolute() if options.data_dir else None,
        upstream=upstream.rstrip("/").removesuffix("/v1") if upstream else None,
        leave=options.exit,
    )


async def _until_signalled(plan: Plan, environ: Mapping[str, str], terminal: Terminal) -> int:
    """The story; a first signal ends it in order, a second one hurries (the kernel then ends what is left)."""
    story = asyncio.create_task(tell(plan, environ, terminal))
    signalled = asyncio.Event()

    def stop() -> None:
        first = not signalled.is_set()
        signalled.set()
        story.cancel()
        if first:
            with suppress(OSError):  # a terminal that was closed is told nothing
                terminal.line("\nstopping …")

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    hear_interrupts()
    try:
        await asyncio.wait([story, asyncio.ensure_future(signalled.wait())], return_when=asyncio.FIRST_COMPLETED)
        while not story.done():
            # A library may swallow a cancellation; then it is said again.
            await asyncio.wait([story], timeout=STOP_PATIENCE_S)
            story.cancel()
        await story
    except asyncio.CancelledError:
        terminal.line("stopped")
    return 0


async def tell(plan: Plan, environ: Mapping[str, str], terminal: Terminal) -> None:
    """The whole demo, from nothing to a running service. Raises DemoFailed."""
    async with AsyncExitStack() as stack:
        logs = logs_dir(demo_cache_dir(environ))
        terminal.step("A model")
        upstream, model = await _upstream(plan, environ, terminal, logs, stack)
        data_dir = stack.enter_context(_data_dir(plan.data_dir))
        service = Service(upstream, chosen_port(plan.port), data_dir, logs / "proxy.log", environ, terminal)
        terminal.step("memory-proxy before it")
        if plan.port not in (0, service.port):
            terminal.note(f"port {plan.port} is taken, so this uses {service.port}")
        terminal.note(f"memory-proxy serve --upstream {upstream} --port {service.port} --data-dir {data_dir}")
        stack.push_async_callback(service.stop)
        await service.start("starting, with its own Postgres and Valkey")
        await converse(service, model, terminal)
        terminal.step("Yours")
        terminal.line(how_to_try(service.url, model, logs, data_dir, kept=plan.data_dir is not None, leaves=plan.leave))
        if not plan.leave:
            terminal.line(f"{'':6}It stays up until Ctrl-C.")
            await service.until_ended()


async def converse(service: Service, model: str, terminal: Terminal) -> None:
    """Tell it three things, restart it, ask in a new session, and ask without memory."""
    terminal.step("First session: three things about you, through the OpenAI SDK")
    async with _talk(service, model, terminal) as talk:
        for text in TOLD:
            answer = await talk.say(text)
        terminal.note(shown_headers(answer.memory, ("status", "capture", "session")))
    await service.until_settled()
    terminal.step("Restart: nothing is kept in a process")
    await service.stop("stopping the proxy and its stores")
    await service.start("starting again")
    terminal.step("Second session: a question, nothing else")
    async with _talk(service, model, terminal) as talk:
        remembered = await talk.say(QUESTION)
    terminal.note(shown_headers(remembered.memory, ("status", "count", "tokens", "millis")))
    terminal.note(shown_headers(remembered.memory, ("session", "retrieval")))
    await _show_block(service, remembered, terminal)
    terminal.note("the same question with X-Memory-Mode: off, the model left to itself:")
    async with _talk(service, model, terminal, {"X-Memory-Mode": "off"}) as talk:
        alone = await talk.say(QUESTION)
    _conclude(remembered, alone, terminal)


async def _show_block(service: Service, answer: Answer, terminal: Terminal) -> None:
    if "retrieval" not in answer.memory:
        raise DemoFailed(f"the answer names no retrieval: {dict(answer.memory)}; the proxy's log is {service.log}")
    await service.until_settled()
    retrieval = await service.get(f"/memory/v1/retrievals/{answer.memory['retrieval']}")
    if not retrieval.get("block"):
        raise DemoFailed(f"nothing was injected ({answer.memory.get('status')}); the proxy's log is {service.log}")
    terminal.note("what the proxy put before your question (GET /memory/v1/retrievals/{id}):")
    terminal.quote(retrieval["block"])


def _conclude(remembered: Answer, alone: Answer, terminal: Terminal) -> None:
    with_memory, without = (EXPECTED.lower() in answer.text.lower() for answer in (remembered, alone))
    if with_memory and not without:
        terminal.good(f"With memory the model knew “{EXPECTED}”, without it could not.")
    elif with_memory:
        terminal.good(f"With memory the model knew “{EXPECTED}” (and guessed it without).")
    else:
        terminal.note("The block above held the answer; a model this small does not always read it.")


def how_to_try(url: str, model: str, logs: Path, data_dir: Path, *, kept: bool, leaves: bool) -> str:
    """The last words: how a person goes on, unless the service leaves now; where its log and data are."""
    fate = "stays" if kept else "is removed at the end; --data-dir DIR keeps one"
    tries = f"""\
curl {url}/v1/chat/completions -H 'Content-Type: application/json' -d '{{
  "model": "{model}", "max_tokens": 40, "temperature": 0,
  "messages": [{{"role": "user", "content": "What is my name?"}}]}}'

from openai import OpenAI
client = OpenAI(base_url="{url}/v1", api_key="not-needed")
answer = client.chat.completions.create(model="{model}", max_tokens=40, temperature=0,
    messages=[{{"role": "user", "content": "What is my job?"}}])
print(answer.choices[0].message.content)

memory-proxy search "dog" --url {url}       memory-proxy sessions --url {url}
"""
    text = f"{'' if leaves else tries}logs {logs}\ndata {data_dir} ({fate})"
    return "\n".join(f"      {line}".rstrip() for line in text.splitlines())


async def _upstream(
    plan: Plan, environ: Mapping[str, str], terminal: Terminal, logs: Path, stack: AsyncExitStack
) -> tuple[str, str]:
    """URL and model name of what answers."""
    if plan.upstream is not None:
        model = await _served_name(plan.upstream)
        terminal.note(f"{model} at {plan.upstream}")
        return plan.upstream, model
    place = await fetched_model(demo_cache_dir(environ), environ, terminal)
    log = logs / "model.log"
    log.unlink(missing_ok=True)
    url = await stack.enter_async_context(model_server(place, log, environ, terminal))
    terminal.note(f"{MODEL_NAME} answers on {url}: 135 million parameters, real and small")
    return url, MODEL_NAME


async def _served_name(upstream: str) -> str:
    """The first model that an upstream serves. Raises DemoFailed."""
    try:
        timeout = aiohttp.ClientTimeout(total=10)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"{upstream}/v1/models") as answer:
            return str((await answer.json())["data"][0]["id"])
    except (aiohttp.ClientError, TimeoutError, ValueError, LookupError, TypeError) as error:
        raise DemoFailed(
            f"{upstream}/v1/models does not name a model ({type(error).__name__}): is vLLM running there? Without "
            "--upstream the demo brings its own small model"
        ) from error


@asynccontextmanager
async def _talk(
    service: Service, model: str, terminal: Terminal, headers: Mapping[str, str] | None = None
) -> AsyncIterator[Talk]:
    talk = Talk(service.url, model, terminal, headers=headers)
    try:
        yield talk
    finally:
        await talk.close()


@contextmanager
def _data_dir(given: Path | None) -> Iterator[Path]:
    """The directory that was given, or a fresh one in a place that Postgres' account can enter, removed at the end."""
    if given is not None:
        yield given
        return
    sweep(Path(tempfile.gettempdir()), FRESH)
    fresh = Path(tempfile.mkdtemp(prefix=f"{FRESH}{os.getpid()}-"))
    try:
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def logs_dir(cache: Path) -> Path:
    """A directory for this demo's logs; those of demos that have ended go. Raises DemoFailed."""
    sweep(cache, LOGS)
    directory = cache / f"{LOGS}{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for log in directory.glob("*.log"):
            log.unlink()
    except OSError as error:
        raise DemoFailed(
            f"{directory} cannot be made: {error.strerror}; point XDG_CACHE_HOME at a directory you may write"
        ) from error
    return directory


if __name__ == "__main__":
    sys.exit(at_terminal(lambda: main(sys.argv[1:])))
