-- ---------------------------------------------------------------- jobs

-- name: see_all_erasures
-- The rest of this transaction sees the erasures of all tenants, and no content of any.
-- Uses: none. Rows: set_config.
SELECT set_config('mp.erasing', 'all', true);

-- name: add_erasure
-- A job, before anything is done.
-- $1 tenant uuid, $2 erasure_id uuid, $3 kind text, $4 target bytea, $5 digest bytea, $6 now timestamptz
-- Uses: erasures_pkey. Rows: none.
INSERT INTO erasures (tenant_id, erasure_id, kind, target, digest, step, requested_at)
VALUES ($1, $2, $3, $4, $5, 'asked', $6)
ON CONFLICT (tenant_id, erasure_id) DO NOTHING;

-- name: add_ended_erasure
-- A job that there is nothing to do for.
-- $1 tenant uuid, $2 erasure_id uuid, $3 kind text, $4 digest bytea, $5 at timestamptz, $6 receipt jsonb,
-- $7 now timestamptz
-- Uses: erasures_pkey. Rows: none.
INSERT INTO erasures (tenant_id, erasure_id, kind, digest, step, requested_at, receipt, finished_at)
VALUES ($1, $2, $3, $4, 'ended', $5, $6, $7)
ON CONFLICT (tenant_id, erasure_id) DO NOTHING;

-- name: erasure_by_id
-- How far a job is.
-- $1 tenant uuid, $2 erasure_id uuid
-- Uses: erasures_pkey. Rows: tenant_id, erasure_id, kind, target, digest, step, requested_at, counts, receipt,
-- finished_at.
SELECT tenant_id, erasure_id, kind, target, digest, step, requested_at, counts, receipt, finished_at
FROM erasures
WHERE tenant_id = $1 AND erasure_id = $2;

-- name: erasures_taken_out
-- Those of these jobs that are done with taking away.
-- $1 tenant uuid, $2 erasure_ids uuid[]
-- Uses: erasures_pkey. Rows: erasure_id.
SELECT erasure_id
FROM erasures
WHERE tenant_id = $1 AND erasure_id = ANY ($2) AND step NOT IN ('asked', 'marked');

-- name: erasures_newest
-- Jobs of a tenant, the newest first, without what they are about.
-- $1 tenant uuid, $2 before uuid, $3 limit int8
-- Uses: erasures_pkey. Rows: erasure_id, kind, step, requested_at, finished_at, complete.
SELECT erasure_id, kind, step, requested_at, finished_at, (receipt ->> 'complete')::bool AS complete
FROM erasures
WHERE tenant_id = $1 AND erasure_id < $2
ORDER BY erasure_id DESC
LIMIT $3;

-- name: open_erasures
-- Jobs that have not ended, oldest first: their ids are ordered by time.
-- $1 after uuid, $2 limit int8
-- Uses: none. Rows: tenant_id, erasure_id.
SELECT tenant_id, erasure_id
FROM erasures
WHERE finished_at IS NULL AND erasure_id > $1
ORDER BY erasure_id
LIMIT $2;

-- name: advance_erasure
-- A step is done, and this was counted.
-- $1 tenant uuid, $2 erasure_id uuid, $3 step text, $4 counts jsonb
-- Uses: erasures_pkey. Rows: none.
UPDATE erasures
SET step = $3, counts = $4
WHERE tenant_id = $1 AND erasure_id = $2;

-- name: count_erasure
-- So much more of this was counted.
-- $1 tenant uuid, $2 erasure_id uuid, $3 what text, $4 more int8
-- Uses: erasures_pkey. Rows: none.
UPDATE erasures
SET counts = counts || jsonb_build_object($3::text, coalesce((counts ->> $3)::int8, 0) + $4)
WHERE tenant_id = $1 AND erasure_id = $2;

-- name: end_erasure
-- A job has ended: what it was about is known by its digest only.
-- $1 tenant uuid, $2 erasure_id uuid, $3 receipt jsonb, $4 now timestamptz
-- Uses: erasures_pkey. Rows: none.
UPDATE erasures
SET step = 'ended', target = NULL, receipt = $3, finished_at = $4
WHERE tenant_id = $1 AND erasure_id = $2;

-- name: note_receipt
-- The receipt of a job that has ended, signed anew.
-- $1 tenant uuid, $2 erasure_id uuid, $3 receipt jsonb
-- Uses: erasures_pkey. Rows: none.
UPDATE erasures
SET receipt = $3
WHERE tenant_id = $1 AND erasure_id = $2;

-- name: add_erasure_items
-- What a job is about. The arrays go pairwise.
-- $1 tenant uuid, $2 erasure_id uuid, $3 kinds text[], $4 items text[], $5 scope_ids int8[]
-- Uses: erasure_items_pkey. Rows: none.
INSERT INTO erasure_items (tenant_id, erasure_id, kind, item, scope_id)
SELECT $1::uuid, $2::uuid, w.kind, w.item, w.scope_id
FROM unnest($3::text[], $4::text[], $5::int8[]) AS w (kind, item, scope_id)
ON CONFLICT (tenant_id, erasure_id, kind, item) DO NOTHING;

-- name: erasure_items_of
-- What a job is about.
-- $1 tenant uuid, $2 erasure_id uuid
-- Uses: erasure_items_pkey. Rows: kind, item, scope_id.
SELECT kind, item, scope_id
FROM erasure_items
WHERE tenant_id = $1 AND erasure_id = $2;

-- name: drop_erasure_item
-- One thing of a job is done.
-- $1 tenant uuid, $2 erasure_id uuid, $3 kind text, $4 item text
-- Uses: erasure_items_pkey. Rows: none.
DELETE FROM erasure_items
WHERE tenant_id = $1 AND erasure_id = $2 AND kind = $3 AND item = $4;

-- name: drop_erasure_items
-- All of a job's things.
-- $1 tenant uuid, $2 erasure_id uuid
-- Uses: erasure_items_pkey. Rows: none.
DELETE FROM erasure_items
WHERE tenant_id = $1 AND erasure_id = $2;

