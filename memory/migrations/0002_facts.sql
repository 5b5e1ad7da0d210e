-- migrate:up
-- Facts and what keeps them true (docs/decisions/0009). A fact is a memory of kind semantic; here is what it says, who
-- said it when, and whether it holds. What holds follows from the sayings of its key, so it can be worked out again.

ALTER TABLE memories ADD COLUMN superseded_reason text;
-- Whether this version was of a memory that something else had taken the place of: as_of then sees what was true then.
ALTER TABLE memory_versions ADD COLUMN superseded_by uuid;

CREATE INDEX memories_superseded_by ON memories (tenant_id, superseded_by) WHERE superseded_by IS NOT NULL;

CREATE TABLE facts (
    tenant_id   uuid NOT NULL,
    memory_id   uuid NOT NULL,
    scope_id    bigint NOT NULL,
    subject     text NOT NULL CHECK (char_length(subject) BETWEEN 1 AND 300),
    predicate   text NOT NULL CHECK (char_length(predicate) BETWEEN 1 AND 100),
    object      text NOT NULL CHECK (char_length(object) BETWEEN 1 AND 2000),
    negated     boolean NOT NULL,
    cardinality text NOT NULL CHECK (cardinality IN ('one', 'many')),
    category    text NOT NULL CHECK (category IN ('fact', 'preference', 'convention', 'topology', 'decision')),
    -- withdrawn: nothing supports it any more, or its memory is deleted or rejected.
    state       text NOT NULL CHECK (state IN ('current', 'superseded', 'disputed', 'past', 'withdrawn')),
    -- Of its latest saying.
    said_at     timestamptz NOT NULL,
    seq         bigint NOT NULL,
    correction  boolean NOT NULL,
    -- What tells the thing from its like (policies/fact.py, Aspect), of the saying in force; exclusive: one at a time.
    aspect      text NOT NULL,
    unit        text NOT NULL,
    exclusive   boolean NOT NULL,
    PRIMARY KEY (tenant_id, memory_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
CREATE INDEX facts_of_key ON facts (tenant_id, scope_id, subject, predicate);
-- The lock on the scope's version keeps writers apart; this keeps the promise should one of them come without it.
CREATE UNIQUE INDEX facts_one_current ON facts (tenant_id, scope_id, subject, predicate, aspect, unit)
    WHERE state = 'current' AND exclusive;

-- Each time a fact was said. said_at is the turn's time made fit for order (policies/reconcile.py, moment).
CREATE TABLE fact_sayings (
    tenant_id   uuid NOT NULL,
    memory_id   uuid NOT NULL,
    event_id    uuid NOT NULL,
    scope_id    bigint NOT NULL,
    said_at     timestamptz NOT NULL,
    seq         bigint NOT NULL,
    span_start  integer NOT NULL,
    integrity   text NOT NULL CHECK (integrity IN ('admin', 'user', 'assistant', 'tool', 'web', 'imported')),
    sensitivity text NOT NULL CHECK (sensitivity IN ('public', 'internal', 'confidential', 'secret')),
    correction  boolean NOT NULL,
    aspect      text NOT NULL,
    unit        text NOT NULL,
    of_many     boolean NOT NULL,
    changed     boolean NOT NULL,
    valid_from  timestamptz,
    valid_to    timestamptz,
    PRIMARY KEY (tenant_id, memory_id, event_id, span_start),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES facts ON DELETE CASCADE
);
CREATE INDEX fact_sayings_in_order ON fact_sayings (tenant_id, memory_id, said_at, seq);

DO $rls$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['facts', 'fact_sayings'] LOOP
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
