-- migrate:up
-- How many memories each source of a scope wrote within the hour (decision 0020). The source is a digest: no name of a
-- session, an import or a tool stands here.

CREATE TABLE source_writes (
    tenant_id uuid NOT NULL,
    scope_id  bigint NOT NULL,
    source    bytea NOT NULL CHECK (octet_length(source) = 32),
    hour      timestamptz NOT NULL,
    writes    bigint NOT NULL,
    PRIMARY KEY (tenant_id, scope_id, source),
    FOREIGN KEY (tenant_id, scope_id) REFERENCES scopes ON DELETE CASCADE
);
ALTER TABLE source_writes ENABLE ROW LEVEL SECURITY;
ALTER TABLE source_writes FORCE ROW LEVEL SECURITY;
CREATE POLICY visible_scopes ON source_writes USING (tenant_id = (SELECT mp_tenant())
    AND scope_id = ANY ((SELECT mp_scopes())::bigint[]));
CREATE POLICY whole_for_backup ON source_writes FOR SELECT TO mp_backup USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON source_writes TO mp_app;
GRANT SELECT ON source_writes TO mp_backup;

-- migrate:down
-- Forward only: restore a backup instead.