-- ---------------------------------------------------------------- tombstones

-- name: add_tombstones
-- What must not come back; a later time counts. The arrays go pairwise.
-- $1 tenant uuid, $2 kinds text[], $3 digests bytea[], $4 now timestamptz
-- Uses: tombstones_pkey. Rows: none.
INSERT INTO tombstones AS t (tenant_id, kind, digest, created_at)
SELECT DISTINCT $1::uuid, w.kind, w.digest, $4::timestamptz
FROM unnest($2::text[], $3::bytea[]) AS w (kind, digest)
ON CONFLICT (tenant_id, kind, digest) DO UPDATE
SET created_at = greatest(t.created_at, excluded.created_at);

-- name: tombstones_since
-- Every tombstone of a tenant made at or after a moment.
-- $1 tenant uuid, $2 since timestamptz
-- Uses: none. Rows: kind, digest, created_at.
SELECT kind, digest, created_at
FROM tombstones
WHERE tenant_id = $1 AND created_at >= $2;

-- name: current_transaction
-- The number of this transaction.
-- Uses: none. Rows: number.
SELECT pg_current_xact_id()::text::int8 AS number;

-- name: oldest_transaction
-- The number of the oldest transaction that runs.
-- Uses: none. Rows: number.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8 AS number;

-- ---------------------------------------------------------------- what is meant

-- name: scopes_named
-- The scopes of a user, or of a project; the other name is null.
-- $1 tenant uuid, $2 user text, $3 project text
-- Uses: none. Rows: scope_id, user_name, project, agent, visibility.
SELECT scope_id, user_name, project, agent, visibility
FROM scopes
WHERE tenant_id = $1 AND (user_name = $2 OR project = $3);

-- name: scopes_by_id
-- The names of these scopes.
-- $1 tenant uuid, $2 scope_ids int8[]
-- Uses: scopes_pkey. Rows: scope_id, user_name, project, agent, visibility.
SELECT scope_id, user_name, project, agent, visibility
FROM scopes
WHERE tenant_id = $1 AND scope_id = ANY ($2);

-- name: all_scopes
-- Every scope of a tenant.
-- $1 tenant uuid
-- Uses: none. Rows: scope_id, user_name, project, agent, visibility.
SELECT scope_id, user_name, project, agent, visibility
FROM scopes
WHERE tenant_id = $1
ORDER BY scope_id;

-- name: all_scope_ids
-- The ids of every scope of a tenant, as one value: nothing is made out of it row by row.
-- $1 tenant uuid
-- Uses: none. Rows: scope_ids.
SELECT ARRAY(SELECT scope_id FROM scopes WHERE tenant_id = $1 ORDER BY scope_id) AS scope_ids;

-- name: labels_of_scopes
-- The labels of the sessions of these scopes.
-- $1 tenant uuid, $2 scope_ids int8[]
-- Uses: none. Rows: session_id, scope_id, label.
SELECT session_id, scope_id, label
FROM sessions
WHERE tenant_id = $1 AND scope_id = ANY ($2);

-- name: session_to_erase
-- A session by its label.
-- $1 tenant uuid, $2 scope_id int8, $3 label text
-- Uses: sessions_tenant_id_scope_id_label_key. Rows: session_id.
SELECT session_id
FROM sessions
WHERE tenant_id = $1 AND scope_id = $2 AND label = $3;

-- name: turns_of_source
-- The turn that a client calls by this name, and that which has this id: what has no name of its own is called by its id
-- (`source_ids`).
-- $1 tenant uuid, $2 scope_id int8, $3 source_id text, $4 event_id uuid
-- Uses: turns_source, turns_pkey. Rows: event_id.
SELECT event_id
FROM turns
WHERE tenant_id = $1 AND scope_id = $2 AND source_id = $3
UNION
SELECT event_id
FROM turns
WHERE tenant_id = $1 AND scope_id = $2 AND event_id = $4;

-- name: turns_behind
-- The turns of a scope that these memories of it rest on, through whatever memories of it lie between. An edge lies where
-- what was made lies: from a copy it leads to its source in another scope, and from there no further.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 scope_id int8
-- Uses: derivations_pkey. Rows: event_id.
WITH RECURSIVE up (id, kind) AS (
    SELECT w.id, 'memory' FROM unnest($2::uuid[]) AS w (id)
    UNION
    SELECT d.source_id, d.source_kind
    FROM up
    CROSS JOIN LATERAL (
        SELECT source_id, source_kind, scope_id FROM derivations WHERE tenant_id = $1 AND derived_id = up.id OFFSET 0) d
    WHERE up.kind = 'memory' AND d.scope_id = $3)
SELECT id AS event_id
FROM up
WHERE kind = 'turn';

-- name: made_of
-- The memories that anything of these turns and memories went into, through whatever memories lie between; and these.
-- Each is looked up by itself: joined, the scopes that are seen seem to the planner to hold next to nothing, and of whoever
-- sees all of a tenant's it would go through every edge that there is.
-- $1 tenant uuid, $2 ids uuid[]
-- Uses: derivations_of_source, memories_pkey. Rows: memory_id, scope_id, kind, collection, session_id.
WITH RECURSIVE down (id) AS (
    SELECT w.id FROM unnest($2::uuid[]) AS w (id)
    UNION
    SELECT d.derived_id
    FROM down
    CROSS JOIN LATERAL (SELECT derived_id FROM derivations WHERE tenant_id = $1 AND source_id = down.id OFFSET 0) d)
SELECT m.memory_id, m.scope_id, m.kind, m.collection, m.session_id
FROM down
CROSS JOIN LATERAL (
    SELECT memory_id, scope_id, kind, collection, session_id
    FROM memories
    WHERE tenant_id = $1 AND memory_id = down.id
    LIMIT 1) m;

