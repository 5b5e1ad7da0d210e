-- name: scope_of_turn
-- The scope that a turn lies in.
-- $1 tenant uuid, $2 event_id uuid
-- Uses: turns_pkey. Rows: scope_id.
SELECT scope_id
FROM turns
WHERE tenant_id = $1 AND event_id = $2;

-- name: versions_by_number
-- These versions with their labels and texts. Each is looked up by itself, as their windows are.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 versions int4[]
-- Uses: memory_versions_pkey. Rows: memory_id, version, scope_id, sensitivity, content, attributes, cleaned_by.
SELECT v.memory_id, v.version, v.scope_id, v.sensitivity, v.content, v.attributes, v.cleaned_by
FROM unnest($2::uuid[], $3::int4[]) AS w (memory_id, version)
CROSS JOIN LATERAL (
    SELECT memory_id, version, scope_id, sensitivity, content, attributes, cleaned_by
    FROM memory_versions
    WHERE tenant_id = $1 AND memory_id = w.memory_id AND version = w.version
    LIMIT 1) v;

-- name: add_sealed_window
-- The sealed vector of one window of one version.
-- $1 tenant uuid, $2 memory_id uuid, $3 version int4, $4 embeddings text, $5 window_no int4, $6 scope_id int8,
-- $7 sealed bytea
-- Uses: sealed_windows_pkey. Rows: none.
INSERT INTO sealed_windows (tenant_id, memory_id, version, embeddings, window_no, scope_id, sealed)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant_id, memory_id, version, embeddings, window_no) DO UPDATE
SET sealed = excluded.sealed;

-- name: sealed_windows_of
-- The sealed windows of these versions, of one model. Each is looked up by itself, as the open ones are.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 versions int4[], $4 embeddings text
-- Uses: sealed_windows_pkey. Rows: memory_id, version, embeddings, window_no, scope_id, sealed.
SELECT s.memory_id, s.version, s.embeddings, s.window_no, s.scope_id, s.sealed
FROM unnest($2::uuid[], $3::int4[]) AS w (memory_id, version)
CROSS JOIN LATERAL (
    SELECT memory_id, version, embeddings, window_no, scope_id, sealed
    FROM sealed_windows
    WHERE tenant_id = $1 AND memory_id = w.memory_id AND version = w.version AND embeddings = $4
    OFFSET 0) s
ORDER BY s.memory_id, s.version, s.window_no;

-- name: open_windows_of
-- The windows of these versions that lie open, each vector in its binary form. Each is looked up by itself: joined, all
-- vectors of a scope that seemed to hold next to nothing were read instead.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 versions int4[]
-- Uses: {embeddings}_pkey. Rows: memory_id, version, window_no, scope_id, span_start, span_end, vector.
SELECT e.memory_id, e.version, e.window_no, e.scope_id, e.span_start, e.span_end, halfvec_send(e.embedding) AS vector
FROM unnest($2::uuid[], $3::int4[]) AS w (memory_id, version)
CROSS JOIN LATERAL (
    SELECT memory_id, version, window_no, scope_id, span_start, span_end, embedding
    FROM {embeddings}
    WHERE tenant_id = $1 AND memory_id = w.memory_id AND version = w.version
    OFFSET 0) e
ORDER BY e.memory_id, e.version, e.window_no;

-- name: drop_open_windows
-- The open vectors of a version, once they are sealed.
-- $1 tenant uuid, $2 memory_id uuid, $3 version int4
-- Uses: {embeddings}_pkey. Rows: none.
DELETE FROM {embeddings}
WHERE tenant_id = $1 AND memory_id = $2 AND version = $3;

-- name: seal_version
-- A version's label and texts, which the vault has sealed.
-- $1 tenant uuid, $2 memory_id uuid, $3 version int4, $4 scope_id int8, $5 content text, $6 attributes jsonb,
-- $7 sensitivity text
-- Uses: memory_versions_pkey. Rows: none.
UPDATE memory_versions
SET content = $5, attributes = $6, sensitivity = $7
WHERE tenant_id = $1 AND memory_id = $2 AND version = $3 AND scope_id = $4;

