"""What the calls of documents are made of: settings and opened stores in, their parts out."""

from __future__ import annotations

from memory.adapters.parsing import ParseBounds, ParseProcess
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.document_records import DocumentRecords
from memory.adapters.postgres.document_store import DocumentStore
from memory.config import Settings
from proxy.api.parts_documents import DocumentParts
from proxy.wiring.stores import Kept


def document_parts(settings: Settings, kept: Kept, audit: AuditLog) -> DocumentParts:
    """The parts of one proxy worker; files are read one at a time in it."""
    given = settings.documents
    bounds = ParseBounds(
        memory_bytes=given.parse_memory_bytes,
        wall_s=given.parse_s,
        cpu_s=given.parse_s,
        chars_max=given.chars_max,
        rows_max=given.rows_max,
    )
    return DocumentParts(
        store=DocumentStore(kept.database, kept.scopes, kept.table, audit),
        records=DocumentRecords(kept.database, kept.scopes, audit),
        parser=ParseProcess(bounds),
        bytes_max=given.bytes_max,
        waiting_max=given.waiting_max,
        idle_s=settings.limits.body_idle_timeout_s,
        budget_tokens=settings.recall.budget_tokens_max,
    )
