-- migrate:up
-- The schema that lasts (DESIGN section 6). tenant_id leads every primary key and every index of a content table,
-- scope is one column, labels are there at birth, and every content table is under forced row-level security.

CREATE EXTENSION IF NOT EXISTS vector;

-- Three roles: the owner runs migrations, mp_app serves, mp_backup dumps. Roles are cluster-wide, so they may exist, or
-- come into being between the question and the answer when two databases are migrated at once. A user that is no
-- superuser cannot give BYPASSRLS; mp_backup reads by its own policy, so it does not need it (pg_dump then wants
-- --enable-row-security). The owner must be able to become mp_app.
DO $roles$
BEGIN
    BEGIN
        CREATE ROLE mp_app LOGIN;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
    END;
    BEGIN
        CREATE ROLE mp_backup LOGIN BYPASSRLS;
    EXCEPTION
        WHEN duplicate_object OR unique_violation THEN NULL;
        WHEN insufficient_privilege THEN
            BEGIN
                CREATE ROLE mp_backup LOGIN;
            EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
            END;
    END;
    IF NOT pg_has_role(current_user, 'mp_app', 'USAGE') THEN
        EXECUTE format('GRANT mp_app TO %I', current_user);
    END IF;
END
$roles$;

-- ---------------------------------------------------------------- reference tables (no row-level security)

CREATE TABLE tenants (
    tenant_id   uuid PRIMARY KEY,
    name        text NOT NULL UNIQUE,
    created_at  timestamptz NOT NULL
);

CREATE TABLE api_keys (
    key_id        uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL REFERENCES tenants,
    prefix        text NOT NULL,
    secret_sha256 bytea NOT NULL UNIQUE CHECK (octet_length(secret_sha256) = 32),
    name          text NOT NULL,
    fixed         jsonb NOT NULL DEFAULT '{}',
    defaults      jsonb NOT NULL DEFAULT '{}',
    capabilities  text[] NOT NULL DEFAULT '{}',
    sensitivity_ceiling text NOT NULL DEFAULT 'internal',
    created_at    timestamptz NOT NULL,
    expires_at    timestamptz,
    revoked_at    timestamptz
);
CREATE INDEX api_keys_of_tenant ON api_keys (tenant_id, created_at DESC, key_id DESC);

CREATE TABLE embedding_models (
    model_id   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL,
    digest     text NOT NULL,
    dim        integer NOT NULL CHECK (dim BETWEEN 1 AND 16000),
    created_at timestamptz NOT NULL,
    UNIQUE (name, digest)
);

CREATE TABLE embedding_tables (
    model_id   integer PRIMARY KEY REFERENCES embedding_models,
    table_name text NOT NULL UNIQUE CHECK (table_name ~ '^memory_embeddings_[a-z0-9_]+$')
);

-- Leases of queue lanes. A commit checks its fencing number here, so a worker that lost its lane stores nothing.
CREATE TABLE lane_leases (
    lane       text PRIMARY KEY,
    holder     text NOT NULL,
    fence      bigint NOT NULL,
    expires_at timestamptz NOT NULL
);

-- Who is alive to share the lanes. Both tables go by the database's clock: several machines, one judge.
CREATE TABLE lane_workers (
    holder     text PRIMARY KEY,
    expires_at timestamptz NOT NULL
);

-- ---------------------------------------------------------------- content tables

CREATE TABLE scopes (
    tenant_id  uuid NOT NULL REFERENCES tenants,
    scope_id   bigint GENERATED ALWAYS AS IDENTITY,
    user_name  text NOT NULL,
    project    text NOT NULL,
    agent      text NOT NULL,
    visibility text NOT NULL DEFAULT 'own' CHECK (visibility IN ('own', 'user', 'project', 'tenant')),
    PRIMARY KEY (tenant_id, scope_id),
    UNIQUE (tenant_id, visibility, user_name, project, agent)
);

