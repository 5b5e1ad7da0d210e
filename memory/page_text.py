"""A page of the web to what it says: bytes in; title, date and blocks of text out, without menus, banners and footers.

Runs in a process of its own (`memory.read_page`): the parser takes seconds and hundreds of MiB of what is made to. The
page is walked once, block by block. Left out is what is not shown (script, hidden elements, comments), what a page is
framed by (nav, aside, footer, and elements named so), and blocks that are mostly links. Where an article or main
element holds most of the prose, only it is read. Hidden text goes first of all: what a reader does not see is where
orders to a model are put. Never raises for what is on a page; a page without text has no blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from functools import cached_property
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from memory.page_bytes import decoded, plain, plain_lines
from memory.parse.xhtml import as_html
from memory.web import Block, BlockKind, PageText

TITLE_CHARS_MAX: Final = 300
BLOCKS_MAX: Final = 2_000
_XHTML: Final = "application/xhtml+xml"
_UNSEEN: Final = frozenset(
    """script style template noscript svg math iframe object embed canvas audio video picture map head button select
    textarea input dialog datalist menu""".split()  # noqa: SIM905
)
_FRAME: Final = frozenset(("nav", "aside", "footer", "form"))
_FRAME_ROLES: Final = frozenset(
    "navigation banner contentinfo complementary search menu menubar toolbar alert dialog alertdialog".split()  # noqa: SIM905
)
_BLOCKS: Final = frozenset(
    """address article blockquote body center dd details div dl dt fieldset figcaption figure footer h1 h2 h3 h4 h5 h6
    header hr html li main ol p pre section summary table tbody tfoot thead tr ul br""".split()  # noqa: SIM905
)
_HEADINGS: Final = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
# Whole words of class and id: "nav-bar", "siteFooter", "related_links", not "navy" or "shared-code".
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_FRAME_WORDS: Final = frozenset(
    """nav navbar navigation menu footer sidebar breadcrumb breadcrumbs cookie cookies consent gdpr banner advert ad ads
    adslot advertisement sponsor sponsored promo related recommended recommendations recirc trending popular newsletter
    subscribe subscription paywall social share sharing sharebar comments comment disqus respond popup modal overlay
    toolbar pagination pager skip masthead outbrain taboola teaser byline tags tagged""".split()  # noqa: SIM905
)
_HIDDEN_STYLE: Final = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0(?:\.0+)?\s*(?:;|$|!)"
    r"|font-size\s*:\s*0(?:\.0+)?(?:px|pt|em|rem|%)?\s*(?:;|$|!)|(?:left|top|text-indent)\s*:\s*-\d{3,}",
    re.IGNORECASE,
)
# A block counts as prose from so many characters on, of which at most so many stand in links. A character of Chinese,
# Japanese, Thai and the like says as much as three of an alphabet.
_PROSE_WEIGHT_MIN: Final = 80
_LINKED_MAX: Final = 0.4
_WIDE: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_REGION_SHARE_MIN: Final = 0.5
_REGION_WEIGHT_MIN: Final = 200
_NEAR: Final = 3
_NAMES_CHARS_MAX: Final = 500
_JSON_CHARS_READ: Final = 100_000
_DATE_NAMES: Final = (
    "article:published_time", "og:published_time", "datepublished", "date", "dc.date", "dc.date.issued", "pubdate",
    "publishdate", "parsely-pub-date", "sailthru.date", "citation_publication_date", "dcterms.created",
)  # fmt: skip
_JSON_DATE: Final = re.compile(r'"datePublished"\s*:\s*"([^"]{8,40})"')
_DATE: Final = re.compile(
    r"((?:19|20)\d\d)[-/](\d\d)[-/](\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d))?(?:\.\d+)?\s*(\S{1,6})?)?"
)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the walk stands: in what kind of block, in which article or main, within a link or not."""

    kind: BlockKind
    region: int
    in_link: bool


@dataclass
class _Raw:
    """A block as it is gathered. `linked` characters stand in links."""

    kind: BlockKind
    region: int
    parts: list[str] = field(default_factory=list)
    linked: int = 0

    def add(self, said: str, in_link: bool) -> None:
        self.parts.append(said)
        self.linked += len(said.strip()) if in_link else 0

    @cached_property
    def text(self) -> str:
        joined = "".join(self.parts)
        return plain_lines(joined) if self.kind == "code" else plain(joined)

    @property
    def weight(self) -> int:
        return len(self.text) + 2 * len(_WIDE.findall(self.text))

    @property
    def is_linked(self) -> bool:
        return self.linked > _LINKED_MAX * len(self.text)

    @property
    def is_prose(self) -> bool:
        return self.kind != "heading" and self.weight >= _PROSE_WEIGHT_MIN and not self.is_linked


