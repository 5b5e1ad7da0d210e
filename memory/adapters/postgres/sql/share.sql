-- name: source_to_share
-- A memory of a scope in its current version, locked to the end of the transaction: how it is labelled, and until when it
-- is shown. A fact that was to end is shown until its end.
-- $1 tenant uuid, $2 scope_id int8, $3 memory_id uuid
-- Uses: memories_pkey, memory_versions_pkey. Rows: kind, collection, version, deleted_at, quarantined_at, superseded_by,
-- sensitivity, integrity, validation_status, expires_at.
SELECT m.kind, m.collection, m.version, m.deleted_at, m.quarantined_at, m.superseded_by, v.sensitivity, v.integrity,
       v.validation_status,
       CASE WHEN m.kind = 'semantic' AND v.valid_to > v.occurred_at THEN least(v.expires_at, v.valid_to)
            ELSE v.expires_at END AS expires_at
FROM memories m
JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.version = m.version
WHERE m.tenant_id = $1 AND m.scope_id = $2 AND m.memory_id = $3
FOR UPDATE OF m;

-- name: copies_shown
-- The copies of a memory that are not hidden, in these scopes, oldest first.
-- $1 tenant uuid, $2 source_id uuid, $3 scope_ids int8[]
-- Uses: shares_pkey, memories_pkey. Rows: copy_id, scope_id, created_at.
SELECT s.copy_id, s.scope_id, s.created_at
FROM shares s
JOIN memories m ON m.tenant_id = $1 AND m.memory_id = s.copy_id
WHERE s.tenant_id = $1 AND s.source_id = $2 AND s.scope_id = ANY ($3) AND m.deleted_at IS NULL
ORDER BY s.created_at, s.copy_id;

-- name: copies_to_take_back
-- The copies of a memory that are not hidden in these scopes, or were hidden with it and would come back with it.
-- $1 tenant uuid, $2 source_id uuid, $3 scope_ids int8[], $4 source_deleted_at timestamptz
-- Uses: shares_pkey, memories_pkey. Rows: copy_id.
SELECT s.copy_id
FROM shares s
JOIN memories m ON m.tenant_id = $1 AND m.memory_id = s.copy_id
WHERE s.tenant_id = $1 AND s.source_id = $2 AND s.scope_id = ANY ($3) AND (m.deleted_at IS NULL OR m.deleted_at = $4)
ORDER BY s.copy_id;

-- name: source_of_copy
-- What a copy in one of these scopes was made of.
-- $1 tenant uuid, $2 copy_id uuid, $3 scope_ids int8[]
-- Uses: shares_of_copy. Rows: source_id, scope_id.
SELECT source_id, scope_id
FROM shares
WHERE tenant_id = $1 AND copy_id = $2 AND scope_id = ANY ($3);

-- name: copy_memory
-- The identity of a copy in another scope. It is a document there: what one person said is nobody else's preference.
-- $1 tenant uuid, $2 source_id uuid, $3 copy_id uuid, $4 scope_id int8, $5 content_key bytea, $6 changed_version int8,
-- $7 now timestamptz
-- Uses: memories_pkey. Rows: none.
INSERT INTO memories (tenant_id, memory_id, scope_id, kind, collection, content_key, changed_version, created_at)
SELECT tenant_id, $3, $4, 'document', 'shared', $5, $6, $7
FROM memories
WHERE tenant_id = $1 AND memory_id = $2;

-- name: copy_version
-- The words and labels of a copy: integrity and sensitivity of the source, nothing that made it the user's own.
-- $1 tenant uuid, $2 source_id uuid, $3 version int4, $4 copy_id uuid, $5 scope_id int8, $6 expires_at timestamptz,
-- $7 attributes jsonb, $8 now timestamptz
-- Uses: memory_versions_pkey. Rows: none.
INSERT INTO memory_versions (tenant_id, memory_id, version, scope_id, content, role, integrity, sensitivity, origin,
                             source, language, importance, confidence, attributes, expires_at, occurred_at,
                             recorded_from)
SELECT tenant_id, $4, 1, $5, content, 'shared', integrity, sensitivity, 'shared', memory_id::text, language, importance,
       confidence, $7, $6, occurred_at, $8
FROM memory_versions
WHERE tenant_id = $1 AND memory_id = $2 AND version = $3;

-- name: copy_provenance_to
-- Where the copy came from.
-- $1 tenant uuid, $2 source_id uuid, $3 version int4, $4 copy_id uuid, $5 scope_id int8, $6 now timestamptz
-- Uses: provenance_pkey. Rows: none.
INSERT INTO provenance (tenant_id, memory_id, version, scope_id, origin, model, extractor_version, exchange_id,
                        created_at)
SELECT tenant_id, $4, 1, $5, 'shared', model, extractor_version, NULL, $6
FROM provenance
WHERE tenant_id = $1 AND memory_id = $2 AND version = $3;

-- name: copy_embeddings_to
-- The copy has the same words, so the same vectors.
-- $1 tenant uuid, $2 source_id uuid, $3 version int4, $4 copy_id uuid, $5 scope_id int8
-- Uses: {embeddings}_pkey. Rows: none.
INSERT INTO {embeddings} (tenant_id, scope_id, memory_id, version, window_no, span_start, span_end, embedding)
SELECT tenant_id, $5, $4, 1, window_no, span_start, span_end, embedding
FROM {embeddings}
WHERE tenant_id = $1 AND memory_id = $2 AND version = $3;

-- name: add_share
-- From where to where something was shared.
-- $1 tenant uuid, $2 source_id uuid, $3 copy_id uuid, $4 scope_id int8, $5 source_scope_id int8, $6 now timestamptz
-- Uses: none. Rows: none.
INSERT INTO shares (tenant_id, source_id, copy_id, scope_id, source_scope_id, created_at)
VALUES ($1, $2, $3, $4, $5, $6);

-- name: canary_of
-- The text of a tenant's canary, while it is not hidden.
-- $1 tenant uuid, $2 scope_id int8
-- Uses: memories_recent, memory_versions_pkey. Rows: content.
SELECT v.content
FROM memories m
JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.version = m.version
WHERE m.tenant_id = $1 AND m.scope_id = $2 AND m.deleted_at IS NULL
ORDER BY m.created_at DESC
LIMIT 1;

-- name: drop_canaries
-- Everything in the scope of a tenant's canary.
-- $1 tenant uuid, $2 scope_id int8
-- Uses: memories_changed. Rows: none.
DELETE FROM memories
WHERE tenant_id = $1 AND scope_id = $2;
