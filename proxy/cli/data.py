"""`import`, `export`, `search`, `sessions`, `memories`: what a running proxy holds, on the command line."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from proxy.cli import why
from proxy.cli.chat_words import printable
from proxy.cli.client import CallFailed, Client, quoted
from proxy.cli.heeded import refuse_unheeded
from proxy.cli.progress import Progress
from proxy.cli.shown import NONE, say_more, show, show_all, show_json, show_raw, show_rows
from proxy.cli.whole_file import whole_file

_TEXT_CHARS = 100
_ROWS = 50
_CANDIDATES = 10
_SHOWN_EACH_S = 0.5
_SHOWN_FROM_BYTES = 1_000_000
# An import that stands still for so long is asked about: of what hinders it (a full disk) its answer says nothing.
STILL_S = 10.0


def _failing_kindly(work: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        try:
            return work(options)
        except BrokenPipeError:  # whoever read the output is gone
            raise
        except (CallFailed, OSError) as fault:
            sys.stderr.write(f"memory-proxy: {fault}\n")
            return 1

    return run


class Sent:
    """A file that is being sent, and shows how much of it was: what the service says is read when all of it is."""

    def __init__(self, file: IO[bytes], progress: Progress) -> None:
        self._file = file
        self._progress = progress
        self._bytes = 0
        self._shown = time.monotonic()

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        piece = self._file.read(size)
        self._bytes += len(piece)
        if self._bytes >= _SHOWN_FROM_BYTES and time.monotonic() - self._shown >= _SHOWN_EACH_S:
            self._shown = time.monotonic()
            self._progress.say(f"sent {self._bytes / 1_000_000:.1f} MB")
        return piece


class Standing:
    """Whether an import goes on; where it does not, its service is asked once what hinders it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._last: Mapping[str, Any] = {}
        self._moved = time.monotonic()
        self._told = False

    def told(self, said: Mapping[str, Any]) -> str:
        """What there is to say now that it said this: mostly nothing."""
        if said != self._last:
            self._last, self._moved, self._told = said, time.monotonic(), False
        elif not self._told and time.monotonic() - self._moved >= STILL_S:
            self._told = True
            return f"nothing moves for {STILL_S:.0f} s: {self._hindrance()}; it goes on by itself when that is mended\n"
        return ""

    def _hindrance(self) -> str:
        try:
            parts = self._client.get("/memory/ready")["dependencies"]
            away = [f"{name}: {part['error']}" for name, part in parts.items() if not part["ok"]]
        except CallFailed as fault:
            return str(fault)
        return "; ".join(away) or "the service has much to do, and says that all its parts answer"


@_failing_kindly
def run_import(options: argparse.Namespace) -> int:
    """Send a file, show progress, name the bad lines. 1 when a line failed or the import did not end."""
    last: dict[str, Any] = {}
    with ExitStack() as stack:
        source = sys.stdin.buffer if options.file == "-" else stack.enter_context(Path(options.file).open("rb"))
        progress = Progress()
        stack.callback(progress.end)
        path = f"/memory/v1/import?on_conflict={options.on_conflict}"
        client = Client(options)
        standing = Standing(client)
        try:
            for raw in client.lines("POST", path, Sent(source, progress), _session_of(source)):
                said = client.parsed(raw)
                if "error" in said:
                    progress.clear()
                    sys.stderr.write(printable(f"line {said.get('line')}: {said['error']}\n"))
                    continue
                last = said
                if hindrance := standing.told(said):
                    progress.clear()
                    sys.stderr.write(printable(hindrance))
                progress.say(f"accepted {said['accepted']}  done {said['done']}  failed {said['failed']}")
        except (KeyboardInterrupt, CallFailed) as fault:
            if last:
                progress.end()
                left = "left; " if isinstance(fault, KeyboardInterrupt) else ""
                sys.stderr.write(f"{left}what was accepted is stored all the same, and the same command goes on\n")
            raise
    return 0 if last.get("complete") and not last.get("failed") else 1


def _session_of(source: IO[bytes]) -> str | None:
    """Where lines go that name no conversation: into the same one as long as the file is the same, since an import that
    broke off goes on with what is not known. Made of nothing that the file says; None for a pipe.
    """
    try:
        of = os.fstat(source.fileno())
    except OSError:  # none, as of a test
        return None
    if not stat.S_ISREG(of.st_mode):
        return None
    told = f"{of.st_dev} {of.st_ino} {of.st_size} {of.st_mtime_ns}"
    return f"import-{hashlib.sha256(told.encode()).hexdigest()[:32]}"


@_failing_kindly
def run_export(options: argparse.Namespace) -> int:
    """Write the scope's lines; to a file, with how many there are so far."""
    if options.everything:
        refuse_unheeded(options, "an export of one scope; --everything has all of the user's", "project", "agent")
    with ExitStack() as stack:
        progress = Progress()
        stack.callback(progress.clear)
        file = None if options.file == "-" else stack.enter_context(whole_file(Path(options.file)))
        write: Callable[[bytes], object] = show_raw if file is None else file.write
        count, shown = 0, time.monotonic()
        path = "/memory/v1/export?of=user" if options.everything else "/memory/v1/export"
        for raw in Client(options).lines("GET", path):
            write(raw)
            count += 1
            if file is not None and time.monotonic() - shown >= _SHOWN_EACH_S:
                shown = time.monotonic()
                progress.say(f"{count} lines")
    sys.stderr.write(f"{count} lines\n")
    return 0


