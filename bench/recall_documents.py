"""What documents do to recall: 20 real ones beside conversations, against the conversations alone.

    python -m bench.recall_documents                     LoCoMo, with what was injected: about a quarter of an hour
    python -m bench.recall_documents --sets memsim --quick   no chats

The documents are this project's own pages and the READMEs of its dependencies, uploaded to every scope of the set. Then
the set's questions are asked as `bench.recall` asks them, in a service without documents and in one with them: what do
they cost the conversations? And the documents' own questions, one for each section, made of its title and heading
(known items, so nothing is judged): is the section found? Without documents none can be.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import metadata
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.recall.__main__ import DATA, running_service, upstream_at
from bench.recall.client import CallFailed, session, user_header
from bench.recall.corpus import EvalSet, SetUnreadable, read_set
from bench.recall.result import set_result
from bench.recall.run import Measured, ask_set, baseline_rankings, chat_set, import_set

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = (
    "README.md", "docs/api.md", "docs/architecture.md", "docs/benchmarks.md", "docs/configuration.md", "docs/faults.md",
    "docs/keys.md", "docs/lifetime.md", "docs/privacy.md", "docs/security.md",
)  # fmt: skip
PACKAGES: Final = (
    "aiohttp", "asyncpg", "hypothesis", "litellm", "onnxruntime", "pgvector", "prometheus-client", "pydantic", "pypdf",
    "redis",
)  # fmt: skip
K: Final = 10
QUESTIONS_MAX: Final = 300
_WAIT_S: Final = 600


@dataclass(frozen=True, slots=True)
class Section:
    """A section that a question is about: the document's name and the headings above its first chunk."""

    document: str
    heading: tuple[str, ...]
    query: str


def documents() -> Mapping[str, str]:
    """Name to text: ten pages of ours, ten READMEs of packages as they are installed."""
    ours = {name.replace("/", "-"): (ROOT / name).read_text() for name in PAGES}
    theirs = {f"{name}-readme.md": str(metadata(name).json["description"]) for name in PACKAGES}
    return {**ours, **theirs}


async def uploaded(client: aiohttp.ClientSession, url: str, scope: str, given: Mapping[str, str]) -> None:
    """Have a scope hold these, stored. Raises CallFailed."""
    for name, text in given.items():
        form = aiohttp.FormData()
        form.add_field("file", text.encode(), filename=name, content_type="text/markdown")
        sent = client.post(f"{url}/memory/v1/documents?wait=true", data=form, headers=user_header(scope))
        async with sent as answer:
            said = await answer.json()
        status = said.get("upload", {}).get("status")
        if status == "working" or answer.status == 202:
            status = await _followed(client, url, scope, str(said["id"]))
        if status != "done":
            raise CallFailed(f"{name} in {scope}: {answer.status} {said}")


async def _followed(client: aiohttp.ClientSession, url: str, scope: str, document: str) -> str:
    for _ in range(_WAIT_S):
        async with client.get(f"{url}/memory/v1/documents/{document}", headers=user_header(scope)) as answer:
            status = str((await answer.json())["upload"]["status"])
        if status in ("done", "failed"):
            return status
        await asyncio.sleep(1)
    return "late"


async def sections(client: aiohttp.ClientSession, url: str, scope: str) -> list[Section]:
    """One question for each section of the documents of a scope that has a heading below its title."""
    async with client.get(f"{url}/memory/v1/documents?limit=100", headers=user_header(scope)) as answer:
        listed = (await answer.json())["data"]
    found: dict[tuple[str, tuple[str, ...]], Section] = {}
    for one in sorted(listed, key=lambda each: str(each["name"])):
        path: str | None = f"{url}/memory/v1/documents/{one['id']}?limit=1000"
        async with client.get(str(path), headers=user_header(scope)) as answer:
            chunks = (await answer.json())["data"]
        for chunk in chunks:
            heading = tuple(chunk["heading"])
            if len(heading) > 1:
                title = str(one["name"]).removesuffix(".md").replace("-", " ")
                found.setdefault((one["name"], heading), Section(one["name"], heading, f"{title}: {heading[-1]}"))
    every = list(found.values())
    return every[:: max(1, len(every) // QUESTIONS_MAX)]


async def known_items(client: aiohttp.ClientSession, url: str, scope: str) -> dict[str, float]:
    """Which share of sections is found by title and heading: first, among K; and which has its document first."""
    asked = await sections(client, url, scope)
    first = among = document = 0
    for one in asked:
        body = {"query": one.query, "k": K}
        async with client.post(f"{url}/memory/v1/search", json=body, headers=user_header(scope)) as answer:
            places = [each["document"] for each in (await answer.json())["candidates"]]
        hits = [
            place is not None and (place["name"], tuple(place["heading"])) == (one.document, one.heading)
            for place in places
        ]
        first += bool(hits[:1] and hits[0])
        among += any(hits)
        document += bool(places and places[0] is not None and places[0]["name"] == one.document)
    count = max(len(asked), 1)
    return {"sections": len(asked), "first": first / count, f"among {K}": among / count, "document": document / count}


async def figures(chosen: EvalSet, given: Mapping[str, str], *, quick: bool) -> tuple[dict[str, Any], dict[str, float]]:
    """A set beside these documents; and what the documents' own questions find. Raises CallFailed, NotStarted."""

    def say(text: str) -> None:
        print(f"[documents] {text}", file=sys.stderr, flush=True)

    async with upstream_at(None) as behind, running_service(behind) as url, session() as client:
        for at, scope in enumerate(chosen.lines if given else ()):
            say(f"{len(given)} documents into scope {at + 1} of {len(chosen.lines)}")
            await uploaded(client, url, scope, given)
        seconds = await import_set(client, url, chosen, say)
        asked = await ask_set(client, url, chosen, say)
        chats = [] if quick else await chat_set(client, url, chosen, None, say)
        items = await known_items(client, url, next(iter(chosen.lines))) if given else {}
    measured = Measured(asked, await baseline_rankings(chosen, None, say), seconds, chats)
    return set_result(chosen, measured), items


def row(name: str, result: Mapping[str, Any]) -> str:
    """A set's figures on one line."""
    injected = result["injected"]
    given = f"{injected['fraction']['mean']:.3f}" if injected else "-"
    recall = "  ".join(f"{what} {result['ours'][what]['mean']:.3f}" for what in ("recall@5", "recall@10"))
    return f"{name:22} {recall}  evidence injected {given}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.recall_documents",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=DATA, help=f"directory of the sets (default: {DATA})")
    parser.add_argument("--sets", default="locomo", help="by comma (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="searches only, no chats")
    options = parser.parse_args(argv)
    given = documents()
    print(f"{len(given)} documents, {sum(map(len, given.values())):,} characters")
    for name in options.sets.split(","):
        try:
            chosen = read_set(options.data, name)
            without, _ = asyncio.run(figures(chosen, {}, quick=options.quick))
            beside, items = asyncio.run(figures(chosen, given, quick=options.quick))
        except (CallFailed, SetUnreadable) as fault:
            print(f"recall_documents: {fault}", file=sys.stderr)
            return 1
        print(row(f"{name}, alone", without))
        print(row(f"{name}, with documents", beside))
        print("the documents' sections: " + ", ".join(f"{what} {value:.3g}" for what, value in items.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
