"""HTML as blocks: the decoded text in, headings, paragraphs and table rows out; scripts, styles and the like left out.

Parsed by selectolax (the Lexbor engine), as browsers do it, so nothing is malformed. The tree is walked without
recursion: nesting costs no stack. Offsets are those of the text that is shown, in its order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from memory.parse.blocks import Kind, Refusal, Running, Sink, cells
from memory.parse.xhtml import as_html, is_xhtml

_UNSEEN: Final = frozenset(
    {"script", "style", "noscript", "template", "svg", "math", "iframe", "object", "head", "select", "canvas", "title"}
)
_BLOCKS = """address article aside blockquote body caption center dd details dir div dl dt fieldset figcaption figure
    footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li listing main menu nav ol p pre search section summary
    table tbody tfoot thead tr ul xmp"""
_BLOCK: Final = frozenset(_BLOCKS.split())
_HEADING: Final = {f"h{level}": level for level in range(1, 7)}
# Without a closing tag more often than not, so they say nothing of the depth.
_BARE = "p li td th tr dt dd option area base br col embed hr img input link meta param source track wbr"
_OFTEN_OPEN: Final = frozenset(_BARE.split())
_TAG: Final = re.compile(r"<!--|<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_RAW: Final = {name: re.compile(f"</{name}", re.I) for name in ("script", "style", "textarea", "title", "xmp")}
"""What stands in them is no element, whatever it looks like."""
_DRAWN: Final = frozenset({"svg", "math"})
_EDGE: Final = re.compile(r"[<>]")
DEPTH_MAX: Final = 10_000
"""Lexbor looks through the open elements at each tag: .2 s at this depth, 52 s at 300,000. Browsers stop at 512."""
_HIDDEN_STYLE: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)


@dataclass(slots=True)
class _Open:
    """What is being read: the inline text since the last border, and the cells of a row. Mutable: a reader's place."""

    out: Running
    text: list[str] = field(default_factory=list)
    row: list[str] = field(default_factory=list)
    in_row: int = 0
    in_pre: int = 0
    level: int = 0  # of the heading that is being read

    def flush(self, kind: Kind = "paragraph") -> None:
        """What was read since the last border is a block, or a part of the row under way."""
        said = "".join(self.text)
        self.text.clear()
        said = said if self.in_pre else " ".join(said.split())
        if self.in_row:
            self.row.append(said)
        else:
            self.out.put(said, "heading" if self.level else kind, level=self.level)

    def end_row(self) -> None:
        """The row is whole."""
        self.flush()
        self.in_row -= 1
        if self.in_row == 0:
            self.out.put(cells(self.row), "row")
            self.row.clear()


def page(text: str, sink: Sink) -> str:
    """Hand on the blocks of a page; returns its title. Raises Refusal, TooMuch."""
    text = as_html(text) if is_xhtml(text) else text
    _refuse_depth(text)
    try:
        tree = LexborHTMLParser(text.encode("utf-8", "replace"))
    except Exception as fault:  # the engine's own error class is private; whatever it is, there is no tree
        raise Refusal(f"the HTML cannot be read ({type(fault).__name__})") from fault
    open_ = _Open(Running(sink))
    node: LexborNode | None = tree.body or tree.root
    top = node
    while node is not None:
        enter = _enter(node, open_)
        if enter and node.child is not None:
            node = node.child
            continue
        if enter:
            _leave(node, open_)
        node = _next(node, top, open_)
    open_.flush()
    title = tree.css_first("title")
    return " ".join(title.text().split())[:300] if title is not None else ""


def _refuse_depth(text: str) -> None:
    """Raise Refusal for a page nested deeper than DEPTH_MAX, before it is parsed."""
    depth, is_drawn = 0, False
    for match in _tags(text):
        closes, name = bool(match[1]), match[2].lower()
        is_drawn = not closes if name in _DRAWN else is_drawn
        if name not in _OFTEN_OPEN and not (is_drawn and not closes and _is_leaf(text, match.end())):
            depth = max(0, depth - 1) if closes else depth + 1
            if depth > DEPTH_MAX:
                raise Refusal(f"the HTML is nested deeper than {DEPTH_MAX} elements")


def _is_leaf(text: str, at: int) -> bool:
    """Whether a tag ends with `/>`, which closes an element in what is drawn; anywhere else such an element is open."""
    edge = _EDGE.search(text, at)
    return edge is not None and text[edge.start() - 1 : edge.end()] == "/>"


def _tags(text: str) -> Iterator[re.Match[str]]:
    """Where an element may begin or end: not in a comment, nor in a script."""
    at = 0
    while (match := _TAG.search(text, at)) is not None:
        at = match.end()
        if match[2] is None:
            closed = text.find("-->", match.start() + 2)
            at = closed if closed >= 0 else len(text)
            continue
        yield match
        if not match[1] and (closing := _RAW.get(match[2].lower())) is not None:
            end = closing.search(text, at)
            at = end.start() if end else len(text)


def _next(node: LexborNode, top: LexborNode | None, open_: _Open) -> LexborNode | None:
    """The node behind this one in the order of the page; leaves those that end on the way."""
    current: LexborNode | None = node
    while current is not None and top is not None and current.mem_id != top.mem_id:
        if current.next is not None:
            return current.next
        current = current.parent
        if current is not None:
            _leave(current, open_)
    return None


def _enter(node: LexborNode, open_: _Open) -> bool:
    """Begin a node; whether it has anything to be read inside."""
    tag = node.tag or ""
    if tag == "-text":
        open_.text.append(node.text(deep=False))
        return False
    if tag in _UNSEEN or tag.startswith(("-", "_")) or _is_hidden(node):
        return False
    if tag == "br":
        open_.text.append("\n" if open_.in_pre else " ")
        return False
    if tag in _BLOCK or tag in ("td", "th"):
        open_.flush()
    open_.level = _HEADING.get(tag, open_.level)
    open_.in_row += tag == "tr"
    open_.in_pre += tag == "pre"
    return True


def _leave(node: LexborNode, open_: _Open) -> None:
    tag = node.tag or ""
    if tag == "tr":
        open_.end_row()
    elif tag in _HEADING:
        open_.flush()
        open_.level = 0
    elif tag == "pre":
        open_.flush("code")
        open_.in_pre -= 1
    elif tag in _BLOCK or tag in ("td", "th"):
        open_.flush()


def _is_hidden(node: LexborNode) -> bool:
    attributes = node.attributes
    if not attributes:
        return False
    return "hidden" in attributes or bool(_HIDDEN_STYLE.search(attributes.get("style") or ""))
