"""Recorded dialogues, and what clients do with them: JSON lines in, scripts of requests with their answers out.

A script is one conversation as its client plays it: every request with the answer that the upstream is to give, known
beforehand, so that memory on and off see the same requests. Pure; nothing is sent from here.

kind         what its client does
turn         goes on: all so far, the answer it was given, the next question
regenerate   asks the same again, is given another answer, and goes on with that one
fork         goes back to an earlier question, asks another in its place, goes one turn on, and then on where it was
tools        two tool calls before an answer, with the results sent back
prompt       every conversation under one long system prompt with the same tools: first requests share a lot
parts        content as a list of parts
truncate     drops its two oldest messages half-way (that prefix is lost without memory too)
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

Message = dict[str, Any]

# Dialogues are taken as they are up to so many characters; beyond that turns are left out at the end.
CHARACTERS_MAX: Final = 40_000
TOOLS: Final[tuple[Message, ...]] = tuple(
    {
        "type": "function",
        "function": {
            "name": name,
            "description": said,
            "parameters": {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "enum": ["all", "today"], "description": "What to look for."}
                },
                "required": ["query"],
            },
        },
    }
    for name, said in (
        ("search_notes", "Search the notes of the team for a passage."),
        ("read_calendar", "Read the calendar for a day or a week."),
        ("look_up_order", "Look up an order by its number or by its customer."),
    )
)
RULES: Final = (
    "You are the assistant of a small company. Answer in the language of the question, plainly and without flattery.",
    "Say what you do not know. Quote figures with their unit. Prefer short sentences to long ones.",
    "When a question is about an order, name its number. When it is about a date, name the weekday too.",
    "Never promise a delivery date. Never discuss another customer's order. Hand complaints over to a person.",
    "Code is given whole, in one block, with the language named. Explain it only when that was asked for.",
    "When several answers are possible, give the one that is easiest to check first, and say how to check it.",
)
SYSTEM: Final[Message] = {"role": "system", "content": "\n".join(f"{n}. {one}" for n, one in enumerate(RULES * 3, 1))}


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Question, answer, question, answer …: at least one pair, strictly in turn."""

    id: str
    messages: tuple[Message, ...]

    @property
    def pairs(self) -> Sequence[tuple[Message, Message]]:
        """Questions with their answers."""
        return list(zip(self.messages[::2], self.messages[1::2], strict=True))


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a script: its messages, and the message that the upstream is to answer with."""

    kind: str
    messages: tuple[Message, ...]
    answer: Message
    tools: tuple[Message, ...] = ()

    def body(self, model: str, *, stream: bool) -> dict[str, Any]:
        """As it is sent."""
        body: dict[str, Any] = {"model": model, "messages": list(self.messages), "stream": stream}
        return {**body, "tools": list(self.tools)} if self.tools else body


@dataclass(frozen=True, slots=True)
class Script:
    """One conversation: its requests, each sent when the one before it was answered."""

    id: str
    requests: tuple[Request, ...]


def read_dialogues(path: Path) -> Iterator[Dialogue]:
    """`{"id", "messages": [{"role", "content"}]}` a line, .xz or plain; those without a whole pair are passed over.

    What stands before the first question is left out (templates demand it), and so is all from the first message that
    is empty or not in turn. Raises OSError, ValueError.
    """
    raw = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
    for line in raw.decode("utf-8").split("\n"):
        if line.strip():
            said = json.loads(line)
            messages = _in_turn(said["messages"])
            if messages:
                yield Dialogue(str(said["id"]), messages)


def _in_turn(messages: Sequence[Message]) -> tuple[Message, ...]:
    taken: list[Message] = []
    characters = 0
    for message in messages:
        wanted = "assistant" if len(taken) % 2 else "user"
        if not taken and message["role"] != "user":
            continue
        characters += len(message["content"])
        if message["role"] != wanted or not message["content"].strip() or characters > CHARACTERS_MAX:
            break
        taken.append({"role": wanted, "content": message["content"]})
    return tuple(taken[: len(taken) // 2 * 2])


def plain(dialogue: Dialogue) -> Script:
    """The dialogue turn by turn."""
    return Script(dialogue.id, tuple(_turns(dialogue.pairs, ())))


def _turns(pairs: Sequence[tuple[Message, Message]], before: Sequence[Message]) -> Iterator[Request]:
    said = list(before)
    for question, answer in pairs:
        said.append(question)
        yield Request("turn", tuple(said), answer)
        said.append(answer)


def regenerate(dialogue: Dialogue) -> Script:
    """Every second question is asked twice; the conversation goes on with the second answer."""
    requests: list[Request] = []
    said: list[Message] = []
    for at, (question, answer) in enumerate(dialogue.pairs):
        said.append(question)
        requests.append(Request("turn", tuple(said), answer))
        if at % 2 == 0:
            answer = {**answer, "content": f"In other words: {answer['content']}"}
            requests.append(Request("regenerate", tuple(said), answer))
        said.append(answer)
    return Script(dialogue.id, tuple(requests))


def fork(dialogue: Dialogue) -> Script:
    """From the third question on: the one before is replaced by another, gone on from once, and then all goes on.

    Never the first question: another opening is another conversation.
    """
    pairs = dialogue.pairs
    requests: list[Request] = []
    for at, request in enumerate(_turns(pairs, ())):
        requests.append(request)
        if at < 2:
            continue
        before = request.messages[: 2 * (at - 1)]
        other = {"role": "user", "content": f"Something else first. {pairs[at - 1][0]['content'][:200]}"}
        answer = {"role": "assistant", "content": f"Something else, then. {pairs[at - 1][1]['content'][:200]}"}
        after = {"role": "user", "content": f"And how does that bear on this? {pairs[at][0]['content'][:200]}"}
        requests.append(Request("fork", (*before, other), answer))
        requests.append(Request("fork", (*before, other, answer, after), pairs[at][1]))
    return Script(dialogue.id, tuple(requests))


def tools(dialogue: Dialogue) -> Script:
    """Every question takes two tool calls."""
    requests: list[Request] = []
    said: list[Message] = []
    for at, (question, answer) in enumerate(dialogue.pairs):
        said.append(question)
        kind = "turn"
        for step in range(2):
            call = _call(at, step)
            requests.append(Request(kind, tuple(said), call, TOOLS))
            found = f"Found {step + 1} of 2: {answer['content'][:120]}"
            said += [call, {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": found}]
            kind = "tools"
        requests.append(Request("tools", tuple(said), answer, TOOLS))
        said.append(answer)
    return Script(dialogue.id, tuple(requests))


def _call(at: int, step: int) -> Message:
    """A call of a tool; its id has nine characters, since Mistral's template refuses any other."""
    function = {"name": "search_notes", "arguments": json.dumps({"query": ("all", "today")[step % 2]})}
    call = {"id": f"call{at:03}{step:02}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def prompt(dialogue: Dialogue) -> Script:
    """The first three turns under the long system prompt with tools."""
    turns = _turns(dialogue.pairs[:3], (SYSTEM,))
    kinds = ("first", "turn", "turn")
    requests = (replace(request, kind=kind, tools=TOOLS) for kind, request in zip(kinds, turns, strict=False))
    return Script(dialogue.id, tuple(requests))


def parts(dialogue: Dialogue) -> Script:
    """The dialogue with lists of parts; every third question has two."""
    listed = [(_listed(question, at), answer) for at, (question, answer) in enumerate(dialogue.pairs)]
    return Script(dialogue.id, tuple(_turns(listed, ())))


def _listed(question: Message, at: int) -> Message:
    text = question["content"]
    texts = [text[: len(text) // 2], text[len(text) // 2 :]] if at % 3 == 2 and len(text) > 20 else [text]
    return {"role": "user", "content": [{"type": "text", "text": one} for one in texts]}


def truncate(dialogue: Dialogue) -> Script:
    """From the middle on the two oldest messages are gone."""
    turns = list(_turns(dialogue.pairs, ()))
    middle = max(2, len(turns) // 2)
    cut = (replace(one, kind="truncate", messages=one.messages[2:]) for one in turns[middle:])
    return Script(dialogue.id, (*turns[:middle], *cut))


SCENARIOS: Final[Mapping[str, Callable[[Dialogue], Script]]] = {
    "turn": plain,
    "regenerate": regenerate,
    "fork": fork,
    "tools": tools,
    "prompt": prompt,
    "parts": parts,
    "truncate": truncate,
}


def scripts_of(scenario: str, dialogues: Sequence[Dialogue]) -> list[Script]:
    """The dialogues as one kind of client plays them."""
    return [SCENARIOS[scenario](dialogue) for dialogue in dialogues]


def related_lines(scripts: Sequence[Script], dialogues: Mapping[str, Dialogue]) -> list[dict[str, str]]:
    """Past turns for `POST /memory/v1/import`: other conversations on what these ask, so that there is much to recall.

    Each question is told again in other sessions, shortened, as one would months later; no line is a message of a
    script.
    """
    lines: list[dict[str, str]] = []
    for script in scripts:
        for at, (question, answer) in enumerate(dialogues[script.id].pairs):
            session = f"before-{script.id}-{at}"
            asked = f"Some time ago I wanted to know this: {question['content'][:300]}"
            told = f"What we settled on then: {answer['content'][:300]}"
            lines.append({"session": session, "role": "user", "content": asked})
            lines.append({"session": session, "role": "assistant", "content": told})
    return lines
