"""Parsing of uploaded files: each type gives its words with their places, and no file does any harm."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import documents
from bench.documents_files import TYPES, Hostile, docx, hostile, paragraphs, pdf, pdf_with_a_broken_page, sound, zipped
from memory.adapters.parsing import ParseBounds, ParseProcess
from memory.documents import Parsed
from memory.errors import RateLimited, Refused, StoreUnavailable, TooLarge, Unprocessable
from memory.model import Scope
from memory.parse import html, plain
from memory.parse.blocks import BLOCK_CHARS_MAX, Block, Limits, Refusal, Sink, TooMuch, clean
from memory.parse.docx import document
from memory.parse.pdf import document as pdf_of
from memory.parse.pdf import undivided
from memory.parse.sniff import CSV, DOCX, HTML, JSON, MARKDOWN, PDF, TEXT, recognised
from memory.parse.tables import table, tree

ROOT = Path(__file__).parent.parent
MEDIA = {"txt": TEXT, "md": MARKDOWN, "csv": CSV, "json": JSON, "html": HTML, "docx": DOCX, "pdf": PDF}
HOSTILE = list(hostile())
ADA = Scope(UUID(int=1), "ada")


def parse(content: bytes, name: str, declared: str = "", bounds: ParseBounds | None = None) -> Parsed:
    return asyncio.run(ParseProcess(bounds or ParseBounds()).parse(ADA, content, name, declared))


class Taking:
    """A sink that keeps what it is given."""

    def __init__(self, **limits: int) -> None:
        self.blocks: list[Block] = []
        self.sink = Sink(self._take, Limits(**{"chars_max": 10_000_000, **limits}))

    def _take(self, raw: str) -> None:
        said = json.loads(raw)
        self.blocks.append(Block(*(said[name] for name in ("t", "k", "s", "e", "p", "l"))))


# ---------------------------------------------------------------- what each type gives


@pytest.mark.parametrize("kind", TYPES)
def test_a_sound_file_of_each_type_is_read_whole(kind: str) -> None:
    content = sound(kind, 20_000)
    parsed = parse(content, f"report.{kind}")
    assert parsed.media_type == MEDIA[kind]
    said = " ".join(" ".join(block.text.split()) for block in parsed.blocks)
    for text in paragraphs(1, 4_000) if kind not in ("csv", "json") else ():
        assert " ".join(text.split()) in said
    assert parsed.chars == sum(len(block.text) for block in parsed.blocks)


@pytest.mark.parametrize(
    "said",
    [
        "RIFF is a container of chunks.", "Rar! said the raven.", "GIF89a came in 1989.", "BZh begins bzip2.",
        "SQLite format 3 will be read until 2050.",
    ],
)  # fmt: skip
def test_a_text_that_begins_as_some_files_do_is_text(said: str) -> None:
    assert recognised(said.encode(), "notes.md", "").text == said
    with pytest.raises(Refusal):
        recognised(said.encode() + b"\x00\x01\xff", "notes.md", "")


@pytest.mark.parametrize("declared", ["", DOCX])
def test_a_word_document_with_a_password_is_said_to_have_one(declared: str) -> None:
    """It is no ZIP any more, but one stream of an OLE file, as an old .doc is."""
    content = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(504) + "EncryptedPackage".encode("utf-16-le") + bytes(512)
    with pytest.raises(Refusal, match="save it without a password"):
        recognised(content, "plan.docx", declared)
    with pytest.raises(Refusal, match="an old Office document"):
        recognised(content.replace(b"E\0n\0c\0", b"W\0o\0r\0"), "plan.docx", declared)


def test_a_text_about_pdf_is_text() -> None:
    said = "# The format\n\nA file begins with %PDF-1.7, and its objects end with endobj."
    assert recognised(said.encode(), "format.md", "text/markdown").media_type == MARKDOWN


def test_a_pdf_has_the_pages_that_it_has_also_behind_its_last_words() -> None:
    parsed = parse(pdf([["The first page."], [], []]), "a.pdf")
    assert (parsed.pages, [block.page for block in parsed.blocks]) == (3, [1])


def test_a_pdf_says_its_pages_and_its_title() -> None:
    parsed = parse(pdf([["First page, first line."], ["Second page."]], compress=True), "a.pdf")
    assert parsed.title == "A report"
    assert parsed.pages == 2
    assert [(block.page, block.text) for block in parsed.blocks] == [
        (1, "First page, first line."),
        (2, "Second page."),
    ]


@pytest.mark.parametrize("words", ["", "Words."])
def test_a_scan_is_refused_whatever_its_outline_says(words: str) -> None:
    """A scanned book has the titles of its chapters, and no page that can be read."""
    bare = pdf([[words]], extra=b" /Outlines 7 0 R").partition(b"xref\n")[0]
    outline = b"7 0 obj\n<< /First 8 0 R /Last 8 0 R /Count 1 >>\nendobj\n"
    chapter = b"8 0 obj\n<< /Title (Chapter) /Parent 7 0 R /Dest [4 0 R /Fit] >>\nendobj\n"
    scan = bare + outline + chapter + b"trailer\n<< /Size 9 /Root 1 0 R >>\nstartxref\n0\n%%EOF\n"
    taken = Taking()
    if words:
        pdf_of(scan, taken.sink)
        assert [block.text for block in taken.blocks] == ["Chapter", "Words."]
        return
    with pytest.raises(Refusal, match="a scan"):
        pdf_of(scan, taken.sink)


def test_a_word_document_says_headings_whatever_its_language_and_pages_as_last_laid_out() -> None:
    parsed = parse(docx([f"Text {at}." for at in range(9)]), "a.docx")
    assert parsed.title == "A report"
    headings = [(block.text, block.level) for block in parsed.blocks if block.kind == "heading"]
    assert headings == [("Part 0", 1), ("Part 1", 1)]
    assert [block.page for block in parsed.blocks if block.text in ("Text 3.", "Text 4.", "Text 8.")] == [1, 2, 2]


def words(text: str) -> str:
    """A paragraph of Word's."""
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def word(body: str) -> list[tuple[int | None, str]]:
    """Pages and texts of a Word document with this body."""
    taken = Taking()
    document(docx([], body=body), taken.sink)
    return [(block.page, block.text) for block in taken.blocks]


