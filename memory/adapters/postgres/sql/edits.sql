-- name: memories_edited
-- Those of these memories of which a person has made a version.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: provenance_pkey. Rows: memory_id.
SELECT DISTINCT memory_id
FROM provenance
WHERE tenant_id = $1 AND memory_id = ANY ($2) AND origin = 'edit';

-- name: versions_by_hand
-- Every version of these memories, oldest first, and whether a person made it.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memory_versions_pkey, provenance_pkey. Rows: memory_id, version, content, attributes, importance, sensitivity,
-- validation_status, expires_at, recorded_from, by_hand.
SELECT v.memory_id, v.version, v.content, v.attributes, v.importance, v.sensitivity, v.validation_status, v.expires_at,
       v.recorded_from,
       EXISTS (SELECT FROM provenance p
               WHERE p.tenant_id = $1 AND p.memory_id = v.memory_id AND p.version = v.version
                 AND p.origin = 'edit') AS by_hand
FROM memory_versions v
WHERE v.tenant_id = $1 AND v.memory_id = ANY ($2)
ORDER BY v.memory_id, v.version;

-- name: memories_hidden
-- Memories made of turns that a person has hidden, or set an end to that is over, by when they were made, from a cursor on.
-- What is over is found by its end; of the others neither version nor provenance is read: 60,000 that nobody had set an end to
-- took 521,000 pages, and now 41,000.
-- $1 tenant uuid, $2 scope_id int8, $3 after timestamptz, $4 after_id uuid, $5 limit int8, $6 now timestamptz
-- Uses: memories_recent, memory_versions_expiring, memory_versions_pkey, provenance_pkey. Rows: memory_id, kind,
-- sensitivity, session_id, created_at, at.
SELECT m.memory_id, m.kind, v.sensitivity, m.session_id, m.created_at, coalesce(m.deleted_at, v.expires_at) AS at
FROM memories m
CROSS JOIN LATERAL (
    SELECT sensitivity, expires_at
    FROM memory_versions
    WHERE tenant_id = $1 AND memory_id = m.memory_id AND version = m.version
    LIMIT 1) v
WHERE m.tenant_id = $1 AND m.scope_id = $2 AND (m.created_at, m.memory_id) > ($3, $4)
  AND m.kind IN ('episodic', 'semantic', 'procedural') AND m.collection = 'default'
  AND CASE WHEN m.deleted_at IS NULL
           THEN m.memory_id IN (SELECT o.memory_id FROM memory_versions o
                                WHERE o.tenant_id = $1 AND o.scope_id = $2 AND o.expires_at <= $6
                                  AND o.recorded_to IS NULL)
               AND EXISTS (SELECT FROM provenance p
                           WHERE p.tenant_id = $1 AND p.memory_id = m.memory_id AND p.origin = 'edit' OFFSET 0)
           ELSE m.pruned_at IS DISTINCT FROM m.deleted_at END
ORDER BY m.created_at, m.memory_id
LIMIT $5;

-- name: memories_of_same
-- The memories of a kind that rest on these turns, named as lines of an import name them, or that have one of these ids.
-- Each is looked up by itself, as in lines_by_source.
-- $1 tenant uuid, $2 scope_id int8, $3 source_ids text[], $4 event_ids uuid[], $5 memory_ids uuid[], $6 kind text
-- Uses: turns_source, derivations_of_source, memories_pkey, provenance_pkey. Rows: memory_id, hidden, edited.
SELECT m.memory_id, m.deleted_at IS NOT NULL AS hidden,
       EXISTS (SELECT FROM provenance p
               WHERE p.tenant_id = $1 AND p.memory_id = m.memory_id AND p.origin = 'edit') AS edited
FROM (
    SELECT d.derived_id AS memory_id
    FROM (
        SELECT t.event_id
        FROM unnest($3::text[]) AS w (source_id)
        CROSS JOIN LATERAL (SELECT event_id FROM turns
                            WHERE tenant_id = $1 AND scope_id = $2 AND source_id = w.source_id LIMIT 1) t
        UNION
        SELECT unnest($4::uuid[])) said
    CROSS JOIN LATERAL (SELECT derived_id FROM derivations
                        WHERE tenant_id = $1 AND source_id = said.event_id AND source_kind = 'turn'
                          AND derived_kind = 'memory' OFFSET 0) d
    UNION
    SELECT unnest($5::uuid[])) found
CROSS JOIN LATERAL (SELECT memory_id, deleted_at, kind, scope_id FROM memories
                    WHERE tenant_id = $1 AND memory_id = found.memory_id LIMIT 1) m
WHERE m.scope_id = $2 AND m.kind = $6;
