-- migrate:up
-- A second embedding model beside the first (docs/decisions/0016): which one is served, which one stands by, how far it
-- is filled. The one row is what all processes follow.

ALTER TABLE embedding_models
    -- Where the model's files lie, when not in a package; null otherwise and for models of before.
    ADD COLUMN directory text;

CREATE TABLE embedding_serving (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- Rises whenever what a process holds in memory no longer fits: another model, or vectors that were missing.
    generation  bigint NOT NULL DEFAULT 1,
    model_id    integer NOT NULL REFERENCES embedding_models,
    -- Filled beside it, or served before it.
    standby_id  integer REFERENCES embedding_models CHECK (standby_id <> model_id),
    paused      boolean NOT NULL DEFAULT false,
    -- No vectors are written until then, by the database's clock: the last gap before a switch is being closed.
    held_until  timestamptz NOT NULL DEFAULT '-infinity',
    switched_at timestamptz
);

-- Of this scope and model, every memory up to this change has its vectors in the model's table.
CREATE TABLE reembed_progress (
    tenant_id uuid NOT NULL,
    scope_id  bigint NOT NULL,
    model_id  integer NOT NULL REFERENCES embedding_models ON DELETE CASCADE,
    version   bigint NOT NULL,
    memory_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, scope_id, model_id),
    FOREIGN KEY (tenant_id, scope_id) REFERENCES scopes ON DELETE CASCADE
);
ALTER TABLE reembed_progress ENABLE ROW LEVEL SECURITY;
ALTER TABLE reembed_progress FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_only ON reembed_progress TO PUBLIC USING (tenant_id = (SELECT mp_tenant()));
CREATE POLICY whole_for_backup ON reembed_progress FOR SELECT TO mp_backup USING (true);

-- Vectors are written to the served model's table alone, so that the other can be filled to the end: a process that has
-- not followed a switch yet stores nothing and comes again (class 40, so it is tried anew). The lock, shared by all
-- writers, is what a switch waits for. The filler says who it is. A store without the row (tests, before the first
-- start) takes everything.
CREATE FUNCTION mp_embeddings_guard() RETURNS trigger LANGUAGE plpgsql AS $fn$
DECLARE
    served text;
    held boolean;
BEGIN
    IF current_setting('mp.reembed', true) = 'on' THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(7210032);
    SELECT t.table_name, s.held_until > clock_timestamp() INTO served, held
    FROM embedding_serving s
    JOIN embedding_tables t USING (model_id);
    IF FOUND AND (held OR served <> TG_TABLE_NAME) THEN
        RAISE EXCEPTION 'vectors are not written to % now', TG_TABLE_NAME USING ERRCODE = '40001';
    END IF;
    RETURN NULL;
END
$fn$;

CREATE FUNCTION mp_guard_embedding_table(name text) RETURNS void LANGUAGE plpgsql AS $fn$
BEGIN
    EXECUTE format('CREATE OR REPLACE TRIGGER served_only BEFORE INSERT ON %I FOR EACH STATEMENT'
        ' EXECUTE FUNCTION mp_embeddings_guard()', name);
END
$fn$;
REVOKE ALL ON FUNCTION mp_guard_embedding_table(text) FROM PUBLIC;

SELECT mp_guard_embedding_table(table_name) FROM embedding_tables;

-- A model that is not served goes with its vectors. Locks memories for an instant (its foreign key goes); called by the
-- owner, with a lock_timeout.
CREATE FUNCTION mp_drop_standby_model() RETURNS text LANGUAGE plpgsql AS $fn$
DECLARE
    gone integer;
    name text;
BEGIN
    SELECT standby_id INTO gone FROM embedding_serving FOR UPDATE;
    IF gone IS NULL THEN
        RETURN NULL;
    END IF;
    UPDATE embedding_serving SET standby_id = NULL, paused = false;
    DELETE FROM embedding_tables WHERE model_id = gone RETURNING table_name INTO name;
    DELETE FROM embedding_models WHERE model_id = gone;
    EXECUTE format('DROP TABLE IF EXISTS %I', name);
    RETURN name;
END
$fn$;
REVOKE ALL ON FUNCTION mp_drop_standby_model() FROM PUBLIC;

GRANT SELECT, UPDATE ON embedding_serving TO mp_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON reembed_progress TO mp_app;
GRANT SELECT ON embedding_serving, reembed_progress TO mp_backup;

-- migrate:down
-- Forward only: restore a backup instead.
