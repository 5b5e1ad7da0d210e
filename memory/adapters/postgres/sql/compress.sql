-- name: walk_told
-- Episodes and months made before a moment.
-- $1 tenant uuid, $2 scope_ids int8[], $3 after timestamptz, $4 after_id uuid, $5 limit int8, $6 before timestamptz
-- Uses: memories_told. Rows: scope_id, at, memory_id.
SELECT w.scope_id, m.at, m.memory_id
FROM unnest($2::int8[]) AS w (scope_id)
CROSS JOIN LATERAL (
    SELECT created_at AS at, memory_id
    FROM memories
    WHERE tenant_id = $1 AND scope_id = w.scope_id AND (created_at, memory_id) > ($3, $4) AND created_at < $6
      AND collection IN ('episode', 'month', 'past')
    ORDER BY created_at, memory_id
    LIMIT $5) m;

-- name: due_episodes
-- Which of these episodes and months hold words of a turn that is gone, that says something else by now, whose memory
-- its owner hid or rejected, or that said what something has taken the place of since; and months of an episode that its
-- owner hid or that was told anew since. Episodes come before the month they are in. The moment is not asked.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 before timestamptz, $4 limit int8
-- Uses: memories_pkey, memory_versions_pkey, derivations_pkey, outdated_turns_of_event. Rows: memory_id.
SELECT m.memory_id
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (
    SELECT memory_id, version, created_at
    FROM memories
    WHERE tenant_id = $1 AND memory_id = w.memory_id AND deleted_at IS NULL
      AND collection IN ('episode', 'month', 'past')
    LIMIT 1) m
CROSS JOIN LATERAL (
    SELECT recorded_from
    FROM memory_versions
    WHERE tenant_id = $1 AND memory_id = m.memory_id AND version = m.version
    LIMIT 1) v
WHERE $3::timestamptz IS NOT NULL AND (EXISTS (
    SELECT FROM derivations d
    LEFT JOIN turns t ON t.tenant_id = $1 AND t.event_id = d.source_id
    WHERE d.tenant_id = $1 AND d.derived_id = m.memory_id AND d.derived_kind = 'summary' AND d.source_kind = 'turn'
      AND (t.event_id IS NULL OR t.recorded_at > v.recorded_from OR {not_told(d.source_id)}))
  OR EXISTS (
    SELECT FROM derivations d
    JOIN memories s ON s.tenant_id = $1 AND s.memory_id = d.source_id
    JOIN memory_versions r ON r.tenant_id = $1 AND r.memory_id = s.memory_id AND r.version = s.version
    WHERE d.tenant_id = $1 AND d.derived_id = m.memory_id AND d.derived_kind = 'summary' AND d.source_kind = 'memory'
      AND (r.validation_status = 'rejected' OR r.recorded_from > v.recorded_from OR s.pruned_reason = 'nothing left'
          OR (s.deleted_at IS NOT NULL AND s.pruned_at IS DISTINCT FROM s.deleted_at))))
ORDER BY m.created_at, m.memory_id
LIMIT $4;

-- name: due_compressed
-- Which of these are episodes of before a moment that are in no month and that nobody hid.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 before timestamptz, $4 limit int8
-- Uses: memories_pkey. Rows: memory_id.
SELECT m.memory_id
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (
    SELECT memory_id, created_at, collection, compressed_into
    FROM memories
    WHERE tenant_id = $1 AND memory_id = w.memory_id AND created_at < $3 AND deleted_at IS NULL
      AND quarantined_at IS NULL
    OFFSET 0) m
WHERE m.collection = 'episode' AND m.compressed_into IS NULL
ORDER BY m.created_at, m.memory_id
LIMIT $4;

-- name: due_past
-- Which of these are months none of whose turns is in recall any more at a moment.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 before timestamptz, $4 limit int8
-- Uses: memories_pkey, derivations_pkey, derivations_of_source, memory_versions_pkey. Rows: memory_id.
SELECT m.memory_id
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (
    SELECT memory_id
    FROM memories
    WHERE tenant_id = $1 AND memory_id = w.memory_id AND deleted_at IS NULL AND collection = 'month'
    LIMIT 1) m
WHERE NOT EXISTS (
    SELECT FROM derivations d
    JOIN derivations o ON o.tenant_id = $1 AND o.source_id = d.source_id AND o.source_kind = 'turn'
        AND o.derived_kind = 'memory' AND o.ordinal = 0
    JOIN memories e ON e.tenant_id = $1 AND e.memory_id = o.derived_id AND e.kind = 'episodic' AND e.deleted_at IS NULL
    JOIN memory_versions r ON r.tenant_id = $1 AND r.memory_id = e.memory_id AND r.version = e.version
    WHERE d.tenant_id = $1 AND d.derived_id = m.memory_id AND d.derived_kind = 'summary' AND d.source_kind = 'turn'
      AND (r.expires_at IS NULL OR r.expires_at > $3))
LIMIT $4;

-- name: told_as_it_stands
-- An episode or a month.
-- $1 tenant uuid, $2 memory_id uuid
-- Uses: memories_pkey, memory_versions_pkey. Rows: memory_id, collection, session_id, version, content, occurred_at,
-- integrity, sensitivity, attributes, expires_at, validation_status.
SELECT m.memory_id, m.collection, m.session_id, m.version, v.content, v.occurred_at, v.integrity, v.sensitivity,
       v.attributes, v.expires_at, v.validation_status