def test_a_text_box_of_a_word_document_is_said_once() -> None:
    """Word keeps each twice: as it draws it now, and for older programs."""
    box = f"<w:txbxContent>{words('In the box.')}</w:txbxContent>"
    both = f"<mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>"
    compatible = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    drawn = f"<w:r><mc:AlternateContent {compatible}>{both}</mc:AlternateContent></w:r>"
    assert word(f"<w:p>{drawn}<w:r><w:t>Beside it.</w:t></w:r></w:p>") == [(1, "In the box."), (1, "Beside it.")]


def test_a_word_document_with_tracked_changes_says_what_stands_now() -> None:
    """What was moved stands at its new place, and a paragraph has the style that it has, not the one that it had."""
    run = "<w:r><w:t>Moved words.</w:t></w:r>"
    moved = f"<w:p><w:moveFrom>{run}</w:moveFrom></w:p>{words('Between.')}<w:p><w:moveTo>{run}</w:moveTo></w:p>"
    assert word(moved) == [(1, "Between."), (1, "Moved words.")]
    was = '<w:pPrChange><w:pPr><w:pStyle w:val="berschrift1"/></w:pPr></w:pPrChange>'
    taken = Taking()
    document(docx([], body=f"<w:p><w:pPr>{was}</w:pPr><w:r><w:t>Words.</w:t></w:r></w:p>"), taken.sink)
    assert [(block.kind, block.level) for block in taken.blocks] == [("paragraph", 0)]


def test_a_page_of_a_word_document_is_that_of_the_first_words_and_ends_once() -> None:
    """Where somebody ended a page, Word says so, and again at the next words, as it laid them out."""
    ended, laid_out = '<w:r><w:br w:type="page"/></w:r>', "<w:r><w:lastRenderedPageBreak/></w:r>"
    first = f"<w:p><w:r><w:t>First.</w:t></w:r>{ended}</w:p>"
    second = f"<w:p>{laid_out}<w:r><w:t>Second, and</w:t></w:r>{laid_out}<w:r><w:t> third.</w:t></w:r></w:p>"
    cells = f"<w:tc>{words('A')}</w:tc><w:tc><w:p>{laid_out}<w:r><w:t>B</w:t></w:r></w:p></w:tc>"
    row = f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>"
    said = word(first + second + row + f"<w:p>{ended}</w:p>{words('Fifth.')}")
    assert said == [(1, "First."), (2, "Second, and third."), (3, "A | B"), (5, "Fifth.")]


def test_signs_of_a_word_document_that_are_elements_are_said() -> None:
    """A hyphen that holds a word together, a tab of a header, a formula; where a word may be divided is no sign."""
    hyphen = "<w:r><w:t>co</w:t><w:noBreakHyphen/><w:t>operate </w:t></w:r>"
    soft = "<w:r><w:t>Donau</w:t><w:softHyphen/><w:t>dampf</w:t><w:ptab/><w:t>right </w:t></w:r>"
    formula = '<m:oMath xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"><m:r><m:t>E=mc</m:t></m:r>'
    assert word(f"<w:p>{hyphen}{soft}{formula}</m:oMath></w:p>") == [(1, "co-operate Donaudampf\tright E=mc")]