def read_page(raw: bytes, media_type: str, charset: str, *, chars_max: int) -> PageText:
    """The text of a page of at most `chars_max` characters. `media_type` is one of text/plain and the kinds of HTML."""
    text = decoded(raw, charset)
    if media_type == "text/plain":
        lines = text.replace("\r\n", "\n").replace("\r", "\n")
        blocks = [Block("text", plain(part)) for part in re.split(r"\n\s*\n", lines) if part.strip()]
        kept, cut = _within(blocks, chars_max)
        return PageText("", "", kept, cut)
    tree = LexborHTMLParser(as_html(text) if media_type == _XHTML else text)
    title, published = _title(tree), _published(tree)
    tree.strip_tags(sorted(_UNSEEN))
    if tree.body is None:
        return PageText(title, published, ())
    chosen = _chosen(_Walk(tree.body, names_tell=True)) or _chosen(_Walk(tree.body, names_tell=False))
    kept, cut = _within(chosen, chars_max)
    return PageText(title, published, kept, cut)


def _within(blocks: list[Block], chars_max: int) -> tuple[tuple[Block, ...], bool]:
    kept: list[Block] = []
    left = chars_max
    for block in blocks:
        if len(block.text) > left or len(kept) == BLOCKS_MAX:
            if left and len(kept) < BLOCKS_MAX:
                kept.append(Block(block.kind, block.text[:left].rstrip()))
            return tuple(kept), True
        kept.append(block)
        left -= len(block.text)
    return tuple(kept), False


class _Walk:
    """Gathers the blocks of one page in its order; by a stack of its own, since pages nest as deep as they like."""

    def __init__(self, body: LexborNode, *, names_tell: bool) -> None:
        self.blocks: list[_Raw] = []
        self.parents = [0]
        """The region around each region; 0 is the page."""
        self._names_tell = names_tell
        self._half = len(body.text()) // 2
        self._stack: list[tuple[LexborNode | None, _Place]] = [(body, _Place("text", 0, False))]
        self._current = _Raw("text", 0)
        while self._stack:
            node, place = self._stack.pop()
            if node is None:
                self._begin(place)
            elif node.tag == "-text":
                self._current.add(node.text_content or "", place.in_link)
            elif self._is_shown(node, place):
                self._enter(node, place)
        self._begin(_Place("text", 0, False))

    def _begin(self, place: _Place) -> None:
        if self._current.parts:
            self.blocks.append(self._current)
        self._current = _Raw(place.kind, place.region)

    def _enter(self, node: LexborNode, place: _Place) -> None:
        tag, region = node.tag or "", place.region
        if tag in ("article", "main") or node.attributes.get("role") == "main" or _is_article_body(node):
            self.parents.append(region)
            region = len(self.parents) - 1
        inside = _Place(_kind(tag, place.kind), region, place.in_link or tag == "a")
        if tag in _BLOCKS:
            self._begin(inside)
            self._stack.append((None, place))
        if tag in ("td", "th") and self._current.parts:
            self._current.add(" | ", in_link=False)
        children = list(node.iter(include_text=True))
        self._stack.extend((child, inside) for child in reversed(children))

    def _is_shown(self, node: LexborNode, place: _Place) -> bool:
        tag = node.tag or "-"
        if tag[0] in "-!_":
            return False
        attributes = node.attributes
        if "hidden" in attributes or attributes.get("aria-hidden") == "true":
            return False
        if _HIDDEN_STYLE.search(attributes.get("style") or ""):
            return False
        is_frame = (
            tag in _FRAME or (tag == "header" and not place.region) or (self._names_tell and _is_named_so(node, tag))
        )
        # A page whose frame holds most of its words has something else by that name: a form around all of it.
        return not is_frame or len(node.text()) > self._half


def _is_named_so(node: LexborNode, tag: str) -> bool:
    """Whether role, class or id call an element what frames a page."""
    if tag in ("body", "main", "article", *_HEADINGS, "p", "pre", "td", "th", "tr"):
        return False
    attributes = node.attributes
    if attributes.get("role") in _FRAME_ROLES:
        return True
    names = f"{attributes.get('class') or ''} {attributes.get('id') or ''}"[:_NAMES_CHARS_MAX]
    return any(word.lower() in _FRAME_WORDS for word in _WORDS.findall(names))


