"""A text as it may be shown to a model: any text in, the same words without anything a prompt is built of out.

What has no width and what turns the direction goes, since a tokenizer or a reader may drop it and join what it parted.
A bracket that opens one of our delimiters or a token of a chat template (`<|im_start|>`, `[INST]`, `<start_of_turn>`)
becomes a `(`, whatever letters it is spelled with: after NFKC and without case it is no token any more, and no reader
who forgives a space takes it for one. Lines are the block's to mark. Pure, linear; refuses nothing.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from policies.injection.normal import UNSEEN, latin_letter

_UNSEEN: Final = re.compile(f"[{UNSEEN}]")
# What reads as `<` or `[`, by NFKC or by its look.
_ANGLES: Final = "<\u02c2\u1438\u2039\u2329\u276e\u27e8\u2770\u276c\u3008\u300a\u27ea\u00ab\ufe64\uff1c\U0001d236"
_SQUARES: Final = "[\u2045\u27e6\u3010\u3014\u3016\u3018\u301a\ufe5d\ufe47\ufe39\uff3b\u2772\u2997"
_OPENS: Final = re.compile(f"[{re.escape(_ANGLES + _SQUARES)}]")
# Long enough for a bracket, its slash, its spaces and the longest of the names.
_LOOKED_AT: Final = 40
# At the end of a line it would open what the block marks the next line with, a `|`.
_ANGLE_NAMES: Final = re.compile(
    r"<*\s*?[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]|<*[\s]*[/\\\u2044\u2215]?\s*(?:[|!\u00a6\u2223\u01c0]|memory\b|s\s*>|sys\b|bos\b|eos\b|pad\b|unk\b|mask\b|cls\b|sep\b"
    r"|(?:start|end|begin)_?of_|im_(?:start|end)|tool_|tools?\b|function|invoke\b|think|reasoning\b|system\b|user\b"
    r"|assistant\b|human\b|instruction|extra_id|unused|reserved|fim_|antml|context\b|documents?\b|document_)"
)
_SQUARE_NAMES: Final = re.compile(
    r"\[*\s*/?\s*(?:inst\b|system|sys\b|tool|available_|user\b|assistant\b|cls\b|sep\b|mask\b|pad\b|unk\b|bos\b|eos\b"
    r"|begin|end_|think|\d{4}-\d{2}-\d{2}\s)"
)


def harmless(text: str) -> str:
    """The text with nothing in it that a prompt is built of. Nothing changes where there is none of it."""
    if not text.isascii():
        text = _UNSEEN.sub("", text)
    found = [match.start() for match in _OPENS.finditer(text)]
    if not found:
        return text
    pieces, done = [], 0
    for at in found:
        if _opens_a_token(text[at : at + _LOOKED_AT]):
            pieces += [text[done:at], "("]
            done = at + 1
    return "".join((*pieces, text[done:]))


def _opens_a_token(piece: str) -> bool:
    """Whether what begins here reads as a delimiter or a template's token."""
    names, inside = _ANGLE_NAMES if piece[0] in _ANGLES else _SQUARE_NAMES, piece[1:].lower()
    if not inside.isascii():
        inside = "".join(map(latin_letter, unicodedata.normalize("NFKD", inside).lower()))
    return names.match(inside) is not None
