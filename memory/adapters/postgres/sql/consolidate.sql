-- name: consolidation_runs_recent
-- The latest runs that began by a moment, newest first.
-- $1 limit int8, $2 upto timestamptz
-- Uses: consolidation_runs_recent. Rows: run_id, started_at, finished_at, report.
SELECT run_id, started_at, finished_at, report
FROM consolidation_runs
WHERE started_at <= $2
ORDER BY started_at DESC
LIMIT $1;

-- name: begin_consolidation
-- A new run.
-- $1 run_id uuid, $2 now timestamptz
-- Uses: none. Rows: none.
INSERT INTO consolidation_runs (run_id, started_at)
VALUES ($1, $2);

-- name: end_consolidation
-- A run is done.
-- $1 run_id uuid, $2 now timestamptz, $3 report jsonb
-- Uses: consolidation_runs_pkey. Rows: none.
UPDATE consolidation_runs
SET finished_at = $2, report = $3
WHERE run_id = $1;

-- name: drop_consolidations
-- Runs that began before a moment, with what they noted.
-- $1 before timestamptz
-- Uses: consolidation_runs_recent. Rows: none.
DELETE FROM consolidation_runs
WHERE started_at < $1;

-- name: consolidation_progress_of
-- How far a run is with a tenant.
-- $1 tenant uuid, $2 run_id uuid
-- Uses: consolidation_progress_pkey. Rows: step, after, examined, changed, seconds, finished_at.
SELECT step, after, examined, changed, seconds, finished_at
FROM consolidation_progress
WHERE tenant_id = $1 AND run_id = $2;