def _is_article_body(node: LexborNode) -> bool:
    return "articleBody" in (node.attributes.get("itemprop") or "")


def _kind(tag: str, outer: BlockKind) -> BlockKind:
    match tag:
        case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
            return "heading"
        case "pre":
            return "code"
        case "li" | "dt" | "dd":
            return "item"
        case "tr":
            return "row"
        case _:
            return outer


def _chosen(walk: _Walk) -> list[Block]:
    """What is said among the blocks: prose, and the short that stands by it; all but links where there is no prose."""
    blocks, parents = [block for block in walk.blocks if block.text], walk.parents
    weights = [block.weight if block.is_prose else 0 for block in blocks]
    region = _main_region(blocks, weights, parents)
    if region:
        inside = [_is_inside(block.region, region, parents) for block in blocks]
        blocks = [block for block, taken in zip(blocks, inside, strict=True) if taken]
        weights = [weight for weight, taken in zip(weights, inside, strict=True) if taken]
    if not any(weights):
        return [Block(block.kind, block.text) for block in blocks if not block.is_linked]
    keeps = [weight > 0 for weight in weights]
    near = _near(keeps)
    keeps = [
        keep or (not block.is_linked and block.kind != "heading" and by)
        for keep, block, by in zip(keeps, blocks, near, strict=True)
    ]
    for at in range(len(blocks) - 2, -1, -1):  # a heading belongs to what follows it
        keeps[at] = keeps[at] or (blocks[at].kind == "heading" and keeps[at + 1])
    return [Block(block.kind, block.text) for block, keep in zip(blocks, keeps, strict=True) if keep]


def _near(keeps: list[bool]) -> list[bool]:
    """Whether prose stands at most NEAR blocks before, and at most NEAR behind."""
    far = len(keeps) + _NEAR + 1

    def distances(order: Iterable[int]) -> dict[int, int]:
        found, away = {}, far
        for at in order:
            away = 0 if keeps[at] else away + 1
            found[at] = away
        return found

    before, behind = distances(range(len(keeps))), distances(range(len(keeps) - 1, -1, -1))
    return [before[at] <= _NEAR and behind[at] <= _NEAR for at in range(len(keeps))]


def _main_region(blocks: list[_Raw], weights: list[int], parents: list[int]) -> int:
    """The innermost region that holds most of the prose; 0, the page, where none does."""
    held = [0] * len(parents)
    for block, weight in zip(blocks, weights, strict=True):
        held[block.region] += weight
    for region in range(len(parents) - 1, 0, -1):  # an inner region has the higher number
        held[parents[region]] += held[region]
    enough = max(_REGION_WEIGHT_MIN, int(_REGION_SHARE_MIN * held[0]))
    return next((region for region in range(len(parents) - 1, 0, -1) if held[region] >= enough), 0)


def _is_inside(region: int, outer: int, parents: list[int]) -> bool:
    while region > outer:
        region = parents[region]
    return region == outer


def _title(tree: LexborHTMLParser) -> str:
    for selector, attribute in (('meta[property="og:title"]', "content"), ("title", ""), ("h1", "")):
        node = tree.css_first(selector)
        if node is None:
            continue
        said = plain((node.attributes.get(attribute) or "") if attribute else node.text())
        if said:
            return said[:TITLE_CHARS_MAX].rstrip()
    return ""


def _published(tree: LexborHTMLParser) -> str:
    named: dict[str, str] = {}
    for node in tree.css("meta"):
        attributes = node.attributes
        name = attributes.get("property") or attributes.get("name") or attributes.get("itemprop") or ""
        named.setdefault(name.lower(), attributes.get("content") or "")
    said = [named[name] for name in _DATE_NAMES if name in named]
    for node in tree.css('script[type="application/ld+json"]'):
        said.extend(_JSON_DATE.findall(node.text()[:_JSON_CHARS_READ]))
    if (stamp := tree.css_first("time[datetime]")) is not None:
        said.append(stamp.attributes.get("datetime") or "")
    return next((date for date in map(_date, said) if date), "")


def _date(text: str) -> str:
    """ISO 8601 of a date as metadata writes it, without what is no date; "" for anything else."""
    found = _DATE.match(text.strip())
    if found is None:
        return ""
    try:
        at = datetime.fromisoformat(text.strip().replace("/", "-"))
    except ValueError:
        try:
            at = datetime(int(found[1]), int(found[2]), int(found[3]), tzinfo=UTC)
        except ValueError:
            return ""
    return at.isoformat() if at.time() != time(0) or at.tzinfo else at.date().isoformat()
