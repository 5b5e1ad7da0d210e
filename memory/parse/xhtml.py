"""XHTML for a parser of HTML: a text in, its empty elements with end tags of their own out.

XML ends an element by `/>`. HTML takes no notice of that: behind `<title/>` or `<script src="a.js"/>` all of a page
would be title or script. Places are those of what is shown, so nothing has to keep its own. Refuses nothing.
"""

from __future__ import annotations

import re
from typing import Final

_NAMESPACE: Final = "http://www.w3.org/1999/xhtml"
_HEAD_CHARS: Final = 2_048
_EMPTY: Final = re.compile(r"""<([A-Za-z][\w.:-]*)((?:[^<>"']|"[^"<]*"|'[^'<]*')*)/>""")
_VOID: Final = frozenset("area base br col embed hr img input link meta param source track wbr".split())  # noqa: SIM905


def is_xhtml(text: str) -> bool:
    """Whether a page says at its head that it is XML."""
    head = text[:_HEAD_CHARS]
    return head.lstrip().startswith("<?xml") or _NAMESPACE in head


def as_html(text: str) -> str:
    """The page as HTML says it."""
    return _EMPTY.sub(_ended, text)


def _ended(found: re.Match[str]) -> str:
    name = found[1]
    return found[0] if name.lower() in _VOID else f"<{name}{found[2]}></{name}>"