-- name: seal_turn
-- A turn's label and texts, which the vault has sealed.
-- $1 tenant uuid, $2 event_id uuid, $3 scope_id int8, $4 content text, $5 tool_calls jsonb, $6 parts jsonb,
-- $7 sensitivity text
-- Uses: turns_pkey. Rows: none.
UPDATE turns
SET content = $4, tool_calls = $5, parts = $6, sensitivity = $7
WHERE tenant_id = $1 AND event_id = $2 AND scope_id = $3;

-- name: turns_under
-- The turns that a memory rests on, at first hand or through what it was made of.
-- $1 tenant uuid, $2 memory_id uuid
-- Uses: derivations_pkey, turns_pkey. Rows: event_id, scope_id, sensitivity, content, tool_calls, parts.
WITH RECURSIVE under (source_id) AS (
    SELECT d.source_id
    FROM derivations d
    WHERE d.tenant_id = $1 AND d.derived_id = $2 AND d.derived_kind IN ('memory', 'summary')
    UNION
    SELECT d.source_id
    FROM under u
    JOIN derivations d ON d.tenant_id = $1 AND d.derived_id = u.source_id AND d.derived_kind IN ('memory', 'summary'))
SELECT t.event_id, t.scope_id, t.sensitivity, t.content, t.tool_calls, t.parts
FROM under u
CROSS JOIN LATERAL (
    SELECT event_id, scope_id, sensitivity, content, tool_calls, parts
    FROM turns
    WHERE tenant_id = $1 AND event_id = u.source_id
    FOR UPDATE) t;

-- name: memories_over
-- The memories that were made of these turns, at first hand or through what was made of them.
-- $1 tenant uuid, $2 event_ids uuid[]
-- Uses: derivations_of_source. Rows: memory_id.
WITH RECURSIVE made (derived_id) AS (
    SELECT d.derived_id
    FROM derivations d
    WHERE d.tenant_id = $1 AND d.source_id = ANY ($2) AND d.derived_kind IN ('memory', 'summary')
    UNION
    SELECT d.derived_id
    FROM made m
    JOIN derivations d ON d.tenant_id = $1 AND d.source_id = m.derived_id AND d.derived_kind IN ('memory', 'summary'))
SELECT derived_id AS memory_id
FROM made
ORDER BY derived_id;

-- name: ties_of_card
-- What was said by hand of what ties the one whose card this memory is, and the one that it is merged into, to others,
-- hidden or not: it says both names.
-- $1 tenant uuid, $2 memory_id uuid
-- Uses: entities_of_card, relationships_of_source, relationships_of_target, memories_pkey. Rows: memory_id.
SELECT r.memory_id
FROM entities e
CROSS JOIN LATERAL (
    SELECT memory_id FROM relationships
    WHERE tenant_id = $1 AND source_entity IN (e.entity_id, e.merged_into)
    UNION
    SELECT memory_id FROM relationships
    WHERE tenant_id = $1 AND target_entity IN (e.entity_id, e.merged_into)) r
CROSS JOIN LATERAL (SELECT collection FROM memories
                    WHERE tenant_id = $1 AND memory_id = r.memory_id LIMIT 1) m
WHERE e.tenant_id = $1 AND e.card_id = $2 AND m.collection = 'entity'
ORDER BY r.memory_id;

-- name: lock_memories
-- These memories, locked to the end of the transaction against being copied meanwhile.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_pkey. Rows: memory_id, deleted_at.
SELECT memory_id, deleted_at
FROM memories
WHERE tenant_id = $1 AND memory_id = ANY ($2)
ORDER BY memory_id
FOR UPDATE;

-- name: copies_of
-- The copies of these memories, hidden ones too, also in scopes that the transaction does not see: a row of shares is
-- seen from its source as well.
-- $1 tenant uuid, $2 source_ids uuid[]
-- Uses: shares_pkey. Rows: copy_id, scope_id.
SELECT copy_id, scope_id
FROM shares
WHERE tenant_id = $1 AND source_id = ANY ($2)
ORDER BY scope_id, copy_id;

-- name: versions_of
-- Every version of these memories with its label and texts.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memory_versions_pkey. Rows: memory_id, version, scope_id, sensitivity, content, attributes.
SELECT memory_id, version, scope_id, sensitivity, content, attributes
FROM memory_versions
WHERE tenant_id = $1 AND memory_id = ANY ($2);

