-- name: labels_in_session
-- Which sensitivities the turns of a session have.
-- $1 tenant uuid, $2 scope_id int8, $3 session_id uuid
-- Uses: turns_in_order. Rows: sensitivity.
SELECT DISTINCT sensitivity
FROM turns
WHERE tenant_id = $1 AND scope_id = $2 AND session_id = $3;

-- name: labels_of_memories
-- Which sensitivities the versions of these memories have.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memory_versions_pkey. Rows: memory_id, scope_id, sensitivity.
SELECT DISTINCT memory_id, scope_id, sensitivity
FROM memory_versions
WHERE tenant_id = $1 AND memory_id = ANY ($2);
