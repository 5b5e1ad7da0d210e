-- name: preferences_of_scope
-- The preferences that hold in a scope, all or of these, of these labels and of one conversation (null: any), the last
-- said first, with how often and where they were said.
-- $1 tenant uuid, $2 scope_id int8, $3 limit int8, $4 evidence int4, $5 now timestamptz, $6 memory_ids uuid[],
-- $7 sensitivities text[], $8 session_id uuid
-- Uses: facts_of_key, memories_pkey, memory_versions_pkey, fact_sayings_pkey, turns_pkey. Rows: memory_id, version,
-- predicate, pinned, vouched, session_id, said, sessions, first_said, last_said, evidence.
SELECT f.memory_id, m.version, f.predicate, m.pinned, v.validation_status = 'confirmed' AS vouched, m.session_id,
       s.said, s.sessions, s.first_said, s.last_said, s.evidence
FROM facts f
JOIN memories m ON m.tenant_id = $1 AND m.memory_id = f.memory_id
JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.version = m.version
CROSS JOIN LATERAL (
    SELECT count(*) AS said, count(DISTINCT t.session_id) AS sessions, min(o.said_at) AS first_said,
           max(o.said_at) AS last_said, (array_agg(o.event_id ORDER BY o.said_at DESC))[1:$4] AS evidence
    FROM fact_sayings o
    LEFT JOIN turns t ON t.tenant_id = $1 AND t.event_id = o.event_id
    WHERE o.tenant_id = $1 AND o.memory_id = f.memory_id) s
WHERE f.tenant_id = $1 AND f.scope_id = $2 AND f.category = 'preference' AND f.state = 'current'
  AND m.deleted_at IS NULL AND m.quarantined_at IS NULL AND m.superseded_by IS NULL
  AND (v.expires_at <= $5 OR (v.valid_to > v.occurred_at AND v.valid_to <= $5)) IS NOT TRUE
  AND ($6::uuid[] IS NULL OR f.memory_id = ANY ($6))
  AND ($7::text[] IS NULL OR v.sensitivity = ANY ($7)) AND ($8::uuid IS NULL OR m.session_id = $8)
ORDER BY f.said_at DESC, f.memory_id
LIMIT $3;
