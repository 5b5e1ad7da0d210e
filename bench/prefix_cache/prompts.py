"""A body as a prompt: (Body, Family) -> token ids, whose token each is, and where each message ends.

Where memory stands in the rendered text is found by rendering the messages once more with marks (characters of the
private use area) around the block and behind the content; what is left when the marks are taken out must be the prompt
itself, else TemplateUnfit. A token belongs to memory when it begins inside a block.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

from bench.prefix_cache.bodies import Body, Said
from bench.prefix_cache.families import Family

_OPEN, _CLOSE, _END = "\ue0f0", "\ue0f1", "\ue0f2"
_MARKS: Final = re.compile(f"[{_OPEN}{_CLOSE}{_END}]")
_ENDING: Final = frozenset({"user", "assistant"})


class TemplateUnfit(Exception):
    """A chat template treats text with marks in another way than without, so whose tokens are whose cannot be told."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt in tokens.

    `own[i]`: 1 where token i is the client's or the template's, 0 where it is memory's. `ends[m]`: how many tokens
    begin before the end of message m's content (its blocks included); None where a message has no text or its role is
    not a border.
    """

    ids: array[int] = field(repr=False)
    own: bytes = field(repr=False)
    ends: tuple[int | None, ...]
    salt: str

    @property
    def own_tokens(self) -> int:
        """Tokens that are not memory's."""
        return sum(self.own)


def prompt_of(body: Body, family: Family) -> Prompt:
    """The prompt of a body. Raises TemplateUnfit, jinja2.TemplateError."""
    plain = family.render([said.message for said in body.messages], body.tools)
    if _MARKS.search(plain):
        raise TemplateUnfit("a message holds characters of the private use area that serve as marks here")
    marked = family.render([_with_marks(said) for said in body.messages], body.tools)
    if _MARKS.sub("", marked) != plain:
        raise TemplateUnfit(f"the chat template of {family.name} renders marked text in another way")
    blocks, borders = _places(marked)
    if len(borders) != sum(_has_end(said) for said in body.messages):
        raise TemplateUnfit(f"the chat template of {family.name} shows a message not once")
    ids = family.ids_of(plain)
    starts = [0, *accumulate(map(family.bytes_of, ids))]
    places = _Bytes(plain)
    if starts[-1] != places.total:
        raise TemplateUnfit(f"the tokens of {family.name} do not have the bytes of the prompt")
    own = bytearray(b"\x01") * len(ids)
    for begin, end in blocks:
        first, past = bisect_left(starts, places.at(begin)), bisect_left(starts, places.at(end))
        own[first:past] = bytes(past - first)
    found = iter(borders)
    ends = tuple(
        min(bisect_left(starts, places.at(next(found))), len(ids)) if _has_end(said) else None for said in body.messages
    )
    return Prompt(array("L", ids), bytes(own), ends, body.salt)


def _has_end(said: Said) -> bool:
    return said.message.get("role") in _ENDING and bool(said.text.strip())


def _with_marks(said: Said) -> dict[str, Any]:
    if not _has_end(said):
        return dict(said.message)
    text = said.text
    kept = max(len(text.rstrip()), said.block)
    head = f"{_OPEN}{text[: said.block]}{_CLOSE}" if said.block else ""
    return {**said.message, "content": f"{head}{text[said.block : kept]}{_END}{text[kept:]}"}


def _places(marked: str) -> tuple[list[tuple[int, int]], list[int]]:
    """Where blocks and ends are, in characters of the text without marks."""
    blocks: list[tuple[int, int]] = []
    borders: list[int] = []
    opened = 0
    for number, found in enumerate(_MARKS.finditer(marked)):
        place = found.start() - number
        if found[0] == _OPEN:
            opened = place
        elif found[0] == _CLOSE:
            blocks.append((opened, place))
        else:
            borders.append(place)
    return blocks, borders


class _Bytes:
    """Places in a text: characters to bytes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.total = len(text.encode("utf-8", "surrogatepass"))
        self._ascii = self.total == len(text)

    def at(self, place: int) -> int:
        return place if self._ascii else len(self._text[:place].encode("utf-8", "surrogatepass"))