CREATE TABLE scope_versions (
    tenant_id uuid NOT NULL,
    scope_id  bigint NOT NULL,
    version   bigint NOT NULL DEFAULT 0,
    -- An index built before this version must be rebuilt whole: something was erased.
    rebuild_version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, scope_id),
    FOREIGN KEY (tenant_id, scope_id) REFERENCES scopes ON DELETE CASCADE
);

CREATE TABLE subjects (
    tenant_id  uuid NOT NULL REFERENCES tenants,
    subject_id uuid NOT NULL,
    user_name  text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, subject_id),
    UNIQUE (tenant_id, user_name)
);

-- master key -> tenant key (subject_id null) -> subject key. Shredded means: wrapped is null, for ever.
CREATE TABLE data_keys (
    tenant_id   uuid NOT NULL REFERENCES tenants,
    key_id      uuid NOT NULL,
    subject_id  uuid,
    wrapped     bytea,
    created_at  timestamptz NOT NULL,
    retired_at  timestamptz,
    shredded_at timestamptz,
    PRIMARY KEY (tenant_id, key_id)
);
CREATE UNIQUE INDEX data_keys_current ON data_keys (tenant_id, subject_id) NULLS NOT DISTINCT
    WHERE retired_at IS NULL AND shredded_at IS NULL;

CREATE TABLE sessions (
    tenant_id  uuid NOT NULL,
    session_id uuid NOT NULL,
    scope_id   bigint NOT NULL,
    label      text NOT NULL,
    next_seq   bigint NOT NULL DEFAULT 0,
    tip_chain  bytea,
    epoch      integer NOT NULL DEFAULT 0,
    summary_memory_id uuid,
    summarised_seq bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    last_at    timestamptz NOT NULL,
    attributes jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, session_id),
    UNIQUE (tenant_id, scope_id, label),
    FOREIGN KEY (tenant_id, scope_id) REFERENCES scopes
);
CREATE INDEX sessions_recent ON sessions (tenant_id, scope_id, created_at DESC, session_id DESC);

-- One request with one upstream answer. Always one row, with its reason when the law refused the content.
CREATE TABLE exchanges (
    tenant_id   uuid NOT NULL,
    exchange_id uuid NOT NULL,
    scope_id    bigint NOT NULL,
    session_id  uuid NOT NULL,
    subject_id  uuid NOT NULL,
    origin      text NOT NULL CHECK (origin IN ('live', 'import')),
    status      text NOT NULL CHECK (status IN ('complete', 'partial', 'failed', 'refused')),
    reason      text,
    http_status integer,
    model       text,
    finish_reasons text[] NOT NULL DEFAULT '{}',
    usage       jsonb,
    arrived_at  timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL,
    -- Sealed envelope v1 with the request as it came and the answer; dropped after replay.retention_days.
    sealed      bytea,
    sealed_sha256 bytea,
    PRIMARY KEY (tenant_id, exchange_id),
    FOREIGN KEY (tenant_id, session_id) REFERENCES sessions
);
CREATE INDEX exchanges_of_session ON exchanges (tenant_id, session_id, arrived_at);
CREATE INDEX exchanges_sealed_age ON exchanges (tenant_id, finished_at) WHERE sealed IS NOT NULL;

