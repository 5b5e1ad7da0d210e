-- migrate:up
-- Which scopes a transaction sees says nothing of how many rows a statement is after. Where an index answered both, the
-- planner took a scope for one that holds next to nothing, since two conditions had to hold, and read all of it for one row.
-- coalesce leaves what is seen as it is, and is no condition of an index; IN looks a row's scope up, where = ANY went
-- through all that are seen for each row.

DO $rls$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT tablename FROM pg_policies
        WHERE schemaname = 'public' AND policyname = 'visible_scopes' AND tablename <> 'shares'
    LOOP
        EXECUTE format('ALTER POLICY visible_scopes ON %I USING (tenant_id = (SELECT mp_tenant())'
            ' AND coalesce(scope_id IN (SELECT unnest(mp_scopes())), false))', name);
    END LOOP;
END
$rls$;

CREATE OR REPLACE FUNCTION mp_create_embedding_table(suffix text, dim integer) RETURNS text LANGUAGE plpgsql AS $fn$
DECLARE
    name text := 'memory_embeddings_' || suffix;
BEGIN
    EXECUTE format('CREATE TABLE IF NOT EXISTS %I (
        tenant_id uuid NOT NULL,
        scope_id bigint NOT NULL,
        memory_id uuid NOT NULL,
        version integer NOT NULL,
        window_no integer NOT NULL,
        span_start integer NOT NULL,
        span_end integer NOT NULL,
        embedding halfvec(%s) NOT NULL,
        PRIMARY KEY (tenant_id, memory_id, version, window_no),
        FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE)', name, dim);
    EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON %I (tenant_id, scope_id)', name || '_scope', name);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('DROP POLICY IF EXISTS visible_scopes ON %I', name);
    EXECUTE format('CREATE POLICY visible_scopes ON %I USING (tenant_id = (SELECT mp_tenant())'
        ' AND coalesce(scope_id IN (SELECT unnest(mp_scopes())), false))', name);
    EXECUTE format('DROP POLICY IF EXISTS whole_for_backup ON %I', name);
    EXECUTE format('CREATE POLICY whole_for_backup ON %I FOR SELECT TO mp_backup USING (true)', name);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO mp_app', name);
    EXECUTE format('GRANT SELECT ON %I TO mp_backup', name);
    RETURN name;
END
$fn$;

-- What is erased by a column that no index begins with is looked for in the scopes that are seen.
CREATE OR REPLACE FUNCTION mp_erase_rows(tenant uuid, member text, wanted text[]) RETURNS jsonb LANGUAGE plpgsql AS $fn$
DECLARE
    left_over oid[];
    ready oid;
    gone bigint;
    counts jsonb := '{}';
    kind text;
    within text;
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
        SELECT CASE WHEN NOT EXISTS (
            SELECT FROM pg_index i
            JOIN pg_attribute a ON a.attrelid = ready AND a.attname = member
            WHERE i.indrelid = ready AND i.indkey[1] = a.attnum AND i.indpred IS NULL)
            THEN ' AND scope_id = ANY ((SELECT mp_scopes())::bigint[])' ELSE '' END INTO within
        FROM pg_policy WHERE polrelid = ready AND polname = 'visible_scopes';
        EXECUTE format('DELETE FROM %s WHERE tenant_id = $1 AND %I = ANY ($2::%s[])', ready::regclass, member, kind)
            || coalesce(within, '')
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