-- name: made_elsewhere
-- What was made of any of these turns and memories in the scopes that are seen: an edge lies where what was made lies.
-- $1 tenant uuid, $2 ids uuid[]
-- Uses: derivations_of_source. Rows: derived_id.
SELECT d.derived_id
FROM unnest($2::uuid[]) AS w (id)
CROSS JOIN LATERAL (SELECT derived_id FROM derivations WHERE tenant_id = $1 AND source_id = w.id OFFSET 0) d;

-- name: memories_of_scopes
-- All memories of these scopes, as `made_of` has them.
-- $1 tenant uuid, $2 scope_ids int8[]
-- Uses: none. Rows: memory_id, scope_id, kind, collection, session_id.
SELECT memory_id, scope_id, kind, collection, session_id
FROM memories
WHERE tenant_id = $1 AND scope_id = ANY ($2);

-- name: memories_of_sessions
-- The ids of all memories of these sessions.
-- $1 tenant uuid, $2 session_ids uuid[]
-- Uses: memories_of_session. Rows: memory_id, scope_id.
SELECT memory_id, scope_id
FROM memories
WHERE tenant_id = $1 AND session_id = ANY ($2);

-- name: known_memory
-- Whether a scope holds a memory.
-- $1 tenant uuid, $2 scope_id int8, $3 memory_id uuid
-- Uses: memories_pkey. Rows: memory_id.
SELECT memory_id
FROM memories
WHERE tenant_id = $1 AND memory_id = $3 AND scope_id = $2;

-- name: labels_to_erase
-- How these memories and turns are labelled now, and, without ids, what these sessions hold of each label. Each is looked up
-- by itself: else all of a scope that seemed to hold next to nothing is gone through.
-- $1 tenant uuid, $2 ids uuid[], $3 session_ids uuid[]
-- Uses: memories_pkey, memory_versions_pkey, turns_pkey, memories_of_session, turns_siblings. Rows: kind, item_id,
-- sensitivity, session_id.
SELECT 'memory' AS kind, m.memory_id AS item_id, v.sensitivity, m.session_id
FROM unnest($2::uuid[]) AS w (id)
CROSS JOIN LATERAL (
    SELECT memory_id, version, session_id FROM memories WHERE tenant_id = $1 AND memory_id = w.id LIMIT 1) m
CROSS JOIN LATERAL (
    SELECT sensitivity
    FROM memory_versions
    WHERE tenant_id = $1 AND memory_id = m.memory_id AND version = m.version
    LIMIT 1) v
UNION ALL
SELECT 'turn', t.event_id, t.sensitivity, t.session_id
FROM unnest($2::uuid[]) AS w (id)
CROSS JOIN LATERAL (
    SELECT event_id, sensitivity, session_id FROM turns WHERE tenant_id = $1 AND event_id = w.id LIMIT 1) t
UNION ALL
SELECT DISTINCT 'memory', NULL::uuid, v.sensitivity, m.session_id
FROM unnest($3::uuid[]) AS w (session_id)
CROSS JOIN LATERAL (
    SELECT memory_id, version, session_id FROM memories WHERE tenant_id = $1 AND session_id = w.session_id OFFSET 0) m
CROSS JOIN LATERAL (
    SELECT sensitivity
    FROM memory_versions
    WHERE tenant_id = $1 AND memory_id = m.memory_id AND version = m.version
    LIMIT 1) v
UNION ALL
SELECT DISTINCT 'turn', NULL::uuid, t.sensitivity, t.session_id
FROM unnest($3::uuid[]) AS w (session_id)
CROSS JOIN LATERAL (
    SELECT sensitivity, session_id FROM turns WHERE tenant_id = $1 AND session_id = w.session_id OFFSET 0) t;

-- name: turns_to_erase
-- These turns, with their words. Each is looked up by itself: else all of a scope that seemed to hold next to nothing were
-- gone through for a page of it.
-- $1 tenant uuid, $2 event_ids uuid[]
-- Uses: turns_pkey.
-- Rows: event_id, scope_id, session_id, exchange_id, chain, role, source_id, line_digest, name, content, came.
SELECT t.event_id, t.scope_id, t.session_id, t.exchange_id, t.chain, t.role, t.source_id, t.line_digest, t.name, t.content,
       least(t.occurred_at, t.recorded_at) AS came
FROM unnest($2::uuid[]) AS w (event_id)
CROSS JOIN LATERAL (SELECT * FROM turns WHERE tenant_id = $1 AND event_id = w.event_id LIMIT 1) t;

-- name: turns_gone
-- The turns of these scopes, or of these sessions, or these themselves: where each stands, not what it says.
-- $1 tenant uuid, $2 scope_ids int8[], $3 session_ids uuid[], $4 event_ids uuid[]
-- Uses: turns_in_order, turns_siblings, turns_pkey. Rows: event_id, scope_id, session_id, chain.
SELECT event_id, scope_id, session_id, chain
FROM turns
WHERE tenant_id = $1 AND scope_id = ANY ($2)
UNION
SELECT event_id, scope_id, session_id, chain
FROM turns
WHERE tenant_id = $1 AND session_id = ANY ($3)
UNION
SELECT event_id, scope_id, session_id, chain
FROM turns
WHERE tenant_id = $1 AND event_id = ANY ($4);

-- name: newer_than
-- Where in these scopes there is anything that came after a moment and was not made of turns.
-- $1 tenant uuid, $2 scope_ids int8[], $3 until timestamptz
-- Uses: none. Rows: scope_id, session_id.
SELECT scope_id, session_id FROM turns
WHERE tenant_id = $1 AND scope_id = ANY ($2) AND least(occurred_at, recorded_at) > $3
UNION
SELECT scope_id, session_id FROM exchanges
WHERE tenant_id = $1 AND scope_id = ANY ($2) AND arrived_at > $3 AND origin = 'live'
UNION
SELECT m.scope_id, m.session_id FROM memories m
WHERE m.tenant_id = $1 AND m.scope_id = ANY ($2) AND m.created_at > $3
  AND NOT EXISTS (SELECT FROM derivations d WHERE d.tenant_id = $1 AND d.derived_id = m.memory_id)
