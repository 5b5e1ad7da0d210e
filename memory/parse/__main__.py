"""`python -m memory.parse`: the bytes of one file on stdin, its blocks as lines of JSON on stdout, then it ends.

    {"t": text, "k": kind, "s": start, "e": end, "p": page or null, "l": level}   a block, in order
    {"type": media type, "title": "", "chars": n, "blocks": n, "pages": n}        the last line of a file that is whole
    {"refused": why, "status": 413 | 422}                                         the last line of one that is not

The process bounds itself before it reads a byte: memory, seconds of processor and clock, no file written, and once the
file is read no file or socket opened any more. What it answers is checked by who started it
(memory/adapters/parsing.py). It imports nothing of the rest of the program. Exit status 0 where it wrote a last line.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence

from memory.parse import sandbox

# isort: split
from memory.parse import docx, html, pdf, plain, tables
from memory.parse.blocks import Limits, Refusal, Sink, TooMuch, clean, line
from memory.parse.sniff import CSV, DOCX, HTML, JSON, MARKDOWN, PDF, Found, recognised


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse stdin."""
    asked = _asked(arguments)
    sandbox.bound(asked.memory_bytes, asked.cpu_s, asked.wall_s)
    out = sys.stdout
    try:
        content = sys.stdin.buffer.read()
        sandbox.open_no_more()
        sink = Sink(out.write, Limits(asked.chars_max, rows_max=asked.rows_max))
        found = recognised(content, f"file{asked.suffix}", asked.declared)
        title = _parsed(found, content, sink)
        if sink.blocks == 0:
            raise Refusal("the file has no text in it")
        counts = {"chars": sink.chars, "blocks": sink.blocks, "pages": sink.pages}
        out.write(line({"type": found.media_type, "title": clean(title), **counts}))
    except Refusal as refusal:
        out.write(line({"refused": str(refusal), "status": 413 if isinstance(refusal, TooMuch) else 422}))
    except MemoryError:
        gc.collect()
        out.write(line({"refused": _needs(asked.memory_bytes), "status": 413}))
    except Exception as fault:  # noqa: BLE001  parsers on a hostile file may raise anything; the process ends here
        out.write(line({"refused": f"the file cannot be read ({type(fault).__name__})", "status": 422}))
    out.flush()
    return 0


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m memory.parse")
    parser.add_argument(
        "--suffix", default=""
    )  # of the name; the name itself is nobody's to see in a list of processes
    parser.add_argument("--declared", default="")
    parser.add_argument("--memory-bytes", type=int, default=536_870_912)
    parser.add_argument("--cpu-s", type=int, default=30)
    parser.add_argument("--wall-s", type=int, default=60)
    parser.add_argument("--chars-max", type=int, default=20_000_000)
    parser.add_argument("--rows-max", type=int, default=100_000)
    return parser.parse_args(arguments)


def _parsed(found: Found, content: bytes, sink: Sink) -> str:
    """Hand on what the file says; returns its title."""
    if found.text is None:
        return pdf.document(content, sink) if found.media_type == PDF else _word(found, content, sink)
    if found.media_type == HTML:
        return html.page(found.text, sink)
    if found.media_type == CSV:
        tables.table(found.text, sink)
    elif found.media_type == JSON:
        tables.tree(found.text, sink)
    elif found.media_type == MARKDOWN:
        plain.markdown(found.text, sink)
    else:
        plain.paragraphs(found.text, sink)
    return ""


def _word(found: Found, content: bytes, sink: Sink) -> str:
    if found.media_type != DOCX:
        raise Refusal(f"{found.media_type} is not taken")
    return docx.document(content, sink)


def _needs(memory_bytes: int) -> str:
    return f"the file needs more than {memory_bytes >> 20} MiB to be read"


if __name__ == "__main__":
    sys.exit(main())
