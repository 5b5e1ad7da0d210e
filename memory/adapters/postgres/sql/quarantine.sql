-- name: hold_back
-- Hold a memory back until it is reviewed, for this reason; with none it is not held back (any more). Only what changes.
-- $1 tenant uuid, $2 memory_id uuid, $3 quarantine_reason text, $4 now timestamptz
-- Uses: memories_pkey. Rows: none.
UPDATE memories
SET quarantine_reason = $3::text,
    quarantined_at = CASE WHEN $3::text IS NOT NULL THEN coalesce(quarantined_at, $4::timestamptz) END,
    review_due_at = CASE WHEN $3::text IS NOT NULL THEN $4::timestamptz WHEN quarantined_at IS NULL THEN review_due_at END
WHERE tenant_id = $1 AND memory_id = $2 AND (quarantine_reason IS NOT NULL OR $3::text IS NOT NULL);

-- name: release_memory
-- A person confirmed what was held back: it is a memory like others. No row where it was not held back.
-- $1 tenant uuid, $2 memory_id uuid
-- Uses: memories_pkey. Rows: memory_id.
UPDATE memories
SET quarantine_reason = NULL, quarantined_at = NULL
WHERE tenant_id = $1 AND memory_id = $2 AND quarantined_at IS NOT NULL
RETURNING memory_id;

-- name: turns_untold
-- Those of these turns whose words must not be told.
-- $1 tenant uuid, $2 event_ids uuid[]
-- Uses: derivations_of_source. Rows: event_id.
SELECT w.event_id
FROM unnest($2::uuid[]) AS w (event_id)
WHERE {not_told(w.event_id)};

-- name: turns_withheld
-- Those of these turns that a person hid or rejected, or that are quarantined.
-- $1 tenant uuid, $2 event_ids uuid[]
-- Uses: derivations_of_source. Rows: event_id.
SELECT w.event_id
FROM unnest($2::uuid[]) AS w (event_id)
WHERE {withheld(w.event_id)};

-- name: add_untold
-- The words of these new turns are not to be told: they were hidden where they come from.
-- $1 tenant uuid, $2 event_ids uuid[], $3 scope_id int8
-- Uses: untold_turns_pkey. Rows: none.
INSERT INTO untold_turns (tenant_id, event_id, scope_id)
SELECT $1, event_id, $3
FROM unnest($2::uuid[]) AS w (event_id)
ON CONFLICT (tenant_id, event_id) DO NOTHING;

-- name: count_writes
-- So many memories more of a source in this hour, and how many that makes; another hour begins anew. The row is locked to
-- the end, so that two writers of one source count one after the other.
-- $1 tenant uuid, $2 scope_id int8, $3 source bytea, $4 hour timestamptz, $5 writes int8
-- Uses: source_writes_pkey. Rows: writes.
INSERT INTO source_writes AS s (tenant_id, scope_id, source, hour, writes)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant_id, scope_id, source) DO UPDATE
SET writes = CASE WHEN s.hour = excluded.hour THEN s.writes ELSE 0 END + excluded.writes, hour = excluded.hour
RETURNING writes;

-- name: drop_source_writes
-- Counts of hours gone by, of the visible scopes.
-- $1 tenant uuid, $2 before timestamptz
-- Uses: source_writes_pkey. Rows: none.
DELETE FROM source_writes
WHERE tenant_id = $1 AND scope_id = ANY ((SELECT mp_scopes())::bigint[]) AND hour < $2;