UNION
SELECT scope_id, session_id FROM checkpoints WHERE tenant_id = $1 AND scope_id = ANY ($2) AND created_at > $3
UNION
SELECT scope_id, NULL FROM document_uploads WHERE tenant_id = $1 AND scope_id = ANY ($2) AND created_at > $3;

-- name: turns_until
-- The turns of these scopes and of these sessions that came by a moment, and these themselves.
-- $1 tenant uuid, $2 scope_ids int8[], $3 session_ids uuid[], $4 event_ids uuid[], $5 until timestamptz
-- Uses: none. Rows: event_id, scope_id.
SELECT event_id, scope_id
FROM turns
WHERE tenant_id = $1
  AND ((scope_id = ANY ($2) OR session_id = ANY ($3)) AND least(occurred_at, recorded_at) <= $5
    OR event_id = ANY ($4));

-- name: memories_until
-- The memories of these scopes and of these sessions that were stored by a moment, and these themselves. Not what tells
-- a session: it goes with the session's turns, and another made anew has its id.
-- $1 tenant uuid, $2 scope_ids int8[], $3 session_ids uuid[], $4 memory_ids uuid[], $5 until timestamptz
-- Uses: none. Rows: memory_id, scope_id.
SELECT memory_id, scope_id
FROM memories
WHERE tenant_id = $1
  AND ((scope_id = ANY ($2) OR session_id = ANY ($3)) AND created_at <= $5
      AND kind <> 'summary' AND collection NOT IN ('episode', 'past', 'month')
    OR memory_id = ANY ($4));

-- name: own_ids
-- Memories of these scopes, but for what tells a session: another made anew has its id.
-- $1 tenant uuid, $2 scope_ids int8[]
-- Uses: none. Rows: memory_id, scope_id, created_at.
SELECT memory_id, scope_id, created_at
FROM memories
WHERE tenant_id = $1 AND scope_id = ANY ($2) AND kind <> 'summary' AND collection NOT IN ('episode', 'past', 'month');

-- name: versions_to_erase
-- All that these memories have ever said. `own`: no turn says it; it was made of nothing, or a person put it in the place of
-- what was.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memory_versions_pkey, derivations_pkey, provenance_pkey. Rows: memory_id, version, content, own.
SELECT v.memory_id, v.version, v.content,
       NOT EXISTS (SELECT FROM derivations d WHERE d.tenant_id = $1 AND d.derived_id = v.memory_id)
       OR EXISTS (SELECT FROM provenance p
                  JOIN memory_versions b ON b.tenant_id = $1 AND b.memory_id = p.memory_id AND b.version = p.version - 1
                  WHERE p.tenant_id = $1 AND p.memory_id = v.memory_id AND p.version = v.version
                    AND p.origin = 'edit' AND b.content <> v.content) AS own
FROM memory_versions v
WHERE v.tenant_id = $1 AND v.memory_id = ANY ($2);

-- ---------------------------------------------------------------- taking it away

-- name: plan_each_time
-- The rest of this transaction plans every statement for its own arguments. An array that the plan knows is looked up in a
-- table; one that it does not know is gone through for each row (10,000 ids and rows: .08 s, and 7 to 19).
-- Uses: none. Rows: set_config.
SELECT set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: plan_as_usual
-- Not any more: what a row's foreign keys ask would be planned for each row, which takes more than the asking. The query
-- that deletes rows plans its own statements for their arguments.
-- Uses: none. Rows: set_config.
SELECT set_config('plan_cache_mode', 'auto', true);

-- name: lock_sessions
-- Sessions, in the order in which everybody locks them.
-- $1 tenant uuid, $2 session_ids uuid[]
-- Uses: none. Rows: session_id, scope_id, label, summary_memory_id, summarised_seq.
SELECT session_id, scope_id, label, summary_memory_id, summarised_seq
FROM sessions
WHERE tenant_id = $1 AND session_id = ANY ($2)
ORDER BY label
FOR UPDATE;

-- name: lock_scopes
-- Keep other writers of these scopes out to the end of the transaction, and give each its next version, before which no
-- index may be.
-- $1 tenant uuid, $2 scope_ids int8[]
-- Uses: scope_versions_pkey. Rows: scope_id, version.
WITH held AS (
    SELECT scope_id
    FROM scope_versions
    WHERE tenant_id = $1 AND scope_id = ANY ($2)
    ORDER BY scope_id
    FOR UPDATE)
UPDATE scope_versions v
SET version = v.version + 1, rebuild_version = v.version + 1
FROM held
WHERE v.tenant_id = $1 AND v.scope_id = held.scope_id
RETURNING v.scope_id, v.version;

-- name: survivors
-- The user's turns besides these that these memories rest on: what was learnt from them is to be learnt anew. Not what is
-- hidden, rejected or held back: it would come back, and visible.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 event_ids uuid[]
-- Uses: derivations_pkey, memories_pkey, memory_versions_pkey, turns_pkey. Rows: event_id, scope_id.
SELECT DISTINCT t.event_id, t.scope_id
FROM memories m
JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.version = m.version
JOIN derivations d ON d.tenant_id = $1 AND d.derived_id = m.memory_id AND d.source_kind = 'turn'
    AND d.source_id <> ALL ($3)
JOIN turns t ON t.tenant_id = $1 AND t.event_id = d.source_id
WHERE m.tenant_id = $1 AND m.memory_id = ANY ($2) AND m.deleted_at IS NULL AND m.quarantined_at IS NULL
  AND v.validation_status <> 'rejected';

-- name: erase_rows
-- Delete the rows of every table whose column `member` has one of these values; how many of each.
-- $1 tenant uuid, $2 member text, $3 values text[]
-- Uses: none. Rows: counts.
SELECT mp_erase_rows($1, $2, $3) AS counts;

