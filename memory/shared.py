"""Values of sharing: to whom, and the copy that is there. Frozen, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

SharedTo = Literal["project", "tenant"]


@dataclass(frozen=True, slots=True)
class Shared:
    """A copy that is there: of what, where, since when; `new` False where it was there before."""

    source_id: UUID
    copy_id: UUID
    to: SharedTo
    at: datetime
    new: bool
