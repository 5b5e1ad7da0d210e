-- migrate:up
-- Procedures: how something is done, taught by a person or done alike in several conversations (docs/decisions/0015). A
-- procedure is a memory of kind procedural; here is what it is for, who taught it when, and whether it may be used.

CREATE TABLE procedures (
    tenant_id  uuid NOT NULL,
    memory_id  uuid NOT NULL,
    scope_id   bigint NOT NULL,
    -- Of one that was taught the words of its trigger, in one form; else the pattern of what was done.
    trigger    text NOT NULL CHECK (char_length(trigger) BETWEEN 1 AND 2000),
    origin     text NOT NULL CHECK (origin IN ('taught', 'derived')),
    -- Which wording of its trigger it is, from 1.
    number     integer NOT NULL CHECK (number >= 1),
    -- As the validation status of its memory says: unreviewed or disputed, confirmed, rejected.
    state      text NOT NULL CHECK (state IN ('proposed', 'approved', 'retired')),
    reason     text NOT NULL,
    -- Approved, supported, and nothing has taken its place: recall may show it.
    holds      boolean NOT NULL,
    -- When somebody, or its failures, last decided on its state.
    ruled_at   timestamptz,
    successes  integer NOT NULL DEFAULT 0 CHECK (successes >= 0),
    failures   integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    PRIMARY KEY (tenant_id, memory_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
CREATE UNIQUE INDEX procedures_of_trigger ON procedures (tenant_id, scope_id, trigger, number);
-- The lock on the scope's version keeps writers apart; this keeps the promise should one of them come without it.
CREATE UNIQUE INDEX procedures_one_holds ON procedures (tenant_id, scope_id, trigger) WHERE holds;

-- Each time a procedure was taught. said_at is the turn's time made fit for order (policies/reconcile.py, moment).
CREATE TABLE procedure_teachings (
    tenant_id  uuid NOT NULL,
    memory_id  uuid NOT NULL,
    event_id   uuid NOT NULL,
    scope_id   bigint NOT NULL,
    said_at    timestamptz NOT NULL,
    seq        bigint NOT NULL,
    span_start integer NOT NULL,
    span_end   integer NOT NULL,
    PRIMARY KEY (tenant_id, memory_id, event_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES procedures ON DELETE CASCADE
);

-- What came of each conversation in which tools were called in some order, or a procedure was given ("taught " and its
-- id). Dies with its episode.
CREATE TABLE procedure_runs (
    tenant_id  uuid NOT NULL,
    memory_id  uuid NOT NULL,
    scope_id   bigint NOT NULL,
    pattern    text NOT NULL CHECK (char_length(pattern) BETWEEN 1 AND 2000),
    succeeded  boolean NOT NULL,
    ended_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, memory_id, pattern),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
CREATE INDEX procedure_runs_of_pattern ON procedure_runs (tenant_id, scope_id, pattern, ended_at DESC);

DO $rls$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['procedures', 'procedure_teachings', 'procedure_runs'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY visible_scopes ON %I USING (tenant_id = (SELECT mp_tenant())'
            ' AND scope_id = ANY ((SELECT mp_scopes())::bigint[]))', name);
        EXECUTE format('CREATE POLICY whole_for_backup ON %I FOR SELECT TO mp_backup USING (true)', name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO mp_app', name);
        EXECUTE format('GRANT SELECT ON %I TO mp_backup', name);
    END LOOP;
END
$rls$;

-- migrate:down
-- Forward only: restore a backup instead.