-- name: erase_derivations
-- What these went into, or were made of.
-- $1 tenant uuid, $2 ids uuid[]
-- Uses: derivations_of_source, derivations_pkey. Rows: none.
DELETE FROM derivations
WHERE tenant_id = $1 AND (derived_id = ANY ($2) OR source_id = ANY ($2));

-- name: erase_nodes
-- The ledger's nodes at these places of these sessions. The arrays go pairwise.
-- $1 tenant uuid, $2 session_ids uuid[], $3 chains bytea[]
-- Uses: ledger_pkey. Rows: none.
DELETE FROM ledger l
USING unnest($2::uuid[], $3::bytea[]) AS w (session_id, chain)
WHERE l.tenant_id = $1 AND l.session_id = w.session_id AND l.chain = w.chain;

-- name: sum_up_again
-- These sessions have no summary, and get one from their beginning.
-- $1 tenant uuid, $2 session_ids uuid[]
-- Uses: none. Rows: none.
UPDATE sessions
SET summary_memory_id = NULL, summarised_seq = 0
WHERE tenant_id = $1 AND session_id = ANY ($2);

-- name: tell_again
-- These sessions are told in episodes from their beginning.
-- $1 tenant uuid, $2 session_ids uuid[]
-- Uses: none. Rows: none.
UPDATE sessions
SET episode_seq = 0
WHERE tenant_id = $1 AND session_id = ANY ($2);

-- name: told_of_sessions
-- The episodes of these sessions, and the months they are told in.
-- $1 tenant uuid, $2 session_ids uuid[]
-- Uses: memories_of_session. Rows: memory_id, compressed_into.
SELECT memory_id, compressed_into
FROM memories
WHERE tenant_id = $1 AND session_id = ANY ($2) AND collection IN ('episode', 'past');

-- name: uncompress
-- The episodes that these months told stand for themselves again.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_compressed_into. Rows: none.
UPDATE memories
SET compressed_into = NULL
WHERE tenant_id = $1 AND compressed_into = ANY ($2);

-- name: unseal_exchanges
-- Drop the sealed bodies of these sessions: a request holds the history before it.
-- $1 tenant uuid, $2 session_ids uuid[]
-- Uses: exchanges_of_session. Rows: none.
UPDATE exchanges
SET sealed = NULL, sealed_sha256 = NULL, base_id = NULL
WHERE tenant_id = $1 AND session_id = ANY ($2) AND sealed IS NOT NULL;

-- name: unseal_retrievals
-- Drop the sealed questions and blocks of these sessions.
-- $1 tenant uuid, $2 session_ids uuid[]
-- Uses: retrievals_of_session. Rows: none.
UPDATE retrievals
SET sealed = NULL
WHERE tenant_id = $1 AND session_id = ANY ($2) AND sealed IS NOT NULL;

-- name: unname_retrievals
-- Retrievals of these sessions since a moment that named one of these memories do so no more, and what was placed is gone
-- with its text; where one was named only as what says another later, nothing was. `given`: not only so.
-- All that they name is joined to the ids at once: with a table of the ids made anew for each retrieval, 5,000 ids took
-- 3 ms a retrieval.
-- $1 tenant uuid, $2 session_ids uuid[], $3 ids text[], $4 since timestamptz
-- Uses: retrievals_of_session. Rows: retrieval_id, session_id, exchange_id, given.
WITH naming AS MATERIALIZED (
    SELECT n.retrieval_id, bool_or(n.given) AS given
    FROM (
        SELECT r.retrieval_id, w.named, w.given
        FROM retrievals r
        CROSS JOIN jsonb_array_elements(r.candidates) AS c
        CROSS JOIN LATERAL (VALUES (c ->> 'id', true), (c ->> 'later', false)) AS w (named, given)
        WHERE r.tenant_id = $1 AND r.session_id = ANY ($2) AND r.created_at >= $4
        UNION ALL
        SELECT r.retrieval_id, one, true
        FROM retrievals r
        CROSS JOIN jsonb_array_elements(r.placements) AS p
        CROSS JOIN jsonb_array_elements_text(coalesce(p -> 'memory_ids', '[]')) AS one
        WHERE r.tenant_id = $1 AND r.session_id = ANY ($2) AND r.created_at >= $4
        OFFSET 0) n
    WHERE n.named IN (SELECT unnest($3::text[]))
    GROUP BY n.retrieval_id)
UPDATE retrievals r
SET candidates = coalesce((
        SELECT jsonb_agg(CASE WHEN c ->> 'later' = ANY ($3) THEN c || '{"later": null}' ELSE c END)
        FROM jsonb_array_elements(r.candidates) AS c WHERE NOT (c ->> 'id' = ANY ($3))), '[]'),
    placements = coalesce((
        SELECT jsonb_agg(p) FROM jsonb_array_elements(r.placements) AS p
        WHERE NOT coalesce(p -> 'memory_ids', '[]') ?| $3), '[]'),
    sealed = CASE WHEN naming.given THEN NULL ELSE r.sealed END
FROM naming
WHERE r.tenant_id = $1 AND r.session_id = ANY ($2) AND r.created_at >= $4 AND r.retrieval_id = naming.retrieval_id
RETURNING r.retrieval_id, r.session_id, r.exchange_id, naming.given;

-- name: withdraw_nodes
-- What these retrievals of these sessions placed is never sent again. A place that is no message's (-1) quotes nothing: what
-- says from where on a conversation is sent stays.
-- $1 tenant uuid, $2 session_ids uuid[], $3 retrieval_ids uuid[], $4 now timestamptz
-- Uses: ledger_pkey. Rows: none.
UPDATE ledger
SET placed_sealed = NULL, placed_sha256 = NULL, withdrawn_at = $4
WHERE tenant_id = $1 AND session_id = ANY ($2) AND retrieval_id = ANY ($3) AND position >= 0;

