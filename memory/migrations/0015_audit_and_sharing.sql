-- migrate:up
-- The audit log as a chain, sharing as an act, and a scope that nobody sees, for canaries (docs/decisions/0022).

-- Nothing has ever written the table of the first migration.
DROP TABLE audit_log;

-- Append-only: mp_app may add and read. Each row's digest is an HMAC over the row and the digest before it, under a key of
-- the tenant that does not lie here, so that a row that was changed, taken out or put in is found (memory/audit.py).
CREATE TABLE audit_log (
    tenant_id  uuid NOT NULL REFERENCES tenants,
    seq        bigint NOT NULL CHECK (seq >= 1),
    at         timestamptz NOT NULL,
    -- An API key's id, or a word for who had none: never a secret, never a name that a client chose.
    actor      text NOT NULL CHECK (char_length(actor) BETWEEN 1 AND 64),
    action     text NOT NULL CHECK (char_length(action) BETWEEN 1 AND 64),
    decision   text NOT NULL CHECK (decision IN ('allowed', 'refused', 'noted')),
    why        text NOT NULL CHECK (char_length(why) <= 200),
    ids        text[] NOT NULL,
    detail     jsonb NOT NULL,
    prior      bytea NOT NULL CHECK (octet_length(prior) = 32),
    digest     bytea NOT NULL CHECK (octet_length(digest) = 32),
    PRIMARY KEY (tenant_id, seq)
);

-- Where each tenant's chain ends. Its row is the lock that lets one writer at a time go on, and tells of rows cut off at
-- the end.
CREATE TABLE audit_heads (
    tenant_id  uuid PRIMARY KEY REFERENCES tenants,
    seq        bigint NOT NULL CHECK (seq >= 0),
    digest     bytea NOT NULL CHECK (octet_length(digest) = 32)
);

