"""The commands of `chat`: a line that begins with / in, the same talk with something changed or shown out.

One row of COMMANDS each: what is typed, what /help says, what Tab offers, what runs. A command says what is wrong with
its words by CommandRefused, and leaves what the service refuses (CallFailed, LineFailed) to the loop, which says it.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from proxy.cli import why
from proxy.cli.chat_conversation import MODES
from proxy.cli.chat_records import CHECKPOINT_WORDS, checkpoint, persona
from proxy.cli.chat_talk import CommandRefused, Talk, heard
from proxy.cli.forgetting import Planned, forget_by_api, plan_words

SESSIONS_SHOWN: Final = 15
MEMORIES_SHOWN: Final = 20
_TEXT_CHARS: Final = 100
_USAGE_CHARS: Final = 22
_FORGETS: Final = {"memory": "memory", "session": "session", "source": "source_id", "query": "query", "user": "user",
                   "project": "project"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Command:
    """`usage` is typed behind its name; `words` are those that Tab offers there."""

    usage: str
    says: str
    run: Callable[[Talk, str], None]
    words: tuple[str, ...] = ()


def run_command(talk: Talk, text: str) -> None:
    """Run one. Raises CommandRefused, CallFailed, LineFailed, EOFError at /quit; KeyboardInterrupt is heard here."""
    name, _, words = text.partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        raise CommandRefused(f"{name} is no command; /help lists them. To send it as text, begin with a space")
    command.run(talk, words.strip())


def offered() -> Mapping[str, Iterable[str]]:
    """Each command with its words."""
    return {name: command.words for name, command in COMMANDS.items()}


def _why(talk: Talk, words: str) -> None:
    if words not in ("", "all"):
        raise CommandRefused("/why shows what the last answer was given; /why all with every candidate and its scores")
    retrieval = talk.conversation.retrieval
    if retrieval is None:
        talk.screen.note("there is no answer yet that memory had a part in")
        return
    with heard():  # the record comes through the worker, and is waited for
        record = talk.client.get(f"/memory/v1/retrievals/{quote(retrieval, safe='')}")
    talk.screen.lines(why.record(record) if words else _given(record))


def _given(record: Mapping[str, Any]) -> Iterator[str]:
    """What was given in this answer: its blocks as they went, then each memory that is new in it, with the reason."""
    for block in record["placed"]:
        if block["since"] is not None:
            yield f"placed earlier in this conversation, {len(block['memory_ids'])} memories:"
        yield (block["text"] or "(its words are not kept any more)").rstrip()
    if not record["placed"]:
        yield "nothing was placed"
    given = [one for one in record["candidates"] if one["injected"]]
    for one in given:
        yield f"{one['score']:6.3f}  {one['kind']} {one['id']}  {one.get('why') or 'given'}"
    left = len(record["candidates"]) - len(given)
    yield f"{len(given)} given, {left} considered and left out; /why all shows each with its scores"


def _session(talk: Talk, words: str) -> None:
    verb, _, rest = words.partition(" ")
    if not words:
        known = talk.conversation
        named = known.session or "not named yet"
        talk.screen.lines([f"session {named}; exchanges sent with the next question: {len(known.exchanges)}"])
    elif verb == "list" and not rest:
        with heard():
            talk.screen.lines(_listed(talk))
    elif verb == "new":
        talk.begin(rest.strip() or None, datetime.now(UTC))
        talk.screen.note(f"session {talk.conversation.session}: nothing said yet")
    else:
        switch(talk, words)


def _listed(talk: Talk) -> Iterator[str]:
    """The newest conversations, each with its beginning."""
    rows = talk.client.get("/memory/v1/sessions", {"limit": SESSIONS_SHOWN})["data"]
    talk.listed = tuple(row["id"] for row in rows)
    if not rows:
        yield "none yet"
    for number, row in enumerate(rows, 1):
        first = talk.client.get(f"/memory/v1/sessions/{quote(row['id'], safe='')}", {"limit": 1})["turns"]
        mark = "*" if row["id"] == talk.conversation.session else " "
        opening = why.short(first[0]["content"] or "", _TEXT_CHARS) if first else ""
        yield f"{mark}{number:3}  {row['last_at'][:16].replace('T', ' ')}  {row['turns']:4} turns  {row['id']}"
        yield f"      {opening}"


def switch(talk: Talk, name: str) -> None:
    """Go on with a conversation, by its name or its number in the list. Raises CallFailed, KeyboardInterrupt."""
    if name.isascii() and name.isdigit() and 1 <= int(name) <= len(talk.listed):
        name = talk.listed[int(name) - 1]
    with heard():
        turns = talk.resume(name)
    if turns is None:
        talk.screen.note(f"session {name} is new: nothing said yet")
        return
    talk.screen.note(f"session {name}: {turns} turns; the last of them")
    talk.screen.lines(
        line
        for one in talk.conversation.exchanges[-2:]
        for line in (f"> {why.short(one.question or '', _TEXT_CHARS)}", why.short(one.answer, 3 * _TEXT_CHARS))
    )


def _search(talk: Talk, words: str) -> None:
    if not words:
        raise CommandRefused("/search WORDS: what memory would recall for them")
    with heard():
        answer = talk.client.send("POST", "/memory/v1/search", {"query": words, "k": 10})
    talk.screen.lines(why.found(answer, _TEXT_CHARS))


def _memories(talk: Talk, words: str) -> None:
    asked: dict[str, Any] = {"limit": MEMORIES_SHOWN}
    if words:
        asked |= {"due": words} if words == "review" else {"kind": words}
    with heard():
        rows = talk.client.get("/memory/v1/memories", asked)["data"]
    talk.screen.lines(f"{one['id']}  {one['kind']:10}  {why.short(one['content'], _TEXT_CHARS)}" for one in rows)
    talk.screen.note("/forget memory ID erases one" if rows else "none yet")


def _forget(talk: Talk, words: str) -> None:
    what, _, value = words.partition(" ")
    kind, value = _FORGETS.get(what), value.strip()
    if what == "session" and not value:
        value = talk.conversation.session or ""
    if kind is None or not value:
        raise CommandRefused(f"/forget {'|'.join(_FORGETS)} …: what is to go; /forget session is the one you are in")

    def agreed(planned: Planned) -> bool:
        talk.screen.note(f"this goes for good: {plan_words(planned)}", "bold")
        talk.screen.lines(f"  {one}" for one in planned["sample_ids"])
        return _says_yes(talk)

    with heard():
        answer, is_receipt = forget_by_api(
            talk.client, kind, value, agreed=agreed, goes_on=lambda step: talk.screen.note(f"{step} …")
        )
    if not is_receipt:
        talk.screen.note("nothing was forgotten")
        return
    complete = "complete" if answer["complete"] else "NOT complete, the probe found traces"
    talk.screen.note(f"forgotten, {complete}: receipt {answer['id']}", "plain")
    if kind == "session" and value == talk.conversation.session:
        talk.begin(None, datetime.now(UTC))
        talk.screen.note(f"session {talk.conversation.session}: nothing said yet")


def _says_yes(talk: Talk) -> bool:
    talk.screen.ask("Type yes: ")
    return sys.stdin.readline().strip() == "yes"


def _mode(talk: Talk, words: str) -> None:
    for mode in MODES:
        if words == mode:
            talk.conversation = replace(talk.conversation, mode=mode)
    if words and words not in MODES:
        raise CommandRefused("/mode on (recall and keep), read (keep nothing), write (recall nothing), off (neither)")
    talk.screen.note(f"mode {talk.conversation.mode}")


def _system(talk: Talk, words: str) -> None:
    if words:
        talk.conversation = replace(talk.conversation, system=None if words == "-" else words)
    talk.screen.note(f"system message: {talk.conversation.system or 'none'}")


def _model(talk: Talk, words: str) -> None:
    if words:
        talk.conversation = replace(talk.conversation, model=words)
        talk.screen.note(f"model {words}")
        return
    with heard():
        served = talk.models()
    talk.screen.lines(f"{'*' if name == talk.conversation.model else ' '} {name}" for name in served)


def _retry(talk: Talk, words: str) -> None:
    question = talk.conversation.last_question()
    if question is None:
        raise CommandRefused("there is nothing to ask again yet")
    talk.conversation = talk.conversation.undone()
    talk.ask(question)


def _web(talk: Talk, words: str) -> None:
    if not words:
        raise CommandRefused("/web QUESTION: it is looked for in the web before it is answered")
    talk.conversation = replace(talk.conversation, outside=True)
    try:
        talk.ask(words)
    finally:
        talk.conversation = replace(talk.conversation, outside=False)


def _undo(talk: Talk, words: str) -> None:
    question = talk.conversation.last_question()
    talk.conversation = talk.conversation.undone()
    left = len(talk.conversation.exchanges)
    dropped = f"dropped “{why.short(question, 60)}”; " if question else ""
    talk.screen.note(f"{dropped}exchanges sent with the next question: {left}. What was remembered of it stays")


def _help(talk: Talk, words: str) -> None:
    talk.screen.lines(taught(shutil.get_terminal_size().columns))


def taught(columns: int) -> Iterator[str]:
    """The commands and the keys, in lines that this terminal does not wrap."""
    for name, command in COMMANDS.items():
        usage = f"{name} {command.usage}".rstrip()
        says = textwrap.wrap(command.says, max(16, columns - _USAGE_CHARS - 2))
        if len(usage) > _USAGE_CHARS:
            yield from textwrap.wrap(usage, columns)
            usage = ""
        for line in says:
            yield f"{usage:{_USAGE_CHARS}}  {line}"
            usage = ""
    yield ""
    yield from (line for one in KEYS.splitlines() for line in textwrap.wrap(one, columns))


def _quit(talk: Talk, words: str) -> None:
    raise EOFError


KEYS: Final = """\
Enter sends; Alt-Enter, Ctrl-J, or \\ at the end of a line begins a new one, and a paste keeps its lines.
Up and Ctrl-R find what you typed before, Tab completes a command, Ctrl-C stops an answer, Ctrl-D ends.
A line that begins with / is a command; begin with a space to send it as text."""
COMMANDS: Final[Mapping[str, Command]] = {
    "/why": Command("[all]", "what the last answer was given from memory", _why, ("all",)),
    "/session": Command(
        "[list | new [NAME] | NAME]", "the conversation: which, all, another", _session, ("list", "new")
    ),
    "/checkpoint": Command(
        "[list | save NAME -- NOTES | load NAME | show NAME | diff NAME -- OTHER]",
        "keep where this stands; go on from there",
        checkpoint,
        CHECKPOINT_WORDS,
    ),
    "/persona": Command("[list | NAME | facet=value;… | -]", "how answers are asked to be; - for nothing", persona),
    "/search": Command("WORDS", "what memory would recall", _search),
    "/web": Command("QUESTION", "ask it with pages of the web, where the service looks outside", _web),
    "/memories": Command("[KIND | review]", "the newest memories, or those to review", _memories, ("review",)),
    "/forget": Command("memory|session|source|query|… X", "erase, after asking you", _forget, tuple(_FORGETS)),
    "/mode": Command("on|read|write|off", "recall and keep; keep nothing; recall nothing; neither", _mode, MODES),
    "/system": Command("[TEXT | -]", "the system message; - for none", _system, ("-",)),
    "/model": Command("[NAME]", "the models that are served; ask another one", _model),
    "/retry": Command("", "ask the last question again", _retry),
    "/undo": Command("", "drop the last exchange from what is sent", _undo),
    "/help": Command("", "this list", _help),
    "/quit": Command("", "end", _quit),
}
