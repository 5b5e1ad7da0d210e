"""From blocks to chunks: what redaction cuts is cut wherever borders fall, and ids follow from words and labels."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory import document_payload
from memory.adapters.secret_rules import secret_detectors
from memory.documents import FileFacts, Parsed, Staged
from memory.errors import EnvelopeUnreadable
from memory.model import Scope
from memory.parse import plain, tables
from memory.parse.blocks import BLOCK_CHARS_MAX, Block, Limits, Sink
from memory.write.documents import chunk_key, cleaned_blocks
from memory.write.redact import Redactor
from policies.chunking import chunked
from policies.redaction import Finding, Redacted, merge_findings, replace_findings


@dataclass(frozen=True)
class Cutting:
    """Finds what stands at these places."""

    spans: tuple[tuple[int, int], ...]
    instead: str | None = None

    def redact(self, text: str) -> Redacted:
        inside = [(start, min(end, len(text))) for start, end in self.spans if start < min(end, len(text))]
        found = merge_findings(Finding(start, end, "password", self.instead) for start, end in inside)
        return replace_findings(text, found)


def laid(texts: list[str]) -> list[Block]:
    blocks, at = [], 0
    for text in texts:
        blocks.append(Block(text, "paragraph", at, at + len(text)))
        at += len(text) + 2
    return blocks


paragraphs = st.lists(
    st.text(alphabet="abc ", min_size=1, max_size=12).filter(lambda one: bool(one.strip())), max_size=6
)
spans = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=4).map(
    lambda some: tuple((start, start + length) for start, length in some)
)


@example(["a", "a"], ((1, 4),))  # it begins between two blocks
@given(paragraphs, spans)
def test_nothing_that_is_found_is_left_and_nothing_else_is_lost(
    texts: list[str], found: tuple[tuple[int, int], ...]
) -> None:
    blocks = laid(texts)
    whole = "\n\n".join(texts)
    kept = "".join(char for at, char in enumerate(whole) if not any(start <= at < end for start, end in found))
    said = "".join(block.text for block in cleaned_blocks(blocks, Cutting(found)))
    words = said.replace("[redacted:password]", "")
    assert words.split() == [] if not kept.split() else "".join(words.split()) == "".join(kept.split())
    touched = {start for start, end in found if start < len(whole) and whole[start:end].strip()}
    assert not touched or "[redacted:password]" in said
    dropped = cleaned_blocks(blocks, Cutting(found, instead=""))
    assert "".join("".join(block.text for block in dropped).split()) == "".join(kept.split())


def test_a_block_that_was_cut_into_points_at_its_whole() -> None:
    blocks = laid(["My password is hunter2 and so on.", "Another paragraph."])
    first, second = cleaned_blocks(blocks, Cutting(((15, 22),)))
    assert first.text == "My password is [redacted:password] and so on."
    assert (first.start, first.end) == (0, 33)
    (chunk,) = chunked([first, second])
    assert (chunk.start, chunk.end) == (0, second.end)


def test_a_finding_over_several_blocks_leaves_one_mark_and_takes_what_lies_between() -> None:
    blocks = laid(["before BEGIN", "middle", "END after"])
    said = cleaned_blocks(blocks, Cutting(((7, 25),)))
    assert [block.text for block in said] == ["before [redacted:password]", " after"]


class Read:
    """What a parser says, as blocks."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.sink = Sink(self._take, Limits(chars_max=1_000_000))

    def _take(self, raw: str) -> None:
        said = json.loads(raw)
        self.blocks.append(Block(*(said[name] for name in ("t", "k", "s", "e", "p", "l"))))


@pytest.mark.parametrize("of", ["log", "json"])
@pytest.mark.parametrize("before", range(BLOCK_CHARS_MAX - 60, BLOCK_CHARS_MAX + 8, 4))
def test_no_border_of_a_long_paragraph_or_row_hides_a_secret(of: str, before: int) -> None:
    """It leaves the parser in pieces."""
    line, read = "a line of a log\n", Read()
    text = (line * 7_000)[: before - 1] + "\nlogin password = correcthorse7battery\n" + line * 100
    if of == "log":
        plain.paragraphs(text, read.sink)
    else:
        tables.tree(json.dumps([text]), read.sink)
    assert len(read.blocks) > 1
    blocks = cleaned_blocks(read.blocks, Redactor(secret_detectors()))
    said = "".join(block.text for block in blocks)
    assert "[redacted:password]" in said and "correct" not in said and "battery" not in said
    assert all(one.text.endswith((" ", "\n")) for one, _ in pairwise(read.blocks)), "no word is cut"


def test_a_clean_text_is_left_as_it_is() -> None:
    blocks = laid(["one", "two"])
    assert cleaned_blocks(blocks, Cutting(())) == blocks


def staged(**facts: str) -> Staged:
    told = {"integrity": "user", "sensitivity": "internal", **facts}
    file = FileFacts("text/plain", bytes(32), 1, 1, 0, told["integrity"], told["sensitivity"])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Staged(UUID(int=1), "a", Scope(UUID(int=2)), None, UUID(int=3), file, b"", now)


def test_a_chunk_is_known_by_its_document_labels_words_and_number() -> None:
    key = b"k" * 32
    first = chunk_key(key, staged(), "words", 0)
    assert first == chunk_key(key, staged(), "words", 0)
    others = {
        chunk_key(key, staged(), "other words", 0),
        chunk_key(key, staged(), "words", 1),
        chunk_key(key, staged(sensitivity="secret"), "words", 0),
        chunk_key(key, staged(integrity="imported"), "words", 0),
        chunk_key(b"l" * 32, staged(), "words", 0),
    }
    assert first not in others and len(others) == 5


@given(paragraphs, st.text(max_size=20))
def test_what_is_staged_comes_back(texts: list[str], title: str) -> None:
    parsed = Parsed("text/plain", title.encode("utf-8", "replace").decode(), tuple(laid(texts)), 1, 0)
    assert document_payload.unpacked(document_payload.packed(parsed)) == (parsed.title, parsed.blocks)


@pytest.mark.parametrize("raw", [b"", b"no zlib", b"x\x9c\x03\x00\x00\x00\x00\x01"])
def test_other_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(EnvelopeUnreadable):
        document_payload.unpacked(raw)