-- name: drop_facts
-- These memories state nothing any more that could be ruled on: what they stated lay open.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: facts_pkey. Rows: memory_id.
DELETE FROM facts
WHERE tenant_id = $1 AND memory_id = ANY ($2)
RETURNING memory_id;

-- name: drop_procedures
-- These memories are no procedures any more that could be ruled on: when they apply lay open.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: procedures_pkey. Rows: memory_id.
DELETE FROM procedures
WHERE tenant_id = $1 AND memory_id = ANY ($2)
RETURNING memory_id;

-- name: changed_with
-- These memories changed at a scope version: hot scopes read them again.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 changed_version int8
-- Uses: memories_pkey. Rows: none.
UPDATE memories
SET changed_version = $3
WHERE tenant_id = $1 AND memory_id = ANY ($2);

-- name: sealed_versions_after
-- Versions whose label is sealed, in order from a cursor on, with what they hold.
-- $1 tenant uuid, $2 after uuid, $3 after_version int4, $4 limit int8
-- Uses: memory_versions_sealed. Rows: memory_id, version, scope_id, sensitivity, content, attributes.
SELECT memory_id, version, scope_id, sensitivity, content, attributes
FROM memory_versions
WHERE tenant_id = $1 AND sensitivity IN ('confidential', 'secret') AND (memory_id, version) > ($2, $3)
ORDER BY memory_id, version
LIMIT $4
FOR UPDATE;

-- name: sealed_turns_after
-- Turns whose label is sealed, in order from a cursor on, with what they hold.
-- $1 tenant uuid, $2 after uuid, $3 limit int8
-- Uses: turns_sealed. Rows: event_id, scope_id, sensitivity, content, tool_calls, parts.
SELECT event_id, scope_id, sensitivity, content, tool_calls, parts
FROM turns
WHERE tenant_id = $1 AND sensitivity IN ('confidential', 'secret') AND event_id > $2
ORDER BY event_id
LIMIT $3
FOR UPDATE;

-- name: sealed_windows_after
-- Sealed windows in order from a cursor on.
-- $1 tenant uuid, $2 after uuid, $3 after_version int4, $4 after_table text, $5 after_window int4, $6 limit int8
-- Uses: sealed_windows_pkey. Rows: memory_id, version, embeddings, window_no, scope_id, sealed.
SELECT memory_id, version, embeddings, window_no, scope_id, sealed
FROM sealed_windows
WHERE tenant_id = $1 AND (memory_id, version, embeddings, window_no) > ($2, $3, $4, $5)
ORDER BY memory_id, version, embeddings, window_no
LIMIT $6
FOR UPDATE;

-- name: keys_of_tenant
-- Data keys of a tenant that are not shredded, oldest first, from a cursor on.
-- $1 tenant uuid, $2 after uuid, $3 limit int8
-- Uses: data_keys_pkey. Rows: key_id, subject_id, wrapped, created_at, retired_at.
SELECT key_id, subject_id, wrapped, created_at, retired_at
FROM data_keys
WHERE tenant_id = $1 AND key_id > $2 AND shredded_at IS NULL
ORDER BY key_id
LIMIT $3;

-- name: retire_key
-- A subject's key seals nothing any more; what it has sealed still opens.
-- $1 tenant uuid, $2 key_id uuid, $3 now timestamptz
-- Uses: data_keys_pkey. Rows: none.
UPDATE data_keys
SET retired_at = $3
WHERE tenant_id = $1 AND key_id = $2 AND retired_at IS NULL AND shredded_at IS NULL;

-- name: rewrap_key
-- The same key in another wrapping, unless somebody was faster.
-- $1 tenant uuid, $2 key_id uuid, $3 before bytea, $4 wrapped bytea
-- Uses: data_keys_pkey. Rows: none.
UPDATE data_keys
SET wrapped = $4
WHERE tenant_id = $1 AND key_id = $2 AND wrapped = $3;

-- name: rebuild_scope
-- An index built before this version is built anew: something in it may lend its words to others no more.
-- $1 tenant uuid, $2 scope_id int8, $3 version int8
-- Uses: scope_versions_pkey. Rows: none.
UPDATE scope_versions
SET rebuild_version = $3
WHERE tenant_id = $1 AND scope_id = $2;
