"""Outside knowledge as a program is wired with it: settings, metrics, audit in; what looks outside, or None, out.

A query leaves the machine, so more is taken out of it than of what is stored: secrets keep it in altogether, and
personal data of every kind is dropped, whatever `personal.*` keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime

from memory.adapters.fetch import FetchBounds, WebFetcher
from memory.adapters.page_process import PageProcess
from memory.adapters.postgres.audit import AuditLog
from memory.adapters.postgres.database import Database
from memory.adapters.postgres.document_records import DocumentRecords
from memory.adapters.postgres.document_store import DocumentStore
from memory.adapters.postgres.scopes import Scopes
from memory.adapters.redaction import redactor_of
from memory.adapters.searxng import SearxngSearch
from memory.adapters.secret_rules import secret_detectors
from memory.audit import Audit, Journal
from memory.beside import Job
from memory.config import Settings
from memory.keys import KeyRing
from memory.outside import Outside, OutsideBounds, OutsideParts
from memory.telemetry import Metrics
from memory.web_documents import Stages, WebDocuments
from memory.write.outside import LooksBehind
from memory.write.personal import PersonalRedactor
from memory.write.redact import Redactor
from policies.personal import Action, PersonalPolicy
from policies.web_address import Reach, rule_of


def outside_of(settings: Settings, audit: Audit, metrics: Metrics) -> Outside | None:
    """What looks outside; None where that is off."""
    outside = settings.outside
    if not outside.enabled or outside.search_url is None:
        return None
    reach = reach_of(settings)
    bounds = FetchBounds(page_bytes_max=outside.page_bytes_max, head_s=outside.head_s, total_s=outside.page_s)
    parts = OutsideParts(
        search=SearxngSearch(outside.search_url, results_max=outside.results_max, wall_s=outside.search_s),
        fetcher=WebFetcher(reach, bounds, contact=outside.contact or ""),
        reader=PageProcess(chars_max=outside.page_chars_max),
        redact=leaving(),
        audit=audit,
        metrics=metrics,
    )
    return Outside(parts, reach, OutsideBounds(outside.pages_max, outside.total_s))


@dataclass(frozen=True, slots=True)
class Behind:
    """What looks outside behind the answers of a worker: what hears of them, and what runs beside the lanes."""

    looks: LooksBehind
    journal: Journal

    @property
    def jobs(self) -> dict[str, Job]:
        """Its loops, by name."""
        return {"looking outside": self.looks.run, "noting what left": self._note}

    async def _note(self) -> None:
        """Write what left into the audit log, to the last of it where this is cancelled."""
        try:
            await self.journal.keep_writing()
        finally:
            await self.journal.write()


def behind_answers(
    settings: Settings,
    database: Database,
    scopes: Scopes,
    table: str,
    keys: KeyRing,
    metrics: Metrics,
    clock: Callable[[], datetime],
) -> Behind | None:
    """What looks outside in a memory worker; None where that is off."""
    audit = AuditLog(database, keys.audit_key)
    journal = Journal(audit, metrics)
    outside = outside_of(settings, journal, metrics)
    if outside is None:
        return None
    pages = web_documents(settings, DocumentStore(database, scopes, table, audit), keys)
    return Behind(LooksBehind(outside, pages, DocumentRecords(database, scopes, audit), metrics, clock), journal)


def web_documents(settings: Settings, store: Stages, keys: KeyRing) -> WebDocuments:
    """What keeps pages."""
    redactor = redactor_of(settings)
    return WebDocuments(store, keys, lambda text: redactor.redact(text).text, settings.documents.waiting_max)


def reach_of(settings: Settings) -> Reach:
    """The lists of the configuration."""
    outside = settings.outside
    deny = tuple(rule_of(entry, networks=True) for entry in outside.deny)
    return Reach(outside.allow, deny, outside.ports)


def leaving() -> Callable[[str], str]:
    """A text as it may leave the machine: placeholders where a secret stood, nothing where personal data did."""
    drop: Action = "drop"
    policy = PersonalPolicy(**{kind.name: drop for kind in fields(PersonalPolicy)})
    redactor = PersonalRedactor(Redactor(secret_detectors()), policy)
    return lambda text: redactor.redact(text).text