def test_a_note_of_a_word_document_stands_behind_what_it_is_a_note_to() -> None:
    separator = f'<w:footnote w:type="separator" w:id="-1">{words("")}</w:footnote>'
    notes = f'{separator}<w:footnote w:id="2">{words("The foot, ")}{words("twice.")}</w:footnote>'
    parts = {
        "footnotes": f'{notes}<w:footnote w:id="3">{words("Nobody refers to it.")}</w:footnote>',
        "endnotes": f'<w:endnote w:id="2">{words("The end.")}</w:endnote>',
    }
    cell = '<w:tc><w:p><w:r><w:t>A</w:t><w:endnoteReference w:id="2"/></w:r></w:p></w:tc>'
    body = (
        '<w:p><w:r><w:t>A claim</w:t><w:footnoteReference w:id="2"/><w:t>.</w:t></w:r></w:p>'
        f"{words('Behind it.')}<w:tbl><w:tr>{cell}<w:tc>{words('B')}</w:tc></w:tr></w:tbl>"
    )
    taken = Taking()
    document(with_parts(docx([], body=body), parts), taken.sink)
    assert [block.text for block in taken.blocks] == ["A claim.", "The foot,", "twice.", "Behind it.", "A The end. | B"]


def test_a_word_document_whose_parts_are_numbered_is_one() -> None:
    """Word for the web saves word/document2.xml, and styles2.xml beside it."""
    with zipfile.ZipFile(io.BytesIO(docx(["Text."]))) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    numbered = {re.sub(r"/(document|styles)\.", r"/\g<1>2.", name): text for name, text in parts.items()}
    numbered["word/glossary/document.xml"] = parts["word/document.xml"].replace("Text.", "Building block.")
    content, taken = zipped(numbered), Taking()
    assert recognised(content, "a.docx", "").media_type == DOCX
    document(content, taken.sink)
    assert [(block.kind, block.text) for block in taken.blocks] == [("heading", "Part 0"), ("paragraph", "Text.")]


@pytest.mark.parametrize("strict", [False, True])
def test_a_word_document_is_read_whatever_its_parts_call_words_names(strict: bool) -> None:
    """Other writers have other prefixes (Python's own ns0), Word's strict form has other spaces."""
    with zipfile.ZipFile(io.BytesIO(docx(["Text."]))) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    for name, text in parts.items():
        parts[name] = re.sub(r"\b(w|dc|cp)(?=:\w)", r"o\1", text).replace("xmlns:w=", "xmlns:ow=")
        parts[name] = re.sub(r"xmlns:(dc|cp)=", r"xmlns:o\1=", parts[name])
        if strict:
            space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
            parts[name] = parts[name].replace(space, "http://purl.oclc.org/ooxml/wordprocessingml/main")
    assert "<ow:p>" in parts["word/document.xml"] and "<odc:title>" in parts["docProps/core.xml"]
    taken = Taking()
    assert document(zipped(parts), taken.sink) == "A report"
    assert [(block.kind, block.text) for block in taken.blocks] == [("heading", "Part 0"), ("paragraph", "Text.")]


def with_parts(content: bytes, parts: dict[str, str]) -> bytes:
    """A Word document with more of its parts."""
    more = io.BytesIO(content)
    word_space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    with zipfile.ZipFile(more, "a") as archive:
        for name, text in parts.items():
            archive.writestr(f"word/{name}.xml", f"<w:{name} {word_space}>{text}</w:{name}>")
    return more.getvalue()


