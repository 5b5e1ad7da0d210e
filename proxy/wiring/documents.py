"""What the calls of documents, files and outside knowledge are made of: settings and stores in, their parts out."""

from __future__ import annotations

from memory.adapters.caption_process import CaptionModel, CaptionProcess
from memory.adapters.parsing import ParseBounds, ParseProcess
from memory.adapters.postgres.artifact_store import ArtifactStore
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.document_records import DocumentRecords
from memory.adapters.postgres.document_store import DocumentStore
from memory.artifact_wiring import blobs_of
from memory.audit import Audit
from memory.config import Settings
from memory.outside_wiring import outside_of, web_documents
from memory.telemetry import Metrics
from proxy.api.keeps_artifacts import ArtifactParts
from proxy.api.parts_documents import DocumentParts
from proxy.outside import LooksOutside
from proxy.wiring.stores import Kept


def document_parts(settings: Settings, kept: Kept, audit: AuditLog) -> DocumentParts:
    """The parts of one proxy worker; files are read one at a time in it."""
    given = settings.documents
    bounds = ParseBounds(
        memory_bytes=given.parse_memory_bytes,
        wall_s=given.parse_s,
        cpu_s=given.parse_s,
        wait_s=2 * given.parse_s,
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


def artifact_parts(settings: Settings, kept: Kept, audit: AuditLog) -> ArtifactParts:
    """The parts of one proxy worker."""
    given, blobs = settings.artifacts, blobs_of(settings)
    return ArtifactParts(
        store=ArtifactStore(kept.database, kept.scopes, kept.table, audit, blobs),
        blobs=blobs,
        bytes_max=given.bytes_max,
        scope_bytes_max=given.scope_bytes_max,
        idle_s=settings.limits.body_idle_timeout_s,
        captions=_captions(settings),
    )


def _captions(settings: Settings) -> CaptionProcess | None:
    chat = settings.chat_model
    if chat.model is None:
        return None
    secret = chat.api_key.get_secret_value() if chat.api_key else None
    model = CaptionModel(chat.model, chat.api_base or f"{settings.upstream.url}/v1", secret, chat.timeout_s)
    return CaptionProcess(model)


def looks_outside(
    settings: Settings, kept: Kept, audit: AuditLog, journal: Audit, metrics: Metrics
) -> LooksOutside | None:
    """What looks outside when it is asked to, in one proxy worker; None where that is off."""
    looks = outside_of(settings, journal, metrics)
    if looks is None:
        return None
    store = DocumentStore(kept.database, kept.scopes, kept.table, audit)
    records = DocumentRecords(kept.database, kept.scopes, audit)
    return LooksOutside(looks, web_documents(settings, store, kept.keys), records)
