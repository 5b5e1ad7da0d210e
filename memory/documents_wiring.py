"""What stores uploaded documents in a memory worker: its database and the parts of the write path in, a loop out."""

from __future__ import annotations

import asyncio

from memory.adapters.postgres.database import Database
from memory.adapters.postgres.document_store import DocumentStore
from memory.adapters.postgres.scopes import Scopes
from memory.write.documents import DocumentParts, Documents
from memory.write.documents_loop import DocumentsLoop
from memory.write.seams import WriteParts


def documents_loop(
    database: Database, scopes: Scopes, table: str, parts: WriteParts, asked: asyncio.Event
) -> DocumentsLoop:
    """Built on what stores exchanges; `table` holds the vectors. `asked` is set where something may wait."""
    store = DocumentStore(database, scopes, table)
    storing = Documents(
        DocumentParts(
            store=store,
            keys=parts.keys,
            embedder=parts.embedder,
            windows=parts.windows,
            redactor=parts.redactor,
            keeping=parts.keeping,
            cleaned_by=parts.cleaned_by,
            languages=parts.languages,
            announcer=parts.announcer,
            metrics=parts.metrics,
            clock=parts.clock,
            lives=parts.lives,
        )
    )
    return DocumentsLoop(store, storing, parts.metrics, parts.clock, asked)
