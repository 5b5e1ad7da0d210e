"""A page is read by a process of its own, and a hostile one costs that process alone."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.adapters.page_process import PageProcess
from memory.errors import PageUnreadable
from memory.web import Block, Fetched

NOW = datetime(2026, 11, 1, tzinfo=UTC)
ROOT = Path(__file__).parents[1]


def page(body: bytes, media_type: str = "text/html", charset: str = "") -> Fetched:
    return Fetched("https://example.org/", media_type, charset, body, NOW)


def children() -> set[str]:
    """The processes of ours that read pages; others are of tests that ran in this process before."""
    argv = ["pgrep", "-P", str(os.getpid()), "-f", "memory.read_page"]
    found = subprocess.run(argv, capture_output=True, text=True, check=False)
    return set(found.stdout.split())


async def test_a_page_comes_back_as_it_was_read() -> None:
    html = (
        "<title>Ä \u2028 title</title><h1>Head</h1><p>"
        + "Prose of some length, with “quotes” and 漢字. " * 4
        + "<p>\ud83d"
    )
    read = await PageProcess(chars_max=1_000).read(page(html.encode("utf-8", "surrogatepass")))
    assert read.title == "Ä title"
    assert read.blocks[0] == Block("heading", "Head")
    assert read.blocks[1].text.startswith("Prose of some length, with “quotes” and 漢字.")


@pytest.mark.parametrize("body", [b"", b"\0" * 1_000, b"\xff" * 1_000, b"<p>" * 10, b"\n{}\n"])
async def test_a_page_without_text_has_no_blocks_or_what_is_there(body: bytes) -> None:
    assert (await PageProcess(chars_max=100).read(page(body))).title == ""


async def test_a_page_that_takes_the_processor_is_given_up() -> None:
    """110,000 attributes of one element: 20 seconds of CPU."""
    body = b"<p " + b" ".join(b"a%d=1" % at for at in range(110_000)) + b">x"
    began = time.monotonic()
    with pytest.raises(PageUnreadable):
        await PageProcess(chars_max=100, cpu_s=1, wall_s=30).read(page(body))
    assert time.monotonic() - began < 20
    assert children() == set()


async def test_a_page_that_takes_the_clock_is_given_up() -> None:
    body = b"<div>" * 200_000
    with pytest.raises(PageUnreadable, match="not read within"):
        await PageProcess(chars_max=100, wall_s=0.5).read(page(body))
    assert children() == set()


async def test_a_page_that_takes_the_memory_is_given_up() -> None:
    with pytest.raises(PageUnreadable, match="ended with"):
        await PageProcess(chars_max=100, memory_bytes_max=120_000_000).read(page(b"<p>x" * 1_000_000))
    assert children() == set()


async def test_a_caller_that_leaves_ends_the_process() -> None:
    work = asyncio.create_task(PageProcess(chars_max=100, wall_s=60, cpu_s=60).read(page(b"<div>" * 200_000)))
    while not children():
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert children() == set()


async def test_few_run_at_once() -> None:
    reader = PageProcess(chars_max=100, at_once=1, wall_s=60)
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, len(children()))
            await asyncio.sleep(0.01)

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(reader.read(page(b"<p>hello")) for _ in range(4)))
    watching.cancel()
    assert most <= 1


async def test_the_event_loop_goes_on_while_a_page_is_read() -> None:
    late = 0.0

    async def tick() -> None:
        nonlocal late
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            late = max(late, time.monotonic() - began)

    ticking = asyncio.create_task(tick())
    await PageProcess(chars_max=20_000).read(page(b"<p>a paragraph " + b"x" * 60 + b"<p>" * 1_000))
    ticking.cancel()
    assert late < 1.0


def test_the_process_is_bound_before_it_looks_and_knows_no_secret() -> None:
    """It may write no file, holds its bounds, ends by itself, and is started without our environment."""
    order = {
        "media_type": "text/html",
        "charset": "",
        "chars_max": 9,
        "memory_bytes_max": 400_000_000,
        "cpu_s_max": 2.0,
    }
    probe = (
        "import memory.read_page as it, resource, sys\n"
        "it._give_up({**ORDER, 'wall_s_max': 0.5})\n"
        "print([resource.getrlimit(getattr(resource, n))[0] for n in "
        "('RLIMIT_AS', 'RLIMIT_CPU', 'RLIMIT_FSIZE', 'RLIMIT_CORE')], flush=True)\n"
        "import time; time.sleep(60)".replace("ORDER", repr(order))
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT)}
    )
    assert json.loads(done.stdout) == [400_000_000, 2, 0, 0]
    assert done.returncode != 0
    assert time.monotonic() - began < 30


async def test_no_secret_of_ours_is_in_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_PROXY_MASTER_KEY", "secret")
    work = asyncio.create_task(PageProcess(chars_max=100, wall_s=60, cpu_s=60).read(page(b"<div>" * 200_000)))
    while True:
        await asyncio.sleep(0.05)
        for pid in children():
            try:
                started = Path(f"/proc/{pid}/cmdline").read_bytes()
                environment = Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue
            if b"memory.read_page" in started and environment:
                assert b"secret" not in environment
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                return
