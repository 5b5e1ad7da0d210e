-- migrate:up
-- Exchanges whose facts are taken out later, by a model, off the lanes (docs/decisions/0012). A row is written with its
-- exchange and goes in the transaction that stores what was found, so it is done once, whoever is killed in between.

-- Ids, places and times only.
CREATE TABLE extraction_due (
    tenant_id    uuid NOT NULL,
    exchange_id  uuid NOT NULL,
    scope_id     bigint NOT NULL,
    session_id   uuid NOT NULL,
    -- Where its own user turns stand in the session, and when the session was last spoken in before them.
    seq_from     bigint NOT NULL,
    seq_to       bigint NOT NULL,
    session_last timestamptz,
    -- When its answer had left.
    since        timestamptz NOT NULL,
    -- A worker has it until then, by the database's clock. takes: how often it was taken and never given back.
    taken_until  timestamptz NOT NULL DEFAULT '-infinity',
    takes        integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, exchange_id),
    FOREIGN KEY (tenant_id, exchange_id) REFERENCES exchanges ON DELETE CASCADE
);
CREATE INDEX extraction_due_oldest ON extraction_due (tenant_id, since);

-- A tenant's own, and all where a transaction says so: the workers serve the tenants in turn. What an id leads to is read
-- under the policies of its own table.
ALTER TABLE extraction_due ENABLE ROW LEVEL SECURITY;
ALTER TABLE extraction_due FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_or_all ON extraction_due TO PUBLIC
    USING (tenant_id = (SELECT mp_tenant()) OR (SELECT current_setting('mp.due', true)) = 'all');
CREATE POLICY whole_for_backup ON extraction_due FOR SELECT TO mp_backup USING (true);

GRANT SELECT, INSERT, UPDATE, DELETE ON extraction_due TO mp_app;
GRANT SELECT ON extraction_due TO mp_backup;

-- migrate:down
-- Forward only: restore a backup instead.
