-- migrate:up
-- Encryption at rest of what is confidential or secret (docs/decisions/0024). Texts stay in their columns, as sealed
-- values; vectors, which an index could not rank sealed, lie here and are opened only in memory.

CREATE TABLE sealed_windows (
    tenant_id  uuid NOT NULL,
    memory_id  uuid NOT NULL,
    version    integer NOT NULL,
    -- The table of the model whose vectors these are.
    embeddings text NOT NULL,
    window_no  integer NOT NULL,
    scope_id   bigint NOT NULL,
    -- Sealed envelope v1: the span and the vector.
    sealed     bytea NOT NULL,
    PRIMARY KEY (tenant_id, memory_id, version, embeddings, window_no),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
ALTER TABLE sealed_windows ENABLE ROW LEVEL SECURITY;
ALTER TABLE sealed_windows FORCE ROW LEVEL SECURITY;
CREATE POLICY visible_scopes ON sealed_windows USING (tenant_id = (SELECT mp_tenant())
    AND scope_id = ANY ((SELECT mp_scopes())::bigint[]));
CREATE POLICY whole_for_backup ON sealed_windows FOR SELECT TO mp_backup USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON sealed_windows TO mp_app;
GRANT SELECT ON sealed_windows TO mp_backup;

-- What a rotation of keys walks over.
CREATE INDEX memory_versions_sealed ON memory_versions (tenant_id, memory_id, version)
    WHERE sensitivity IN ('confidential', 'secret');
CREATE INDEX turns_sealed ON turns (tenant_id, event_id) WHERE sensitivity IN ('confidential', 'secret');

-- migrate:down
-- Forward only: restore a backup instead.