def test_html_leaves_out_what_is_not_shown() -> None:
    page = (
        "<!doctype html><title>Hidden words</title><h1>Head</h1><script>no()</script><style>no</style>"
        "<p style='display: none'>no</p><p hidden>no</p><!-- no --><p>Yes &amp; <b>more</b></p>"
        "<table><tr><th>a<th>b<tr><td>1<td><p>2</p></table><pre>x\n  y</pre>"
    )
    parsed = parse(page.encode(), "a.html")
    assert parsed.title == "Hidden words"
    assert [(block.kind, block.text) for block in parsed.blocks] == [
        ("heading", "Head"), ("paragraph", "Yes & more"), ("row", "a | b"), ("row", "1 | 2"), ("code", "x\n  y"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "unseen",
    [
        "<svg>" + "<path d='M0 0'/>" * 10_001 + "</svg>",
        "<script>" + "for(i=0;i<n;i++){};" * 10_001 + "</script>",
        "<style>" + "/* a<b */" * 10_001 + "</style>",
        "<!--" + "<b>" * 10_001 + "-->",
        "<video>" + "<source src=a><track>" * 10_001 + "</video>",
        "<p>one" + "<option>" * 10_001,
    ],
)
def test_html_is_not_deep_by_what_nests_nothing(unseen: str) -> None:
    """A page that a notebook or a plotting library wrote has its script, of megabytes, and its pictures in it."""
    taken = Taking()
    html.page(f"<html><body>{unseen}<p>The words.</p>", taken.sink)
    assert taken.blocks[-1].text == "The words."


def test_a_word_document_leaves_out_what_is_not_shown() -> None:
    """As a page does. Of a run that was hidden before a tracked change the words are shown."""
    hidden = "<w:r><w:rPr><w:vanish/></w:rPr><w:t>Not shown. </w:t></w:r>"
    paragraph_sign = "<w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr>"
    again = '<w:r><w:rPr><w:vanish w:val="0"/></w:rPr><w:t>Shown, </w:t></w:r>'
    was = "<w:rPrChange><w:rPr><w:vanish/></w:rPr></w:rPrChange>"
    changed = f"<w:r><w:rPr>{was}</w:rPr><w:t>and this.</w:t></w:r>"
    assert word(f"<w:p>{paragraph_sign}{hidden}{again}{changed}</w:p>") == [(1, "Shown, and this.")]


def shown(page: str) -> list[tuple[str, int, str]]:
    """Kinds, levels and texts of a page."""
    taken = Taking()
    html.page(page, taken.sink)
    return [(block.kind, block.level, block.text) for block in taken.blocks]


def test_an_empty_element_of_xhtml_ends_where_it_begins() -> None:
    head = '<?xml version="1.0"?>\n<html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="a.js"/></head>'
    body = (
        "<body><a id=\"p>1\"/><h2/><p>One</p><iframe src='x'/><pre/><hr/><p>Two <b/>words,<br/>  here</p></body></html>"
    )
    assert shown(head + body) == [("paragraph", 0, "One"), ("paragraph", 0, "Two words, here")]


def test_a_heading_is_one_whatever_stands_in_it() -> None:
    assert shown("<h1><a href=x><div>The head</div></a></h1><p>Words<h2><p>Of two</p><p>lines</p></h2>More") == [
        ("heading", 1, "The head"), ("paragraph", 0, "Words"),
        ("heading", 2, "Of two"), ("heading", 2, "lines"), ("paragraph", 0, "More"),
    ]  # fmt: skip
    table_first = "<table><tr><td><h3>A</h3><td>B</table><h3></h3>Words"
    assert shown(table_first) == [("row", 0, "A | B"), ("paragraph", 0, "Words")]


@pytest.mark.parametrize("tag", ["center", "dir", "hgroup", "legend", "listing", "menu", "search", "xmp"])
def test_what_is_shown_as_a_block_is_not_joined_to_what_stands_beside_it(tag: str) -> None:
    assert [text for _, _, text in shown(f"one<{tag}>two</{tag}>three")] == ["one", "two", "three"]


def test_where_a_word_may_be_divided_it_is_not() -> None:
    """A soft hyphen is seen at the end of a line alone, in a PDF always; a search for the whole word is to find it."""
    assert shown("<p>Donau&shy;dampf\u00adschiff") == [("paragraph", 0, "Donaudampfschiff")]
    assert word(words("Donau\u00addampf")) == [(1, "Donaudampf")]
    assert undivided("Donau\u00ad \n dampf is well\u00adknown,\nDonau\u00ad") == "Donaudampf is well-known,\nDonau-"


def test_rows_of_a_table_name_their_columns_and_their_place() -> None:
    text = 'name;town\nAda;"Bled;\nLake"\n\nBob;Graz\n'
    taken = Taking()
    table(text, taken.sink)
    assert [block.text for block in taken.blocks] == [
        "name | town",
        "name: Ada; town: Bled; Lake",
        "name: Bob; town: Graz",
    ]
    assert text[taken.blocks[1].start : taken.blocks[1].end] == 'Ada;"Bled;\nLake"\n'
    assert text[taken.blocks[2].start : taken.blocks[2].end].strip() == "Bob;Graz"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("Länge;Preis, EUR\nx;1,50\ny;2,50\n", ["Länge: x; Preis, EUR: 1,50", "Länge: y; Preis, EUR: 2,50"]),
        ("Size, m\tWeight, kg\n1\t2\n", ["Size, m: 1; Weight, kg: 2"]),
        ('id;note\n1;"a, b, c\nd, e"\n2;"f, g"\n', ["id: 1; note: a, b, c d, e", "id: 2; note: f, g"]),
        ('id,note\n1,"a; b; c\nd; e"\n2,"f; g"', ["id: 1; note: a; b; c d; e", "id: 2; note: f; g"]),
        ("a|b\n1|2, 3\n", ["a: 1; b: 2, 3"]),
        ("word\nanother, one\n", ["word: another; one"]),
        ("sep=;\r\nname;sum\r\nAda;1,5\r\n", ["name: Ada; sum: 1,5"]),
    ],
)
def test_cells_are_divided_by_what_divides_each_row_alike(text: str, rows: list[str]) -> None:
    """Not by what stands in the cells; Excel may say it in a line of its own."""
    taken = Taking()
    table(text, taken.sink)
    assert [block.text for block in taken.blocks][1:] == rows


