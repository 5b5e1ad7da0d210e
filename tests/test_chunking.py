"""Cutting documents: every character is in a chunk, offsets lead back to it, and borders are those of the text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.parse.blocks import Block
from policies.chunking import CHARS_MAX, OVERLAP_CHARS, Chunk, chunked, path_of
from policies.inlining import way_of

SENTENCE = "The furnace was shut down for repairs in the third week of the month. "


def laid(*texts: tuple[str, str, int] | str) -> list[Block]:
    """Blocks one behind the other, two characters between; (kind, text, level) or a paragraph."""
    blocks: list[Block] = []
    at = 0
    for one in texts:
        kind, text, level = ("paragraph", one, 0) if isinstance(one, str) else one
        blocks.append(Block(text, kind, at, at + len(text), None, level))  # type: ignore[arg-type]
        at += len(text) + 2
    return blocks


def whole(blocks: list[Block]) -> str:
    return "\n\n".join(block.text for block in blocks)


kinds = st.sampled_from(["heading", "paragraph", "row", "code"])
texts = st.text(alphabet="ab .!?\n。é🐝", min_size=1, max_size=300).filter(lambda text: bool(text.strip()))
documents = st.lists(st.tuples(kinds, texts, st.integers(1, 6)), max_size=12).map(lambda some: laid(*some))


@given(documents, st.integers(20, 200), st.integers(0, 9))
def test_every_character_is_in_a_chunk_and_what_is_said_again_was_said_before(
    blocks: list[Block], chars_max: int, overlap: int
) -> None:
    chunks = chunked(blocks, chars_max, overlap)
    new = [piece for chunk in chunks for piece in chunk.pieces if not piece.again]
    covered: dict[int, int] = {}
    for piece in new:
        assert piece.start == covered.get(piece.block, 0), "pieces follow each other without a gap"
        covered[piece.block] = piece.end
    lost = [block.text[covered.get(at, 0) :] for at, block in enumerate(blocks)]
    assert "".join(lost).strip() == "", "only blank space is in no chunk"
    for before, chunk in itertools.pairwise(chunks):
        again = [piece for piece in chunk.pieces if piece.again]
        assert len(again) <= 1
        for piece in again:
            assert chunk.pieces[0] is piece and piece.end - piece.start <= overlap
            assert before.pieces[-1].block == piece.block and before.pieces[-1].end == piece.end


@given(documents)
def test_offsets_point_at_what_the_chunk_says(blocks: list[Block]) -> None:
    text = whole(blocks)
    for chunk in chunked(blocks, 120, 30):
        said = text[chunk.start : chunk.end]
        assert "".join(chunk.text.split()) == "".join(said.split())
        assert 0 <= chunk.start < chunk.end <= len(text)


@given(documents, st.integers(20, 200))
def test_no_chunk_is_longer_than_it_may_be(blocks: list[Block], chars_max: int) -> None:
    headings = max((len(block.text) for block in blocks if block.kind == "heading"), default=0)
    for chunk in chunked(blocks, chars_max, 5):
        assert len(chunk.text) <= chars_max + headings + 2, "a heading is not cut, nor is it parted from its section"


@given(documents)
def test_the_same_document_is_cut_the_same(blocks: list[Block]) -> None:
    assert chunked(blocks) == chunked(blocks)


def said(chunks: list[Chunk]) -> list[tuple[str, str]]:
    return [(" > ".join(chunk.headings), chunk.text) for chunk in chunks]


def test_short_paragraphs_stand_together_and_are_never_cut() -> None:
    paragraphs = [f"Paragraph {at}. " + SENTENCE * 3 for at in range(9)]
    chunks = chunked(laid(*paragraphs))
    assert [chunk.text.count("Paragraph") for chunk in chunks] == [3, 3, 3]
    assert all(chunk.text.startswith("Paragraph") and chunk.text.endswith("month.") for chunk in chunks)


def test_a_long_paragraph_is_cut_at_sentences_and_says_its_last_one_again() -> None:
    chunks = chunked(laid(SENTENCE * 40))
    assert len(chunks) > 3
    for chunk in chunks:
        assert chunk.text.startswith("The furnace") and chunk.text.endswith("month.")
    again = [next(piece for piece in chunk.pieces if piece.again) for chunk in chunks[1:]]
    assert all(len(SENTENCE) <= piece.end - piece.start <= OVERLAP_CHARS for piece in again)


@pytest.mark.parametrize(
    "sentence",
    [
        "भट्ठी महीने के तीसरे सप्ताह में मरम्मत के लिए बंद कर दी गई थी। ",
        "بھٹی مہینے کے تیسرے ہفتے میں مرمت کے لیے بند کر دی گئی تھی۔ ",
        "هل أُوقف الفرن للصيانة في الأسبوع الثالث من الشهر؟ ",
        "“The furnace was shut down for repairs in the third week.” ",
        "«Печь остановили на ремонт на третьей неделе месяца.» ",
        "「炉は修理のため、その月の第三週に止められた。」",
    ],
    ids=["Hindi", "Urdu", "Arabic", "quotes", "Russian", "Japanese"],
)
def test_a_paragraph_is_cut_at_sentences_in_every_script(sentence: str) -> None:
    chunks = chunked(laid(sentence * (4_000 // len(sentence))))
    assert len(chunks) > 3
    for chunk in chunks:
        assert chunk.text.startswith(sentence[:8]) and chunk.text.endswith(sentence.strip()[-8:])


def test_a_text_without_borders_is_cut_all_the_same() -> None:
    chunks = chunked(laid("x" * 10_000))
    assert all(len(chunk.text) <= CHARS_MAX for chunk in chunks)
    assert sum(piece.end - piece.start for chunk in chunks for piece in chunk.pieces if not piece.again) == 10_000


def test_a_text_of_another_script_is_cut_at_its_sentences_and_between_whole_letters() -> None:
    sentence = "मेरी बहन दिल्ली में रहती है और काम करती है। "
    (first, *_) = chunked([Block(sentence * 40, "paragraph", 0, 40 * len(sentence))])
    assert first.text.endswith("।")
    for chunk in chunked([Block("กี่" * 900, "paragraph", 0, 2_700)]):
        assert chunk.text.startswith("ก") and chunk.text.endswith("่")


def test_headings_are_carried_and_end_with_their_section() -> None:
    body = SENTENCE * 4
    plant, furnace, coast = ("heading", "Plant", 1), ("heading", "Furnace", 2), ("heading", "Coast", 1)
    chunks = chunked(laid(plant, body, furnace, body, body * 3, coast, body))
    assert [" > ".join(chunk.headings) for chunk in chunks] == ["", "Plant", "Plant > Furnace", ""]
    assert [" > ".join(chunk.section) for chunk in chunks] == ["Plant", "Plant > Furnace", "Plant > Furnace", "Coast"]
    assert chunks[1].text.startswith("Furnace\n\nThe furnace")
    assert chunks[1].content == f"Plant\n{chunks[1].text}"
    assert chunks[2].content.startswith("Plant > Furnace\nThe furnace")
    assert chunks[-1].text.startswith("Coast")


def test_small_sections_stand_together_with_their_headings() -> None:
    texts: list[tuple[str, str, int] | str] = []
    for at in range(9):
        texts += [("heading", f"Key {at}", 2), f"value {at}"]
    chunks = chunked(laid(*texts))
    assert len(chunks) == 1
    assert "Key 8\n\nvalue 8" in chunks[0].text


def test_rows_stand_under_each_other_whole() -> None:
    rows = [("row", f"name: {at}; town: Bled; note: " + "x" * 90, 0) for at in range(40)]
    chunks = chunked(laid(*rows))
    assert all(line.startswith("name: ") for chunk in chunks for line in chunk.text.split("\n"))
    assert not [piece for chunk in chunks for piece in chunk.pieces if piece.again]


def test_pages_of_a_chunk_are_those_of_its_blocks() -> None:
    blocks = [Block(SENTENCE * 2, "paragraph", at * 200, at * 200 + len(SENTENCE) * 2, at + 1) for at in range(12)]
    chunks = chunked(blocks)
    assert [(chunk.page, chunk.page_to) for chunk in chunks] == [(1, 5), (6, 10), (11, 12)]


def test_a_row_that_is_no_slice_has_the_place_of_its_record() -> None:
    blocks = [Block("name: Ada; town: Bled", "row", 10, 19), Block("name: Bob; town: Graz", "row", 19, 28)]
    (chunk,) = chunked(blocks)
    assert (chunk.start, chunk.end) == (10, 28)


def test_a_piece_of_a_long_row_has_the_place_of_all_of_it() -> None:
    blocks = [
        Block("before", "paragraph", 0, 6),
        Block("word " * 500, "row", 8, 60),
        Block("behind", "paragraph", 62, 68),
    ]
    assert [(chunk.start, chunk.end) for chunk in chunked(blocks)] == [(0, 60), (8, 60), (8, 60), (8, 68)]


def test_a_path_of_headings_keeps_the_innermost() -> None:
    assert path_of(["a", "b"]) == "a > b"
    assert path_of(["x" * 150, "y" * 150]) == "y" * 150
    assert len(path_of(["x" * 500])) == 200


def test_no_blocks_are_no_chunks_and_bounds_are_checked() -> None:
    assert chunked([]) == []
    with pytest.raises(ValueError, match="overlap"):
        chunked([], 100, 50)


@pytest.mark.parametrize(
    ("choice", "chars", "way"),
    [
        ("auto", 2_000, "inline"),
        ("auto", 2_001, "retrieved"),
        ("always", 4_000, "inline"),
        ("always", 4_001, "both"),
        ("never", 1, "retrieved"),
    ],
)
def test_small_documents_are_given_whole_and_large_ones_by_what_is_found(choice: str, chars: int, way: str) -> None:
    assert way_of(choice, chars, 1_000) == way  # type: ignore[arg-type]
