"""What `chat` does with checkpoints and personas: a line behind /checkpoint or /persona in, the same talk out.

Words that are no such command are CommandRefused, with how it is meant; what the service refuses is left to the loop.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from proxy.cli import checkpoint as checkpoints
from proxy.cli import persona as personas
from proxy.cli.chat_talk import CommandRefused, Talk, heard

CHECKPOINT_WORDS: Final = ("list", "save", "load", "show", "diff")
_SHOWN: Final = 20
_BETWEEN: Final = re.compile(r"(?:^|\s+)--(?:\s+|$)")


def checkpoint(talk: Talk, words: str) -> None:
    """List, keep, show, compare; or have the next question go on from one. Raises CommandRefused, CallFailed."""
    verb, _, rest = words.partition(" ")
    name, more = parted(rest)
    if verb in ("", "list") and not rest:
        with heard():
            found = talk.client.get(checkpoints.PATH, {"limit": _SHOWN})["data"]
        talk.screen.lines(
            [checkpoints.listed(one) for one in found] or ["none yet; /checkpoint save NAME keeps this one"]
        )
    elif verb == "save" and name:
        _save(talk, name, more)
    elif verb == "load" and name and not more:
        with heard():
            known = talk.client.get(_one(name))
        talk.conversation = replace(talk.conversation, checkpoint=name)
        talk.screen.note(
            f"{name} (version {known['version']}, {len(known['parts'])} parts) goes with your next question"
        )
    elif verb == "show" and name and not more:
        with heard():
            talk.screen.lines(checkpoints.held(talk.client.get(_one(name))))
    elif verb == "diff" and name and more:
        with heard():
            talk.screen.lines(checkpoints.differences(talk.client.get(f"{_one(name)}/diff", {"with": more})))
    else:
        raise CommandRefused(
            "/checkpoint list, save NAME -- NOTES, load NAME, show NAME, diff NAME -- OTHER; notes may be left out"
        )


def parted(words: str) -> tuple[str, str]:
    """A name, and what stands behind a -- that stands alone: a name may hold one."""
    name, *more = _BETWEEN.split(words.strip(), maxsplit=1)
    return name, "".join(more)


def _save(talk: Talk, name: str, notes: str) -> None:
    """Keep the conversation under a name, as far as something was said in it."""
    session = talk.conversation.session
    body = {"name": name, **({"notes": notes} if notes else {})}
    if session is not None and talk.conversation.exchanges:
        body["session"] = session
    with heard():
        made = talk.client.send("POST", checkpoints.PATH, body)
    talk.screen.lines(checkpoints.held(made))


def persona(talk: Talk, words: str) -> None:
    """Ask for a style from the next question on; - for none; list: those there are. Raises CallFailed."""
    if words == "list":
        with heard():
            talk.screen.lines(personas.line_of(one) for one in talk.client.get(personas.PATH)["data"])
        return
    if words:
        talk.conversation = replace(talk.conversation, persona=None if words == "-" else words)
    talk.screen.note(f"style asked for: {talk.conversation.persona or 'none'}")


def _one(name: str) -> str:
    return f"{checkpoints.PATH}/{quote(name, safe='')}"
