"""Help as a terminal has room for it: what a command teaches in, lines that are not broken inside a word out.

A command that may be copied stays on one line, what it does goes below it; prose is filled anew. What fits stays as it
is.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator
from itertools import groupby
from typing import Final

_BESIDE: Final = re.compile(r"( *\S.*?) {2,}(\S.*)")
_BELOW: Final = " " * 6


class Teaching(argparse.RawDescriptionHelpFormatter):
    """Description and epilog as they are written, as far as they fit."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line for line in fitting(text, width))


def fitting(text: str, columns: int) -> Iterator[str]:
    """The lines of a text; what is longer than this is an indented one that may be copied."""
    lines = text.splitlines()
    if max(map(len, lines), default=0) <= columns:
        yield from lines
        return
    for is_prose, some in groupby(lines, lambda line: line[:1] not in ("", " ")):
        if is_prose:
            yield from _filled(" ".join(some), "", columns)
            continue
        for line in some:
            if len(line) > columns and (found := _BESIDE.fullmatch(line)):
                yield found[1]
                yield from _filled(found[2], _BELOW, columns)
            else:
                yield line


def _filled(words: str, begins: str, columns: int) -> list[str]:
    return textwrap.wrap(
        begins + words, columns, subsequent_indent=begins, break_on_hyphens=False, break_long_words=False
    )
