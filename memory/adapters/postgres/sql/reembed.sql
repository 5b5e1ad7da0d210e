-- name: embedding_serving
-- Which model is served, and which stands by.
-- Uses: none. Rows: generation, paused, switched_at, stands_back, model_id, name, digest, dim, directory, table_name,
-- standby_id, standby_name, standby_digest, standby_dim, standby_directory, standby_table.
SELECT s.generation, s.paused, s.switched_at, s.stands_back, m.model_id, m.name, m.digest, m.dim, m.directory, t.table_name,
       b.model_id AS standby_id, b.name AS standby_name, b.digest AS standby_digest, b.dim AS standby_dim,
       b.directory AS standby_directory, u.table_name AS standby_table
FROM embedding_serving s
JOIN embedding_models m ON m.model_id = s.model_id
JOIN embedding_tables t ON t.model_id = s.model_id
LEFT JOIN embedding_models b ON b.model_id = s.standby_id
LEFT JOIN embedding_tables u ON u.model_id = s.standby_id;

-- name: embedding_generation
-- Whether anything has changed for a process that knows which model is served.
-- Uses: none. Rows: generation.
SELECT generation
FROM embedding_serving;

-- name: stored_models
-- Every model that has a table, the newest first.
-- Uses: none. Rows: model_id, name, digest, dim, directory, table_name.
SELECT m.model_id, m.name, m.digest, m.dim, m.directory, t.table_name
FROM embedding_models m
JOIN embedding_tables t ON t.model_id = m.model_id
ORDER BY m.model_id DESC;

-- name: any_vectors
-- Whether these scopes have a vector of this model; each is looked up by itself, since they may have none.
-- $1 tenant uuid, $2 scope_ids int8[]
-- Uses: {embeddings}_scope. Rows: found.
SELECT EXISTS (
    SELECT FROM unnest($2::int8[]) AS w (scope_id)
    CROSS JOIN LATERAL (SELECT FROM {embeddings} WHERE tenant_id = $1 AND scope_id = w.scope_id LIMIT 1) e) AS found;

-- name: any_sealed_vectors
-- Whether these scopes have a sealed vector of this model. At a start, where they have none that lies open.
-- $1 tenant uuid, $2 scope_ids int8[], $3 embeddings text
-- Uses: sealed_windows_of_scope. Rows: found.
SELECT EXISTS (
    SELECT FROM unnest($2::int8[]) AS w (scope_id)
    CROSS JOIN LATERAL (
        SELECT FROM sealed_windows WHERE tenant_id = $1 AND scope_id = w.scope_id AND embeddings = $3 LIMIT 1) s) AS found;

-- name: serve_model
-- Serve this model from now on. The owner's: a start, where nothing can be lost by it. Nothing where another process has
-- settled it since it was read.
-- $1 model_id int4, $2 standby_id int4, $3 generation int8
-- Uses: embedding_serving_pkey. Rows: none.
INSERT INTO embedding_serving AS s (model_id, standby_id)
VALUES ($1, $2)
ON CONFLICT (one) DO UPDATE
SET model_id = excluded.model_id, standby_id = excluded.standby_id, generation = s.generation + 1
WHERE s.generation = $3;

-- name: stand_by
-- Put this model beside the served one; no row where another stands there, or where it is served itself. Where none
-- stood there, the former one was dropped, and this is none to switch back to.
-- $1 model_id int4
-- Uses: none. Rows: generation.
UPDATE embedding_serving
SET switched_at = CASE WHEN standby_id IS NOT NULL THEN switched_at END,
    stands_back = stands_back AND standby_id IS NOT NULL, standby_id = $1, paused = false
WHERE model_id <> $1 AND coalesce(standby_id, $1) = $1
RETURNING generation;

-- name: pause_reembedding
-- Ask whoever fills to stop, or let it go on.
-- $1 paused bool
-- Uses: none. Rows: none.
UPDATE embedding_serving
SET paused = $1;

-- name: reembedding_paused
-- Whether it is to stop.
-- Uses: none. Rows: paused.
SELECT paused
FROM embedding_serving;

-- name: lock_vectors
-- Wait until every transaction that has written vectors has ended, and keep new ones out until this one has. The number
-- is that of mp_embeddings_guard.
-- Uses: none. Rows: locked.
SELECT pg_advisory_xact_lock(7210032)::text AS locked;

-- name: hold_vectors
-- Nobody writes vectors for so many seconds; below 0: again. lock_vectors is held.
-- $1 seconds float8
-- Uses: none. Rows: none.
UPDATE embedding_serving
SET held_until = clock_timestamp() + make_interval(secs => $1);

