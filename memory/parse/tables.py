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
from itertools import islice
from typing import Any, Final

from memory.parse.blocks import Block, Refusal, Sink, TooMuch

_SNIFFED_CHARS: Final = 16_384
_SNIFFED_ROWS: Final = 20
_CELL_CHARS_MAX: Final = 1_000_000
_MARKS: Final = ("\t", ";", "|", ",")
"""What may divide cells. A comma stands in cells most often, so it comes last."""
_SAID: Final = re.compile(r"sep=([;,|\t])\r?\n", re.I)
"""Excel's own first line."""
_BETWEEN: Final = re.compile(r"[\s,]*")
_KEY: Final = re.compile(r"\s*:\s*")
_DECODER: Final = json.JSONDecoder()


class _Lines:
    """The lines of a text, and where the next one begins."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.at = at

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
    said = _SAID.match(text)
    mark, lines = said[1] if said else _delimiter(text[:_SNIFFED_CHARS]), _Lines(text, said.end() if said else 0)
    reader = csv.reader(iter(lines), delimiter=mark, skipinitialspace=True)
    head: list[str] | None = None
    rows, start = 0, lines.at
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
    """The character that divides the cells: by which the first rows have equally many, else the most frequent one."""
    for mark in _MARKS:
        rows = _first_rows(sample, mark)
        if len({len(row) for row in rows}) == 1 and len(rows[0]) > 1:
            return mark
    lines = [line for line in sample.splitlines()[:_SNIFFED_ROWS] if line.strip()]
    return max(reversed(_MARKS), key=lambda mark: sum(line.count(mark) for line in lines))


def _first_rows(sample: str, mark: str) -> list[list[str]]:
    """The first rows as this character divides them, without one that the sample cuts off; none where it cannot."""
    reader = csv.reader(iter(_Lines(sample, 0)), delimiter=mark, skipinitialspace=True)
    try:
        rows = list(islice((row for row in reader if any(row)), _SNIFFED_ROWS + 1))
    except csv.Error:
        return []
    is_cut = len(sample) == _SNIFFED_CHARS or len(rows) > _SNIFFED_ROWS
    return rows[:-1] if is_cut and len(rows) > 1 else rows


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