FROM memories m
JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.version = m.version
WHERE m.tenant_id = $1 AND m.memory_id = $2 AND m.deleted_at IS NULL AND m.collection IN ('episode', 'month', 'past');

-- name: episodes_to_tell
-- These episodes, the oldest first, without those that a person hid or rejected.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_pkey, memory_versions_pkey. Rows: memory_id, version, content, occurred_at, integrity, sensitivity,
-- attributes.
SELECT m.memory_id, m.version, v.content, v.occurred_at, v.integrity, v.sensitivity, v.attributes
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (
    SELECT memory_id, version, collection, deleted_at, pruned_at, pruned_reason
    FROM memories
    WHERE tenant_id = $1 AND memory_id = w.memory_id AND quarantined_at IS NULL
    OFFSET 0) m
JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.version = m.version
WHERE m.collection = 'episode'
  AND (m.deleted_at IS NULL OR (m.pruned_at = m.deleted_at AND m.pruned_reason <> 'nothing left'))
  AND v.validation_status <> 'rejected'
ORDER BY v.occurred_at, m.memory_id;

-- name: episodes_in_month
-- The episodes that were compressed into one.
-- $1 tenant uuid, $2 compressed_into uuid
-- Uses: memories_compressed_into. Rows: memory_id.
SELECT memory_id
FROM memories
WHERE tenant_id = $1 AND compressed_into = $2;

-- name: turns_not_told_of
-- Those turns that these memories rest on whose words must not be told (any more).
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: derivations_pkey, turns_pkey, derivations_of_source, memory_versions_pkey, outdated_turns_of_event.
-- Rows: event_id.
SELECT s.source_id AS event_id
FROM derivations s
LEFT JOIN turns t ON t.tenant_id = $1 AND t.event_id = s.source_id
WHERE s.tenant_id = $1 AND s.derived_id = ANY ($2) AND s.derived_kind = 'summary' AND s.source_kind = 'turn'
  AND (t.event_id IS NULL OR {not_told(t.event_id)})
LIMIT 1;

-- name: turns_not_told
-- Those of these turns whose words must not be told (any more).
-- $1 tenant uuid, $2 event_ids uuid[]
-- Uses: turns_pkey, derivations_of_source, memory_versions_pkey, outdated_turns_of_event. Rows: event_id.
SELECT w.event_id
FROM unnest($2::uuid[]) AS w (event_id)
LEFT JOIN LATERAL (SELECT event_id FROM turns WHERE tenant_id = $1 AND event_id = w.event_id LIMIT 1) t ON true
WHERE t.event_id IS NULL OR {not_told(t.event_id)}
LIMIT 1;

-- name: add_month
-- A month's identity, unless the scope has it.
-- $1 tenant uuid, $2 memory_id uuid, $3 scope_id int8, $4 content_key bytea, $5 subject_id uuid, $6 changed_version int8,
-- $7 now timestamptz
-- Uses: memories_content_key. Rows: memory_id.
INSERT INTO memories (tenant_id, memory_id, scope_id, kind, collection, content_key, subject_id, changed_version,
                      created_at)
VALUES ($1, $2, $3, 'summary', 'month', $4, $5, $6, $7)
ON CONFLICT (tenant_id, scope_id, kind, content_key) DO NOTHING
RETURNING memory_id;

-- name: add_month_sources
-- A month rests on the turns of its episodes, and on these.
-- $1 tenant uuid, $2 memory_id uuid, $3 scope_id int8, $4 episode_ids uuid[]
-- Uses: derivations_pkey. Rows: none.
INSERT INTO derivations (tenant_id, derived_id, derived_kind, source_id, source_kind, ordinal, scope_id)
SELECT $1, $2, 'summary', s.source_id, s.source_kind, (row_number() OVER (ORDER BY s.source_kind DESC, s.source_id)) - 1, $3
FROM (SELECT DISTINCT source_id, 'turn' AS source_kind
      FROM derivations
      WHERE tenant_id = $1 AND derived_id = ANY ($4) AND derived_kind = 'summary' AND source_kind = 'turn'
      UNION ALL
      SELECT one, 'memory' FROM unnest($4::uuid[]) AS one) s
ON CONFLICT DO NOTHING;

-- name: mark_compressed
-- These episodes are in a month now.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 compressed_into uuid
-- Uses: memories_pkey. Rows: none.
UPDATE memories
SET compressed_into = $3
WHERE tenant_id = $1 AND memory_id = ANY ($2);

-- name: recall_months
-- These months are recalled from now on.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 changed_version int8
-- Uses: memories_pkey. Rows: none.
UPDATE memories
SET collection = 'past', changed_version = $3
WHERE tenant_id = $1 AND memory_id = ANY ($2);

-- name: told_range
-- The first of the turns of its session that a memory rests on, and how many there are from it to the last.
-- $1 tenant uuid, $2 memory_id uuid, $3 session_id uuid
-- Uses: derivations_pkey, turns_pkey. Rows: first_seq, turns.
SELECT min(t.seq) AS first_seq, max(t.seq) - min(t.seq) + 1 AS turns
FROM derivations d
JOIN turns t ON t.tenant_id = $1 AND t.event_id = d.source_id AND t.session_id = $3
WHERE d.tenant_id = $1 AND d.derived_id = $2 AND d.source_kind = 'turn';
