-- migrate:up
-- Personas (docs/decisions/0030): names for how answers are asked to be. What a prompt is given of one is a memory (kind
-- working, collection persona); here stand closed words only.

CREATE TABLE personas (
    tenant_id  uuid NOT NULL,
    persona_id uuid NOT NULL,
    scope_id   bigint NOT NULL,
    name       text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 64 AND name !~ '[/=;]'),
    -- Its memory's version too.
    version    integer NOT NULL DEFAULT 1 CHECK (version >= 1),
    memory_id  uuid NOT NULL,
    -- Of policies/persona.py: {"tone": "dry"}.
    facets     jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    deleted_at timestamptz,
    PRIMARY KEY (tenant_id, persona_id),
    FOREIGN KEY (tenant_id, scope_id) REFERENCES scopes,
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
CREATE UNIQUE INDEX personas_name ON personas (tenant_id, scope_id, name) WHERE deleted_at IS NULL;
CREATE INDEX personas_deleted ON personas (tenant_id, scope_id, name, deleted_at DESC) WHERE deleted_at IS NOT NULL;
CREATE INDEX personas_of_memory ON personas (tenant_id, memory_id);

ALTER TABLE personas ENABLE ROW LEVEL SECURITY;
ALTER TABLE personas FORCE ROW LEVEL SECURITY;
CREATE POLICY visible_scopes ON personas USING (tenant_id = (SELECT mp_tenant())
    AND scope_id = ANY ((SELECT mp_scopes())::bigint[]));
CREATE POLICY whole_for_backup ON personas FOR SELECT TO mp_backup USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON personas TO mp_app;
GRANT SELECT ON personas TO mp_backup;

-- migrate:down
-- Forward only: restore a backup instead.