@_failing_kindly
def run_search(options: argparse.Namespace) -> int:
    """Show candidates, best first, where a star marks what would be injected; or the record of a request."""
    if (options.query is None) == (options.retrieval is None):
        raise CallFailed("give a question, or --retrieval with the id of X-Memory-Retrieval")
    if options.retrieval is not None:
        refuse_unheeded(options, "a question", "k")
        return _retrieval(Client(options), options.retrieval, as_json=options.json)
    k = _CANDIDATES if options.k is None else options.k
    asked = {"query": options.query, "k": k, "explain": options.explain}
    answer = Client(options).send("POST", "/memory/v1/search", asked)
    if options.json:
        return show_json(answer)
    if options.explain:
        return _explained(answer)
    show_all(why.found(answer, _chars()))
    return 0


def _explained(answer: Mapping[str, Any]) -> int:
    """Each candidate with the parts of its score, and why it is admitted or not."""
    show_all(why.table(answer["candidates"], "admitted"))
    sys.stdout.write(
        f"{answer['admitted']} admitted (*), rung {answer['rung']}, {answer['millis']:.1f} ms\n{why.LEGEND}"
    )
    return 0


def _retrieval(client: Client, retrieval_id: str, *, as_json: bool) -> int:
    """What one request was given, as it was recorded, and why."""
    record = client.get(f"/memory/v1/retrievals/{quoted(retrieval_id)}")
    if as_json:
        return show_json(record)
    show_all(why.record(record))
    return 0


@_failing_kindly
def run_sessions(options: argparse.Namespace) -> int:
    """List conversations, or show the turns of one."""
    client = Client(options)
    if options.session is None:
        answer = client.get("/memory/v1/sessions", {"limit": _rows(options)})
        return show_json(answer) if options.json else _table(answer, answer["data"], ("turns", "last_at"))
    refuse_unheeded(options, "the list of conversations", "limit")
    path = f"/memory/v1/sessions/{quoted(options.session)}"
    answer = client.get(path)
    if options.json:
        return show_json(answer)
    summary, cursor = answer.get("summary"), answer.get("next_cursor")
    _turns(answer)
    while cursor is not None:
        answer = client.get(path, {"cursor": cursor})
        _turns(answer)
        cursor = answer.get("next_cursor")
    if summary:
        show("", "summary:", summary)
    return 0


def _turns(page: Mapping[str, Any]) -> None:
    show_all(f"{turn['seq']:4}  {turn['role']:9}  {_short(_said(turn))}" for turn in page["turns"])


def _said(turn: Mapping[str, Any]) -> str:
    """What a turn says; of one without words what it holds, so that its line is not taken for an empty answer."""
    held = [_called(call) for call in turn.get("tool_calls") or ()]
    held += [str(part.get("type")) for part in turn.get("parts") or ()]
    return turn["content"] or (f"({', '.join(held)})" if held else "")


def _called(call: object) -> str:
    """A call as clients write it; those of other forms are kept as they came."""
    function = call.get("function") if isinstance(call, dict) else None
    return f"calls {function['name']}" if isinstance(function, dict) and "name" in function else "calls a tool"


@_failing_kindly
def run_memories(options: argparse.Namespace) -> int:
    """List memories, or those to review; show one, judge one, or hide one."""
    client = Client(options)
    if options.memory in (None, "review"):
        if options.confirm or options.reject or options.delete or options.undelete:
            raise CallFailed("say which memory: --confirm, --reject, --delete and --undelete are of one, by its id")
        due = options.memory
        answer = client.get("/memory/v1/memories", {"limit": _rows(options), "kind": options.kind, "due": due})
        columns = ("review_due_at", "why", "content") if due else ("kind", "content")
        rows: list[Mapping[str, Any]] = [
            {**one, "why": one["quarantine_reason"] or one["kind"]} for one in answer["data"]
        ]
        return show_json(answer) if options.json else _table(answer, rows, columns)
    refuse_unheeded(options, "the list of memories", "kind", "limit")
    path = f"/memory/v1/memories/{quoted(options.memory)}"
    if options.confirm or options.reject:
        status = "confirmed" if options.confirm else "rejected"
        known = client.get(path)
        changed = client.send("PATCH", path, {"validation_status": status}, version=known["version"])
        return _done(status, changed, as_json=options.json)
    if options.delete:
        return _done("hidden", client.send("DELETE", path), as_json=options.json)
    if options.undelete:
        return _done("shown again", client.send("POST", f"{path}/undelete"), as_json=options.json)
    return show_json(client.get(path))


def _rows(options: argparse.Namespace) -> int:
    return _ROWS if options.limit is None else int(options.limit)


def _done(what: str, answer: Mapping[str, Any], *, as_json: bool) -> int:
    if as_json:
        return show_json(answer)
    show(f"{what}: {answer['id']}")
    return 0


def _table(page: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], columns: tuple[str, ...]) -> int:
    """Each with its id as it is, so that it can be given to a command again."""
    shown = ("  ".join((str(row.get("id", "")), *(_short(str(row.get(name, ""))) for name in columns))) for row in rows)
    show_rows(shown if rows else (NONE,))
    say_more(page)
    return 0


def _short(text: str) -> str:
    return why.short(text, _chars())


def _chars() -> int:
    return max(_TEXT_CHARS, shutil.get_terminal_size((140, 24)).columns - 40)
