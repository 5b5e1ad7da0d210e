-- migrate:up
-- What the nightly work needs (docs/decisions/0014): why a memory was hidden, when a fact is due for review, how far a run
-- is. Its indexes are partial or on what is rare, so that storing a turn pays for none of them.

ALTER TABLE memories
    -- Hidden by us and not by a person: only then does it go after the time in which it can be shown again.
    ADD COLUMN pruned_at timestamptz,
    ADD COLUMN pruned_reason text CHECK (pruned_reason IN ('never used', 'over the bound')),
    ADD COLUMN review_due_at timestamptz,
    ADD COLUMN reviewed_at timestamptz;

-- Ascending throughout: a run walks each from a cursor, over several scopes.
CREATE INDEX memories_pruned ON memories (tenant_id, scope_id, pruned_at, memory_id) WHERE pruned_at IS NOT NULL;
CREATE INDEX memories_superseded ON memories (tenant_id, scope_id, superseded_at, memory_id)
    WHERE superseded_at IS NOT NULL;
CREATE INDEX memories_to_review ON memories (tenant_id, scope_id, review_due_at, memory_id)
    WHERE review_due_at IS NOT NULL;
CREATE INDEX memories_facts ON memories (tenant_id, scope_id, created_at, memory_id) WHERE kind = 'semantic';
CREATE INDEX memories_summaries ON memories (tenant_id, scope_id, created_at, memory_id) WHERE kind = 'summary';
CREATE INDEX memory_versions_expiring ON memory_versions (tenant_id, scope_id, expires_at, memory_id)
    WHERE expires_at IS NOT NULL AND recorded_to IS NULL;

-- Turns in which was said what a fact has taken the place of, kept when that fact goes: they stay out of date.
CREATE TABLE outdated_turns (
    tenant_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    event_id  uuid NOT NULL,
    scope_id  bigint NOT NULL,
    PRIMARY KEY (tenant_id, memory_id, event_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);

-- Each run over all tenants; unfinished: it goes on where it stood. report: counts by step, no content.
CREATE TABLE consolidation_runs (
    run_id      uuid PRIMARY KEY,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz,
    report      jsonb NOT NULL DEFAULT '[]'
);
CREATE INDEX consolidation_runs_recent ON consolidation_runs (started_at DESC);

-- How far a run is with one step of one tenant. Written in the transaction that makes the change.
CREATE TABLE consolidation_progress (
    tenant_id   uuid NOT NULL REFERENCES tenants,
    run_id      uuid NOT NULL REFERENCES consolidation_runs ON DELETE CASCADE,
    step        text NOT NULL,
    -- Scope, time (or version) and id of the last row that was looked at; null before the first.
    after       jsonb,
    examined    bigint NOT NULL DEFAULT 0,
    changed     bigint NOT NULL DEFAULT 0,
    seconds     double precision NOT NULL DEFAULT 0,
    finished_at timestamptz,
    PRIMARY KEY (tenant_id, run_id, step)
);

ALTER TABLE outdated_turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE outdated_turns FORCE ROW LEVEL SECURITY;
CREATE POLICY visible_scopes ON outdated_turns USING (tenant_id = (SELECT mp_tenant())
    AND scope_id = ANY ((SELECT mp_scopes())::bigint[]));
CREATE POLICY whole_for_backup ON outdated_turns FOR SELECT TO mp_backup USING (true);
ALTER TABLE consolidation_progress ENABLE ROW LEVEL SECURITY;
ALTER TABLE consolidation_progress FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON consolidation_progress TO PUBLIC USING (tenant_id = (SELECT mp_tenant()));
CREATE POLICY whole_for_backup ON consolidation_progress FOR SELECT TO mp_backup USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON outdated_turns, consolidation_runs, consolidation_progress TO mp_app;
GRANT SELECT ON outdated_turns, consolidation_runs, consolidation_progress TO mp_backup;

-- migrate:down
-- Forward only: restore a backup instead.
