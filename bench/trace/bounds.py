"""Bounds of the service's caches that a replay may set: the command line in, the service's configuration out.

With them caches are full after some minutes, and what grows afterwards is none.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

BOUNDS: Final = {
    "hot_scope_bytes": ("N", "bytes of the hot scopes (recall.hot_scope_bytes_max)"),
    "ledger_bytes": ("N", "bytes of the blocks at hand (ledger.cache_bytes_max)"),
    "hot_state_s": ("S", "seconds for which Valkey knows a conversation (session.hot_ttl_s and its like)"),
}
"""What is bounded, by the name that a report's settings give it: its option's metavar and help."""
_OF_HOT_STATE: Final = ("hot_ttl_s", "working_ttl_s", "regenerate_window_s")


def bounds_of(arguments: argparse.Namespace) -> dict[str, int]:
    """The bounds that are given."""
    return {name: given for name in BOUNDS if (given := getattr(arguments, name)) is not None}


def bounds_yaml(bounds: Mapping[str, int]) -> str:
    """The same as configuration, but for the bytes of the hot scopes, which `serving` takes."""
    said = ""
    if "ledger_bytes" in bounds:
        said += f"ledger:\n  cache_bytes_max: {bounds['ledger_bytes']}\n"
    if "hot_state_s" in bounds:
        said += "session:\n" + "".join(f"  {name}: {bounds['hot_state_s']}\n" for name in _OF_HOT_STATE)
    return said