-- name: bare_events
-- Of these memories the feed keeps that they were there and went.
-- $1 tenant uuid, $2 scope_ids int8[], $3 memory_ids uuid[]
-- Uses: outbox_pkey. Rows: none.
UPDATE outbox
SET metadata = '{}'
WHERE tenant_id = $1 AND scope_id = ANY ($2) AND object_id = ANY ($3) AND event <> 'erased' AND metadata <> '{}';

-- name: stood_behind
-- What stays of that which one of these memories had taken the place of.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_superseded_by. Rows: memory_id.
SELECT memory_id
FROM memories
WHERE tenant_id = $1 AND superseded_by = ANY ($2) AND memory_id <> ALL ($2);

-- name: stand_behind_none
-- What was not ruled on anew, being hidden or no fact any more, stands behind none of those that go either.
-- $1 tenant uuid, $2 gone_ids uuid[], $3 changed_version int8
-- Uses: memories_superseded_by. Rows: none.
UPDATE memories
SET superseded_by = NULL, superseded_reason = NULL, superseded_at = NULL, changed_version = $3
WHERE tenant_id = $1 AND superseded_by = ANY ($2) AND memory_id <> ALL ($2);

-- name: unname_successors
-- What one of these memories had taken the place of does not name it any more.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memory_versions_superseded_by. Rows: none.
UPDATE memory_versions
SET superseded_by = NULL
WHERE tenant_id = $1 AND superseded_by = ANY ($2);

-- name: unname_events
-- Events of other memories that name one of these ids do so no more, as what they tell or as who did it.
-- $1 tenant uuid, $2 scope_ids int8[], $3 ids text[]
-- Uses: outbox_pkey. Rows: none.
UPDATE outbox o
SET metadata = '{}', caused_by = CASE WHEN caused_by = ANY ($3) THEN NULL ELSE caused_by END
WHERE tenant_id = $1 AND scope_id = ANY ($2)
  AND (caused_by = ANY ($3) OR EXISTS (SELECT FROM jsonb_each_text(o.metadata) AS said WHERE said.value = ANY ($3)));

-- name: erase_empty_exchanges
-- Exchanges of these sessions that no turn is left of. Told apart as two sets: looked for one by one, whose turns are
-- those of one session of 20,000, they took minutes wherever the planner had no statistics yet.
-- $1 tenant uuid, $2 session_ids uuid[]
-- Uses: exchanges_of_session, exchanges_pkey. Rows: exchange_id.
DELETE FROM exchanges e
USING (
    SELECT session_id, exchange_id FROM exchanges WHERE tenant_id = $1 AND session_id = ANY ($2)
    EXCEPT
    SELECT session_id, exchange_id FROM turns WHERE tenant_id = $1 AND session_id = ANY ($2)) w
WHERE e.tenant_id = $1 AND e.exchange_id = w.exchange_id
RETURNING e.exchange_id;

-- name: forget_where_shown
-- Documents that were given in these conversations stay and were given in none.
-- $1 tenant uuid, $2 session_ids uuid[]
-- Uses: documents_shown_in. Rows: none.
UPDATE documents
SET shown_in = NULL
WHERE tenant_id = $1 AND shown_in = ANY ($2);

-- name: erase_empty_documents
-- Documents of these scopes of which something was stored and no chunk is left, with their uploads; one whose next version
-- waits to be stored stays.
-- $1 tenant uuid, $2 scope_ids int8[]
-- Uses: documents_recent, document_chunks_pkey, document_uploads_of_document. Rows: document_id.
DELETE FROM documents d
WHERE d.tenant_id = $1 AND d.scope_id = ANY ($2) AND d.version > 0
  AND NOT EXISTS (SELECT FROM document_chunks c WHERE c.tenant_id = $1 AND c.document_id = d.document_id)
  AND NOT EXISTS (
      SELECT FROM document_uploads u
      WHERE u.tenant_id = $1 AND u.document_id = d.document_id AND u.sealed IS NOT NULL)
RETURNING document_id;

-- name: erase_bare_checkpoints
-- Checkpoints of these scopes, or saved from these sessions, that were made by a moment and of which no part is left.
-- $1 tenant uuid, $2 scope_ids int8[], $3 session_ids uuid[], $4 until timestamptz
-- Uses: none. Rows: checkpoint_id.
DELETE FROM checkpoints c
WHERE c.tenant_id = $1 AND (c.scope_id = ANY ($2) OR c.session_id = ANY ($3)) AND c.created_at <= $4
  AND NOT EXISTS (SELECT FROM checkpoint_parts p WHERE p.tenant_id = $1 AND p.checkpoint_id = c.checkpoint_id)
RETURNING checkpoint_id;

-- name: erase_bare_documents
-- Documents of these scopes that were given by a moment and of which neither a chunk nor a newer upload is left, with
-- their uploads.
-- $1 tenant uuid, $2 scope_ids int8[], $3 until timestamptz
-- Uses: none. Rows: document_id.
DELETE FROM documents d
WHERE d.tenant_id = $1 AND d.scope_id = ANY ($2) AND d.created_at <= $3
  AND NOT EXISTS (SELECT FROM document_chunks c WHERE c.tenant_id = $1 AND c.document_id = d.document_id)
  AND NOT EXISTS (
      SELECT FROM document_uploads u
      WHERE u.tenant_id = $1 AND u.document_id = d.document_id AND u.created_at > $3)
RETURNING document_id;

-- name: erase_import_chunks
-- What imports into these scopes said by a moment.
-- $1 tenant uuid, $2 scope_ids int8[], $3 until timestamptz
-- Uses: none. Rows: none.
DELETE FROM import_chunks
WHERE tenant_id = $1 AND scope_id = ANY ($2) AND created_at <= $3;

-- ---------------------------------------------------------------- users

-- name: retire_keys
-- The keys of a subject seal nothing more.
-- $1 tenant uuid, $2 subject_id uuid, $3 now timestamptz
-- Uses: data_keys_current. Rows: key_id.
UPDATE data_keys
SET retired_at = $3
WHERE tenant_id = $1 AND subject_id = $2 AND retired_at IS NULL AND shredded_at IS NULL
RETURNING key_id;