def test_members_of_json_are_said_with_their_paths_and_their_place() -> None:
    text = '{"team": {"lead": {"name": "Ada"}, "size": 3}, "open": true, "towns": [{"a": "Bled"}, {"a": "Graz"}]}'
    taken = Taking()
    tree(text, taken.sink)
    assert [block.text for block in taken.blocks] == [
        "team", "lead.name: Ada; size: 3", "open: true", "towns", "a: Bled", "a: Graz",
    ]  # fmt: skip
    assert text[taken.blocks[1].start : taken.blocks[1].end] == '"team": {"lead": {"name": "Ada"}, "size": 3}'


def test_markdown_gives_headings_fences_and_paragraphs_as_they_stand() -> None:
    text = "Title\n=====\n\nSome *text*\nof two lines.\n\n## Part ##\n```py\n# no heading\n\n```\n- a\n- b\n"
    taken = Taking()
    plain.markdown(text, taken.sink)
    assert [(block.kind, block.level, block.text) for block in taken.blocks] == [
        ("heading", 1, "Title"),
        ("paragraph", 0, "Some *text*\nof two lines."),
        ("heading", 2, "Part"),
        ("code", 0, "```py\n# no heading\n\n```"),
        ("paragraph", 0, "- a\n- b"),
    ]


def test_code_within_a_line_opens_no_fence() -> None:
    """A fence of backticks has none behind it; one of tildes may."""
    taken = Taking()
    plain.markdown("```code``` in a line\n\n# Head\n\n~~~ a`b\n# no head\n~~~\n", taken.sink)
    assert [(block.kind, block.text) for block in taken.blocks] == [
        ("paragraph", "```code``` in a line"), ("heading", "Head"), ("code", "~~~ a`b\n# no head\n~~~"),
    ]  # fmt: skip


def as_decoded(text: str) -> str:
    """A text as a file of it is decoded."""
    return recognised(text.encode(), "a.txt", "").text or ""


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_lines_end_as_any_system_ends_them(end: str) -> None:
    """A carriage return alone is what Excel for the Mac writes."""
    markdown, rows = Taking(), Taking()
    plain.markdown(as_decoded(end.join(("# Head", "", "Words", "of two", "", "## Part", "More", ""))), markdown.sink)
    assert [(block.kind, " ".join(block.text.split())) for block in markdown.blocks] == [
        ("heading", "Head"), ("paragraph", "Words of two"), ("heading", "Part"), ("paragraph", "More"),
    ]  # fmt: skip
    text = as_decoded(end.join(("name,town", "Ada,Bled", f'Bob,"Graz{end}West"', "")))
    table(text, rows.sink)
    assert [block.text for block in rows.blocks] == [
        "name | town",
        "name: Ada; town: Bled",
        "name: Bob; town: Graz West",
    ]
    assert "".join(text[block.start : block.end] for block in rows.blocks) == text and len(text) == 31 + 4 * len(end)


@pytest.mark.parametrize("name", ["a.t\0t", "a.\ud800", "a.md\0", "a." + "x" * 200_000])
def test_a_file_is_read_whatever_it_is_called(name: str) -> None:
    """A form may give it any name (filename*=UTF-8''a.t%00t)."""
    assert parse(b"# words", name).media_type == TEXT


@given(st.text(alphabet="ab#`~=-\n\r \t\f*é🐝", max_size=400))
def test_blocks_of_text_and_markdown_are_slices_that_lose_no_word(text: str) -> None:
    for read in (plain.paragraphs, plain.markdown):
        taken = Taking()
        read(text, taken.sink)
        assert all(clean(text[block.start : block.end]) == block.text for block in taken.blocks)
        places = [(block.start, block.end) for block in taken.blocks]
        assert all(one[1] <= two[0] for one, two in itertools.pairwise(places))
        covered = {at for start, end in places for at in range(start, end)}
        lost = "".join(text[at] for at in range(len(text)) if at not in covered)
        assert set(lost) <= set("#=- \t\r\n\f"), "only marks of headings and space stand between blocks"


def test_a_long_paragraph_leaves_in_pieces_that_keep_their_place() -> None:
    text = "x" * (BLOCK_CHARS_MAX * 2 + 5)
    taken = Taking()
    plain.paragraphs(text, taken.sink)
    assert [(block.start, block.end) for block in taken.blocks] == [
        (0, BLOCK_CHARS_MAX), (BLOCK_CHARS_MAX, 2 * BLOCK_CHARS_MAX), (2 * BLOCK_CHARS_MAX, 2 * BLOCK_CHARS_MAX + 5),
    ]  # fmt: skip


