"""Waiting for an upload to be stored: a document in, the document once its upload is over out, or as it is by then."""

from __future__ import annotations

import asyncio
import time
from typing import Final, Protocol
from uuid import UUID

from memory.documents import DocumentRecord
from memory.model import Scope

OVER: Final = frozenset({"done", "failed"})
_ASK_EVERY_S: Final = (0.05, 0.1, 0.2, 0.4)


class KnowsDocuments(Protocol):
    """Documents as they are stored."""

    async def document(self, scope: Scope, document_id: UUID) -> DocumentRecord:
        """One that is not deleted. Raises NotFound, StoreUnavailable."""


async def followed(
    documents: KnowsDocuments, scope: Scope, record: DocumentRecord, wait_s: float, *, upload_id: UUID | None = None
) -> DocumentRecord:
    """Its newest upload's end is waited for, or no longer than `upload_id` is the newest. Raises as `document` does."""
    until, delays = time.monotonic() + wait_s, list(_ASK_EVERY_S)
    while record.upload.status not in OVER and time.monotonic() < until:
        if upload_id is not None and record.upload.upload_id != upload_id:
            break
        await asyncio.sleep(delays.pop(0) if len(delays) > 1 else delays[0])
        record = await documents.document(scope, record.document_id)
    return record
