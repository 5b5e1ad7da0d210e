-- migrate:up
-- Erasure (docs/decisions/0023): jobs that survive a kill, what they are about, and what keeps the forgotten away.

-- A job is written before anything is done. `target` is sealed under the tenant's key and null once it has ended; then
-- `digest`, an HMAC, is all that says what was forgotten.
CREATE TABLE erasures (
    tenant_id    uuid NOT NULL REFERENCES tenants,
    erasure_id   uuid NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('user', 'project', 'session', 'memory', 'source_id', 'query')),
    target       bytea,
    digest       bytea NOT NULL CHECK (octet_length(digest) = 32),
    -- The last step that is done.
    step         text NOT NULL CHECK (step IN ('asked', 'marked', 'deleted', 'rebuilt', 'shredded', 'ended')),
    requested_at timestamptz NOT NULL,
    counts       jsonb NOT NULL DEFAULT '{}',
    receipt      jsonb,
    finished_at  timestamptz,
    PRIMARY KEY (tenant_id, erasure_id)
);
CREATE INDEX erasures_open ON erasures (requested_at) WHERE finished_at IS NULL;

-- What a job takes away or makes anew, by id; gone when it has ended.
CREATE TABLE erasure_items (
    tenant_id  uuid NOT NULL,
    erasure_id uuid NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('scope', 'session', 'exchange', 'turn', 'memory', 'retrieval', 'key',
                                             'summary', 'learn')),
    item       text NOT NULL CHECK (char_length(item) <= 64),
    scope_id   bigint NOT NULL,
    PRIMARY KEY (tenant_id, erasure_id, kind, item),
    FOREIGN KEY (tenant_id, erasure_id) REFERENCES erasures ON DELETE CASCADE
);

-- Whoever goes on with jobs looks for those of every tenant: ids, times and what is sealed.
DO $rls$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['erasures', 'erasure_items'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY tenant_or_all ON %I TO PUBLIC USING (tenant_id = (SELECT mp_tenant())'
            ' OR (SELECT current_setting(''mp.erasing'', true)) = ''all'')', name);
        EXECUTE format('CREATE POLICY whole_for_backup ON %I FOR SELECT TO mp_backup USING (true)', name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO mp_app', name);
        EXECUTE format('GRANT SELECT ON %I TO mp_backup', name);
    END LOOP;
END
$rls$;

-- A turn that a client sends again as history has the same place in the chain.
ALTER TABLE tombstones
    DROP CONSTRAINT tombstones_kind_check,
    ADD CONSTRAINT tombstones_kind_check
        CHECK (kind IN ('user', 'project', 'session', 'memory', 'source', 'content', 'chain'));

-- The cache_salt of a tenant is made of this number too: another number, another prefix cache.
ALTER TABLE tenants
    ADD COLUMN salt_generation bigint NOT NULL DEFAULT 0,
    ADD COLUMN salt_rotated_at timestamptz;

-- Delete, in every table that has the column `member`, the rows with one of these values: from the tables that nothing
-- refers to up, so that each row is counted. Goes by the catalogue, so a table that comes later is not forgotten. Works
-- as whoever calls, under row-level security. The feed goes with its scope only: its numbers have no gaps.
CREATE FUNCTION mp_erase_rows(tenant uuid, member text, wanted text[]) RETURNS jsonb LANGUAGE plpgsql AS $fn$
DECLARE
    left_over oid[];
    ready oid;
    gone bigint;
    counts jsonb := '{}';
    kind text;
BEGIN
    SELECT array_agg(c.oid ORDER BY c.relname) INTO left_over
    FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = member AND NOT a.attisdropped
    JOIN pg_attribute t ON t.attrelid = c.oid AND t.attname = 'tenant_id' AND NOT t.attisdropped
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
      AND c.relname NOT IN ('erasures', 'erasure_items', 'audit_log', 'tombstones')
      AND (c.relname <> 'outbox' OR member = 'scope_id')
      AND has_table_privilege(c.oid, 'DELETE');
    WHILE cardinality(left_over) > 0 LOOP
        SELECT one INTO ready
        FROM unnest(left_over) AS one
        WHERE NOT EXISTS (
            SELECT FROM pg_constraint k
            WHERE k.contype = 'f' AND k.confrelid = one AND k.conrelid <> one AND k.conrelid = ANY (left_over))
        LIMIT 1;
        IF ready IS NULL THEN
            ready := left_over[1];
        END IF;
        SELECT format_type(atttypid, NULL) INTO kind
        FROM pg_attribute WHERE attrelid = ready AND attname = member;
        EXECUTE format('DELETE FROM %s WHERE tenant_id = $1 AND %I = ANY ($2::%s[])', ready::regclass, member, kind)
        USING tenant, wanted;
        GET DIAGNOSTICS gone = ROW_COUNT;
        IF gone > 0 THEN
            counts := counts || jsonb_build_object(ready::regclass::text, gone);
        END IF;
        left_over := array_remove(left_over, ready);
    END LOOP;
    RETURN counts;
END
$fn$;

-- migrate:down
-- Forward only: restore a backup instead.
