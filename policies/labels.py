"""Labels on every row at birth: integrity, sensitivity, and how they combine.

Pure values. Integrity only ever falls when things are derived (DESIGN section 7); nothing here raises it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final


class Integrity(Enum):
    """Who vouches for a text, best first."""

    ADMIN = "admin"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    WEB = "web"
    IMPORTED = "imported"


class Sensitivity(Enum):
    """Who may be shown a text, widest first."""

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    SECRET = "secret"  # noqa: S105  a label, not a password

    @property
    def rank(self) -> int:
        """Its place from the widest, from 0."""
        return _SENSITIVITY_RANK[self]


_INTEGRITY_RANK: Final = {label: rank for rank, label in enumerate(Integrity)}
_SENSITIVITY_RANK: Final = {label: rank for rank, label in enumerate(Sensitivity)}
_OF_ROLE: Final = {"user": Integrity.USER, "assistant": Integrity.ASSISTANT, "tool": Integrity.TOOL}


def integrity_of_role(role: str, *, imported: bool = False, trusted_import: bool = True) -> Integrity:
    """The label of a turn: that of its role, or `imported` when the importing key is not trusted with roles.

    System and developer messages are the operator's words. An unknown role vouches for nothing.
    """
    if imported and not trusted_import:
        return Integrity.IMPORTED
    if role in ("system", "developer"):
        return Integrity.ADMIN
    return _OF_ROLE.get(role, Integrity.IMPORTED)


def derived_integrity(sources: Iterable[Integrity]) -> Integrity:
    """The lowest label of the sources. Nothing derived from nothing is trusted: an empty list is `imported`."""
    return max(sources, key=_INTEGRITY_RANK.__getitem__, default=Integrity.IMPORTED)


def derived_sensitivity(sources: Iterable[Sensitivity]) -> Sensitivity:
    """The highest label of the sources; `internal` for none."""
    return max(sources, key=_SENSITIVITY_RANK.__getitem__, default=Sensitivity.INTERNAL)


def within_ceiling(label: Sensitivity, ceiling: Sensitivity) -> bool:
    """Whether `label` may be shown where `ceiling` is the most that may be."""
    return _SENSITIVITY_RANK[label] <= _SENSITIVITY_RANK[ceiling]


def labels_up_to(ceiling: Sensitivity) -> list[str]:
    """The labels that may be shown where `ceiling` is the most that may be, widest first."""
    return [label.value for label in Sensitivity if within_ceiling(label, ceiling)]


def is_sealed(label: Sensitivity) -> bool:
    """Whether rows of this label are encrypted at rest (DESIGN section 7: confidential and above)."""
    return _SENSITIVITY_RANK[label] >= _SENSITIVITY_RANK[Sensitivity.CONFIDENTIAL]