-- One message at one chain position of a session. seq is gap-free inside the session and is the order.
CREATE TABLE turns (
    tenant_id    uuid NOT NULL,
    event_id     uuid NOT NULL,
    scope_id     bigint NOT NULL,
    session_id   uuid NOT NULL,
    exchange_id  uuid NOT NULL,
    seq          bigint NOT NULL,
    chain        bytea NOT NULL CHECK (octet_length(chain) = 32),
    parent_chain bytea CHECK (octet_length(parent_chain) = 32),
    attempt      integer NOT NULL DEFAULT 0,
    role         text NOT NULL,
    name         text,
    content      text NOT NULL,
    tool_calls   jsonb,
    tool_call_id text,
    source_id    text,
    line_digest  bytea,
    origin       text NOT NULL CHECK (origin IN ('live', 'import')),
    integrity    text NOT NULL CHECK (integrity IN ('admin', 'user', 'assistant', 'tool', 'web', 'imported')),
    sensitivity  text NOT NULL CHECK (sensitivity IN ('public', 'internal', 'confidential', 'secret')),
    language     text,
    model        text,
    redactions   integer NOT NULL DEFAULT 0,
    token_count  integer,
    occurred_at  timestamptz NOT NULL,
    recorded_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, event_id),
    UNIQUE (tenant_id, session_id, seq),
    UNIQUE (tenant_id, session_id, chain),
    FOREIGN KEY (tenant_id, session_id) REFERENCES sessions
);
CREATE UNIQUE INDEX turns_source ON turns (tenant_id, scope_id, source_id) WHERE source_id IS NOT NULL;
-- The identity of an imported line: its source_id, else the digest of all of it.
CREATE UNIQUE INDEX turns_line ON turns (tenant_id, scope_id, line_digest)
    WHERE line_digest IS NOT NULL AND source_id IS NULL;
CREATE INDEX turns_chain ON turns (tenant_id, scope_id, chain);
CREATE INDEX turns_siblings ON turns (tenant_id, session_id, parent_chain);
CREATE INDEX turns_in_order ON turns (tenant_id, scope_id, session_id, seq);

-- Identity and the current pointer of a memory; its texts are in memory_versions.
CREATE TABLE memories (
    tenant_id   uuid NOT NULL,
    memory_id   uuid NOT NULL,
    scope_id    bigint NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('working', 'episodic', 'semantic', 'procedural', 'summary', 'document')),
    collection  text NOT NULL DEFAULT 'default',
    content_key bytea NOT NULL CHECK (octet_length(content_key) = 32),
    session_id  uuid,
    subject_id  uuid,
    version     integer NOT NULL DEFAULT 1,
    -- The scope version at which this row last changed: what a hot scope asks for to catch up.
    changed_version bigint NOT NULL,
    pinned      boolean NOT NULL DEFAULT false,
    quarantined_at timestamptz,
    quarantine_reason text,
    superseded_by uuid,
    superseded_at timestamptz,
    deleted_at  timestamptz,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, memory_id),
    FOREIGN KEY (tenant_id, scope_id) REFERENCES scopes
);
CREATE UNIQUE INDEX memories_content_key ON memories (tenant_id, scope_id, kind, content_key);
CREATE INDEX memories_changed ON memories (tenant_id, scope_id, changed_version, memory_id);
CREATE INDEX memories_recent ON memories (tenant_id, scope_id, created_at DESC, memory_id DESC);
CREATE INDEX memories_of_session ON memories (tenant_id, session_id, created_at DESC, memory_id DESC);

