-- name: add_entity
-- One person or thing.
-- $1 tenant uuid, $2 entity_id uuid, $3 scope_id int8, $4 type text, $5 card_id uuid, $6 created_at timestamptz,
-- $7 changed_at timestamptz
-- Uses: none. Rows: none.
INSERT INTO entities (tenant_id, entity_id, scope_id, type, card_id, created_at, changed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: add_alias
-- A name that a memory gives it, where that memory is there.
-- $1 tenant uuid, $2 entity_id uuid, $3 fingerprint bytea, $4 memory_id uuid, $5 scope_id int8
-- Uses: memories_pkey. Rows: none.
INSERT INTO entity_aliases (tenant_id, entity_id, fingerprint, memory_id, scope_id)
SELECT $1, $2, $3, $4, $5
WHERE EXISTS (SELECT FROM memories WHERE tenant_id = $1 AND memory_id = $4)
ON CONFLICT DO NOTHING;

-- name: drop_aliases
-- The names that a memory gave it.
-- $1 tenant uuid, $2 entity_id uuid, $3 memory_id uuid
-- Uses: entity_aliases_of_memory. Rows: none.
DELETE FROM entity_aliases
WHERE tenant_id = $1 AND entity_id = $2 AND memory_id = $3;

-- name: entities_named
-- Those of a scope that have one of these names by a memory that holds, deleted ones too. Of whom thousands of memories
-- name, these are looked through from the newest on, to the first that holds.
-- $1 tenant uuid, $2 scope_id int8, $3 fingerprints bytea[]
-- Uses: entity_aliases_of_name, entity_aliases_pkey, entities_pkey, memories_pkey. Rows: fingerprint, entity_id, root,
-- type, deleted_at, changed_at.
SELECT a.fingerprint, a.entity_id, coalesce(e.merged_into, e.entity_id) AS root, e.type, e.deleted_at, e.changed_at
FROM (SELECT DISTINCT fingerprint, entity_id FROM entity_aliases
      WHERE tenant_id = $1 AND scope_id = $2 AND fingerprint = ANY ($3)) a
CROSS JOIN LATERAL (SELECT entity_id, merged_into, type, deleted_at, changed_at FROM entities
                    WHERE tenant_id = $1 AND entity_id = a.entity_id LIMIT 1) e
CROSS JOIN LATERAL (
    SELECT FROM entity_aliases b
    CROSS JOIN LATERAL (SELECT deleted_at, superseded_by, superseded_reason FROM memories
                        WHERE tenant_id = $1 AND memory_id = b.memory_id LIMIT 1) m
    WHERE b.tenant_id = $1 AND b.entity_id = a.entity_id AND b.fingerprint = a.fingerprint
      AND m.deleted_at IS NULL AND (m.superseded_by IS NULL OR m.superseded_reason = 'same meaning')
    ORDER BY b.memory_id DESC
    LIMIT 1) h;

-- name: named_then
-- What the memories that give one of these names to those of a scope said at a moment.
-- $1 tenant uuid, $2 scope_id int8, $3 fingerprints bytea[], $4 moment timestamptz
-- Uses: entity_aliases_of_name, entities_pkey, memory_versions_pkey. Rows: fingerprint, root, memory_id, version, scope_id,
-- content, sensitivity, attributes.
SELECT a.fingerprint, coalesce(e.merged_into, e.entity_id) AS root, v.memory_id, v.version, v.scope_id, v.content,
       v.sensitivity, v.attributes
FROM entity_aliases a
CROSS JOIN LATERAL (SELECT entity_id, merged_into FROM entities
                    WHERE tenant_id = $1 AND entity_id = a.entity_id LIMIT 1) e
CROSS JOIN LATERAL (SELECT * FROM memory_versions
                    WHERE tenant_id = $1 AND memory_id = a.memory_id AND recorded_from <= $4
                    ORDER BY version DESC LIMIT 1) v
WHERE a.tenant_id = $1 AND a.scope_id = $2 AND a.fingerprint = ANY ($3);

-- name: entities_once_named
-- Those of a scope that had one of these names by a memory that something took the place of, deleted ones too; looked
-- through likewise.
-- $1 tenant uuid, $2 scope_id int8, $3 fingerprints bytea[]
-- Uses: entity_aliases_of_name, entity_aliases_pkey, entities_pkey, memories_pkey. Rows: fingerprint, entity_id, root,
-- type, deleted_at.
SELECT a.fingerprint, a.entity_id, coalesce(e.merged_into, e.entity_id) AS root, e.type, e.deleted_at
FROM (SELECT DISTINCT fingerprint, entity_id FROM entity_aliases
      WHERE tenant_id = $1 AND scope_id = $2 AND fingerprint = ANY ($3)) a
CROSS JOIN LATERAL (SELECT entity_id, merged_into, type, deleted_at FROM entities
                    WHERE tenant_id = $1 AND entity_id = a.entity_id LIMIT 1) e
CROSS JOIN LATERAL (
    SELECT FROM entity_aliases b
    CROSS JOIN LATERAL (SELECT deleted_at, superseded_by FROM memories
                        WHERE tenant_id = $1 AND memory_id = b.memory_id LIMIT 1) m
    WHERE b.tenant_id = $1 AND b.entity_id = a.entity_id AND b.fingerprint = a.fingerprint
      AND m.deleted_at IS NULL AND m.superseded_by IS NOT NULL
    ORDER BY b.memory_id DESC
    LIMIT 1) h;

-- name: names_of_entities
-- Which names these have, each once, by however many memories.
-- $1 tenant uuid, $2 entity_ids uuid[]
-- Uses: entity_aliases_pkey. Rows: entity_id, fingerprint.
SELECT DISTINCT entity_id, fingerprint
FROM entity_aliases
WHERE tenant_id = $1 AND entity_id = ANY ($2);

-- name: aliases_of_entities
-- By which memories these have which names.
-- $1 tenant uuid, $2 entity_ids uuid[]
-- Uses: entity_aliases_pkey. Rows: entity_id, fingerprint, memory_id.
SELECT entity_id, fingerprint, memory_id
FROM entity_aliases
WHERE tenant_id = $1 AND entity_id = ANY ($2);

-- name: entities_of_memories
-- Whom these memories name by which name, where that one is not deleted; the one that it is merged into.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: entity_aliases_of_memory, entities_pkey. Rows: memory_id, fingerprint, root.
SELECT a.memory_id, a.fingerprint, coalesce(e.merged_into, e.entity_id) AS root
FROM entity_aliases a
CROSS JOIN LATERAL (SELECT entity_id, merged_into, deleted_at FROM entities
                    WHERE tenant_id = $1 AND entity_id = a.entity_id LIMIT 1) e
WHERE a.tenant_id = $1 AND a.memory_id = ANY ($2) AND e.deleted_at IS NULL;

-- name: entities_by_id
-- These of a scope that are not deleted.
-- $1 tenant uuid, $2 scope_id int8, $3 entity_ids uuid[]
-- Uses: entities_pkey. Rows: entity_id, version, type, card_id, merged_into, created_at, changed_at.
SELECT entity_id, version, type, card_id, merged_into, created_at, changed_at
FROM entities
WHERE tenant_id = $1 AND scope_id = $2 AND entity_id = ANY ($3) AND deleted_at IS NULL;

-- name: entities_newest
-- Those of a scope that are not deleted and merged into none, newest first, from a place on; of these types.
-- $1 tenant uuid, $2 scope_id int8, $3 before timestamptz, $4 before_id uuid, $5 types text[], $6 limit int8
-- Uses: entities_recent. Rows: entity_id, version, type, card_id, merged_into, created_at, changed_at.
SELECT entity_id, version, type, card_id, merged_into, created_at, changed_at
FROM entities
WHERE tenant_id = $1 AND scope_id = $2 AND (created_at, entity_id) < ($3, $4) AND deleted_at IS NULL
  AND merged_into IS NULL AND type = ANY ($5)
ORDER BY created_at DESC, entity_id DESC
LIMIT $6;

-- name: entities_oldest
-- The same, oldest first.
-- $1 tenant uuid, $2 scope_id int8, $3 after timestamptz, $4 after_id uuid, $5 types text[], $6 limit int8
-- Uses: entities_recent. Rows: entity_id, version, type, card_id, merged_into, created_at, changed_at.
SELECT entity_id, version, type, card_id, merged_into, created_at, changed_at
FROM entities
WHERE tenant_id = $1 AND scope_id = $2 AND (created_at, entity_id) > ($3, $4) AND deleted_at IS NULL
  AND merged_into IS NULL AND type = ANY ($5)
ORDER BY created_at, entity_id
LIMIT $6;

-- name: count_entities
-- How many a scope has that are not deleted, at most so many.
-- $1 tenant uuid, $2 scope_id int8, $3 limit int8
-- Uses: entities_recent. Rows: count.
SELECT count(*)
FROM (SELECT FROM entities WHERE tenant_id = $1 AND scope_id = $2 AND deleted_at IS NULL LIMIT $3) e;

-- name: merged_into_entities
-- Those that are merged into these.
-- $1 tenant uuid, $2 entity_ids uuid[]
-- Uses: entities_merged. Rows: entity_id, merged_into, card_id.
SELECT entity_id, merged_into, card_id
FROM entities
WHERE tenant_id = $1 AND merged_into = ANY ($2) AND deleted_at IS NULL;

-- name: members_of_entity
-- Those that are merged into one and were deleted at this moment (null: are not), locked to the end of the transaction.
-- $1 tenant uuid, $2 entity_id uuid, $3 deleted_at timestamptz
-- Uses: entities_merged. Rows: entity_id, version, card_id.
SELECT entity_id, version, card_id
FROM entities
WHERE tenant_id = $1 AND merged_into = $2 AND deleted_at IS NOT DISTINCT FROM $3
ORDER BY entity_id
FOR UPDATE;

-- name: lock_entity
-- One of this scope, deleted or not, locked to the end of the transaction.
-- $1 tenant uuid, $2 scope_id int8, $3 entity_id uuid
-- Uses: entities_pkey. Rows: entity_id, version, type, card_id, merged_into, deleted_at.
SELECT entity_id, version, type, card_id, merged_into, deleted_at
FROM entities
WHERE tenant_id = $1 AND scope_id = $2 AND entity_id = $3
FOR UPDATE;

-- name: change_entity
-- Its next version. Of one that was learnt here the first card says when it was made and changed: it may come from another
-- store.
-- $1 tenant uuid, $2 entity_id uuid, $3 version int4, $4 type text, $5 card_id uuid, $6 created_at timestamptz,
-- $7 changed_at timestamptz
-- Uses: entities_pkey. Rows: none.
UPDATE entities
SET version = $3, type = $4, card_id = $5, created_at = least($6, created_at),
    changed_at = CASE WHEN card_id IS NULL THEN $7 ELSE greatest($7, changed_at) END
WHERE tenant_id = $1 AND entity_id = $2;

-- name: merge_entity
-- It is another name for that one, or for none (null).
-- $1 tenant uuid, $2 entity_id uuid, $3 version int4, $4 merged_into uuid, $5 now timestamptz
-- Uses: entities_pkey. Rows: none.
UPDATE entities
SET version = $3, merged_into = $4, changed_at = greatest($5, changed_at)
WHERE tenant_id = $1 AND entity_id = $2;

-- name: merge_with_it
-- What was merged into one goes with it into that one.
-- $1 tenant uuid, $2 entity_id uuid, $3 merged_into uuid
-- Uses: entities_merged. Rows: none.
UPDATE entities
SET merged_into = $3
WHERE tenant_id = $1 AND merged_into = $2;

-- name: merged_where
-- Those that are merged into one, with whom somebody merged each into.
-- $1 tenant uuid, $2 entity_id uuid
-- Uses: entities_merged, entity_history_pkey. Rows: entity_id, other.
SELECT e.entity_id, h.other
FROM entities e
CROSS JOIN LATERAL (
    SELECT other
    FROM entity_history
    WHERE tenant_id = $1 AND entity_id = e.entity_id AND what = 'merged'
    ORDER BY version DESC
    LIMIT 1) h
WHERE e.tenant_id = $1 AND e.merged_into = $2;

-- name: merge_these
-- These are merged into that one.
-- $1 tenant uuid, $2 entity_ids uuid[], $3 merged_into uuid
-- Uses: entities_pkey. Rows: none.
UPDATE entities
SET merged_into = $3
WHERE tenant_id = $1 AND entity_id = ANY ($2);

-- name: mark_entity_deleted
-- Delete one, or bring it back (null).
-- $1 tenant uuid, $2 entity_id uuid, $3 version int4, $4 deleted_at timestamptz
-- Uses: entities_pkey. Rows: none.
UPDATE entities
SET version = $3, deleted_at = $4
WHERE tenant_id = $1 AND entity_id = $2;

-- name: drop_nameless_entities
-- Those of a scope that no memory names any more. Each is looked up by itself: joined, every one of 25,000 was held against
-- every name, where a scope seemed to hold next to nothing.
-- $1 tenant uuid, $2 scope_ids int8[]
-- Uses: entities_recent, entity_aliases_pkey. Rows: none.
DELETE FROM entities e
WHERE e.tenant_id = $1 AND e.scope_id = ANY ($2) AND e.card_id IS NULL
  AND NOT EXISTS (SELECT FROM entity_aliases WHERE tenant_id = $1 AND entity_id = e.entity_id OFFSET 0);

-- name: drop_entities_of
-- Those whom only these memories name, which are about to go: learnt, tied by no hand, and nobody is merged into them.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: entity_aliases_of_memory, entities_pkey, entity_aliases_pkey, entities_merged, relationships_of_source,
-- relationships_of_target. Rows: none.
DELETE FROM entities e
USING (SELECT DISTINCT entity_id FROM entity_aliases WHERE tenant_id = $1 AND memory_id = ANY ($2)) w
WHERE e.tenant_id = $1 AND e.entity_id = w.entity_id AND (e.card_id IS NULL OR e.card_id = ANY ($2))
  AND NOT EXISTS (SELECT FROM entity_aliases a
                  WHERE a.tenant_id = $1 AND a.entity_id = e.entity_id AND a.memory_id <> ALL ($2))
  AND NOT EXISTS (SELECT FROM entities m WHERE m.tenant_id = $1 AND m.merged_into = e.entity_id)
  AND NOT EXISTS (SELECT FROM relationships r
                  WHERE r.tenant_id = $1 AND r.source_entity = e.entity_id AND r.memory_id <> ALL ($2))
  AND NOT EXISTS (SELECT FROM relationships r
                  WHERE r.tenant_id = $1 AND r.target_entity = e.entity_id AND r.memory_id <> ALL ($2));

-- name: add_entity_step
-- A row of its history.
-- $1 tenant uuid, $2 entity_id uuid, $3 version int4, $4 scope_id int8, $5 what text, $6 other uuid, $7 actor text,
-- $8 at timestamptz
-- Uses: none. Rows: none.
INSERT INTO entity_history (tenant_id, entity_id, version, scope_id, what, other, actor, at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: history_of_entity
-- How it became what it is, oldest first.
-- $1 tenant uuid, $2 entity_id uuid, $3 limit int8
-- Uses: entity_history_pkey. Rows: version, what, other, actor, at.
SELECT version, what, other, actor, at
FROM entity_history
WHERE tenant_id = $1 AND entity_id = $2
ORDER BY version
LIMIT $3;

-- name: add_relationship
-- What ties two of them, by a memory that is there.
-- $1 tenant uuid, $2 relationship_id uuid, $3 scope_id int8, $4 source uuid, $5 type text, $6 target uuid,
-- $7 memory_id uuid, $8 valid_from timestamptz, $9 valid_to timestamptz, $10 now timestamptz
-- Uses: memories_pkey. Rows: none.
INSERT INTO relationships (tenant_id, relationship_id, scope_id, source_entity, type, target_entity, memory_id,
                           valid_from, valid_to, created_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10
WHERE EXISTS (SELECT FROM memories WHERE tenant_id = $1 AND memory_id = $7)
ON CONFLICT DO NOTHING;

-- name: relationships_around
-- What ties these to others, either way, newest first.
-- $1 tenant uuid, $2 entity_ids uuid[], $3 limit int8
-- Uses: relationships_of_source, relationships_of_target, entities_pkey. Rows: relationship_id, source, type, target,
-- memory_id, valid_from, valid_to, created_at.
SELECT r.relationship_id, coalesce(s.merged_into, s.entity_id) AS source, r.type,
       coalesce(t.merged_into, t.entity_id) AS target, r.memory_id, r.valid_from, r.valid_to, r.created_at
FROM (SELECT * FROM relationships WHERE tenant_id = $1 AND source_entity = ANY ($2) AND deleted_at IS NULL
      UNION
      SELECT * FROM relationships WHERE tenant_id = $1 AND target_entity = ANY ($2) AND deleted_at IS NULL) r
JOIN entities s ON s.tenant_id = $1 AND s.entity_id = r.source_entity AND s.deleted_at IS NULL
JOIN entities t ON t.tenant_id = $1 AND t.entity_id = r.target_entity AND t.deleted_at IS NULL
ORDER BY r.created_at DESC, r.relationship_id
LIMIT $3;

-- name: relationships_from
-- What ties these to others as it is said of these, by its id, from behind one on; in these ways (null: any).
-- $1 tenant uuid, $2 entity_ids uuid[], $3 after uuid, $4 limit int8, $5 types text[]
-- Uses: relationships_of_source, entities_pkey. Rows: relationship_id, source, type, target, memory_id, valid_from,
-- valid_to, created_at.
SELECT r.relationship_id, coalesce(s.merged_into, s.entity_id) AS source, r.type,
       coalesce(t.merged_into, t.entity_id) AS target, r.memory_id, r.valid_from, r.valid_to, r.created_at
FROM relationships r
JOIN entities s ON s.tenant_id = $1 AND s.entity_id = r.source_entity AND s.deleted_at IS NULL
JOIN entities t ON t.tenant_id = $1 AND t.entity_id = r.target_entity AND t.deleted_at IS NULL
WHERE r.tenant_id = $1 AND r.source_entity = ANY ($2) AND r.relationship_id > $3 AND r.deleted_at IS NULL
  AND ($5::text[] IS NULL OR r.type = ANY ($5))
ORDER BY r.relationship_id
LIMIT $4;

-- name: relationships_between
-- What ties one to another in one way from a time to a time, what was said last first.
-- $1 tenant uuid, $2 source uuid, $3 type text, $4 target uuid, $5 valid_from timestamptz, $6 valid_to timestamptz,
-- $7 limit int8
-- Uses: relationships_of_source. Rows: relationship_id, source, type, target, memory_id, valid_from, valid_to, created_at.
SELECT relationship_id, source_entity AS source, type, target_entity AS target, memory_id, valid_from, valid_to,
       created_at
FROM relationships
WHERE tenant_id = $1 AND source_entity = $2 AND type = $3 AND target_entity = $4 AND deleted_at IS NULL
  AND valid_from IS NOT DISTINCT FROM $5 AND valid_to IS NOT DISTINCT FROM $6
ORDER BY memory_id DESC
LIMIT $7;

-- name: ties_by_hand
-- What was said by hand of what ties one to others, hidden or not, and since when the other end is deleted.
-- $1 tenant uuid, $2 entity_id uuid
-- Uses: relationships_of_source, relationships_of_target, memories_pkey, entities_pkey.
-- Rows: memory_id, deleted_at, other_deleted_at.
SELECT r.memory_id, m.deleted_at, o.deleted_at AS other_deleted_at
FROM (SELECT memory_id, target_entity AS other FROM relationships
      WHERE tenant_id = $1 AND source_entity = $2 AND deleted_at IS NULL
      UNION ALL
      SELECT memory_id, source_entity FROM relationships
      WHERE tenant_id = $1 AND target_entity = $2 AND deleted_at IS NULL) r
CROSS JOIN LATERAL (SELECT deleted_at, collection FROM memories
                    WHERE tenant_id = $1 AND memory_id = r.memory_id LIMIT 1) m
CROSS JOIN LATERAL (SELECT deleted_at FROM entities WHERE tenant_id = $1 AND entity_id = r.other LIMIT 1) o
WHERE m.collection = 'entity';

-- name: ties_of_gone
-- What else was said by hand of what ties those whose names go with these memories: whose card is one of these, and
-- whom no other memory names. Who goes is not joined to who was meant again: seeming two, 25,000 were held against 25,000.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: entity_aliases_of_memory, entities_pkey, entities_merged, entity_aliases_pkey, relationships_of_source,
-- relationships_of_target, memories_pkey. Rows: memory_id.
WITH hit AS (
    SELECT DISTINCT coalesce(e.merged_into, e.entity_id) AS root
    FROM entity_aliases a
    CROSS JOIN LATERAL (SELECT entity_id, merged_into FROM entities
                        WHERE tenant_id = $1 AND entity_id = a.entity_id LIMIT 1) e
    WHERE a.tenant_id = $1 AND a.memory_id = ANY ($2)),
member AS (
    SELECT h.root, e.entity_id, e.card_id
    FROM hit h
    CROSS JOIN LATERAL (
        (SELECT entity_id, card_id FROM entities WHERE tenant_id = $1 AND entity_id = h.root LIMIT 1)
        UNION ALL
        SELECT entity_id, card_id FROM entities WHERE tenant_id = $1 AND merged_into = h.root) e),
gone AS (
    SELECT unnest(array_agg(m.entity_id)) AS entity_id
    FROM member m
    GROUP BY m.root
    HAVING coalesce(bool_or(m.card_id = ANY ($2)), false)
        OR bool_and(NOT EXISTS (
            SELECT FROM entity_aliases a
            WHERE a.tenant_id = $1 AND a.entity_id = m.entity_id AND a.memory_id <> ALL ($2))))
SELECT DISTINCT r.memory_id
FROM gone g
CROSS JOIN LATERAL (
    SELECT memory_id FROM relationships WHERE tenant_id = $1 AND source_entity = g.entity_id
    UNION ALL
    SELECT memory_id FROM relationships WHERE tenant_id = $1 AND target_entity = g.entity_id) r
CROSS JOIN LATERAL (SELECT collection FROM memories WHERE tenant_id = $1 AND memory_id = r.memory_id LIMIT 1) c
WHERE c.collection = 'entity' AND r.memory_id <> ALL ($2);

-- name: lock_relationship
-- One of this scope that is not deleted, locked to the end of the transaction.
-- $1 tenant uuid, $2 scope_id int8, $3 relationship_id uuid
-- Uses: relationships_pkey. Rows: relationship_id, memory_id, source_entity.
SELECT relationship_id, memory_id, source_entity
FROM relationships
WHERE tenant_id = $1 AND scope_id = $2 AND relationship_id = $3 AND deleted_at IS NULL
FOR UPDATE;

-- name: mark_relationship_deleted
-- It ties them no more.
-- $1 tenant uuid, $2 relationship_id uuid, $3 deleted_at timestamptz
-- Uses: relationships_pkey. Rows: none.
UPDATE relationships
SET deleted_at = $3
WHERE tenant_id = $1 AND relationship_id = $2;
