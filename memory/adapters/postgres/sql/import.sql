-- name: lines_by_source
-- Which of these source ids the scope has. Each is looked up by itself: asked for together, all turns of a scope that
-- seemed to hold next to nothing were read for each chunk (100,000: 157 ms, and now 3).
-- $1 tenant uuid, $2 scope_id int8, $3 source_ids text[]
-- Uses: turns_source. Rows: event_id, session_id, exchange_id, source_id, line_digest, sensitivity, recorded_at, chain.
SELECT t.*
FROM unnest($3::text[]) AS w (source_id)
CROSS JOIN LATERAL (
    SELECT event_id, session_id, exchange_id, source_id, line_digest, sensitivity, recorded_at, chain
    FROM turns
    WHERE tenant_id = $1 AND scope_id = $2 AND source_id = w.source_id
    LIMIT 1) t;

-- name: lines_by_digest
-- Which lines without a source id the scope has, by the digest of all of the line; each looked up by itself.
-- $1 tenant uuid, $2 scope_id int8, $3 digests bytea[]
-- Uses: turns_line. Rows: event_id, session_id, exchange_id, source_id, line_digest, sensitivity, recorded_at, chain.
SELECT t.*
FROM unnest($3::bytea[]) AS w (line_digest)
CROSS JOIN LATERAL (
    SELECT event_id, session_id, exchange_id, source_id, line_digest, sensitivity, recorded_at, chain
    FROM turns
    WHERE tenant_id = $1 AND scope_id = $2 AND line_digest = w.line_digest AND source_id IS NULL
    LIMIT 1) t;

-- name: chunk_known
-- A chunk of an import that is stored.
-- $1 tenant uuid, $2 import_id uuid, $3 chunk int4
-- Uses: import_chunks_pkey. Rows: done, failed, errors.
SELECT done, failed, errors
FROM import_chunks
WHERE tenant_id = $1 AND import_id = $2 AND chunk = $3;

-- name: add_chunk
-- A chunk is stored, with the lines that failed.
-- $1 tenant uuid, $2 import_id uuid, $3 chunk int4, $4 exchange_id uuid, $5 scope_id int8, $6 done int4,
-- $7 failed int4, $8 errors jsonb, $9 now timestamptz
-- Uses: none. Rows: none.
INSERT INTO import_chunks (tenant_id, import_id, chunk, exchange_id, scope_id, done, failed, errors, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: import_progress
-- How much of an import is stored, and the number of its last chunk.
-- $1 tenant uuid, $2 import_id uuid
-- Uses: import_chunks_pkey. Rows: chunks, last, done, failed.
SELECT count(*) AS chunks, coalesce(max(chunk), -1) AS last, coalesce(sum(done), 0) AS done,
       coalesce(sum(failed), 0) AS failed
FROM import_chunks
WHERE tenant_id = $1 AND import_id = $2;

-- name: import_errors
-- The lines of an import that failed, from a chunk on.
-- $1 tenant uuid, $2 import_id uuid, $3 chunk int4
-- Uses: import_chunks_pkey. Rows: errors.
SELECT errors
FROM import_chunks
WHERE tenant_id = $1 AND import_id = $2 AND chunk >= $3 AND failed > 0;

-- name: drop_import_chunks
-- Some of the chunks of the visible scopes that were stored before a moment: all are looked through, and few are left.
-- $1 tenant uuid, $2 before timestamptz, $3 limit int8
-- Uses: none. Rows: none.
DELETE FROM import_chunks
WHERE (tenant_id, import_id, chunk) IN (
    SELECT tenant_id, import_id, chunk
    FROM import_chunks
    WHERE tenant_id = $1 AND scope_id = ANY ((SELECT mp_scopes())::bigint[]) AND created_at < $2
    LIMIT $3);

-- name: turns_to_replace
-- How sensitive these turns are and where they stand, locked in the order of their ids: two chunks that replace the same
-- turns cannot wait for each other in a circle.
-- $1 tenant uuid, $2 event_ids uuid[]
-- Uses: turns_pkey. Rows: event_id, session_id, sensitivity.
SELECT event_id, session_id, sensitivity
FROM turns
WHERE tenant_id = $1 AND event_id = ANY ($2)
ORDER BY event_id
FOR UPDATE;

-- name: memories_of_turns
-- The memories that rest on these turns first of all, with their current version and what was set of it, whether a person
-- has edited them, whether they are shown, and whether they are hidden since the turn's words became what they are:
-- because those say nothing.
-- $1 tenant uuid, $2 event_ids uuid[]
-- Uses: derivations_of_source, memories_pkey, turns_pkey, memory_versions_pkey, provenance_pkey. Rows: event_id,
-- memory_id, kind, version, content, sensitivity, validation_status, importance, expires_at, quarantine_reason, edited,
-- shown, unspoken.
SELECT d.source_id AS event_id, m.memory_id, m.kind, m.version, v.content, v.sensitivity, v.validation_status,
       v.importance, v.expires_at, m.quarantine_reason,
       EXISTS (SELECT FROM provenance p
               WHERE p.tenant_id = $1 AND p.memory_id = m.memory_id AND p.origin = 'edit') AS edited,
       m.deleted_at IS NULL AS shown, m.deleted_at IS NOT DISTINCT FROM t.recorded_at AS unspoken
FROM derivations d
JOIN memories m ON m.tenant_id = d.tenant_id AND m.memory_id = d.derived_id
JOIN memory_versions v ON v.tenant_id = m.tenant_id AND v.memory_id = m.memory_id AND v.version = m.version
JOIN turns t ON t.tenant_id = d.tenant_id AND t.event_id = d.source_id
WHERE d.tenant_id = $1 AND d.source_id = ANY ($2) AND d.source_kind = 'turn' AND d.derived_kind = 'memory'
  AND d.ordinal = 0;
