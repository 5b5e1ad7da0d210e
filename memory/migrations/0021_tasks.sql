-- migrate:up
-- Tasks (docs/decisions/0033): where work stands, what waits for what, and how it came there. The words of a task are a
-- memory (collection task); here stand ids and closed words only.

CREATE TABLE tasks (
    tenant_id  uuid NOT NULL,
    task_id    uuid NOT NULL,
    scope_id   bigint NOT NULL,
    memory_id  uuid NOT NULL,
    -- Its memory's version too.
    version    integer NOT NULL DEFAULT 1 CHECK (version >= 1),
    status     text NOT NULL
        CHECK (status IN ('queued', 'running', 'blocked', 'validating', 'done', 'failed', 'cancelled')),
    session_id uuid,
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    deleted_at timestamptz,
    PRIMARY KEY (tenant_id, task_id),
    FOREIGN KEY (tenant_id, scope_id) REFERENCES scopes,
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
CREATE INDEX tasks_recent ON tasks (tenant_id, scope_id, created_at DESC, task_id DESC);
CREATE INDEX tasks_of_memory ON tasks (tenant_id, memory_id);

CREATE TABLE task_edges (
    tenant_id uuid NOT NULL,
    task_id   uuid NOT NULL,
    needs     uuid NOT NULL CHECK (needs <> task_id),
    scope_id  bigint NOT NULL,
    PRIMARY KEY (tenant_id, task_id, needs),
    FOREIGN KEY (tenant_id, task_id) REFERENCES tasks ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, needs) REFERENCES tasks (tenant_id, task_id) ON DELETE CASCADE
);
CREATE INDEX task_edges_of_needed ON task_edges (tenant_id, needs);

CREATE TABLE task_history (
    tenant_id uuid NOT NULL,
    task_id   uuid NOT NULL,
    version   integer NOT NULL CHECK (version >= 1),
    scope_id  bigint NOT NULL,
    was       text,
    status    text NOT NULL,
    -- The key's id, or "open".
    actor     text NOT NULL,
    at        timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, task_id, version),
    FOREIGN KEY (tenant_id, task_id) REFERENCES tasks ON DELETE CASCADE
);

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['tasks', 'task_edges', 'task_history'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY visible_scopes ON %I USING (tenant_id = (SELECT mp_tenant())
            AND scope_id = ANY ((SELECT mp_scopes())::bigint[]))', t);
        EXECUTE format('CREATE POLICY whole_for_backup ON %I FOR SELECT TO mp_backup USING (true)', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO mp_app', t);
        EXECUTE format('GRANT SELECT ON %I TO mp_backup', t);
    END LOOP;
END $$;

-- migrate:down
-- Forward only: restore a backup instead.