-- Append-only. recorded_* is our clock, valid_* the world's; as_of means recorded time.
CREATE TABLE memory_versions (
    tenant_id     uuid NOT NULL,
    memory_id     uuid NOT NULL,
    version       integer NOT NULL CHECK (version >= 1),
    scope_id      bigint NOT NULL,
    content       text NOT NULL,
    role          text NOT NULL,
    integrity     text NOT NULL CHECK (integrity IN ('admin', 'user', 'assistant', 'tool', 'web', 'imported')),
    sensitivity   text NOT NULL CHECK (sensitivity IN ('public', 'internal', 'confidential', 'secret')),
    origin        text NOT NULL,
    source        text,
    tool_name     text,
    language      text,
    importance    real NOT NULL DEFAULT 0.5 CHECK (importance BETWEEN 0 AND 1),
    confidence    real NOT NULL DEFAULT 1.0 CHECK (confidence BETWEEN 0 AND 1),
    validation_status text NOT NULL DEFAULT 'unreviewed'
        CHECK (validation_status IN ('unreviewed', 'confirmed', 'disputed', 'rejected')),
    attributes    jsonb NOT NULL DEFAULT '{}',
    expires_at    timestamptz,
    occurred_at   timestamptz,
    valid_from    timestamptz,
    valid_to      timestamptz,
    recorded_from timestamptz NOT NULL,
    recorded_to   timestamptz,
    PRIMARY KEY (tenant_id, memory_id, version),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
CREATE UNIQUE INDEX memory_versions_current ON memory_versions (tenant_id, memory_id) WHERE recorded_to IS NULL;

-- How often a memory was placed in a prompt. Apart from memories, whose rows a hot scope would read whole again.
CREATE TABLE memory_access (
    tenant_id    uuid NOT NULL,
    memory_id    uuid NOT NULL,
    scope_id     bigint NOT NULL,
    injected     bigint NOT NULL DEFAULT 0,
    last_injected_at timestamptz,
    -- The scope version at which these counters last changed.
    changed_version bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, memory_id),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
CREATE INDEX memory_access_changed ON memory_access (tenant_id, scope_id, changed_version, memory_id);

CREATE TABLE provenance (
    tenant_id  uuid NOT NULL,
    memory_id  uuid NOT NULL,
    version    integer NOT NULL,
    scope_id   bigint NOT NULL,
    origin     text NOT NULL,
    model      text,
    extractor_version text NOT NULL,
    exchange_id uuid,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, memory_id, version),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);

-- What every derived row was made of, summaries and embeddings included.
CREATE TABLE derivations (
    tenant_id   uuid NOT NULL,
    derived_id  uuid NOT NULL,
    derived_kind text NOT NULL CHECK (derived_kind IN ('memory', 'summary', 'embedding')),
    source_id   uuid NOT NULL,
    source_kind text NOT NULL CHECK (source_kind IN ('turn', 'memory', 'exchange', 'document')),
    ordinal     integer NOT NULL,
    scope_id    bigint NOT NULL,
    span_start  integer,
    span_end    integer,
    PRIMARY KEY (tenant_id, derived_id, derived_kind, source_id)
);
CREATE INDEX derivations_of_source ON derivations (tenant_id, source_id);

-- What one request was given. Ids, scores and digests stay; the sealed parts have their own retention.
CREATE TABLE retrievals (
    tenant_id    uuid NOT NULL,
    retrieval_id uuid NOT NULL,
    scope_id     bigint NOT NULL,
    session_id   uuid NOT NULL,
    exchange_id  uuid NOT NULL,
    status       text NOT NULL,
    reason       text,
    rung         text,
    config_digest text NOT NULL,
    embedding_model text NOT NULL,
    served_model text,
    candidates   jsonb NOT NULL,
    placements   jsonb NOT NULL,
    tokens       integer NOT NULL DEFAULT 0,
    tokens_exact boolean NOT NULL DEFAULT false,
    millis       real NOT NULL,
    sha256_sent  bytea NOT NULL,
    -- Sealed envelope v1: the query and the blocks as they were placed.
    sealed       bytea,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, retrieval_id)
);
CREATE INDEX retrievals_of_session ON retrievals (tenant_id, session_id, created_at);
CREATE INDEX retrievals_sealed_age ON retrievals (tenant_id, created_at) WHERE sealed IS NOT NULL;

-- One node per chain position: its tokens, and what was placed there.
CREATE TABLE ledger (
    tenant_id   uuid NOT NULL,
    session_id  uuid NOT NULL,
    chain       bytea NOT NULL CHECK (octet_length(chain) = 32),
    scope_id    bigint NOT NULL,
    epoch       integer NOT NULL,
    position    integer NOT NULL,
    token_count integer,
    -- Null where nothing was placed. Sealed: the bytes are memory text.
    placed_sealed bytea,
    placed_sha256 bytea,
    placed_tokens integer,
    retrieval_id uuid,
    withdrawn_at timestamptz,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, session_id, chain)
);

