"""What a transaction's texts were cleaned by, and the values that stand behind tokens in them: marks and tokens in.

Whatever is written behind `cleaned` in the same transaction carries the mark; a copy of an older text keeps its own (a
trigger of migration 0014). Raises StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Sequence

from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.rows import Place
from memory.model import SealedToken


async def cleaned(tx: Transaction, place: Place, mark: str, tokens: Sequence[SealedToken] = ()) -> None:
    """Say that what follows has just passed redaction, and keep what it put behind tokens."""
    if mark:
        await tx.value("cleaned_by", mark)
    where = (place.tenant, place.scope_id)
    ordered = sorted(tokens, key=lambda one: one.token)  # who locks them waits for nobody in a circle
    kept = ((*where, one.token, place.subject_id, one.kind, one.sealed, place.now) for one in ordered)
    await tx.run_many("keep_token", kept)
