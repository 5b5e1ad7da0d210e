-- name: labels_in_session
-- Which sensitivities the turns of a session have.
-- $1 tenant uuid, $2 scope_id int8, $3 session_id uuid
-- Uses: turns_in_order. Rows: sensitivity.
SELECT DISTINCT sensitivity
FROM turns
WHERE tenant_id = $1 AND scope_id = $2 AND session_id = $3;

-- name: labels_of_memories
-- Which sensitivities the versions of these memories have. Each is looked up by itself, as the memories are.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memory_versions_pkey. Rows: memory_id, scope_id, sensitivity.
SELECT DISTINCT v.memory_id, v.scope_id, v.sensitivity
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (
    SELECT memory_id, scope_id, sensitivity FROM memory_versions WHERE tenant_id = $1 AND memory_id = w.memory_id OFFSET 0) v;

-- name: raise_turns
-- The turns that a memory directly rests on are at least as sensitive as it has become.
-- $1 tenant uuid, $2 memory_id uuid, $3 sensitivity text
-- Uses: derivations_pkey, turns_pkey. Rows: none.
UPDATE turns t
SET sensitivity = $3
FROM derivations d
WHERE d.tenant_id = $1 AND d.derived_id = $2 AND d.source_kind = 'turn'
  AND t.tenant_id = $1 AND t.event_id = d.source_id
  AND array_position(ARRAY['public', 'internal', 'confidential', 'secret'], t.sensitivity)
      < array_position(ARRAY['public', 'internal', 'confidential', 'secret'], $3);