-- Progress of imports, written in the transaction that stores the lines.
CREATE TABLE import_chunks (
    tenant_id  uuid NOT NULL,
    import_id  uuid NOT NULL,
    chunk      integer NOT NULL,
    exchange_id uuid NOT NULL,
    scope_id   bigint NOT NULL,
    done       integer NOT NULL,
    failed     integer NOT NULL,
    errors     jsonb NOT NULL DEFAULT '[]',
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, import_id, chunk)
);

-- What was erased must not come back by a restore or an import. HMACs only, never content.
CREATE TABLE tombstones (
    tenant_id  uuid NOT NULL REFERENCES tenants,
    kind       text NOT NULL CHECK (kind IN ('user', 'project', 'session', 'memory', 'source', 'content')),
    digest     bytea NOT NULL CHECK (octet_length(digest) = 32),
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, kind, digest)
);

CREATE TABLE audit_log (
    tenant_id  uuid NOT NULL,
    audit_id   uuid NOT NULL,
    action     text NOT NULL,
    actor      text NOT NULL,
    object_id  uuid,
    detail     jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, audit_id)
);

CREATE TABLE outbox (
    tenant_id  uuid NOT NULL,
    event_id   uuid NOT NULL,
    scope_id   bigint NOT NULL,
    event      text NOT NULL CHECK (event IN ('created', 'superseded', 'expired', 'revalidated', 'shared', 'erased')),
    object_id  uuid NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, event_id)
);

-- ---------------------------------------------------------------- row-level security

-- The tenant and the visible scopes of this transaction, set by SET LOCAL; unset means nothing is visible.
CREATE FUNCTION mp_tenant() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT nullif(current_setting('mp.tenant', true), '')::uuid $$;

CREATE FUNCTION mp_scopes() RETURNS bigint[] LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT coalesce(nullif(current_setting('mp.scopes', true), ''), '{}')::bigint[] $$;

DO $rls$
DECLARE
    name text;
BEGIN
    -- scopes and scope_versions hold names and counters, and are read to find out which scopes are visible.
    FOREACH name IN ARRAY ARRAY['scopes', 'scope_versions', 'subjects', 'data_keys', 'tombstones', 'audit_log'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY tenant_only ON %I TO PUBLIC USING (tenant_id = (SELECT mp_tenant()))', name);
        EXECUTE format('CREATE POLICY whole_for_backup ON %I FOR SELECT TO mp_backup USING (true)', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['sessions', 'exchanges', 'turns', 'memories', 'memory_versions',
        'memory_access', 'provenance', 'derivations', 'retrievals', 'ledger', 'import_chunks', 'outbox'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY visible_scopes ON %I USING (tenant_id = (SELECT mp_tenant())'
            ' AND scope_id = ANY ((SELECT mp_scopes())::bigint[]))', name);
        EXECUTE format('CREATE POLICY whole_for_backup ON %I FOR SELECT TO mp_backup USING (true)', name);
    END LOOP;
END
$rls$;

-- One table per embedding model, from one template; called by the owner's registration step.
CREATE FUNCTION mp_create_embedding_table(suffix text, dim integer) RETURNS text LANGUAGE plpgsql AS $fn$
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
        ' AND scope_id = ANY ((SELECT mp_scopes())::bigint[]))', name);
    EXECUTE format('DROP POLICY IF EXISTS whole_for_backup ON %I', name);
    EXECUTE format('CREATE POLICY whole_for_backup ON %I FOR SELECT TO mp_backup USING (true)', name);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO mp_app', name);
    EXECUTE format('GRANT SELECT ON %I TO mp_backup', name);
    RETURN name;
END
$fn$;
REVOKE ALL ON FUNCTION mp_create_embedding_table(text, integer) FROM PUBLIC;

GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO mp_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO mp_app;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO mp_backup;
-- The served role reads these and never writes them; the schema's own history is the owner's.
REVOKE INSERT, UPDATE, DELETE ON embedding_models, embedding_tables, schema_migrations FROM mp_app;

-- migrate:down
-- Forward only: restore a backup instead.