DO $rls$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['audit_log', 'audit_heads'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY tenant_only ON %I TO PUBLIC USING (tenant_id = (SELECT mp_tenant()))', name);
        EXECUTE format('CREATE POLICY whole_for_backup ON %I FOR SELECT TO mp_backup USING (true)', name);
        EXECUTE format('GRANT SELECT ON %I TO mp_backup', name);
    END LOOP;
END
$rls$;
GRANT SELECT, INSERT ON audit_log TO mp_app;
GRANT SELECT, INSERT, UPDATE ON audit_heads TO mp_app;

-- The one way out of the log: rows up to one that an anchor row names, with its digest, and that stands in the chain
-- behind them; and none younger than a day, whoever asks. Runs as the owner, sees the tenant of the transaction.
CREATE FUNCTION mp_drop_audited(through bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = public, pg_temp AS $fn$
DECLARE
    dropped bigint;
BEGIN
    IF NOT EXISTS (
        SELECT FROM audit_log last
        JOIN audit_log anchor ON anchor.tenant_id = last.tenant_id AND anchor.seq > last.seq
            AND anchor.action = 'audit.anchor' AND anchor.detail ->> 'digest' = encode(last.digest, 'hex')
            AND anchor.detail ->> 'through' = last.seq::text
        WHERE last.tenant_id = mp_tenant() AND last.seq = through
    ) THEN
        RAISE EXCEPTION 'no anchor row covers the rows to drop' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF EXISTS (SELECT FROM audit_log WHERE tenant_id = mp_tenant() AND seq <= through
               AND at > clock_timestamp() - interval '1 day') THEN
        RAISE EXCEPTION 'rows of the last day stay' USING ERRCODE = 'insufficient_privilege';
    END IF;
    DELETE FROM audit_log WHERE tenant_id = mp_tenant() AND seq <= through;
    GET DIAGNOSTICS dropped = ROW_COUNT;
    RETURN dropped;
END
$fn$;
REVOKE ALL ON FUNCTION mp_drop_audited(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION mp_drop_audited(bigint) TO mp_app;

-- A scope of its own for the tenant's canary: no identity has this visibility, so nobody is ever shown what is in it.
ALTER TABLE scopes
    DROP CONSTRAINT scopes_visibility_check,
    ADD CONSTRAINT scopes_visibility_check CHECK (visibility IN ('own', 'user', 'project', 'tenant', 'canary'));

-- What was shared, from where to where: the copy is a memory of the shared scope, its derivation edge names the source.
CREATE TABLE shares (
    tenant_id  uuid NOT NULL,
    source_id  uuid NOT NULL,
    copy_id    uuid NOT NULL,
    -- The shared scope, where the copy is.
    scope_id   bigint NOT NULL,
    -- The scope of the source: who shared it sees the row as well.
    source_scope_id bigint NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, source_id, copy_id),
    FOREIGN KEY (tenant_id, copy_id) REFERENCES memories ON DELETE CASCADE
);
CREATE INDEX shares_of_copy ON shares (tenant_id, copy_id);
ALTER TABLE shares ENABLE ROW LEVEL SECURITY;
ALTER TABLE shares FORCE ROW LEVEL SECURITY;
CREATE POLICY visible_scopes ON shares USING (tenant_id = (SELECT mp_tenant())
    AND (scope_id = ANY ((SELECT mp_scopes())::bigint[]) OR source_scope_id = ANY ((SELECT mp_scopes())::bigint[])));
CREATE POLICY whole_for_backup ON shares FOR SELECT TO mp_backup USING (true);
GRANT SELECT, INSERT, DELETE ON shares TO mp_app;
GRANT SELECT ON shares TO mp_backup;

-- Hiding, superseding, quarantining, rejecting, rewording or erasing a source takes its copies along, whoever does it and
-- however it dies: in the same transaction. A hidden source that is shown again brings back the copies that went with it.
-- The copies lie in scopes that the transaction may not see, so the function widens what it sees, for itself alone.
CREATE FUNCTION mp_copies_follow() RETURNS trigger LANGUAGE plpgsql AS $fn$
DECLARE
    seen text := current_setting('mp.scopes', true);
    one record;
    gone timestamptz;
    bumped bigint;
BEGIN
    FOR one IN SELECT copy_id, scope_id FROM shares WHERE tenant_id = OLD.tenant_id AND source_id = OLD.memory_id
               ORDER BY scope_id, copy_id LOOP
        PERFORM set_config('mp.scopes', (mp_scopes() || one.scope_id)::text, true);
        UPDATE scope_versions SET version = version + 1,
            rebuild_version = CASE WHEN TG_OP = 'DELETE' THEN version + 1 ELSE rebuild_version END
        WHERE tenant_id = OLD.tenant_id AND scope_id = one.scope_id
        RETURNING version INTO bumped;
        IF TG_OP = 'DELETE' THEN
            INSERT INTO outbox (tenant_id, scope_id, event, object_id, version, kind, caused_by, created_at)
            SELECT tenant_id, scope_id, 'erased', memory_id, version, kind, 'source', clock_timestamp()
            FROM memories WHERE tenant_id = OLD.tenant_id AND memory_id = one.copy_id;
            DELETE FROM derivations WHERE tenant_id = OLD.tenant_id AND derived_id = one.copy_id;
            DELETE FROM memories WHERE tenant_id = OLD.tenant_id AND memory_id = one.copy_id;
        ELSIF OLD.deleted_at IS NOT NULL AND NEW.deleted_at IS NULL THEN
            UPDATE memories SET deleted_at = NULL, changed_version = bumped
            WHERE tenant_id = OLD.tenant_id AND memory_id = one.copy_id AND deleted_at = OLD.deleted_at;
            INSERT INTO outbox (tenant_id, scope_id, event, object_id, version, kind, caused_by, created_at)
            SELECT tenant_id, scope_id, 'restored', memory_id, version, kind, 'source', clock_timestamp()
            FROM memories WHERE tenant_id = OLD.tenant_id AND memory_id = one.copy_id AND changed_version = bumped;
        ELSE
            gone := coalesce(NEW.deleted_at, clock_timestamp());
            UPDATE memories SET deleted_at = gone, changed_version = bumped
            WHERE tenant_id = OLD.tenant_id AND memory_id = one.copy_id AND deleted_at IS NULL;
            INSERT INTO outbox (tenant_id, scope_id, event, object_id, version, kind, caused_by, created_at)
            SELECT tenant_id, scope_id, 'deleted', memory_id, version, kind, 'source', clock_timestamp()
            FROM memories WHERE tenant_id = OLD.tenant_id AND memory_id = one.copy_id AND changed_version = bumped;
        END IF;
    END LOOP;
    PERFORM set_config('mp.scopes', coalesce(seen, ''), true);
    RETURN NULL;
END
$fn$;

-- Whether the next version says or is labelled otherwise than the one that was shared.
CREATE FUNCTION mp_reworded(tenant uuid, memory uuid, before integer, after integer) RETURNS boolean
LANGUAGE sql STABLE AS $fn$
    SELECT EXISTS (
        SELECT FROM memory_versions a
        JOIN memory_versions b ON b.tenant_id = a.tenant_id AND b.memory_id = a.memory_id AND b.version = after
        WHERE a.tenant_id = tenant AND a.memory_id = memory AND a.version = before
          AND (a.content, a.integrity, a.sensitivity, a.expires_at, b.validation_status = 'rejected')
              IS DISTINCT FROM (b.content, b.integrity, b.sensitivity, b.expires_at, false))
$fn$;

CREATE TRIGGER copies_follow_state AFTER UPDATE OF deleted_at, superseded_by, quarantined_at ON memories
    FOR EACH ROW WHEN (OLD.deleted_at IS DISTINCT FROM NEW.deleted_at
        OR (OLD.superseded_by IS NULL AND NEW.superseded_by IS NOT NULL)
        OR (OLD.quarantined_at IS NULL AND NEW.quarantined_at IS NOT NULL))
    EXECUTE FUNCTION mp_copies_follow();
CREATE TRIGGER copies_follow_words AFTER UPDATE OF version ON memories
    FOR EACH ROW WHEN (OLD.version <> NEW.version
        AND mp_reworded(NEW.tenant_id, NEW.memory_id, OLD.version, NEW.version))
    EXECUTE FUNCTION mp_copies_follow();
CREATE TRIGGER copies_follow_erasure AFTER DELETE ON memories
    FOR EACH ROW EXECUTE FUNCTION mp_copies_follow();

-- migrate:down
-- Forward only: restore a backup instead.
