"""Where working contexts are put together: what both the proxy and the worker hold of a store in, the contexts out."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from memory.adapters.postgres.database import Database
from memory.adapters.postgres.scopes import Scopes
from memory.adapters.postgres.working_store import PostgresWorking
from memory.config_sections import Session
from memory.keys import KeyRing
from memory.ports import TokenCounter
from memory.read.working import HotContexts, WorkingContexts, WorkingParts
from memory.telemetry import Metrics


def working_contexts(
    session: Session,
    database: Database,
    scopes: Scopes,
    hot: HotContexts,
    keys: KeyRing,
    counter: TokenCounter,
    metrics: Metrics,
) -> WorkingContexts | None:
    """What conversations are about; None where none is kept."""
    if not session.working_tokens:
        return None
    return WorkingContexts(
        WorkingParts(
            hot=hot,
            store=PostgresWorking(database, scopes),
            keys=keys,
            count=counter.count,
            clock=partial(datetime.now, UTC),
            metrics=metrics,
            budget_tokens=session.working_tokens,
            ttl_s=session.working_ttl_s,
        )
    )
