-- migrate:up
-- Artifacts (docs/decisions/0035): files whose bytes lie sealed outside. The words of one (its name, caption, excerpt)
-- are a memory (collection artifact); here stand ids, sizes and the name that its bytes lie under.

CREATE TABLE artifacts (
    tenant_id   uuid NOT NULL,
    artifact_id uuid NOT NULL,
    scope_id    bigint NOT NULL,
    subject_id  uuid NOT NULL,
    session_id  uuid,
    memory_id   uuid NOT NULL,
    version     integer NOT NULL DEFAULT 1 CHECK (version >= 1),
    -- An HMAC of the bytes under the tenant's key, with their owner in it.
    blob        text NOT NULL CHECK (blob ~ '^[0-9a-f]{64}$'),
    bytes       bigint NOT NULL CHECK (bytes >= 1),
    media_type  text NOT NULL,
    width       integer,
    height      integer,
    created_at  timestamptz NOT NULL,
    changed_at  timestamptz NOT NULL,
    deleted_at  timestamptz,
    PRIMARY KEY (tenant_id, artifact_id),
    FOREIGN KEY (tenant_id, scope_id) REFERENCES scopes,
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
CREATE INDEX artifacts_recent ON artifacts (tenant_id, scope_id, created_at DESC, artifact_id DESC);
CREATE INDEX artifacts_of_blob ON artifacts (tenant_id, scope_id, blob);
CREATE INDEX artifacts_of_memory ON artifacts (tenant_id, memory_id);

ALTER TABLE artifacts ENABLE ROW LEVEL SECURITY;
ALTER TABLE artifacts FORCE ROW LEVEL SECURITY;
CREATE POLICY visible_scopes ON artifacts USING (tenant_id = (SELECT mp_tenant())
    AND scope_id = ANY ((SELECT mp_scopes())::bigint[]));
CREATE POLICY whole_for_backup ON artifacts FOR SELECT TO mp_backup USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON artifacts TO mp_app;
GRANT SELECT ON artifacts TO mp_backup;

-- migrate:down
-- Forward only: restore a backup instead.