def test_a_sink_stops_a_parser_that_says_too_much() -> None:
    with pytest.raises(TooMuch, match="more than 10 characters"):
        plain.paragraphs("words and more words", Taking(chars_max=10).sink)
    with pytest.raises(TooMuch, match="more than 2 paragraphs"):
        plain.paragraphs("a\n\nb\n\nc", Taking(blocks_max=2).sink)


# ---------------------------------------------------------------- the type of a file


@pytest.mark.parametrize(
    ("content", "name", "declared", "found"),
    [
        (b"words", "a", "", TEXT),
        (b"words", "a.md", "", MARKDOWN),
        (b"words", "a.md", "text/plain", MARKDOWN),
        (b"words", "a.csv", "application/vnd.ms-excel", CSV),
        (b'{"a": 1}', "a", "", JSON),
        (b'{"a": 1}', "a.txt", "", TEXT),
        (b"{not json", "a", "", TEXT),
        (b"12", "a", "", TEXT),
        (b" <!-- x --><HTML><p>x", "a", "application/octet-stream", HTML),
        (b"<b>x</b> words", "a", "", TEXT),
        (b"<p>a fragment", "a.html", "", HTML),
        ("Gr\u00fc\u00dfe".encode("cp1252"), "a.txt", 'text/plain; charset="windows-1252"', TEXT),
        ("\ufeffword".encode("utf-16-be"), "a", "", TEXT),
        (b"About the mark %PDF-1.4 in a text", "a.txt", "", TEXT),
    ],
)
def test_a_type_goes_by_what_the_file_holds(content: bytes, name: str, declared: str, found: str) -> None:
    assert recognised(content, name, declared).media_type == found


@pytest.mark.parametrize(
    ("charset", "codec", "text"),
    [
        ("iso-8859-1", "cp1252", "“quoted” – 5 €"),
        ("latin1", "latin-1", "caf\xe9 \x81"),
        ("shift_jis", "cp932", "① 日本"),
        ("x-sjis", "cp932", "日本"),
        ("gb2312", "gbk", "镕基"),
        ("euc-kr", "cp949", "똠방각하"),
        ("big5", "big5hkscs", "香港嘅"),
        ("windows-1255", "cp1255", "שלום"),
        ("iso-8859-8-i", "iso8859-8", "שלום"),
        ("windows-1256", "cp1256", "سلام"),
        ("tis-620", "cp874", "สวัสดี"),
        ("windows-874", "cp874", "สวัสดี"),
        ("windows-1258", "cp1258", "Đà"),
        ("koi8-u", "koi8-u", "Київ"),
        ("x-mac-cyrillic", "mac-cyrillic", "Київ"),
        ("iso-8859-4", "iso8859-4", "ķīlis"),
        ("iso-2022-jp", "iso2022_jp", "日本"),
        ("utf-16", "utf-8", "grün"),
        ("windows-1252", "utf-8", "grün"),
    ],
)
def test_a_page_is_read_in_the_encoding_that_it_names_as_browsers_read_it(charset: str, codec: str, text: str) -> None:
    """In the process, where what was not loaded before is there no more. The last two say what they are not."""
    page = f"<html><meta charset={charset}><p>".encode() + text.encode(codec)
    assert [block.text for block in parse(page, "a.html").blocks] == [text]


def test_a_text_about_a_page_is_not_in_the_encoding_of_which_it_tells() -> None:
    text = 'Über `<meta charset="iso-8859-1">` in alten Seiten.'
    assert recognised(text.encode(), "a.md", "").text == text


@pytest.mark.parametrize(
    ("content", "name", "declared", "both"),
    [
        (pdf([["x"]]), "a.txt", "", (TEXT, PDF)),
        (pdf([["x"]]), "a", DOCX, (DOCX, PDF)),
        (docx(["x"]), "a.pdf", "", (PDF, DOCX)),
        (b"PK\x03\x04 no archive", "a.pdf", "", (PDF, "ZIP")),
        (b"words", "a.pdf", "", (PDF, "text")),
        (b"words", "a", HTML, (HTML, TEXT)),
        (b"words", "a", JSON, (JSON, TEXT)),
        (b'{"a": 1}', "a", CSV, (CSV, JSON)),
        (b"\x89PNG\r\n", "a", PDF, (PDF, "PNG")),
        (b"words", "a", "image/png", ("image/png", "taken")),
    ],
)
def test_a_declared_type_that_differs_is_refused_and_both_are_named(
    content: bytes, name: str, declared: str, both: tuple[str, str]
) -> None:
    with pytest.raises(Refusal) as refused:
        recognised(content, name, declared)
    assert both[0] in str(refused.value) and both[1] in str(refused.value)


# ---------------------------------------------------------------- hostile files, and the process


