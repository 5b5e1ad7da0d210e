-- name: add_checkpoint
-- A checkpoint, unless a live one of the scope has this name.
-- $1 tenant uuid, $2 checkpoint_id uuid, $3 scope_id int8, $4 name text, $5 session_id uuid, $6 branched_from uuid,
-- $7 branched_version int4, $8 created_at timestamptz, $9 changed_at timestamptz
-- Uses: none. Rows: checkpoint_id.
INSERT INTO checkpoints (tenant_id, checkpoint_id, scope_id, name, session_id, branched_from, branched_version, created_at,
                         changed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (tenant_id, scope_id, name) WHERE deleted_at IS NULL DO NOTHING
RETURNING checkpoint_id;

-- name: count_checkpoints
-- How many live checkpoints a scope has.
-- $1 tenant uuid, $2 scope_id int8
-- Uses: checkpoints_name. Rows: count.
SELECT count(*) AS count
FROM checkpoints
WHERE tenant_id = $1 AND scope_id = $2 AND deleted_at IS NULL;

-- name: checkpoint_by_name
-- The live checkpoint of this name, in its current version.
-- $1 tenant uuid, $2 scope_id int8, $3 name text
-- Uses: checkpoints_name. Rows: checkpoint_id, name, version, session_id, branched_from, branched_version, created_at,
-- changed_at, deleted_at, tokens, part_count.
SELECT c.checkpoint_id, c.name, c.version, c.session_id, c.branched_from, c.branched_version, c.created_at, c.changed_at,
       c.deleted_at, v.tokens,
       (SELECT count(*) FROM checkpoint_parts p
        WHERE p.tenant_id = $1 AND p.checkpoint_id = c.checkpoint_id AND p.version = c.version) AS part_count
FROM checkpoints c
JOIN checkpoint_versions v ON v.tenant_id = $1 AND v.checkpoint_id = c.checkpoint_id AND v.version = c.version
WHERE c.tenant_id = $1 AND c.scope_id = $2 AND c.name = $3 AND c.deleted_at IS NULL;

-- name: lock_checkpoint
-- The live checkpoint of this name, locked to the end of the transaction.
-- $1 tenant uuid, $2 scope_id int8, $3 name text
-- Uses: checkpoints_name. Rows: checkpoint_id, version, session_id.
SELECT checkpoint_id, version, session_id
FROM checkpoints
WHERE tenant_id = $1 AND scope_id = $2 AND name = $3 AND deleted_at IS NULL
FOR UPDATE;

-- name: deleted_checkpoint
-- The checkpoint of this name that was deleted last.
-- $1 tenant uuid, $2 scope_id int8, $3 name text
-- Uses: checkpoints_deleted. Rows: checkpoint_id, version, session_id, deleted_at.
SELECT checkpoint_id, version, session_id, deleted_at
FROM checkpoints
WHERE tenant_id = $1 AND scope_id = $2 AND name = $3 AND deleted_at IS NOT NULL
ORDER BY deleted_at DESC
LIMIT 1;

-- name: checkpoints_newest
-- Live checkpoints of a scope, of one conversation where it is named, newest first, from a cursor on.
-- $1 tenant uuid, $2 scope_id int8, $3 before timestamptz, $4 before_id uuid, $5 limit int8, $6 session_id uuid
-- Uses: checkpoints_recent. Rows: checkpoint_id, name, version, session_id, branched_from, branched_version, created_at,
-- changed_at, deleted_at, tokens, part_count.
SELECT c.checkpoint_id, c.name, c.version, c.session_id, c.branched_from, c.branched_version, c.created_at, c.changed_at,
       c.deleted_at, v.tokens,
       (SELECT count(*) FROM checkpoint_parts p
        WHERE p.tenant_id = $1 AND p.checkpoint_id = c.checkpoint_id AND p.version = c.version) AS part_count
FROM checkpoints c
JOIN checkpoint_versions v ON v.tenant_id = $1 AND v.checkpoint_id = c.checkpoint_id AND v.version = c.version
WHERE c.tenant_id = $1 AND c.scope_id = $2 AND (c.created_at, c.checkpoint_id) < ($3, $4) AND c.deleted_at IS NULL
  AND ($6::uuid IS NULL OR c.session_id = $6)
ORDER BY c.created_at DESC, c.checkpoint_id DESC
LIMIT $5;

-- name: checkpoints_oldest
-- Live checkpoints of a scope, of one conversation where it is named, oldest first, from a cursor on.
-- $1 tenant uuid, $2 scope_id int8, $3 after timestamptz, $4 after_id uuid, $5 limit int8, $6 session_id uuid
-- Uses: checkpoints_recent. Rows: checkpoint_id, name, version, session_id, branched_from, branched_version, created_at,
-- changed_at, deleted_at, tokens, part_count.
SELECT c.checkpoint_id, c.name, c.version, c.session_id, c.branched_from, c.branched_version, c.created_at, c.changed_at,
       c.deleted_at, v.tokens,
       (SELECT count(*) FROM checkpoint_parts p
        WHERE p.tenant_id = $1 AND p.checkpoint_id = c.checkpoint_id AND p.version = c.version) AS part_count
FROM checkpoints c
JOIN checkpoint_versions v ON v.tenant_id = $1 AND v.checkpoint_id = c.checkpoint_id AND v.version = c.version
WHERE c.tenant_id = $1 AND c.scope_id = $2 AND (c.created_at, c.checkpoint_id) > ($3, $4) AND c.deleted_at IS NULL
  AND ($6::uuid IS NULL OR c.session_id = $6)
ORDER BY c.created_at, c.checkpoint_id
LIMIT $5;

-- name: checkpoint_version
-- One version of a checkpoint.
-- $1 tenant uuid, $2 checkpoint_id uuid, $3 version int4
-- Uses: checkpoint_versions_pkey. Rows: version, tokens, recorded_from.
SELECT version, tokens, recorded_from
FROM checkpoint_versions
WHERE tenant_id = $1 AND checkpoint_id = $2 AND version = $3;

-- name: add_checkpoint_version
-- The next version of a checkpoint; never before the one before it ended, should the clock have been put back.
-- $1 tenant uuid, $2 checkpoint_id uuid, $3 version int4, $4 scope_id int8, $5 tokens int4, $6 now timestamptz
-- Uses: checkpoint_versions_pkey. Rows: none.
INSERT INTO checkpoint_versions (tenant_id, checkpoint_id, version, scope_id, tokens, recorded_from)
VALUES ($1, $2, $3, $4, $5,
        greatest($6, (SELECT recorded_to FROM checkpoint_versions
                      WHERE tenant_id = $1 AND checkpoint_id = $2 AND version = $3 - 1)));

-- name: close_checkpoint_version
-- The version in force ends.
-- $1 tenant uuid, $2 checkpoint_id uuid, $3 now timestamptz
-- Uses: checkpoint_versions_pkey. Rows: none.
UPDATE checkpoint_versions
SET recorded_to = greatest($3, recorded_from + interval '1 microsecond')
WHERE tenant_id = $1 AND checkpoint_id = $2 AND recorded_to IS NULL;

-- name: point_checkpoint
-- Which version of a checkpoint is in force.
-- $1 tenant uuid, $2 checkpoint_id uuid, $3 version int4, $4 now timestamptz
-- Uses: checkpoints_pkey. Rows: none.
UPDATE checkpoints
SET version = $3, changed_at = greatest($4, changed_at)
WHERE tenant_id = $1 AND checkpoint_id = $2;

-- name: mark_checkpoint_deleted
-- Delete a checkpoint, or bring it back (null), unless another has its name by now.
-- $1 tenant uuid, $2 checkpoint_id uuid, $3 deleted_at timestamptz
-- Uses: checkpoints_pkey. Rows: checkpoint_id.
UPDATE checkpoints c
SET deleted_at = $3
WHERE c.tenant_id = $1 AND c.checkpoint_id = $2
  AND ($3::timestamptz IS NOT NULL OR NOT EXISTS (
      SELECT FROM checkpoints o
      WHERE o.tenant_id = $1 AND o.scope_id = c.scope_id AND o.name = c.name AND o.deleted_at IS NULL))
RETURNING c.checkpoint_id;

-- name: add_checkpoint_part
-- One part of a version.
-- $1 tenant uuid, $2 checkpoint_id uuid, $3 version int4, $4 ordinal int4, $5 scope_id int8, $6 part text,
-- $7 memory_id uuid, $8 memory_version int4, $9 own bool
-- Uses: none. Rows: none.
INSERT INTO checkpoint_parts (tenant_id, checkpoint_id, version, ordinal, scope_id, part, memory_id, memory_version, own)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: checkpoint_parts_of
-- The parts of one version, in order.
-- $1 tenant uuid, $2 checkpoint_id uuid, $3 version int4
-- Uses: checkpoint_parts_pkey. Rows: ordinal, part, memory_id, memory_version, own.
SELECT ordinal, part, memory_id, memory_version, own
FROM checkpoint_parts
WHERE tenant_id = $1 AND checkpoint_id = $2 AND version = $3
ORDER BY ordinal;

-- name: checkpoint_to_load
-- The parts of the live checkpoint of this name; one row without a memory where it has none.
-- $1 tenant uuid, $2 scope_id int8, $3 name text
-- Uses: checkpoints_name, checkpoint_parts_pkey. Rows: checkpoint_id, version, session_id, part, memory_id,
-- memory_version, own.
SELECT c.checkpoint_id, c.version, c.session_id, p.part, p.memory_id, p.memory_version, p.own
FROM checkpoints c
LEFT JOIN checkpoint_parts p ON p.tenant_id = $1 AND p.checkpoint_id = c.checkpoint_id AND p.version = c.version
WHERE c.tenant_id = $1 AND c.scope_id = $2 AND c.name = $3 AND c.deleted_at IS NULL
ORDER BY p.ordinal;

-- name: checkpoint_then
-- The parts of the checkpoint that had this name at a moment, as they were recorded then, also where it was deleted since;
-- one row without a memory where it had none.
-- $1 tenant uuid, $2 scope_id int8, $3 name text, $4 moment timestamptz
-- Uses: checkpoint_versions_pkey, checkpoint_parts_pkey. Rows: checkpoint_id, version, session_id, part, memory_id,
-- memory_version, own.
SELECT c.checkpoint_id, v.version, c.session_id, p.part, p.memory_id, p.memory_version, p.own
FROM checkpoints c
JOIN checkpoint_versions v ON v.tenant_id = $1 AND v.checkpoint_id = c.checkpoint_id
    AND v.recorded_from <= $4 AND (v.recorded_to IS NULL OR v.recorded_to > $4)
LEFT JOIN checkpoint_parts p ON p.tenant_id = $1 AND p.checkpoint_id = c.checkpoint_id AND p.version = v.version
WHERE c.tenant_id = $1 AND c.scope_id = $2 AND c.name = $3 AND (c.deleted_at IS NULL OR c.deleted_at > $4)
ORDER BY c.created_at DESC, p.ordinal;

-- name: parts_to_load
-- The parts of a checkpoint in a version that a conversation was to be given; none where it is deleted by now.
-- $1 tenant uuid, $2 scope_id int8, $3 checkpoint_id uuid, $4 version int4
-- Uses: checkpoints_pkey, checkpoint_parts_pkey. Rows: checkpoint_id, version, session_id, part, memory_id,
-- memory_version, own.
SELECT c.checkpoint_id, p.version, c.session_id, p.part, p.memory_id, p.memory_version, p.own
FROM checkpoints c
JOIN checkpoint_parts p ON p.tenant_id = $1 AND p.checkpoint_id = c.checkpoint_id AND p.version = $4
WHERE c.tenant_id = $1 AND c.scope_id = $2 AND c.checkpoint_id = $3 AND c.deleted_at IS NULL
ORDER BY p.ordinal;

-- name: own_parts_alone
-- The memories made for checkpoints that only this one names, in any of its versions, of those that are not hidden.
-- $1 tenant uuid, $2 checkpoint_id uuid
-- Uses: checkpoint_parts_pkey, checkpoint_parts_of_memory. Rows: memory_id.
SELECT DISTINCT p.memory_id
FROM checkpoint_parts p
JOIN memories m ON m.tenant_id = $1 AND m.memory_id = p.memory_id AND m.deleted_at IS NULL
WHERE p.tenant_id = $1 AND p.checkpoint_id = $2 AND p.own
  AND NOT EXISTS (
      SELECT FROM checkpoint_parts o
      JOIN checkpoints c ON c.tenant_id = $1 AND c.checkpoint_id = o.checkpoint_id AND c.deleted_at IS NULL
      WHERE o.tenant_id = $1 AND o.memory_id = p.memory_id AND o.checkpoint_id <> $2)
ORDER BY p.memory_id;

-- name: own_parts_gone
-- The memories made for checkpoints that this one names, in any of its versions, and that went with one that names them.
-- $1 tenant uuid, $2 checkpoint_id uuid
-- Uses: checkpoint_parts_pkey, checkpoint_parts_of_memory. Rows: memory_id.
SELECT DISTINCT p.memory_id
FROM checkpoint_parts p
JOIN memories m ON m.tenant_id = $1 AND m.memory_id = p.memory_id
WHERE p.tenant_id = $1 AND p.checkpoint_id = $2 AND p.own
  AND EXISTS (
      SELECT FROM checkpoint_parts o
      JOIN checkpoints c ON c.tenant_id = $1 AND c.checkpoint_id = o.checkpoint_id AND c.deleted_at = m.deleted_at
      WHERE o.tenant_id = $1 AND o.memory_id = p.memory_id)
ORDER BY p.memory_id;

-- name: add_own_memory
-- The identity of a memory that is made for a record.
-- $1 tenant uuid, $2 memory_id uuid, $3 scope_id int8, $4 content_key bytea, $5 session_id uuid, $6 subject_id uuid,
-- $7 changed_version int8, $8 now timestamptz, $9 collection text, $10 kind text, $11 pinned bool
-- Uses: none. Rows: none.
INSERT INTO memories (tenant_id, memory_id, scope_id, kind, collection, content_key, session_id, subject_id,
                      changed_version, created_at, pinned)
VALUES ($1, $2, $3, $10, $9, $4, $5, $6, $7, $8, $11);

-- name: memories_to_keep
-- Which of these memories stand, locked to the end of the transaction against going away: their versions.
-- $1 tenant uuid, $2 scope_ids int8[], $3 memory_ids uuid[]
-- Uses: memories_pkey. Rows: memory_id, version.
SELECT memory_id, version
FROM memories
WHERE tenant_id = $1 AND scope_id = ANY ($2) AND memory_id = ANY ($3) AND deleted_at IS NULL AND quarantined_at IS NULL
ORDER BY memory_id
FOR KEY SHARE;

-- name: placed_in_session
-- Facts and documents that a conversation was given, those of the newest requests first, each once.
-- $1 tenant uuid, $2 session_id uuid, $3 retrievals int8, $4 limit int8
-- Uses: retrievals_of_session, memories_pkey. Rows: memory_id, kind, version.
SELECT m.memory_id, m.kind, m.version
FROM (SELECT DISTINCT ON (placed.id) placed.id, r.created_at
      FROM (SELECT placements, created_at
            FROM retrievals
            WHERE tenant_id = $1 AND session_id = $2
            ORDER BY created_at DESC
            LIMIT $3) r
      CROSS JOIN LATERAL jsonb_array_elements(r.placements) AS place (entry)
      CROSS JOIN LATERAL jsonb_array_elements_text(place.entry -> 'memory_ids') AS placed (id)
      ORDER BY placed.id, r.created_at DESC) w
CROSS JOIN LATERAL (
    SELECT memory_id, kind, version, deleted_at, quarantined_at, superseded_by
    FROM memories
    WHERE tenant_id = $1 AND memory_id = w.id::uuid
    OFFSET 0) m
WHERE m.kind IN ('semantic', 'document') AND m.deleted_at IS NULL AND m.quarantined_at IS NULL
  AND m.superseded_by IS NULL
ORDER BY w.created_at DESC, m.memory_id
LIMIT $4;

-- name: pinned_preferences
-- The preferences of a scope that somebody has pinned, those that hold.
-- $1 tenant uuid, $2 scope_ids int8[], $3 limit int8
-- Uses: memories_pinned. Rows: memory_id, version.
SELECT m.memory_id, m.version
FROM memories m
JOIN facts f ON f.tenant_id = $1 AND f.memory_id = m.memory_id AND f.category = 'preference' AND f.state = 'current'
WHERE m.tenant_id = $1 AND m.scope_id = ANY ($2) AND m.pinned
  AND m.deleted_at IS NULL AND m.quarantined_at IS NULL AND m.superseded_by IS NULL
ORDER BY m.memory_id
LIMIT $3;

-- name: labels_of_turns
-- How these turns are labelled. Each is looked up by itself: else all turns of whoever has a hundred thousand are read.
-- $1 tenant uuid, $2 event_ids uuid[]
-- Uses: turns_pkey. Rows: event_id, integrity, sensitivity.
SELECT t.event_id, t.integrity, t.sensitivity
FROM unnest($2::uuid[]) AS w (event_id)
CROSS JOIN LATERAL (
    SELECT event_id, integrity, sensitivity FROM turns WHERE tenant_id = $1 AND event_id = w.event_id LIMIT 1) t;
