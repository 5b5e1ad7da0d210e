-- name: add_persona
-- A persona, unless a live one of the scope has this name.
-- $1 tenant uuid, $2 persona_id uuid, $3 scope_id int8, $4 name text, $5 memory_id uuid, $6 facets jsonb,
-- $7 created_at timestamptz, $8 changed_at timestamptz
-- Uses: none. Rows: persona_id.
INSERT INTO personas (tenant_id, persona_id, scope_id, name, memory_id, facets, created_at, changed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (tenant_id, scope_id, name) WHERE deleted_at IS NULL DO NOTHING
RETURNING persona_id;

-- name: personas_of_scope
-- The live personas of a scope, by name.
-- $1 tenant uuid, $2 scope_id int8, $3 limit int8
-- Uses: personas_name. Rows: persona_id, name, version, memory_id, facets, created_at, changed_at, deleted_at.
SELECT persona_id, name, version, memory_id, facets, created_at, changed_at, deleted_at
FROM personas
WHERE tenant_id = $1 AND scope_id = $2 AND deleted_at IS NULL
ORDER BY name
LIMIT $3;

-- name: persona_by_name
-- The live persona of this name.
-- $1 tenant uuid, $2 scope_id int8, $3 name text
-- Uses: personas_name. Rows: persona_id, name, version, memory_id, facets, created_at, changed_at, deleted_at.
SELECT persona_id, name, version, memory_id, facets, created_at, changed_at, deleted_at
FROM personas
WHERE tenant_id = $1 AND scope_id = $2 AND name = $3 AND deleted_at IS NULL;

-- name: lock_persona
-- The live persona of this name, locked to the end of the transaction.
-- $1 tenant uuid, $2 scope_id int8, $3 name text
-- Uses: personas_name. Rows: persona_id, version, memory_id.
SELECT persona_id, version, memory_id
FROM personas
WHERE tenant_id = $1 AND scope_id = $2 AND name = $3 AND deleted_at IS NULL
FOR UPDATE;

-- name: deleted_persona
-- The persona of this name that was deleted last.
-- $1 tenant uuid, $2 scope_id int8, $3 name text
-- Uses: personas_deleted. Rows: persona_id, version, memory_id, deleted_at.
SELECT persona_id, version, memory_id, deleted_at
FROM personas
WHERE tenant_id = $1 AND scope_id = $2 AND name = $3 AND deleted_at IS NOT NULL
ORDER BY deleted_at DESC
LIMIT 1;

-- name: change_persona
-- The next version of a persona.
-- $1 tenant uuid, $2 persona_id uuid, $3 version int4, $4 facets jsonb, $5 now timestamptz
-- Uses: personas_pkey. Rows: none.
UPDATE personas
SET version = $3, facets = $4, changed_at = greatest($5, changed_at)
WHERE tenant_id = $1 AND persona_id = $2;

-- name: mark_persona_deleted
-- Delete a persona, or bring it back (null), unless another has its name by now.
-- $1 tenant uuid, $2 persona_id uuid, $3 deleted_at timestamptz
-- Uses: personas_pkey. Rows: persona_id.
UPDATE personas p
SET deleted_at = $3
WHERE p.tenant_id = $1 AND p.persona_id = $2
  AND ($3::timestamptz IS NOT NULL OR NOT EXISTS (
      SELECT FROM personas o
      WHERE o.tenant_id = $1 AND o.scope_id = p.scope_id AND o.name = p.name AND o.deleted_at IS NULL))
RETURNING p.persona_id;