-- name: keys_retired
-- Keys of a subject that are not shredded and not in use.
-- $1 tenant uuid, $2 subject_id uuid
-- Uses: none. Rows: key_id.
SELECT key_id
FROM data_keys
WHERE tenant_id = $1 AND subject_id = $2 AND retired_at IS NOT NULL AND shredded_at IS NULL;

-- name: shred_keys
-- What these keys sealed can never be read again.
-- $1 tenant uuid, $2 key_ids uuid[], $3 now timestamptz
-- Uses: data_keys_pkey. Rows: none.
UPDATE data_keys
SET wrapped = NULL, shredded_at = $3
WHERE tenant_id = $1 AND key_id = ANY ($2) AND shredded_at IS NULL;

-- name: erase_subject
-- A user's name, unless the user has come back.
-- $1 tenant uuid, $2 user text
-- Uses: subjects_tenant_id_user_name_key. Rows: none.
DELETE FROM subjects s
WHERE s.tenant_id = $1 AND s.user_name = $2
  AND NOT EXISTS (SELECT FROM scopes c WHERE c.tenant_id = $1 AND c.user_name = $2);

-- name: salt_generation
-- By which number a tenant's cache_salt is made.
-- $1 tenant uuid
-- Uses: tenants_pkey. Rows: salt_generation.
SELECT salt_generation
FROM tenants
WHERE tenant_id = $1;

-- name: rotate_salt
-- The next number, unless the last came so lately.
-- $1 tenant uuid, $2 now timestamptz, $3 before timestamptz
-- Uses: tenants_pkey. Rows: salt_generation.
UPDATE tenants
SET salt_generation = salt_generation + 1, salt_rotated_at = $2
WHERE tenant_id = $1 AND (salt_rotated_at IS NULL OR salt_rotated_at < $3)
RETURNING salt_generation;

-- ---------------------------------------------------------------- values behind tokens

-- name: tokens_of_scopes
-- The tokens that a value is kept of in these scopes.
-- $1 tenant uuid, $2 scope_ids int8[]
-- Uses: personal_tokens_pkey. Rows: token.
SELECT DISTINCT token
FROM personal_tokens
WHERE tenant_id = $1 AND scope_id = ANY ($2);

-- name: turns_with_tokens
-- Turns of a scope behind a cursor, with their words where these may hold a token: one stands there, or they are sealed. Of
-- the others rows come out without them.
-- $1 tenant uuid, $2 scope_id int8, $3 session_id uuid, $4 seq int8, $5 limit int8
-- Uses: turns_in_order. Rows: session_id, seq, event_id, name, content, tool_calls, parts.
SELECT t.session_id, t.seq, t.event_id, CASE WHEN t.may THEN t.name END AS name,
       CASE WHEN t.may THEN t.content END AS content, CASE WHEN t.may THEN t.tool_calls END AS tool_calls,
       CASE WHEN t.may THEN t.parts END AS parts
FROM (SELECT *, concat_ws(' ', name, content, tool_calls, parts) ~ '\[kept:|mp-sealed' AS may
      FROM turns
      WHERE tenant_id = $1 AND scope_id = $2 AND (session_id, seq) > ($3, $4)
      ORDER BY session_id, seq
      LIMIT $5) t;

-- name: versions_with_tokens
-- All versions of the memories of a scope behind a cursor, oldest first, with their words where these may hold a token. Those
-- of each are looked up by itself: joined, all of a scope were read for each page (100,000: 10 ms a page, and now 3).
-- $1 tenant uuid, $2 scope_id int8, $3 created_at timestamptz, $4 memory_id uuid, $5 limit int8
-- Uses: memories_recent, memory_versions_pkey. Rows: created_at, memory_id, version, content, attributes.
SELECT m.created_at, m.memory_id, v.version, CASE WHEN t.may THEN v.content END AS content,
       CASE WHEN t.may THEN v.attributes END AS attributes
FROM (SELECT memory_id, created_at
      FROM memories
      WHERE tenant_id = $1 AND scope_id = $2 AND (created_at, memory_id) > ($3, $4)
      ORDER BY created_at, memory_id
      LIMIT $5) m
CROSS JOIN LATERAL (
    SELECT version, content, attributes FROM memory_versions WHERE tenant_id = $1 AND memory_id = m.memory_id OFFSET 0) v
CROSS JOIN LATERAL (SELECT concat_ws(' ', v.content, v.attributes) ~ '\[kept:|mp-sealed' AS may) t
ORDER BY m.created_at, m.memory_id, v.version;

-- name: take_tokens
-- The values of these tokens go, locked in everybody's order.
-- $1 tenant uuid, $2 scope_ids int8[], $3 tokens text[]
-- Uses: personal_tokens_pkey. Rows: scope_id, token, subject_id, kind, sealed, created_at.
WITH held AS (
    SELECT scope_id, token
    FROM personal_tokens
    WHERE tenant_id = $1 AND scope_id = ANY ($2) AND token = ANY ($3)
    ORDER BY scope_id, token
    FOR UPDATE)
DELETE FROM personal_tokens t
USING held
WHERE t.tenant_id = $1 AND t.scope_id = held.scope_id AND t.token = held.token
RETURNING t.scope_id, t.token, t.subject_id, t.kind, t.sealed, t.created_at;

-- ---------------------------------------------------------------- made anew

-- name: session_to_sum_up
-- A session by its id.
-- $1 tenant uuid, $2 session_id uuid
-- Uses: sessions_pkey. Rows: session_id, scope_id, label.
SELECT session_id, scope_id, label
FROM sessions
WHERE tenant_id = $1 AND session_id = $2;

