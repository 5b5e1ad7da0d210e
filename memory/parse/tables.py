"""CSV and JSON as blocks: the decoded text in, one row for each record out, with the names of its members.

A row says `name: value` for each cell that holds anything, so that it can be read and found without the head of its
table. Its place is that of the record in the text. Refuses more rows than the bound, and nesting that Python's own
parser refuses.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from memory.parse.blocks import Block, Refusal, Sink, TooMuch

_SNIFFED_CHARS: Final = 16_384
_CELL_CHARS_MAX: Final = 1_000_000
_BETWEEN: Final = re.compile(r"[\s,]*")
_KEY: Final = re.compile(r"\s*:\s*")
_DECODER: Final = json.JSONDecoder()


class _Lines:
    """The lines of a text, and where the next one begins."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def __iter__(self) -> Iterator[str]:
        while self.at < len(self._text):
            end = self._text.find("\n", self.at)
            stop = len(self._text) if end < 0 else end + 1
            line = self._text[self.at : stop]
            self.at = stop
            yield line


def table(text: str, sink: Sink) -> None:
    """Hand on the rows of a CSV. Raises Refusal, TooMuch."""
    csv.field_size_limit(_CELL_CHARS_MAX)
    lines = _Lines(text)
    reader = csv.reader(iter(lines), delimiter=_delimiter(text[:_SNIFFED_CHARS]), skipinitialspace=True)
    head: list[str] | None = None
    rows, start = 0, 0
    try:
        for record in reader:
            if any(cell.strip() for cell in record):
                if head is None:
                    head = [" ".join(cell.split()) for cell in record]
                    sink.put(Block(" | ".join(filter(None, head)), "row", start, lines.at))
                else:
                    rows += 1
                    sink.put(Block(_named(head, record), "row", start, lines.at))
            if rows > sink.limits.rows_max:
                raise TooMuch(f"the table has more than {sink.limits.rows_max} rows; split it")
            start = lines.at
    except csv.Error as fault:
        raise Refusal(f"no CSV: {fault} in the record at character {start}") from fault


def _delimiter(sample: str) -> str:
    """The character that divides the cells: what the first lines have equally often, a comma where nothing is."""
    lines = [line for line in sample.splitlines()[:20] if line.strip()][:-1] or sample.splitlines()[:1]
    for mark in (",", ";", "\t", "|"):
        counts = {line.count(mark) for line in lines}
        if len(counts) == 1 and counts != {0}:
            return mark
    return max((",", ";", "\t", "|"), key=lambda mark: sum(line.count(mark) for line in lines))


def _named(head: list[str], record: list[str]) -> str:
    names = [*head, *[""] * (len(record) - len(head))]
    said = ((name, " ".join(cell.split())) for name, cell in zip(names, record, strict=False))
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in said if cell)


def tree(text: str, sink: Sink) -> None:
    """Hand on the members of a JSON document, each by itself; an object's top members are headings. Raises TooMuch."""
    at = len(text) - len(text.lstrip("\ufeff \t\r\n"))
    try:
        if text[at] == "[":
            for _, value, start, end in _elements(text, at, keyed=False):
                _element(value, start, end, sink)
        else:
            for key, value, start, end in _elements(text, at, keyed=True):
                if isinstance(value, dict | list) and value:
                    sink.put(Block(key, "heading", start, start + len(key), level=1))
                    _element(value, start, end, sink)
                else:
                    sink.put(Block(f"{key}: {_scalar(value)}", "row", start, end))
    except RecursionError as fault:
        raise Refusal("the JSON is nested too deep") from fault


def _elements(text: str, at: int, *, keyed: bool) -> Iterator[tuple[str, Any, int, int]]:
    """The members of the array or object that opens at `at`: name, value, where it begins and ends."""
    close, place = "}" if keyed else "]", _past(text, at + 1)
    while text[place] != close:
        start, key = place, ""
        if keyed:
            key, place = _DECODER.raw_decode(text, place)
            place = _KEY.match(text, place).end()  # type: ignore[union-attr]  # it was parsed whole before
        value, place = _DECODER.raw_decode(text, place)
        yield key, value, start, place
        place = _past(text, place)


def _past(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _element(value: Any, start: int, end: int, sink: Sink) -> None:
    """One element as one row, a list of objects inside it as one row each. They share the element's place."""
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        for one in value:
            sink.put(Block(_flat(one, sink), "row", start, end))
    else:
        sink.put(Block(_flat(value, sink), "row", start, end))
    if sink.blocks > sink.limits.rows_max:
        raise TooMuch(f"the JSON has more than {sink.limits.rows_max} elements; split it")


def _flat(value: Any, sink: Sink) -> str:
    """`path: value` for every leaf, in order. Without recursion, and no longer than may leave at all."""
    said: list[str] = []
    left = sink.limits.chars_max
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting and left > 0:
        path, one = waiting.pop()
        if isinstance(one, dict):
            waiting += [(f"{path}.{key}" if path else str(key), inner) for key, inner in reversed(one.items())]
        elif isinstance(one, list) and any(isinstance(inner, dict | list) for inner in one):
            waiting += [(path, inner) for inner in reversed(one)]
        else:
            text = ", ".join(map(_scalar, one)) if isinstance(one, list) else _scalar(one)
            said.append(f"{path[-200:]}: {text}" if path else text)
            left -= len(said[-1])
    return "; ".join(said)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value) if not isinstance(value, dict | list) else ""
