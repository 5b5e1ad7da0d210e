-- migrate:up
-- Documents (docs/decisions/0031): what files were uploaded, how far each upload is, and where each chunk stands. The words
-- are memories of kind document; here are names, places and numbers, and of an upload under way its sealed text.

CREATE TABLE documents (
    tenant_id   uuid NOT NULL,
    document_id uuid NOT NULL,
    scope_id    bigint NOT NULL,
    -- Of one that is kept for a conversation alone: goes with it.
    session_id  uuid,
    -- As the client calls it; what may not be read in a name is hidden by a digest before.
    name        text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 255),
    -- How often what is stored of it changed; 0 while nothing is.
    version     integer NOT NULL DEFAULT 0 CHECK (version >= 0),
    media_type  text NOT NULL,
    sha256      bytea NOT NULL CHECK (octet_length(sha256) = 32),
    bytes       bigint NOT NULL CHECK (bytes >= 0),
    chars       bigint NOT NULL CHECK (chars >= 0),
    pages       integer NOT NULL CHECK (pages >= 0),
    -- How it is given to the conversation that it was uploaded for, and which that is.
    inline_as   text NOT NULL CHECK (inline_as IN ('auto', 'always', 'never')),
    shown_in    uuid,
    integrity   text NOT NULL CHECK (integrity IN ('admin', 'user', 'assistant', 'tool', 'web', 'imported')),
    sensitivity text NOT NULL CHECK (sensitivity IN ('public', 'internal', 'confidential', 'secret')),
    created_at  timestamptz NOT NULL,
    changed_at  timestamptz NOT NULL,
    deleted_at  timestamptz,
    PRIMARY KEY (tenant_id, document_id),
    FOREIGN KEY (tenant_id, scope_id) REFERENCES scopes
);
CREATE UNIQUE INDEX documents_name ON documents (tenant_id, scope_id, name, session_id) NULLS NOT DISTINCT
    WHERE deleted_at IS NULL;
CREATE INDEX documents_recent ON documents (tenant_id, scope_id, created_at DESC, document_id DESC);
CREATE INDEX documents_shown_in ON documents (tenant_id, shown_in) WHERE shown_in IS NOT NULL;
CREATE INDEX documents_of_session ON documents (tenant_id, session_id) WHERE session_id IS NOT NULL;

-- Each file that was given for a document. `sealed`: its text as blocks, sealed envelope v1 under the subject's key, from
-- the transaction that acknowledges the upload to the one that stores its chunks, or gives it up. The file is not kept.
CREATE TABLE document_uploads (
    tenant_id   uuid NOT NULL,
    upload_id   uuid NOT NULL,
    document_id uuid NOT NULL,
    scope_id    bigint NOT NULL,
    subject_id  uuid NOT NULL,
    status      text NOT NULL CHECK (status IN ('waiting', 'working', 'done', 'failed')),
    -- Why it failed: words of ours.
    reason      text CHECK (char_length(reason) <= 500),
    media_type  text NOT NULL,
    sha256      bytea NOT NULL CHECK (octet_length(sha256) = 32),
    bytes       bigint NOT NULL CHECK (bytes >= 0),
    chars       bigint NOT NULL CHECK (chars >= 0),
    pages       integer NOT NULL CHECK (pages >= 0),
    integrity   text NOT NULL CHECK (integrity IN ('admin', 'user', 'assistant', 'tool', 'web', 'imported')),
    sensitivity text NOT NULL CHECK (sensitivity IN ('public', 'internal', 'confidential', 'secret')),
    -- Chunks in all, null until it was cut; those that are ready; and what became of them.
    chunks      integer CHECK (chunks >= 0),
    embedded    integer NOT NULL DEFAULT 0 CHECK (embedded >= 0),
    new_chunks  integer CHECK (new_chunks >= 0),
    same_chunks integer CHECK (same_chunks >= 0),
    gone_chunks integer CHECK (gone_chunks >= 0),
    held_back   integer CHECK (held_back >= 0),
    sealed      bytea,
    created_at  timestamptz NOT NULL,
    finished_at timestamptz,
    PRIMARY KEY (tenant_id, upload_id),
    FOREIGN KEY (tenant_id, document_id) REFERENCES documents ON DELETE CASCADE,
    CHECK ((status IN ('waiting', 'working')) = (sealed IS NOT NULL))
);
CREATE INDEX document_uploads_of_document ON document_uploads (tenant_id, document_id, created_at DESC, upload_id DESC);
CREATE INDEX document_uploads_open ON document_uploads (tenant_id, scope_id) WHERE sealed IS NOT NULL;

-- Uploads that wait for a worker: ids and times only. Gone in the transaction that ends the upload, so it ends once.
CREATE TABLE document_due (
    tenant_id   uuid NOT NULL,
    upload_id   uuid NOT NULL,
    scope_id    bigint NOT NULL,
    since       timestamptz NOT NULL,
    -- A worker has it until then, by the database's clock. takes: how often it was taken and never given back.
    taken_until timestamptz NOT NULL DEFAULT '-infinity',
    takes       integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, upload_id),
    FOREIGN KEY (tenant_id, upload_id) REFERENCES document_uploads ON DELETE CASCADE
);
CREATE INDEX document_due_oldest ON document_due (tenant_id, since);

-- Where each chunk of a document stands in it now.
CREATE TABLE document_chunks (
    tenant_id   uuid NOT NULL,
    document_id uuid NOT NULL,
    ordinal     integer NOT NULL CHECK (ordinal >= 0),
    scope_id    bigint NOT NULL,
    memory_id   uuid NOT NULL,
    -- Characters of the text as it was extracted, and pages from 1 where the document has any.
    span_start  integer NOT NULL,
    span_end    integer NOT NULL,
    page        integer,
    page_to     integer,
    PRIMARY KEY (tenant_id, document_id, ordinal),
    FOREIGN KEY (tenant_id, document_id) REFERENCES documents ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
CREATE UNIQUE INDEX document_chunks_of_memory ON document_chunks (tenant_id, memory_id);

DO $rls$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['documents', 'document_uploads', 'document_chunks'] LOOP
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

-- A tenant's own, and all where a transaction says so: the workers serve the tenants in turn. What an id leads to is read
-- under the policies of its own table.
ALTER TABLE document_due ENABLE ROW LEVEL SECURITY;
ALTER TABLE document_due FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_or_all ON document_due TO PUBLIC
    USING (tenant_id = (SELECT mp_tenant()) OR (SELECT current_setting('mp.due', true)) = 'all');
CREATE POLICY whole_for_backup ON document_due FOR SELECT TO mp_backup USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON document_due TO mp_app;
GRANT SELECT ON document_due TO mp_backup;

-- migrate:down
-- Forward only: restore a backup instead.