-- name: turns_to_learn
-- Turns as a fact rests on them. Not those that a person hid or rejected or that are held back, nor those that are sealed.
-- What something took the place of may be learnt: it is ruled on anew.
-- $1 tenant uuid, $2 event_ids uuid[]
-- Uses: turns_pkey, derivations_of_source, untold_turns_pkey. Rows: event_id, session_id, exchange_id, seq, chain,
-- parent_chain, role, name, content, source_id, line_digest, origin, integrity, sensitivity, model, redactions,
-- token_count, occurred_at, language.
SELECT event_id, session_id, exchange_id, seq, chain, parent_chain, role, name, content, source_id, line_digest, origin,
       integrity, sensitivity, model, redactions, token_count, occurred_at, language
FROM turns
WHERE tenant_id = $1 AND event_id = ANY ($2)
  AND sensitivity IN ('public', 'internal')
  AND NOT {withheld(turns.event_id)}
ORDER BY session_id, seq;

-- name: turns_missing
-- Those of these turns that are not there any more. Each is looked up by itself: joined, every turn of whoever has a hundred
-- thousand was held against each.
-- $1 tenant uuid, $2 event_ids uuid[]
-- Uses: turns_pkey. Rows: event_id.
SELECT w.event_id
FROM unnest($2::uuid[]) AS w (event_id)
WHERE NOT EXISTS (SELECT FROM turns WHERE tenant_id = $1 AND event_id = w.event_id OFFSET 0)
LIMIT 1;

-- ---------------------------------------------------------------- the probe

-- name: columns_to_probe
-- Every column of this database that may hold words or ids, with how it is read.
-- Uses: none. Rows: table_name, column_name, type_name.
SELECT c.relname::text AS table_name, a.attname::text AS column_name, format_type(a.atttypid, NULL) AS type_name
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND has_table_privilege(c.oid, 'SELECT')
  AND format_type(a.atttypid, NULL) IN ('text', 'jsonb', 'json', 'bytea', 'uuid', 'text[]', 'uuid[]',
                                        'character varying')
ORDER BY c.relname, a.attnum;

-- name: answers_given
-- The answers to requests of these sessions since a moment that were given one of these memories, with their words. As
-- sets, like unname_retrievals: there is no index of turns by exchange. A block that another memory of it has taken along
-- stands in no placement any more (`taken`): what was placed newly is among the candidates, too, and every answer behind
-- may have been given it again.
-- $1 tenant uuid, $2 session_ids uuid[], $3 ids text[], $4 since timestamptz
-- Uses: retrievals_of_session, turns_siblings. Rows: event_id, scope_id, content.
WITH giving AS MATERIALIZED (
    SELECT n.session_id, n.exchange_id, n.named, bool_and(n.taken) AS taken
    FROM (
        SELECT r.session_id, r.exchange_id, one AS named, false AS taken
        FROM retrievals r
        CROSS JOIN jsonb_array_elements(r.placements) AS p
        CROSS JOIN jsonb_array_elements_text(coalesce(p -> 'memory_ids', '[]')) AS one
        WHERE r.tenant_id = $1 AND r.session_id = ANY ($2) AND r.created_at >= $4
        UNION ALL
        SELECT r.session_id, r.exchange_id, c ->> 'id', true
        FROM retrievals r
        CROSS JOIN jsonb_array_elements(r.candidates) AS c
        WHERE r.tenant_id = $1 AND r.session_id = ANY ($2) AND r.created_at >= $4 AND c ->> 'injected' = 'true'
        OFFSET 0) n
    WHERE n.named IN (SELECT unnest($3::text[]))
    GROUP BY n.session_id, n.exchange_id, n.named),
again AS MATERIALIZED (
    SELECT t.session_id, min(t.seq) AS seq
    FROM turns t
    WHERE t.tenant_id = $1 AND t.session_id = ANY (ARRAY(SELECT session_id FROM giving WHERE taken))
      AND ((t.session_id, t.exchange_id) IN (SELECT session_id, exchange_id FROM giving WHERE taken)) IS TRUE
    GROUP BY t.session_id)
SELECT t.event_id, t.scope_id, t.content
FROM turns t
LEFT JOIN again a ON a.session_id = t.session_id
WHERE t.tenant_id = $1 AND t.session_id = ANY (ARRAY(SELECT session_id FROM giving)) AND t.role = 'assistant'
  AND (t.seq > a.seq OR ((t.session_id, t.exchange_id) IN (SELECT session_id, exchange_id FROM giving)) IS TRUE);

-- name: said_beside
-- The conversations of these turns, with their words. `behind`: it stands behind the first of them that no model said.
-- $1 tenant uuid, $2 event_ids uuid[]
-- Uses: turns_pkey, turns_siblings. Rows: event_id, scope_id, role, content, behind.
WITH said AS MATERIALIZED (
    SELECT session_id, min(seq) AS seq
    FROM turns
    WHERE tenant_id = $1 AND event_id = ANY ($2) AND role <> 'assistant'
    GROUP BY session_id)
SELECT a.event_id, a.scope_id, a.role, a.content, a.seq > s.seq AS behind
FROM said s
CROSS JOIN LATERAL (
    SELECT event_id, scope_id, role, content, seq
    FROM turns
    WHERE tenant_id = $1 AND session_id = s.session_id
    OFFSET 0) a;

-- name: unseal_these
-- Drop the sealed bodies of these exchanges.
-- $1 tenant uuid, $2 exchange_ids uuid[]
-- Uses: exchanges_pkey. Rows: none.
UPDATE exchanges
SET sealed = NULL, sealed_sha256 = NULL, base_id = NULL
WHERE tenant_id = $1 AND exchange_id = ANY ($2) AND sealed IS NOT NULL;

-- name: unseal_told_from
-- Drop the sealed bodies that are told from those of these exchanges, behind `unseal_these`: who stores one holds its base
-- until then, and a statement that has waited for that sees nothing of what was stored meanwhile.
-- $1 tenant uuid, $2 exchange_ids uuid[]
-- Uses: exchanges_deltas. Rows: none.
UPDATE exchanges
SET sealed = NULL, sealed_sha256 = NULL, base_id = NULL
WHERE tenant_id = $1 AND base_id = ANY ($2);
