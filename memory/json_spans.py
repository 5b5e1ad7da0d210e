"""Raw-span editing of a JSON object: text -> members with their places, edits -> text.

In: the text of one JSON object. Out: its members in order, duplicates included, each with its value and the place
it stands in; and an edited text in which every character outside the edits is the one that came in, so numbers,
escapes, order and unknown fields survive. Parsing and finding the places is one pass at C speed (`raw_decode`).
Refuses: to re-serialise anything, to mend bad JSON (one error, `JsonUnreadable`; the caller forwards untouched),
byte order marks and UTF-16. Accepts what Python's `json` accepts, NaN included, because that is what vLLM reads with.
"""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_DECODER = json.JSONDecoder(strict=True)
_BLANKS = re.compile(r"[ \t\n\r]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BYTE_ORDER_MARK = "\ufeff"
_TRUE_WORDS = frozenset({"1", "on", "t", "true", "y", "yes"})


class JsonUnreadable(ValueError):
    """This is not one JSON object in UTF-8 that can be edited: bad syntax, nesting or an integer past the limits."""


class Edit(NamedTuple):
    """Put `replacement` where the characters start..end (end excluded) stand. start == end inserts."""

    start: int
    end: int
    replacement: str


@dataclass(frozen=True, slots=True)
class Element:
    """One element of an array: text[start:end] is its raw form."""

    value: object = field(repr=False)
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object: text[start:end] is `"key": value`, text[value_start:end] the value.

    `elements` is filled only for arrays under a key that the parse was asked to split.
    """

    key: str
    value: object = field(repr=False)
    start: int
    value_start: int
    end: int
    elements: tuple[Element, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class JsonObject:
    """An object and its members in the order of the text; text[start:end] runs from brace to brace."""

    members: tuple[Member, ...]
    start: int
    end: int

    def last(self, key: str) -> Member | None:
        """The member that counts for a reader: the last one of that key."""
        for member in reversed(self.members):
            if member.key == key:
                return member
        return None

    def indices(self, key: str) -> list[int]:
        """The places, in `members`, of every member of that key."""
        return [index for index, member in enumerate(self.members) if member.key == key]


def decode_utf8(body: bytes) -> str:
    """The text of a body. Raises JsonUnreadable for anything but strict UTF-8 without a byte order mark."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise JsonUnreadable("not UTF-8") from exc
    if text.startswith(_BYTE_ORDER_MARK):
        raise JsonUnreadable("byte order mark")
    return text


def parse_document(text: str, *, split: Collection[str] = ()) -> JsonObject:
    """The one object that is the whole text, blanks around it allowed. Raises JsonUnreadable."""
    start = _after_blanks(text, 0)
    parsed = parse_object(text, start, split=split)
    if _after_blanks(text, parsed.end) != len(text):
        raise JsonUnreadable("text after the object")
    return parsed


def parse_object(text: str, start: int, *, split: Collection[str] = ()) -> JsonObject:
    """The object whose opening brace is text[start]. Arrays under the keys in `split` give their elements too."""
    try:
        return _object(text, start, split)
    except (ValueError, IndexError, RecursionError) as exc:
        raise JsonUnreadable("not a readable JSON object") from exc


def elements(text: str, start: int) -> tuple[tuple[Element, ...], int]:
    """The elements of the array that opens at text[start], and the index behind it. Raises JsonUnreadable."""
    try:
        return _elements(text, start)
    except (ValueError, IndexError, RecursionError) as exc:
        raise JsonUnreadable("not a readable JSON array") from exc


def json_string(text: str) -> str:
    """The text as a JSON string with its quotes, pure ASCII, `without_surrogates`."""
    return json.dumps(without_surrogates(text))


def without_surrogates(text: str) -> str:
    """The text with lone surrogates, which cannot be encoded, replaced by U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def is_true(value: object) -> bool:
    """A flag as vLLM's request model reads it: true, 1, or one of pydantic's words for it."""
    if isinstance(value, str):
        return value.lower() in _TRUE_WORDS
    return isinstance(value, (bool, int, float)) and value == 1


def replace_value(member: Member, raw: str) -> Edit:
    """Give a member another value, as raw JSON."""
    return Edit(member.value_start, member.end, raw)


def edit_members(
    parsed: JsonObject, *, remove: Collection[int] = (), append: Sequence[tuple[str, str]] = ()
) -> list[Edit]:
    """Take out the members at the indices `remove` and append (key, raw value) pairs: removals first, one edit each.

    The two are done together because the commas depend on which members survive.
    """
    edits: list[Edit] = []
    members = parsed.members
    survivors = 0
    for index, member in enumerate(members):
        if index not in remove:
            survivors += 1
        elif survivors:
            edits.append(Edit(members[index - 1].end, member.end, ""))
        else:
            end = members[index + 1].start if index + 1 < len(members) else member.end
            edits.append(Edit(member.start, end, ""))
    if append:
        added = ",".join(f"{json_string(key)}:{raw}" for key, raw in append)
        place = members[-1].end if members else parsed.start + 1
        edits.append(Edit(place, place, "," + added if survivors else added))
    return edits


def apply_edits_to_body(body: bytes, text: str, edits: Iterable[Edit]) -> bytes:
    """The bytes that `text` was decoded from with all edits done: copied once, not encoded again.

    Places refer to the text as given. Returns `body` itself when there are no edits. Raises ValueError for edits that
    overlap.
    """
    ordered = _in_order(edits)
    if not ordered:
        return body
    source = memoryview(body)
    pieces: list[bytes | memoryview] = []
    position = done = 0
    for edit in ordered:
        start = _byte_place(body, text, edit.start, characters=position, place=done)
        pieces += (source[done:start], edit.replacement.encode("utf-8"))
        done = _byte_place(body, text, edit.end, characters=edit.start, place=start)
        position = edit.end
    pieces.append(source[done:])
    return b"".join(pieces)


def _in_order(edits: Iterable[Edit]) -> list[Edit]:
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    position = 0
    for edit in ordered:
        if edit.start < position or edit.end < edit.start:
            raise ValueError("edits overlap")
        position = edit.end
    return ordered


def _byte_place(body: bytes, text: str, index: int, *, characters: int, place: int) -> int:
    """The byte at which text[index] begins, given that text[characters] begins at byte `place`.

    Counted from the nearer of that place and the end, so a 200 MB image between two edits is not encoded again.
    """
    if text.isascii():
        return index
    if index - characters <= len(text) - index:
        return place + len(text[characters:index].encode("utf-8"))
    return len(body) - len(text[index:].encode("utf-8"))


def _after_blanks(text: str, start: int) -> int:
    found = _BLANKS.match(text, start)
    return found.end() if found else start


def _object(text: str, start: int, split: Collection[str]) -> JsonObject:
    if text[start] != "{":
        raise ValueError("no object")
    members: list[Member] = []
    at = _after_blanks(text, start + 1)
    if text[at] == "}":
        return JsonObject((), start, at + 1)
    while True:
        member = _member(text, at, split)
        members.append(member)
        at = _after_blanks(text, member.end)
        if text[at] == "}":
            return JsonObject(tuple(members), start, at + 1)
        if text[at] != ",":
            raise ValueError("no comma")
        at = _after_blanks(text, at + 1)


def _member(text: str, start: int, split: Collection[str]) -> Member:
    if text[start] != '"':
        raise ValueError("no key")
    key, at = _DECODER.raw_decode(text, start)
    at = _after_blanks(text, at)
    if text[at] != ":":
        raise ValueError("no colon")
    at = _after_blanks(text, at + 1)
    if key in split and text[at] == "[":
        parts, end = _elements(text, at)
        return Member(key, [part.value for part in parts], start, at, end, parts)
    value, end = _DECODER.raw_decode(text, at)
    return Member(key, value, start, at, end)


def _elements(text: str, start: int) -> tuple[tuple[Element, ...], int]:
    if text[start] != "[":
        raise ValueError("no array")
    parts: list[Element] = []
    at = _after_blanks(text, start + 1)
    if text[at] == "]":
        return (), at + 1
    while True:
        value, end = _DECODER.raw_decode(text, at)
        parts.append(Element(value, at, end))
        at = _after_blanks(text, end)
        if text[at] == "]":
            return tuple(parts), at + 1
        if text[at] != ",":
            raise ValueError("no comma")
        at = _after_blanks(text, at + 1)
