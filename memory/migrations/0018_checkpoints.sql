-- migrate:up
-- Checkpoints (docs/decisions/0030): names over memory ids. What a checkpoint says stands in memories and their versions;
-- these rows say which of them, in which order, and since when. No words but the name.

CREATE TABLE checkpoints (
    tenant_id     uuid NOT NULL,
    checkpoint_id uuid NOT NULL,
    scope_id      bigint NOT NULL,
    name          text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 128),
    version       integer NOT NULL DEFAULT 1 CHECK (version >= 1),
    -- The conversation it was saved from. Forgetting that takes the checkpoint too: mp_erase_rows goes by the column.
    session_id    uuid,
    branched_from uuid,
    branched_version integer,
    created_at    timestamptz NOT NULL,
    changed_at    timestamptz NOT NULL,
    deleted_at    timestamptz,
    PRIMARY KEY (tenant_id, checkpoint_id),
    FOREIGN KEY (tenant_id, scope_id) REFERENCES scopes
);
CREATE UNIQUE INDEX checkpoints_name ON checkpoints (tenant_id, scope_id, name) WHERE deleted_at IS NULL;
CREATE INDEX checkpoints_deleted ON checkpoints (tenant_id, scope_id, name, deleted_at DESC) WHERE deleted_at IS NOT NULL;
CREATE INDEX checkpoints_recent ON checkpoints (tenant_id, scope_id, created_at DESC, checkpoint_id DESC);

-- Append-only; recorded_* is our clock, for as_of.
CREATE TABLE checkpoint_versions (
    tenant_id     uuid NOT NULL,
    checkpoint_id uuid NOT NULL,
    version       integer NOT NULL CHECK (version >= 1),
    scope_id      bigint NOT NULL,
    -- Of the block that a load adds, as they were counted at the time.
    tokens        integer NOT NULL CHECK (tokens >= 0),
    recorded_from timestamptz NOT NULL,
    recorded_to   timestamptz,
    PRIMARY KEY (tenant_id, checkpoint_id, version),
    FOREIGN KEY (tenant_id, checkpoint_id) REFERENCES checkpoints ON DELETE CASCADE
);

CREATE TABLE checkpoint_parts (
    tenant_id      uuid NOT NULL,
    checkpoint_id  uuid NOT NULL,
    version        integer NOT NULL,
    ordinal        integer NOT NULL CHECK (ordinal >= 0),
    scope_id       bigint NOT NULL,
    part           text NOT NULL CHECK (part IN ('notes', 'goal', 'plan', 'open', 'task', 'persona', 'preference',
                                                 'entity', 'fact', 'document', 'summary')),
    -- Erasure goes by this column's name: an erased memory leaves every checkpoint.
    memory_id      uuid NOT NULL,
    -- The memory's version when this was recorded.
    memory_version integer NOT NULL CHECK (memory_version >= 1),
    -- Whether the memory was made for this checkpoint; else it is one that was there.
    own            boolean NOT NULL,
    PRIMARY KEY (tenant_id, checkpoint_id, version, ordinal),
    FOREIGN KEY (tenant_id, checkpoint_id, version) REFERENCES checkpoint_versions ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
CREATE INDEX checkpoint_parts_of_memory ON checkpoint_parts (tenant_id, memory_id);

-- Few are pinned: what a checkpoint takes along of a scope's preferences.
CREATE INDEX memories_pinned ON memories (tenant_id, scope_id) WHERE pinned;

DO $rls$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['checkpoints', 'checkpoint_versions', 'checkpoint_parts'] LOOP
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