@pytest.mark.long
@pytest.mark.parametrize("file", HOSTILE, ids=[one.name for one in HOSTILE])
def test_a_hostile_file_is_taken_or_refused_with_its_reason(file: Hostile) -> None:
    if file.status == 200:
        parsed = parse(file.content, file.name, file.declared)
        assert parsed.blocks and all("\0" not in block.text for block in parsed.blocks)
        return
    with pytest.raises(Refused) as refused:
        parse(file.content, file.name, file.declared)
    assert refused.value.status == file.status
    assert file.why in refused.value.message


def test_in_the_place_of_a_broken_page_stands_that_it_is() -> None:
    parsed = parse(pdf_with_a_broken_page(), "a.pdf")
    assert [(block.page, block.text) for block in parsed.blocks] == [
        (1, "[Page 1 of this PDF is broken and could not be read.]"),
        (2, "What can be read is read."),
    ]


def test_there_are_thirty_hostile_files_at_least() -> None:
    assert len({one.name for one in HOSTILE}) == len(HOSTILE) >= 30


def test_a_file_that_takes_too_long_is_given_up() -> None:
    slow = b"<html><p " + b" ".join(b"a%d='x'" % n for n in range(150_000)) + b">words"
    with pytest.raises(TooLarge, match="longer than 1 s"):
        parse(slow, "a.html", bounds=ParseBounds(wall_s=1))
    with pytest.raises(TooLarge, match="longer than"):
        parse(slow, "a.html", bounds=ParseBounds(cpu_s=1))


def test_a_file_that_needs_too_much_memory_is_refused() -> None:
    wide = b"[" + b",".join(b'{"a%d": [%d]}' % (n, n) for n in range(300_000)) + b"]"
    with pytest.raises(Refused) as refused:
        parse(wide, "a.json", bounds=ParseBounds(memory_bytes=160 << 20))
    assert refused.value.status in (413, 422)


def test_what_leaves_is_bounded() -> None:
    with pytest.raises(TooLarge, match="more than 1000 characters"):
        parse(b"word " * 1_000, "a.txt", bounds=ParseBounds(chars_max=1_000))


def test_the_process_imports_nothing_of_the_program_and_opens_nothing_once_it_has_read() -> None:
    probe = (
        "import sys, socket, os\n"
        "from memory.parse import __main__, sandbox\n"
        "sandbox.bound(1 << 30, 30, 30)\n"
        "ours = {n for n in sys.modules if n.split('.')[0] in ('memory', 'proxy', 'policies', 'bench')}\n"
        "assert all(n == 'memory' or n.startswith('memory.parse') for n in ours), ours\n"
        "heavy = {'aiohttp', 'asyncpg', 'numpy', 'onnxruntime', 'pydantic', 'redis'} & sys.modules.keys()\n"
        "assert not heavy, heavy\n"
        "sandbox.open_no_more()\n"
        "for what in (lambda: open('/etc/hostname'), socket.socket, os.pipe):\n"
        "    try: what()\n"
        "    except OSError: continue\n"
        "    raise SystemExit('opened')\n"
        "sys.stdout.write('sound')\n"
    )
    command, env = [sys.executable, "-P", "-s", "-c", probe], {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert "sound" in done.stdout, done.stderr


async def test_it_is_given_no_environment_but_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_PROXY_MASTER_KEY", "secret")
    parser = ParseProcess(ParseBounds())
    asking = asyncio.create_task(
        parser.parse(ADA, b"<html><p " + b" ".join(b"a%d=x" % n for n in range(60_000)), "a.html", "")
    )
    try:
        for _ in range(200):
            await asyncio.sleep(0.02)
            children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
            found = [one for one in children if b"memory.parse" in Path(f"/proc/{one}/cmdline").read_bytes()]
            if found:
                break
        environ = Path(f"/proc/{found[0]}/environ").read_bytes()
        assert b"secret" not in environ
        assert {one.split(b"=")[0] for one in environ.split(b"\0") if one} <= {
            b"PYTHONPATH",
            b"PYTHONUTF8",
            b"PATH",
            b"LANG",
        }
        os.kill(int(found[0]), signal.SIGKILL)
        with pytest.raises(TooLarge):
            await asking
    finally:
        asking.cancel()


async def test_who_leaves_takes_the_process_along() -> None:
    parser = ParseProcess(ParseBounds())
    slow = b"<html><p " + b" ".join(b"a%d=x" % n for n in range(150_000))
    asking = asyncio.create_task(parser.parse(ADA, slow, "a.html", ""))
    await asyncio.sleep(0.5)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    assert not [one for one in children if b"memory.parse" in Path(f"/proc/{one}/cmdline").read_bytes()]


async def test_who_is_not_read_in_time_is_told_to_come_again() -> None:
    parser = ParseProcess(ParseBounds(parallel=1, wait_s=0.001))
    asked = [asyncio.create_task(parser.parse(ADA, b"words", "a.txt", "")) for _ in range(3)]
    done = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(one, RateLimited) for one in done) == 2
    assert sum(isinstance(one, Parsed) for one in done) == 1