-- name: note_progress
-- Some more was looked at or changed; a null place leaves it where it was.
-- $1 tenant uuid, $2 run_id uuid, $3 step text, $4 after jsonb, $5 examined int8, $6 changed int8, $7 seconds float8,
-- $8 finished_at timestamptz
-- Uses: consolidation_progress_pkey. Rows: none.
INSERT INTO consolidation_progress AS p (tenant_id, run_id, step, after, examined, changed, seconds, finished_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (tenant_id, run_id, step) DO UPDATE
SET after = coalesce(excluded.after, p.after), examined = p.examined + excluded.examined,
    changed = p.changed + excluded.changed, seconds = p.seconds + excluded.seconds, finished_at = excluded.finished_at;

-- name: lock_sessions_of_summaries
-- The sessions whose summaries these are, before their scope is locked: everybody locks sessions first, by label.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: sessions_pkey. Rows: session_id.
SELECT s.session_id
FROM memories m
JOIN sessions s ON s.tenant_id = $1 AND s.session_id = m.session_id AND s.summary_memory_id = m.memory_id
WHERE m.tenant_id = $1 AND m.memory_id = ANY ($2) AND m.kind = 'summary'
ORDER BY s.label
FOR UPDATE OF s;

-- name: lock_scope
-- Keep other writers of a scope out to the end of the transaction, without a new version.
-- $1 tenant uuid, $2 scope_id int8
-- Uses: scope_versions_pkey. Rows: version.
SELECT version
FROM scope_versions
WHERE tenant_id = $1 AND scope_id = $2
FOR UPDATE;

-- ---------------------------------------------------------------- what may be due, scope by scope, from a cursor on
-- Of each of these scopes at most so many rows. With one row of many scopes it says which of them hold any at all; a row
-- comparison that takes in the scope would be sorted anew for each page, because of the policy's own list of scopes.

-- name: walk_expired
-- Memories that expired before a moment.
-- $1 tenant uuid, $2 scope_ids int8[], $3 after timestamptz, $4 after_id uuid, $5 limit int8, $6 before timestamptz
-- Uses: memory_versions_expiring. Rows: scope_id, at, memory_id.
SELECT w.scope_id, m.at, m.memory_id
FROM unnest($2::int8[]) AS w (scope_id)
CROSS JOIN LATERAL (
    SELECT expires_at AS at, memory_id
    FROM memory_versions
    WHERE tenant_id = $1 AND scope_id = w.scope_id AND (expires_at, memory_id) > ($3, $4) AND expires_at < $6
      AND expires_at IS NOT NULL AND recorded_to IS NULL
    ORDER BY expires_at, memory_id
    LIMIT $5) m;

-- name: walk_superseded
-- Memories that something took the place of before a moment.
-- $1 tenant uuid, $2 scope_ids int8[], $3 after timestamptz, $4 after_id uuid, $5 limit int8, $6 before timestamptz
-- Uses: memories_superseded. Rows: scope_id, at, memory_id.
SELECT w.scope_id, m.at, m.memory_id
FROM unnest($2::int8[]) AS w (scope_id)
CROSS JOIN LATERAL (
    SELECT superseded_at AS at, memory_id
    FROM memories
    WHERE tenant_id = $1 AND scope_id = w.scope_id AND (superseded_at, memory_id) > ($3, $4) AND superseded_at < $6
      AND superseded_at IS NOT NULL
    ORDER BY superseded_at, memory_id
    LIMIT $5) m;

-- name: walk_pruned
-- Memories that consolidation hid before a moment.
-- $1 tenant uuid, $2 scope_ids int8[], $3 after timestamptz, $4 after_id uuid, $5 limit int8, $6 before timestamptz
-- Uses: memories_pruned. Rows: scope_id, at, memory_id.
SELECT w.scope_id, m.at, m.memory_id
FROM unnest($2::int8[]) AS w (scope_id)
CROSS JOIN LATERAL (
    SELECT pruned_at AS at, memory_id
    FROM memories
    WHERE tenant_id = $1 AND scope_id = w.scope_id AND (pruned_at, memory_id) > ($3, $4) AND pruned_at < $6
      AND pruned_at IS NOT NULL
    ORDER BY pruned_at, memory_id
    LIMIT $5) m;

-- name: walk_facts
-- Facts made before a moment.
-- $1 tenant uuid, $2 scope_ids int8[], $3 after timestamptz, $4 after_id uuid, $5 limit int8, $6 before timestamptz
-- Uses: memories_facts. Rows: scope_id, at, memory_id.
SELECT w.scope_id, m.at, m.memory_id
FROM unnest($2::int8[]) AS w (scope_id)
CROSS JOIN LATERAL (
    SELECT created_at AS at, memory_id
    FROM memories
    WHERE tenant_id = $1 AND scope_id = w.scope_id AND (created_at, memory_id) > ($3, $4) AND created_at < $6
      AND kind = 'semantic'
    ORDER BY created_at, memory_id
    LIMIT $5) m;

-- name: walk_summaries
-- Summaries made before a moment.
-- $1 tenant uuid, $2 scope_ids int8[], $3 after timestamptz, $4 after_id uuid, $5 limit int8, $6 before timestamptz
-- Uses: memories_summaries. Rows: scope_id, at, memory_id.
SELECT w.scope_id, m.at, m.memory_id
FROM unnest($2::int8[]) AS w (scope_id)
CROSS JOIN LATERAL (
    SELECT created_at AS at, memory_id
    FROM memories
    WHERE tenant_id = $1 AND scope_id = w.scope_id AND (created_at, memory_id) > ($3, $4) AND created_at < $6
      AND kind = 'summary'
    ORDER BY created_at, memory_id
    LIMIT $5) m;

-- name: walk_memories
-- All memories, by the scope version at which they changed.
-- $1 tenant uuid, $2 scope_ids int8[], $3 after int8, $4 after_id uuid, $5 limit int8
-- Uses: memories_changed. Rows: scope_id, at, memory_id.
SELECT w.scope_id, m.at, m.memory_id
FROM unnest($2::int8[]) AS w (scope_id)
CROSS JOIN LATERAL (
    SELECT changed_version AS at, memory_id
    FROM memories
    WHERE tenant_id = $1 AND scope_id = w.scope_id AND (changed_version, memory_id) > ($3, $4)
    ORDER BY changed_version, memory_id
    LIMIT $5) m;

-- ---------------------------------------------------------------- which of these are due: asked again under the lock

-- name: due_expired
-- Which of these expired before a moment, and what these have taken the place of, which goes before them: else it would
-- seem to hold again. The deepest first.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 before timestamptz, $4 limit int8
-- Uses: memories_superseded_by. Rows: memory_id.
WITH RECURSIVE gone (memory_id, depth) AS (
    SELECT memory_id, 0
    FROM memory_versions
    WHERE tenant_id = $1 AND memory_id = ANY ($2) AND recorded_to IS NULL AND expires_at < $3
    UNION
    SELECT m.memory_id, g.depth + 1
    FROM gone g
    JOIN memories m ON m.tenant_id = $1 AND m.superseded_by = g.memory_id
    WHERE m.memory_id <> g.memory_id AND g.depth < 1000)
SELECT memory_id
FROM gone
GROUP BY memory_id
ORDER BY max(depth) DESC, memory_id
LIMIT $4;

-- name: due_superseded
-- Which of these may go: superseded before a moment by a memory that is there and is none of `besides` (the nearest to
-- what holds goes first), neither pinned nor confirmed, nor named by a checkpoint, which gives what holds in its place.
-- Their key has seen no correction, since a correction stands against the repetition of all that was said before it; and
-- what took their place was not said before them as well, since then its validity would be told from too early a day. One
-- that stands behind a fact of the same meaning holds its key, so it goes after all that it had taken the place of.
-- Whether a key has seen a correction is asked once for all of its facts: of thousands each would look through all others.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 before timestamptz, $4 limit int8, $5 besides uuid[]
-- Uses: memories_pkey, facts_pkey, facts_of_key, fact_sayings_in_order, memory_versions_current,
-- checkpoint_parts_of_memory. Rows: memory_id.
WITH asked AS MATERIALIZED (
    SELECT m.memory_id, m.superseded_by, m.superseded_reason, m.pinned, f.scope_id, f.subject, f.predicate, f.said_at
    FROM unnest($2::uuid[]) AS w (memory_id)
    CROSS JOIN LATERAL (
        SELECT memory_id, superseded_by, superseded_reason, pinned
        FROM memories
        WHERE tenant_id = $1 AND memory_id = w.memory_id AND superseded_at < $3
        LIMIT 1) m
    CROSS JOIN LATERAL (
        SELECT scope_id, subject, predicate, said_at
        FROM facts
        WHERE tenant_id = $1 AND memory_id = m.memory_id
        LIMIT 1) f),
corrected AS MATERIALIZED (
    SELECT k.scope_id, k.subject, k.predicate
    FROM (SELECT DISTINCT scope_id, subject, predicate FROM asked) k
    CROSS JOIN LATERAL (
        SELECT FROM facts x
        CROSS JOIN LATERAL (
            SELECT FROM fact_sayings
            WHERE tenant_id = $1 AND memory_id = x.memory_id AND correction
            LIMIT 1) y
        WHERE x.tenant_id = $1 AND x.scope_id = k.scope_id AND x.subject = k.subject AND x.predicate = k.predicate
        LIMIT 1) c)
SELECT m.memory_id
FROM asked m
WHERE m.superseded_by <> ALL ($5) AND m.superseded_by <> m.memory_id AND NOT m.pinned
  AND (m.superseded_reason <> 'same meaning' OR NOT EXISTS (
      SELECT FROM memories o WHERE o.tenant_id = $1 AND o.superseded_by = m.memory_id))
  AND EXISTS (SELECT FROM memories s WHERE s.tenant_id = $1 AND s.memory_id = m.superseded_by)
  AND NOT EXISTS (
      SELECT FROM checkpoint_parts p
      JOIN checkpoints c ON c.tenant_id = $1 AND c.checkpoint_id = p.checkpoint_id AND c.deleted_at IS NULL
      WHERE p.tenant_id = $1 AND p.memory_id = m.memory_id)
  AND NOT EXISTS (
      SELECT FROM memory_versions v
      WHERE v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.recorded_to IS NULL
        AND v.validation_status = 'confirmed')
  AND (m.superseded_reason = 'same meaning' OR NOT EXISTS (
      SELECT FROM fact_sayings s
      WHERE s.tenant_id = $1 AND s.memory_id = m.superseded_by AND s.said_at <= m.said_at))
  AND NOT EXISTS (
      SELECT FROM corrected x
      WHERE x.scope_id = m.scope_id AND x.subject = m.subject AND x.predicate = m.predicate)
LIMIT $4;

-- name: due_pruned
-- Which of these were hidden by consolidation before a moment and by nobody else since, and are still hidden.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 before timestamptz, $4 limit int8
-- Uses: memories_pkey. Rows: memory_id.
SELECT memory_id
FROM memories
WHERE tenant_id = $1 AND memory_id = ANY ($2) AND pruned_at < $3 AND deleted_at = pruned_at
LIMIT $4;

-- name: due_unused
-- Which of these were never placed in a prompt since a moment by which they were there, and nothing rests on their being
-- there: a fact that took the place of another would bring that back, and a checkpoint would lose what it names. Episodes
-- are no candidates, and become a month.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 before timestamptz, $4 limit int8
-- Uses: memories_pkey, memory_access_pkey, memory_versions_current, checkpoint_parts_of_memory. Rows: memory_id.
SELECT m.memory_id
FROM memories m
WHERE m.tenant_id = $1 AND m.memory_id = ANY ($2) AND m.created_at < $3 AND m.deleted_at IS NULL AND NOT m.pinned
  AND m.superseded_by IS NULL AND m.quarantined_at IS NULL AND m.kind IN ('episodic', 'semantic', 'document')
  AND m.collection <> 'episode'
  AND NOT EXISTS (
      SELECT FROM memory_access a WHERE a.tenant_id = $1 AND a.memory_id = m.memory_id AND a.injected > 0)
  AND NOT EXISTS (SELECT FROM memories o WHERE o.tenant_id = $1 AND o.superseded_by = m.memory_id)
  AND NOT EXISTS (SELECT FROM outdated_turns o WHERE o.tenant_id = $1 AND o.memory_id = m.memory_id)
  AND NOT EXISTS (
      SELECT FROM checkpoint_parts p
      JOIN checkpoints c ON c.tenant_id = $1 AND c.checkpoint_id = p.checkpoint_id AND c.deleted_at IS NULL
      WHERE p.tenant_id = $1 AND p.memory_id = m.memory_id)
  AND NOT EXISTS (
      SELECT FROM memory_versions v
      WHERE v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.recorded_to IS NULL
        AND v.validation_status = 'confirmed')
LIMIT $4;

-- name: due_over_bound
-- Which of these may be hidden to keep a bound.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 before timestamptz, $4 limit int8
-- Uses: memories_pkey, checkpoint_parts_of_memory. Rows: memory_id.
SELECT m.memory_id
FROM memories m
WHERE m.tenant_id = $1 AND m.memory_id = ANY ($2) AND m.created_at < $3 AND m.deleted_at IS NULL AND NOT m.pinned
  AND m.superseded_by IS NULL AND m.kind IN ('episodic', 'semantic', 'document')
  AND NOT EXISTS (SELECT FROM memories o WHERE o.tenant_id = $1 AND o.superseded_by = m.memory_id)
  AND NOT EXISTS (SELECT FROM outdated_turns o WHERE o.tenant_id = $1 AND o.memory_id = m.memory_id)
  AND NOT EXISTS (
      SELECT FROM checkpoint_parts p
      JOIN checkpoints c ON c.tenant_id = $1 AND c.checkpoint_id = p.checkpoint_id AND c.deleted_at IS NULL
      WHERE p.tenant_id = $1 AND p.memory_id = m.memory_id)
LIMIT $4;

-- name: due_evidence
-- Which of these were said more often than ruling reads: 8 times first and 56 latest. The moment is not asked.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 before timestamptz, $4 limit int8
-- Uses: fact_sayings_in_order. Rows: memory_id.
SELECT w.memory_id
FROM unnest($2::uuid[]) AS w (memory_id)
WHERE $3::timestamptz IS NOT NULL AND EXISTS (
    SELECT FROM fact_sayings s
    WHERE s.tenant_id = $1 AND s.memory_id = w.memory_id
    ORDER BY s.said_at, s.seq
    OFFSET 64)
LIMIT $4;

-- name: due_summaries
-- Which of these sessions' summaries wait to be made anew, or hold words of a turn that is gone, that says something else by
-- now, whose memory its owner hid or rejected, or that said what something has taken the place of since. The moment is not
-- asked.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 before timestamptz, $4 limit int8
-- Uses: memories_pkey, memory_versions_pkey, derivations_pkey, outdated_turns_of_event. Rows: memory_id.
SELECT m.memory_id
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (
    SELECT memory_id, version, {withdrawn(memories)} AS withdrawn
    FROM memories
    WHERE tenant_id = $1 AND memory_id = w.memory_id AND collection = 'default'
      AND (deleted_at IS NULL OR {withdrawn(memories)})
    LIMIT 1) m
CROSS JOIN LATERAL (
    SELECT recorded_from
    FROM memory_versions
    WHERE tenant_id = $1 AND memory_id = m.memory_id AND version = m.version
    LIMIT 1) v
WHERE $3::timestamptz IS NOT NULL AND (m.withdrawn OR EXISTS (
    SELECT FROM derivations d
    LEFT JOIN turns t ON t.tenant_id = $1 AND t.event_id = d.source_id
    WHERE d.tenant_id = $1 AND d.derived_id = m.memory_id AND d.derived_kind = 'summary' AND d.source_kind = 'turn'
      AND (t.event_id IS NULL OR t.recorded_at > v.recorded_from OR {not_told(d.source_id)})))
LIMIT $4;

-- name: due_review
-- What policy asks of these facts, those that hold: when they were last said or reviewed, and what is noted of that.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_pkey, facts_pkey. Rows: memory_id, category, seen_at, review_due_at.
SELECT m.memory_id, f.category, greatest(f.said_at, m.reviewed_at) AS seen_at, m.review_due_at
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (
    SELECT memory_id, reviewed_at, review_due_at
    FROM memories
    WHERE tenant_id = $1 AND memory_id = w.memory_id AND deleted_at IS NULL AND superseded_by IS NULL
    LIMIT 1) m
CROSS JOIN LATERAL (
    SELECT category, said_at
    FROM facts
    WHERE tenant_id = $1 AND memory_id = m.memory_id AND state = 'current'
    LIMIT 1) f;

-- ---------------------------------------------------------------- changes

-- name: set_review
-- Since when these facts are due for review; null: they are not. One that was reviewed meanwhile stays as it is.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 due_at timestamptz[]
-- Uses: memories_pkey. Rows: memory_id.
UPDATE memories m
SET review_due_at = w.due_at
FROM unnest($2::uuid[], $3::timestamptz[]) AS w (memory_id, due_at)
WHERE m.tenant_id = $1 AND m.memory_id = w.memory_id AND (m.reviewed_at IS NULL OR m.reviewed_at < w.due_at
    OR w.due_at IS NULL)
RETURNING m.memory_id;

-- name: prune_memories
-- Hide these, and say that nobody but us did.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 now timestamptz, $4 reason text, $5 changed_version int8
-- Uses: memories_pkey. Rows: none.
UPDATE memories
SET deleted_at = $3, pruned_at = $3, pruned_reason = $4, changed_version = $5
WHERE tenant_id = $1 AND memory_id = ANY ($2);

-- name: inherit_outdated
-- What these facts say, and what they took the place of, is out of date for what took their place, if anything did.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_pkey, derivations_pkey, outdated_turns_pkey. Rows: none.
INSERT INTO outdated_turns (tenant_id, memory_id, event_id, scope_id)
SELECT DISTINCT m.tenant_id, m.superseded_by, e.event_id, m.scope_id
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (
    SELECT tenant_id, memory_id, scope_id, superseded_by, superseded_reason
    FROM memories
    WHERE tenant_id = $1 AND memory_id = w.memory_id
    OFFSET 0) m
CROSS JOIN LATERAL (
    SELECT d.source_id AS event_id
    FROM derivations d
    WHERE d.tenant_id = $1 AND d.derived_id = m.memory_id AND d.derived_kind = 'memory' AND d.source_kind = 'turn'
      AND m.superseded_reason IS DISTINCT FROM 'same meaning'
    UNION ALL
    SELECT o.event_id
    FROM outdated_turns o
    WHERE o.tenant_id = $1 AND o.memory_id = m.memory_id) e
WHERE m.superseded_by IS NOT NULL
ON CONFLICT DO NOTHING;

-- name: hand_on_superseded
-- What these had taken the place of is superseded by what took theirs.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_pkey, memories_superseded_by. Rows: none.
UPDATE memories m
SET superseded_by = g.superseded_by
FROM memories g
WHERE g.tenant_id = $1 AND g.memory_id = ANY ($2) AND m.tenant_id = $1 AND m.superseded_by = g.memory_id
  AND m.memory_id <> g.memory_id;

-- name: keep_untold
-- The words of the turns of these memories stay untold, those that a person hid or rejected or that are quarantined: soon
-- nothing else says so.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_pkey, memory_versions_pkey, derivations_pkey, turns_pkey, untold_turns_pkey. Rows: none.
INSERT INTO untold_turns (tenant_id, event_id, scope_id)
SELECT DISTINCT t.tenant_id, t.event_id, t.scope_id
FROM memories m
JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.version = m.version
JOIN derivations d ON d.tenant_id = $1 AND d.derived_id = m.memory_id AND d.derived_kind = 'memory'
    AND d.source_kind = 'turn'
JOIN turns t ON t.tenant_id = $1 AND t.event_id = d.source_id
WHERE m.tenant_id = $1 AND m.memory_id = ANY ($2)
  AND (m.quarantined_at IS NOT NULL OR v.validation_status = 'rejected'
      OR (m.deleted_at IS NOT NULL AND m.pruned_at IS DISTINCT FROM m.deleted_at))
ON CONFLICT (tenant_id, event_id) DO NOTHING;

-- name: keep_outdated_untold
-- The words of turns that were out of date by these memories, which go with their successors or edits, stay untold: what
-- was said before these took its place, and what a person edited away.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_pkey, derivations_pkey, outdated_turns_pkey, turns_pkey, untold_turns_pkey. Rows: none.
INSERT INTO untold_turns (tenant_id, event_id, scope_id)
SELECT DISTINCT t.tenant_id, t.event_id, t.scope_id
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (
    SELECT superseded_by IS NOT NULL AND superseded_reason IS DISTINCT FROM 'same meaning' AS replaced
    FROM memories
    WHERE tenant_id = $1 AND memory_id = w.memory_id
    OFFSET 0) m
CROSS JOIN LATERAL (
    SELECT event_id
    FROM outdated_turns
    WHERE tenant_id = $1 AND memory_id = w.memory_id
    UNION ALL
    SELECT source_id
    FROM derivations
    WHERE tenant_id = $1 AND derived_id = w.memory_id AND derived_kind = 'memory' AND source_kind = 'turn'
      AND m.replaced) o
JOIN turns t ON t.tenant_id = $1 AND t.event_id = o.event_id
ON CONFLICT (tenant_id, event_id) DO NOTHING;

-- name: unlink_summaries
-- Sessions whose summary is about to go have none.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: sessions_pkey. Rows: none.
UPDATE sessions s
SET summary_memory_id = NULL
FROM memories m
WHERE m.tenant_id = $1 AND m.memory_id = ANY ($2) AND m.kind = 'summary' AND s.tenant_id = $1
  AND s.session_id = m.session_id AND s.summary_memory_id = m.memory_id;

-- name: drop_derivations
-- What these were made of.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: derivations_pkey. Rows: none.
DELETE FROM derivations
WHERE tenant_id = $1 AND derived_id = ANY ($2);

-- name: first_born
-- When the first of these memories was stored; of what tells conversations, when the first of those began: another that was
-- there before it had its id.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_pkey, memories_compressed_into, sessions_pkey. Rows: born.
SELECT least(
    (SELECT min(created_at) FROM memories WHERE tenant_id = $1 AND memory_id = ANY ($2)),
    (SELECT min(s.created_at)
     FROM (SELECT session_id FROM memories
           WHERE tenant_id = $1 AND memory_id = ANY ($2) AND (kind = 'summary' OR collection IN ('episode', 'past'))
           UNION
           SELECT session_id FROM memories WHERE tenant_id = $1 AND compressed_into = ANY ($2)) w
     JOIN sessions s ON s.tenant_id = $1 AND s.session_id = w.session_id)) AS born;

-- name: scopes_that_see
-- The own scopes in whose conversations memories of these scopes may be placed.
-- $1 tenant uuid, $2 scope_ids int8[]
-- Uses: none. Rows: scope_id.
SELECT scope_id
FROM scopes
WHERE tenant_id = $1 AND scope_id = ANY ($2) AND visibility = 'own'
UNION
SELECT o.scope_id
FROM scopes s
JOIN scopes o ON o.tenant_id = $1 AND o.visibility = 'own' AND (s.visibility = 'tenant'
    OR (s.visibility = 'project' AND o.project = s.project) OR (s.visibility = 'user' AND o.user_name = s.user_name))
WHERE s.tenant_id = $1 AND s.scope_id = ANY ($2) AND s.visibility IN ('user', 'project', 'tenant')
ORDER BY scope_id;

-- name: sessions_since
-- The conversations of these scopes that somebody spoke in since a moment.
-- $1 tenant uuid, $2 scope_ids int8[], $3 since timestamptz
-- Uses: sessions_recent. Rows: session_id.
SELECT s.session_id
FROM unnest($2::int8[]) AS w (scope_id)
CROSS JOIN LATERAL (
    SELECT session_id FROM sessions WHERE tenant_id = $1 AND scope_id = w.scope_id AND last_at >= $3 OFFSET 0) s
ORDER BY s.session_id;

-- name: withdraw_quotes
-- Blocks of these conversations that quote one of these memories, placed since a moment, are never sent again.
-- $1 tenant uuid, $2 session_ids uuid[], $3 memory_ids text[], $4 since timestamptz, $5 now timestamptz
-- Uses: retrievals_of_session, ledger_pkey. Rows: none.
UPDATE ledger l
SET placed_sealed = NULL, placed_sha256 = NULL, withdrawn_at = coalesce(l.withdrawn_at, $5)
FROM retrievals r
CROSS JOIN LATERAL jsonb_array_elements(r.placements) AS p
WHERE r.tenant_id = $1 AND r.session_id = ANY ($2) AND r.created_at >= $4
  AND coalesce(p -> 'memory_ids', '[]') ?| $3
  AND l.tenant_id = $1 AND l.session_id = r.session_id AND l.chain = decode(p ->> 'chain', 'hex')
  AND l.retrieval_id = r.retrieval_id;

-- name: erase_memories
-- These go, with their versions, vectors, counters and sayings.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_pkey. Rows: none.
DELETE FROM memories
WHERE tenant_id = $1 AND memory_id = ANY ($2);

-- name: thin_sayings
-- Some of the times a fact was said, of those that ruling does not read.
-- $1 tenant uuid, $2 memory_id uuid, $3 first int8, $4 latest int8, $5 limit int8
-- Uses: fact_sayings_in_order, fact_sayings_pkey. Rows: none.
DELETE FROM fact_sayings s
USING (
    SELECT event_id, span_start
    FROM (SELECT event_id, span_start, said_at, seq
          FROM fact_sayings
          WHERE tenant_id = $1 AND memory_id = $2
          ORDER BY said_at DESC, seq DESC
          OFFSET $4) old
    ORDER BY said_at, seq
    OFFSET $3
    LIMIT $5) w
WHERE s.tenant_id = $1 AND s.memory_id = $2 AND s.event_id = w.event_id AND s.span_start = w.span_start;

-- ---------------------------------------------------------------- bounds

-- name: rows_of_scopes
-- How many memories of these scopes are not hidden.
-- $1 tenant uuid, $2 scope_ids int8[]
-- Uses: memories_changed. Rows: rows.
SELECT coalesce(sum(m.rows), 0)::int8 AS rows
FROM unnest($2::int8[]) AS w (scope_id)
CROSS JOIN LATERAL (
    SELECT count(*) AS rows
    FROM memories
    WHERE tenant_id = $1 AND scope_id = w.scope_id AND deleted_at IS NULL) m;

-- name: uses_of_memories
-- What the worth of these follows from, those that are not hidden; bytes are those of the current version's text and
-- vectors, sealed ones too. may_go: a bound may hide it, as due_over_bound asks under the lock.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_pkey, memory_versions_pkey, memory_access_pkey, memories_superseded_by, outdated_turns_pkey,
-- checkpoint_parts_of_memory, {embeddings}_pkey, sealed_windows_pkey.
-- Rows: memory_id, scope_id, bytes, importance, injected, born_at, used_at, may_go.
SELECT m.memory_id, m.scope_id, (octet_length(v.content) + e.bytes)::int8 AS bytes, v.importance,
       coalesce(a.injected, 0) AS injected, m.created_at AS born_at, a.last_injected_at AS used_at,
       NOT m.pinned AND m.superseded_by IS NULL AND m.kind IN ('episodic', 'semantic', 'document')
       AND NOT EXISTS (SELECT FROM memories o WHERE o.tenant_id = $1 AND o.superseded_by = m.memory_id)
       AND NOT EXISTS (SELECT FROM outdated_turns o WHERE o.tenant_id = $1 AND o.memory_id = m.memory_id)
       AND NOT EXISTS (
           SELECT FROM checkpoint_parts p
           JOIN checkpoints c ON c.tenant_id = $1 AND c.checkpoint_id = p.checkpoint_id AND c.deleted_at IS NULL
           WHERE p.tenant_id = $1 AND p.memory_id = m.memory_id) AS may_go
FROM unnest($2::uuid[]) AS w (memory_id)
JOIN memories m ON m.tenant_id = $1 AND m.memory_id = w.memory_id AND m.deleted_at IS NULL
JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.version = m.version
LEFT JOIN memory_access a ON a.tenant_id = $1 AND a.memory_id = m.memory_id
CROSS JOIN LATERAL (
    SELECT coalesce(sum(w.bytes), 0) AS bytes
    FROM (
        SELECT pg_column_size(embedding) AS bytes
        FROM {embeddings}
        WHERE tenant_id = $1 AND memory_id = m.memory_id AND version = m.version
        UNION ALL
        SELECT octet_length(sealed)
        FROM sealed_windows
        WHERE tenant_id = $1 AND memory_id = m.memory_id AND version = m.version AND embeddings = '{embeddings}') w) e;

-- ---------------------------------------------------------------- summaries made anew

-- name: summary_to_rebuild
-- A session's summary as it stands.
-- $1 tenant uuid, $2 memory_id uuid
-- Uses: memories_pkey, sessions_pkey. Rows: session_id, label, version, subject_id, summarised_seq, changed_version.
SELECT s.session_id, s.label, m.version, m.subject_id, s.summarised_seq, m.changed_version
FROM memories m
JOIN sessions s ON s.tenant_id = $1 AND s.session_id = m.session_id AND s.summary_memory_id = m.memory_id
WHERE m.tenant_id = $1 AND m.memory_id = $2;

-- name: turns_not_shown
-- Turns of a session whose words are not told again: whose memory its owner hid or rejected, that said what something has
-- taken the place of, and answers that no memory was made of, since they say nothing or only what memory had said.
-- $1 tenant uuid, $2 session_id uuid
-- Uses: derivations_of_source, memories_pkey, memory_versions_pkey, outdated_turns_of_event. Rows: event_id.
SELECT t.event_id
FROM turns t
WHERE t.tenant_id = $1 AND t.session_id = $2 AND ({not_told(t.event_id)}
       OR (t.role = 'assistant' AND {made_no_memory(t.event_id)}));
