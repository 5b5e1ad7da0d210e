"""Text as it may be stored: Postgres takes no NUL and UTF-8 has no lone surrogates, clients send both.

Pure. Everything else in a text stays as it came.
"""

from __future__ import annotations

import re
from typing import Any, Final

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
REPLACEMENT: Final = "\ufffd"


def storable(text: str) -> str:
    """The text with every NUL and lone surrogate replaced by U+FFFD."""
    return _UNSTORABLE.sub(REPLACEMENT, text)


def storable_json(value: Any) -> Any:
    """A JSON value whose strings, keys included, are all storable."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list | tuple):
        return [storable_json(item) for item in value]
    if isinstance(value, dict):
        return {storable(str(key)): storable_json(item) for key, item in value.items()}
    return value