@pytest.mark.parametrize("other", [Scope(UUID(int=1), "eve"), Scope(UUID(int=2), "ada")])
async def test_a_small_file_beside_anothers_flood_is_read_next_and_none_is_refused(other: Scope) -> None:
    parser, order = ParseProcess(ParseBounds()), list[Scope]()

    async def read(scope: Scope) -> Parsed:
        parsed = await parser.parse(scope, b"words", "a.txt", "")
        order.append(scope)
        return parsed

    async with asyncio.TaskGroup() as group:
        for scope in [*[ADA] * 8, other]:
            group.create_task(read(scope))
            await asyncio.sleep(0)
    assert order.index(other) <= 2
    assert len(order) == 9


@pytest.mark.parametrize("command", [[sys.executable, "-c", "raise SystemExit(1)"], ["/no/such/program"]])
async def test_a_parser_that_does_not_start_is_our_fault_and_not_the_files(command: list[str]) -> None:
    parser = ParseProcess(ParseBounds())
    parser._command = lambda *_: command  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match="does not start"):
        await parser.parse(ADA, b"words", "a.txt", "")


async def test_a_machine_that_has_no_file_left_refuses_no_file_for_good() -> None:
    parser, (soft, hard) = ParseProcess(ParseBounds()), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")), hard))
    try:
        with pytest.raises(StoreUnavailable, match="does not start"):
            await parser.parse(ADA, b"words", "a.txt", "")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (await parser.parse(ADA, b"words", "a.txt", "")).chars == 5


async def test_what_says_odd_things_is_not_believed(tmp_path: Path) -> None:
    """As a file would that has got hold of the process."""
    parser = ParseProcess(ParseBounds())
    for said in (
        '{"t": 5}',
        '{"t": "x", "k": "paragraph", "s": 9, "e": 1, "p": null, "l": 0}',
        "[]",
        "no json",
        '{"type": 1}',
    ):
        parser._command = lambda *_, said=said: [sys.executable, "-c", f"print({said!r})"]  # type: ignore[method-assign]
        with pytest.raises(Unprocessable, match="odd"):
            await parser.parse(ADA, b"x", "a.txt", "")


# ---------------------------------------------------------------- text that was slow to read

SLOW = (
    "<!---->",
    "<!-- a -->\n",
    "<!--",
    "<p ",
    "<?xml ",
    " ",
    "\t",
    "# \t",
    "#  # ",
    "a\n===\n",
    "a\nb\n===\n",
    "=",
    "\r",
)


@pytest.mark.parametrize("piece", SLOW)
def test_hostile_text_is_read_in_linear_time(piece: str) -> None:
    """By pytest's own limit of time: a quadratic pattern takes minutes for this."""
    text = (piece * 200_000)[:200_000] + "x"
    for read in (plain.paragraphs, plain.markdown):
        read("# " + text, Taking().sink)
    for declared in ("", HTML, CSV):
        try:
            recognised(text.encode(), "", declared)
        except Refusal:
            continue


@pytest.mark.parametrize("before", ["", " ", "<?xml version='1.0'?>\n", "<!-- a --><!---->\n", "<!---->" * 40])
def test_html_is_known_behind_its_comments(before: str) -> None:
    assert recognised(f"{before}<!doctype  html><p>x".encode(), "", "").media_type == HTML
    assert recognised(f"{before}x <html>".encode(), "", "").media_type == TEXT


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("# A b", "A b"),
        ("  ## A b ##  ", "A b"),
        ("# A#", "A#"),
        ("# #", "#"),
        ("###### A\t#", "A"),
        ("#  A  #  b", "A  #  b"),
        ("#A", None),
        ("####### A", None),
        ("#", None),
        ("# \t", None),
    ],
)
def test_a_heading_is_its_words(line: str, words: str | None) -> None:
    taken = Taking()
    plain.markdown(f"{line}\n\ntext", taken.sink)
    assert [one.text for one in taken.blocks if one.kind == "heading"] == ([words] if words else [])


@pytest.mark.parametrize("last", [None, {"refused": "the file cannot be read", "status": 422}])
def test_a_bench_of_files_does_not_take_a_refusal_for_a_quick_read(
    last: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "read", lambda *_: documents.Read(0.01, 0.01, 5.0, (), last))
    missed = [line for line in documents.of_types(("txt",), 2_000) if line.kept is False]
    assert [line.figure for line in missed] == ["read to its end"]
    assert missed[0].measured == ("no last line" if last is None else last["refused"])