-- name: switch_models
-- The model that stands by is served, and the served one stands by; no row unless writes were held until now.
-- $1 standby_id int4
-- Uses: none. Rows: generation.
UPDATE embedding_serving
SET model_id = standby_id, standby_id = model_id, generation = generation + 1, held_until = '-infinity',
    switched_at = clock_timestamp(), stands_back = NOT stands_back
WHERE standby_id = $1 AND held_until > clock_timestamp()
RETURNING generation;

-- name: next_generation
-- Every process reads again what it holds.
-- Uses: none. Rows: none.
UPDATE embedding_serving
SET generation = generation + 1;

-- name: scopes_to_reembed
-- Those of these scopes in which something has changed since this model was filled there.
-- $1 tenant uuid, $2 scope_ids int8[], $3 model_id int4
-- Uses: reembed_progress_pkey, memories_changed. Rows: scope_id.
SELECT w.scope_id
FROM unnest($2::int8[]) AS w (scope_id)
LEFT JOIN LATERAL (
    SELECT version, memory_id
    FROM reembed_progress
    WHERE tenant_id = $1 AND scope_id = w.scope_id AND model_id = $3
    OFFSET 0) p ON true
CROSS JOIN LATERAL (
    SELECT m.memory_id
    FROM memories m
    WHERE m.tenant_id = $1 AND m.scope_id = w.scope_id
      AND (m.changed_version, m.memory_id)
          > (coalesce(p.version, -1), coalesce(p.memory_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
    ORDER BY m.changed_version, m.memory_id
    LIMIT 1) next
ORDER BY w.scope_id;

-- name: memories_to_reembed
-- How many memories of these scopes have changed since this model was filled there.
-- $1 tenant uuid, $2 scope_ids int8[], $3 model_id int4
-- Uses: reembed_progress_pkey, memories_changed. Rows: left.
SELECT coalesce(sum(c.rows), 0)::int8 AS left
FROM unnest($2::int8[]) AS w (scope_id)
LEFT JOIN LATERAL (
    SELECT version, memory_id
    FROM reembed_progress
    WHERE tenant_id = $1 AND scope_id = w.scope_id AND model_id = $3
    OFFSET 0) p ON true
CROSS JOIN LATERAL (
    SELECT count(*) AS rows
    FROM (SELECT m.memory_id
          FROM memories m
          WHERE m.tenant_id = $1 AND m.scope_id = w.scope_id
            AND (m.changed_version, m.memory_id)
                > (coalesce(p.version, -1), coalesce(p.memory_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
          ORDER BY m.changed_version, m.memory_id
          OFFSET 0) changed) c;

-- name: reembedded_up_to
-- How far a model is filled in a scope.
-- $1 tenant uuid, $2 scope_id int8, $3 model_id int4
-- Uses: reembed_progress_pkey. Rows: version, memory_id.
SELECT version, memory_id
FROM reembed_progress
WHERE tenant_id = $1 AND scope_id = $2 AND model_id = $3;

-- name: changed_after
-- Memories of a scope that changed after a place, visible or not, in the order of change.
-- $1 tenant uuid, $2 scope_id int8, $3 version int8, $4 memory_id uuid, $5 limit int8
-- Uses: memories_changed. Rows: memory_id, changed_version.
SELECT memory_id, changed_version
FROM memories
WHERE tenant_id = $1 AND scope_id = $2 AND (changed_version, memory_id) > ($3, $4)
ORDER BY changed_version, memory_id
LIMIT $5;

-- name: versions_without_vectors
-- Versions of these memories that have no vector of this model, older ones too: `as_of` shows them. Each is looked up by
-- itself: joined, all versions and vectors of a scope that seemed to hold next to nothing were read for 32 memories of it.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 limit int8
-- Uses: memory_versions_pkey, {embeddings}_pkey. Rows: memory_id, version, content, occurred_at.
SELECT v.memory_id, v.version, v.content, v.occurred_at
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (
    SELECT memory_id, version, content, occurred_at
    FROM memory_versions
    WHERE tenant_id = $1 AND memory_id = w.memory_id
    OFFSET 0) v
WHERE NOT EXISTS (
      SELECT FROM {embeddings}
      WHERE tenant_id = $1 AND memory_id = v.memory_id AND version = v.version
      OFFSET 0)
  AND NOT EXISTS (
      SELECT FROM sealed_windows
      WHERE tenant_id = $1 AND memory_id = v.memory_id AND version = v.version AND embeddings = '{embeddings}'
      OFFSET 0)
ORDER BY v.memory_id, v.version
LIMIT $3;

-- name: mark_reembedding
-- The rest of this transaction writes vectors of a model that is not served.
-- Uses: none. Rows: marked.
SELECT set_config('mp.reembed', 'on', true) AS marked;

-- name: may_write_vectors
-- Raise, as for any vector that is written, where this model is not the one served, or writers are held: no row of what is
-- sealed comes to its table.
-- Uses: none. Rows: none.
INSERT INTO {embeddings} (tenant_id, scope_id, memory_id, version, window_no, span_start, span_end, embedding)
SELECT tenant_id, scope_id, memory_id, version, window_no, span_start, span_end, embedding
FROM {embeddings}
LIMIT 0;

-- name: memories_kept
-- Those of these memories that are still there, kept from being erased until this transaction ends; in one order.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_pkey. Rows: memory_id.
SELECT memory_id
FROM memories
WHERE tenant_id = $1 AND memory_id = ANY ($2)
ORDER BY memory_id
FOR KEY SHARE;

-- name: versions_as_taken
-- Those of these versions that say what they said, by its digest. What is sealed, nobody cuts.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 versions int4[], $4 digests bytea[]
-- Uses: memory_versions_pkey. Rows: memory_id, version.
SELECT v.memory_id, v.version
FROM unnest($2::uuid[], $3::int4[], $4::bytea[]) AS w (memory_id, version, digest)
CROSS JOIN LATERAL (
    SELECT memory_id, version, content, sensitivity
    FROM memory_versions
    WHERE tenant_id = $1 AND memory_id = w.memory_id AND version = w.version
    OFFSET 0) v
WHERE v.sensitivity NOT IN ('public', 'internal') OR sha256(convert_to(v.content, 'UTF8')) = w.digest;

-- name: note_reembedded
-- A model is filled up to here; never back.
-- $1 tenant uuid, $2 scope_id int8, $3 model_id int4, $4 version int8, $5 memory_id uuid
-- Uses: reembed_progress_pkey. Rows: none.
INSERT INTO reembed_progress AS p (tenant_id, scope_id, model_id, version, memory_id)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant_id, scope_id, model_id) DO UPDATE
SET version = excluded.version, memory_id = excluded.memory_id
WHERE (excluded.version, excluded.memory_id) > (p.version, p.memory_id);

-- name: scopes_passed_over
-- Those of these scopes in which what was told within so many seconds lies behind the cursor and lacks vectors, and the
-- version before the first of it. Only episodes and months are stored without a new scope version.
-- $1 tenant uuid, $2 scope_ids int8[], $3 model_id int4, $4 recent_s float8
-- Uses: memories_told. Rows: scope_id, version.
SELECT p.scope_id, min(m.changed_version) - 1 AS version
FROM reembed_progress p
JOIN memories m ON m.tenant_id = $1 AND m.scope_id = p.scope_id AND m.collection IN ('episode', 'month', 'past')
JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = m.memory_id
WHERE p.tenant_id = $1 AND p.scope_id = ANY ($2) AND p.model_id = $3
  AND m.created_at >= clock_timestamp() - make_interval(secs => $4)
  AND (m.changed_version, m.memory_id) <= (p.version, p.memory_id)
  AND NOT EXISTS (
      SELECT FROM {embeddings} e
      WHERE e.tenant_id = $1 AND e.memory_id = v.memory_id AND e.version = v.version)
  AND NOT EXISTS (
      SELECT FROM sealed_windows s
      WHERE s.tenant_id = $1 AND s.memory_id = v.memory_id AND s.version = v.version
        AND s.embeddings = '{embeddings}')
GROUP BY p.scope_id;

-- name: walk_again
-- Go through these scopes again from behind these versions: what has its vectors is only read.
-- $1 tenant uuid, $2 scope_ids int8[], $3 versions int8[], $4 model_id int4
-- Uses: reembed_progress_pkey. Rows: none.
UPDATE reembed_progress p
SET version = w.version, memory_id = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
FROM unnest($2::int8[], $3::int8[]) AS w (scope_id, version)
WHERE p.tenant_id = $1 AND p.scope_id = w.scope_id AND p.model_id = $4;

-- name: unnote_reembedded
-- A model is filled in none of these scopes.
-- $1 tenant uuid, $2 scope_ids int8[], $3 model_id int4
-- Uses: reembed_progress_pkey. Rows: none.
DELETE FROM reembed_progress
WHERE tenant_id = $1 AND scope_id = ANY ($2) AND model_id = $3;

-- name: drop_windows_of_model
-- Some of the sealed vectors of a model in these scopes, and of models that have no table any more.
-- $1 tenant uuid, $2 scope_ids int8[], $3 embeddings text, $4 limit int8
-- Uses: none. Rows: none.
DELETE FROM sealed_windows
WHERE (tenant_id, memory_id, version, embeddings, window_no) IN (
    SELECT s.tenant_id, s.memory_id, s.version, s.embeddings, s.window_no
    FROM sealed_windows s
    WHERE s.tenant_id = $1 AND s.scope_id = ANY ($2)
      AND (s.embeddings = $3 OR NOT EXISTS (SELECT FROM embedding_tables t WHERE t.table_name = s.embeddings))
    LIMIT $4);
