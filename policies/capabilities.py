"""The capabilities of a key: the closed list in, what a set of them allows out (DESIGN section 7).

A name outside the list is refused where keys are made; one that is stored all the same allows nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

ADMIN: Final = "memory:admin"
READ_OWN: Final = "memory:read:own"
READ_PROJECT: Final = "memory:read:project"
READ_TENANT: Final = "memory:read:tenant"
WRITE: Final = "memory:write"
ERASE: Final = "memory:erase"
ANY_USER: Final = "act:any_user"
ANY_PROJECT: Final = "checkpoint:any_project"

# Every capability, with what it allows.
CAPABILITIES: Final = {
    READ_OWN: "see the memory of its own scope: in prompts, searches, lists, exports",
    READ_PROJECT: "with memory:read:own: see what is shared with the project",
    READ_TENANT: "with memory:read:own: see what is shared with the tenant",
    WRITE: "keep exchanges, import, change and hide memories",
    "memory:share:project": "share a memory with the project",
    "memory:share:tenant": "share a memory with the tenant",
    "memory:import:trusted": "import turns with the integrity of their role",
    ADMIN: "everything in this list",
    ERASE: "forget for good",
    "trace:read": "read traces and replays",
    "metrics:read": "read /memory/metrics",
    ANY_USER: "name any user",
    ANY_PROJECT: "take a checkpoint of one's own from another project",
}
# What a key has when nothing is said.
USUAL: Final = (READ_OWN, WRITE)


def allows(held: Iterable[str], capability: str) -> bool:
    """Whether these capabilities allow that one; `memory:admin` allows every one of the list."""
    names = frozenset(held)
    return capability in names or (ADMIN in names and capability in CAPABILITIES)


def expanded(held: Iterable[str]) -> frozenset[str]:
    """What these capabilities allow, one by one."""
    names = frozenset(held)
    return names | CAPABILITIES.keys() if ADMIN in names else names


def unknown(names: Iterable[str]) -> str | None:
    """What to say of the first name that is not in the list; None where all are."""
    for name in names:
        if name not in CAPABILITIES:
            near = get_close_matches(name, CAPABILITIES, 1)
            meant = f"; did you mean {near[0]}?" if near else "."
            return f"{name!r} is not a capability{meant} Known: {', '.join(CAPABILITIES)}"
    return None
