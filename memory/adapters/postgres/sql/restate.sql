-- name: content_of_memory
-- What a memory says now.
-- $1 tenant uuid, $2 memory_id uuid
-- Uses: memories_pkey, memory_versions_pkey. Rows: content, memory_id, version.
SELECT v.content, v.memory_id, v.version
FROM memories m
JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.version = m.version
WHERE m.tenant_id = $1 AND m.memory_id = $2;

-- name: fact_as_stated
-- What a memory states and says now.
-- $1 tenant uuid, $2 memory_id uuid
-- Uses: facts_pkey, memories_pkey, memory_versions_pkey. Rows: subject, predicate, object, negated, content, attributes,
-- superseded_by, superseded_reason.
SELECT f.subject, f.predicate, f.object, f.negated, v.content, v.attributes, m.superseded_by, m.superseded_reason
FROM facts f
JOIN memories m ON m.tenant_id = $1 AND m.memory_id = f.memory_id
JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = f.memory_id AND v.version = m.version
WHERE f.tenant_id = $1 AND f.memory_id = $2;

-- name: procedure_as_taught
-- What a memory teaches and says now, and what it is known by.
-- $1 tenant uuid, $2 memory_id uuid
-- Uses: procedures_pkey, memories_pkey, memory_versions_pkey. Rows: trigger, origin, content, attributes, content_key.
SELECT p.trigger, p.origin, v.content, v.attributes, m.content_key
FROM procedures p
JOIN memories m ON m.tenant_id = $1 AND m.memory_id = p.memory_id
JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = p.memory_id AND v.version = m.version
WHERE p.tenant_id = $1 AND p.memory_id = $2;

-- name: turns_of_memory
-- The turns that a memory rests on.
-- $1 tenant uuid, $2 memory_id uuid
-- Uses: derivations_pkey, turns_pkey. Rows: event_id, content.
SELECT t.event_id, t.content
FROM derivations d
JOIN turns t ON t.tenant_id = $1 AND t.event_id = d.source_id
WHERE d.tenant_id = $1 AND d.derived_id = $2 AND d.derived_kind = 'memory' AND d.source_kind = 'turn';

-- name: forget_corrected
-- No turn that a memory rests on says something else than it.
-- $1 tenant uuid, $2 memory_id uuid
-- Uses: outdated_turns_pkey. Rows: none.
DELETE FROM outdated_turns
WHERE tenant_id = $1 AND memory_id = $2 AND corrected;

-- name: add_corrected
-- These turns, which a memory rests on, say something else than it does since a person edited it.
-- $1 tenant uuid, $2 memory_id uuid, $3 event_ids uuid[], $4 scope_id int8
-- Uses: outdated_turns_pkey. Rows: none.
INSERT INTO outdated_turns (tenant_id, memory_id, event_id, scope_id, corrected)
SELECT $1, $2, w.event_id, $4, true
FROM unnest($3::uuid[]) AS w (event_id)
ON CONFLICT (tenant_id, memory_id, event_id) DO UPDATE SET corrected = true;

-- name: memory_of_content_key
-- The memory of a scope and kind that has a content key.
-- $1 tenant uuid, $2 scope_id int8, $3 kind text, $4 content_key bytea
-- Uses: memories_content_key. Rows: memory_id.
SELECT memory_id
FROM memories
WHERE tenant_id = $1 AND scope_id = $2 AND kind = $3 AND content_key = $4;

-- name: stand_alone
-- A memory stands behind no other that says the same.
-- $1 tenant uuid, $2 memory_id uuid
-- Uses: memories_pkey. Rows: none.
UPDATE memories
SET superseded_by = NULL, superseded_reason = NULL, superseded_at = NULL
WHERE tenant_id = $1 AND memory_id = $2 AND superseded_reason = 'same meaning';

-- name: drop_fact
-- A memory states nothing any more that could be ruled on.
-- $1 tenant uuid, $2 memory_id uuid
-- Uses: facts_pkey. Rows: none.
DELETE FROM facts
WHERE tenant_id = $1 AND memory_id = $2;

-- name: restate_fact
-- A memory states another object of the same key.
-- $1 tenant uuid, $2 memory_id uuid, $3 object text
-- Uses: facts_pkey. Rows: none.
UPDATE facts
SET object = $3
WHERE tenant_id = $1 AND memory_id = $2;

-- name: correct_sayings
-- What was said of a fact was said as a person has corrected it.
-- $1 tenant uuid, $2 memory_id uuid
-- Uses: fact_sayings_in_order. Rows: none.
UPDATE fact_sayings
SET correction = true
WHERE tenant_id = $1 AND memory_id = $2 AND NOT correction;

-- name: rekey_memory
-- What makes a memory the same as another.
-- $1 tenant uuid, $2 memory_id uuid, $3 content_key bytea
-- Uses: memories_pkey. Rows: none.
UPDATE memories
SET content_key = $3
WHERE tenant_id = $1 AND memory_id = $2;
