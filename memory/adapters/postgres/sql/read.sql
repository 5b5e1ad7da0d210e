-- name: changed_memories
-- Memories of one scope that changed after a scope version, with their current text, in the order of change. A fact that
-- was to end leaves all answers at its end; one that was of the past when it was said says so itself. A procedure is
-- seen when it is approved.
-- $1 tenant uuid, $2 scope_id int8, $3 after_version int8, $4 after_id uuid, $5 kinds text[], $6 limit int8
-- Uses: memories_changed, memory_versions_pkey, memory_access_pkey. Rows: memory_id, version, kind, scope_id, session_id,
-- changed_version, visible, role, content, integrity, sensitivity, importance, expires_at, occurred_at, created_at,
-- attributes, validation_status, language, injected, last_injected_at, cleaned_by, pinned.
SELECT m.memory_id, m.version, m.kind, m.scope_id, m.session_id, m.changed_version,
       m.deleted_at IS NULL AND m.quarantined_at IS NULL AND m.superseded_by IS NULL
           AND v.validation_status <> 'rejected'
           AND (m.kind <> 'procedural' OR v.validation_status = 'confirmed') AS visible,
       v.role, v.content, v.integrity, v.sensitivity, v.importance,
       CASE WHEN m.kind = 'semantic' AND v.valid_to > v.occurred_at THEN least(v.expires_at, v.valid_to)
            ELSE v.expires_at END AS expires_at,
       v.occurred_at, m.created_at,
       v.attributes, v.validation_status, v.language, coalesce(a.injected, 0) AS injected, a.last_injected_at,
       v.cleaned_by, m.pinned
FROM memories m
JOIN memory_versions v ON v.tenant_id = m.tenant_id AND v.memory_id = m.memory_id AND v.version = m.version
LEFT JOIN memory_access a ON a.tenant_id = $1 AND a.memory_id = m.memory_id
WHERE m.tenant_id = $1 AND m.scope_id = $2 AND (m.changed_version, m.memory_id) > ($3, $4) AND m.kind = ANY ($5)
  AND m.collection NOT IN ('episode', 'month')  -- not recalled: docs/decisions/0011, 0018
ORDER BY m.changed_version, m.memory_id
LIMIT $6;

-- name: memories_as_of
-- Memories of one scope as they were recorded at a moment, under the law of now: hidden are the quarantined of today and of
-- then, what a person has rejected (a procedure that its failures retired was one then), also where other words are
-- confirmed by now (whether sealed words are others is not seen here), and a share that was taken back, whatever ended it.
-- What has become more sensitive since is that sensitive, and the end of each is the one it has now. Counters have no past,
-- so there are none.
-- $1 tenant uuid, $2 scope_id int8, $3 after_version int8, $4 after_id uuid, $5 kinds text[], $6 limit int8,
-- $7 moment timestamptz
-- Uses: memories_changed, memory_versions_pkey, procedures_pkey, shares_of_copy. Rows: memory_id, version, kind, scope_id,
-- session_id, changed_version, visible, role, content, integrity, sensitivity, importance, expires_at, occurred_at,
-- created_at, attributes, validation_status, language, injected, last_injected_at, cleaned_by, pinned.
SELECT m.memory_id, v.version, m.kind, m.scope_id, m.session_id, m.changed_version, true AS visible,
       v.role, v.content, v.integrity,
       CASE WHEN array_position(ARRAY['public', 'internal', 'confidential', 'secret'], c.sensitivity)
               > array_position(ARRAY['public', 'internal', 'confidential', 'secret'], v.sensitivity)
           THEN c.sensitivity ELSE v.sensitivity END AS sensitivity,
       v.importance, c.expires_at, v.occurred_at, m.created_at,
       v.attributes, v.validation_status, v.language, 0::int8 AS injected, NULL::timestamptz AS last_injected_at,
       v.cleaned_by, m.pinned
FROM memories m
JOIN memory_versions v ON v.tenant_id = m.tenant_id AND v.memory_id = m.memory_id
    AND v.recorded_from <= $7 AND (v.recorded_to IS NULL OR v.recorded_to > $7)
JOIN memory_versions c ON c.tenant_id = m.tenant_id AND c.memory_id = m.memory_id AND c.version = m.version
WHERE m.tenant_id = $1 AND m.scope_id = $2 AND (m.changed_version, m.memory_id) > ($3, $4) AND m.kind = ANY ($5)
  AND m.collection NOT IN ('episode', 'month')  -- not recalled: docs/decisions/0011, 0018
  AND m.created_at <= $7 AND m.quarantined_at IS NULL AND NOT v.held_back
  AND v.validation_status <> 'rejected' AND (c.validation_status <> 'rejected' OR EXISTS (
      SELECT FROM procedures p
      WHERE p.tenant_id = $1 AND p.memory_id = m.memory_id AND p.reason <> 'rejected in review'))
  AND (m.kind = 'procedural' OR v.content = c.content OR NOT EXISTS (
      SELECT FROM memory_versions r
      WHERE r.tenant_id = $1 AND r.memory_id = m.memory_id AND r.version > v.version
        AND r.validation_status = 'rejected' AND (r.content = v.content OR r.content LIKE 'mp-sealed:%')))
  AND (v.expires_at IS NULL OR v.expires_at > $7)
  AND (m.deleted_at IS NULL OR m.deleted_at > $7 AND NOT EXISTS (
      SELECT FROM shares s WHERE s.tenant_id = $1 AND s.copy_id = m.memory_id))
  AND (m.superseded_at IS NULL OR m.superseded_at > $7)
  AND v.superseded_by IS NULL
  AND (m.kind <> 'semantic' OR v.valid_to IS NULL OR v.valid_to > $7 OR v.valid_to <= v.occurred_at)
  AND (m.kind <> 'procedural' OR v.validation_status = 'confirmed')
ORDER BY m.changed_version, m.memory_id
LIMIT $6;

-- name: hidden_then
-- Memories of one scope that were hidden at a moment and were shown again later, as the feed tells: the next that it says of
-- either is that they came back. What is hidden still says so itself.
-- $1 tenant uuid, $2 scope_id int8, $3 moment timestamptz
-- Uses: outbox_pkey. Rows: memory_id.
SELECT memory_id
FROM (
    SELECT DISTINCT ON (object_id) object_id AS memory_id, event
    FROM outbox
    WHERE tenant_id = $1 AND scope_id = $2 AND created_at > $3 AND event IN ('deleted', 'restored')
    ORDER BY object_id, seq) AS next
WHERE event = 'restored';

-- name: injections_since
-- How often memories of one scope were injected, of those counted after a scope version, in the order of change.
-- $1 tenant uuid, $2 scope_id int8, $3 after_version int8, $4 after_id uuid, $5 limit int8
-- Uses: memory_access_changed. Rows: memory_id, injected, last_injected_at, changed_version.
SELECT memory_id, injected, last_injected_at, changed_version
FROM memory_access
WHERE tenant_id = $1 AND scope_id = $2 AND (changed_version, memory_id) > ($3, $4)
ORDER BY changed_version, memory_id
LIMIT $5;

-- name: sources_of_memories
-- The turns that memories were made of, and the text of the two turns before the primary one, oldest first, each cut at
-- 2,000 characters; a confidential turn lends its words to no other. Unordered: the reader sorts the few that have several. (As a third join the text before cost three
-- times as much. Two turns: recall@10 on LoCoMo is .671 with none, .740 with one, .768 with two, .770 with three.)
-- Each is looked up by itself, as the vectors are.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: derivations_pkey, turns_pkey, turns_tenant_id_session_id_seq_key.
-- Rows: memory_id, event_id, ordinal, source_id, chain, seq, speaker, recorded_at, context.
SELECT d.derived_id AS memory_id, d.source_id AS event_id, d.ordinal, t.source_id, t.chain, t.seq,
       t.name AS speaker, t.recorded_at,
       CASE WHEN d.ordinal = 0 THEN (
           SELECT string_agg(left(p.content, 2000), E'\n' ORDER BY p.seq)
           FROM turns p
           WHERE p.tenant_id = $1 AND p.session_id = t.session_id AND p.seq BETWEEN t.seq - 2 AND t.seq - 1
             AND p.sensitivity IN ('public', 'internal'))
       END AS context
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (
    SELECT derived_id, source_id, ordinal
    FROM derivations
    WHERE tenant_id = $1 AND derived_id = w.memory_id AND source_kind = 'turn' AND derived_kind IN ('memory', 'summary')
    OFFSET 0) d
LEFT JOIN LATERAL (
    SELECT source_id, session_id, chain, seq, name, recorded_at
    FROM turns
    WHERE tenant_id = $1 AND event_id = d.source_id
    LIMIT 1) t ON true;

-- name: turns_outdated_by
-- The turns in which was said what these facts have taken the place of, at first or second hand; also where that fact is
-- gone by now. By what facts rest on: of a fact that was said often not every saying is kept. What only says the same in
-- other words is not out of date, what it had taken the place of is. corrected: the fact itself, or one that says the same,
-- rests on the turn, and was edited since.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_superseded_by, derivations_pkey, outdated_turns_pkey. Rows: memory_id, event_id, corrected.
WITH RECURSIVE replaced (memory_id, by_id, outdated) AS (
    SELECT m.memory_id, m.superseded_by, m.superseded_reason IS DISTINCT FROM 'same meaning'
    FROM memories m
    WHERE m.tenant_id = $1 AND m.superseded_by = ANY ($2)
    UNION
    SELECT m.memory_id, r.by_id, r.outdated OR m.superseded_reason IS DISTINCT FROM 'same meaning'
    FROM replaced r
    JOIN memories m ON m.tenant_id = $1 AND m.superseded_by = r.memory_id)
SELECT r.by_id AS memory_id, d.source_id AS event_id, false AS corrected
FROM replaced r
CROSS JOIN LATERAL (
    SELECT source_id
    FROM derivations
    WHERE tenant_id = $1 AND derived_id = r.memory_id AND derived_kind = 'memory' AND source_kind = 'turn'
    OFFSET 0) d
WHERE r.outdated
UNION
SELECT w.by_id, o.event_id, o.corrected AND NOT w.outdated
FROM (SELECT memory_id, by_id, outdated FROM replaced
      UNION ALL SELECT one, one, false FROM unnest($2::uuid[]) AS one) w
CROSS JOIN LATERAL (
    SELECT event_id, corrected
    FROM outdated_turns
    WHERE tenant_id = $1 AND memory_id = w.memory_id
    OFFSET 0) o;

-- name: turns_outdated_then
-- The same as of a moment, by what stood behind what then: what was superseded or edited later was not yet, and what stands
-- behind another by now, or holds again, stood behind this one. Why something stood there is known where it still does.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 moment timestamptz
-- Uses: memory_versions_superseded_by, memories_pkey, derivations_pkey, outdated_turns_pkey. Rows: memory_id, event_id,
-- corrected.
WITH RECURSIVE replaced (memory_id, by_id, outdated) AS (
    SELECT v.memory_id, v.superseded_by,
           m.superseded_by IS DISTINCT FROM v.superseded_by OR m.superseded_reason IS DISTINCT FROM 'same meaning'
    FROM memory_versions v
    JOIN memories m ON m.tenant_id = $1 AND m.memory_id = v.memory_id
    WHERE v.tenant_id = $1 AND v.superseded_by = ANY ($2)
      AND v.recorded_from <= $3 AND (v.recorded_to IS NULL OR v.recorded_to > $3)
    UNION
    SELECT v.memory_id, r.by_id, r.outdated
           OR m.superseded_by IS DISTINCT FROM v.superseded_by OR m.superseded_reason IS DISTINCT FROM 'same meaning'
    FROM replaced r
    JOIN memory_versions v ON v.tenant_id = $1 AND v.superseded_by = r.memory_id
        AND v.recorded_from <= $3 AND (v.recorded_to IS NULL OR v.recorded_to > $3)
    JOIN memories m ON m.tenant_id = $1 AND m.memory_id = v.memory_id)
SELECT r.by_id AS memory_id, d.source_id AS event_id, false AS corrected
FROM replaced r
CROSS JOIN LATERAL (
    SELECT source_id
    FROM derivations
    WHERE tenant_id = $1 AND derived_id = r.memory_id AND derived_kind = 'memory' AND source_kind = 'turn'
    OFFSET 0) d
WHERE r.outdated
UNION
SELECT w.by_id, o.event_id, o.corrected AND NOT w.outdated
FROM (SELECT memory_id, by_id, outdated FROM replaced
      UNION ALL SELECT one, one, false FROM unnest($2::uuid[]) AS one) w
CROSS JOIN LATERAL (
    SELECT event_id, corrected
    FROM outdated_turns
    WHERE tenant_id = $1 AND memory_id = w.memory_id
      AND (NOT corrected OR EXISTS (
          SELECT FROM memory_versions f
          JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = f.memory_id AND v.content <> f.content
              AND v.recorded_from <= $3 AND (v.recorded_to IS NULL OR v.recorded_to > $3)
          WHERE f.tenant_id = $1 AND f.memory_id = w.memory_id AND f.version = 1))
    OFFSET 0) o;

-- name: vectors_of_memories
-- The windows of these versions, each vector as its binary form: 2 bytes dimension, 2 unused, then big-endian halves. Each
-- is looked up by itself: joined, all of a scope that seemed to hold next to nothing were read instead, 80 MB of them.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 versions int4[]
-- Uses: {embeddings}_pkey. Rows: memory_id, span_start, span_end, vector.
SELECT e.memory_id, e.span_start, e.span_end, halfvec_send(e.embedding) AS vector
FROM unnest($2::uuid[], $3::int4[]) AS w (memory_id, version)
CROSS JOIN LATERAL (
    SELECT memory_id, window_no, span_start, span_end, embedding
    FROM {embeddings}
    WHERE tenant_id = $1 AND memory_id = w.memory_id AND version = w.version
    OFFSET 0) e
ORDER BY e.memory_id, e.window_no;

-- name: nearest_windows
-- The windows nearest to a query vector by an exact scan, nearest first, and whether the filters let their memory pass.
-- The scan comes first and the filters' joins after it: joined inside, 10,000 rows took 71-76 ms, this form 14-25 (busy
-- machine, so a ratio only). A null filter lets everything pass. Times are inclusive.
-- $1 tenant uuid, $2 scope_ids int8[], $3 query halfvec, $4 windows int8, $5 kinds text[], $6 roles text[],
-- $7 session_id uuid, $8 occurred_after timestamptz, $9 occurred_before timestamptz, $10 sensitivities text[],
-- $11 without uuid[], $12 without_events uuid[], $13 now timestamptz, $14 attributes jsonb, $15 asking uuid[],
-- $16 without_session uuid
-- Uses: {embeddings}_scope. Rows: memory_id, version, span_start, span_end,
-- distance, passes. The distance is cosine, 0..2.
SELECT c.memory_id, c.version, c.span_start, c.span_end, c.distance,
       m.memory_id IS NOT NULL AND v.memory_id IS NOT NULL AND NOT EXISTS (
           SELECT FROM derivations d
           WHERE d.tenant_id = $1 AND d.derived_id = c.memory_id AND d.source_id = ANY ($12)) AS passes
FROM (SELECT e.memory_id, e.version, e.span_start, e.span_end,
             (e.embedding <=> (SELECT $3::halfvec)) + 0 AS distance
      FROM {embeddings} e
      WHERE e.tenant_id = $1 AND e.scope_id = ANY ($2)
      ORDER BY distance
      LIMIT $4) c
LEFT JOIN memories m ON m.tenant_id = $1 AND m.memory_id = c.memory_id AND m.version = c.version
    AND m.deleted_at IS NULL AND m.quarantined_at IS NULL AND m.superseded_by IS NULL
    AND ($5::text[] IS NULL OR m.kind = ANY ($5) OR m.collection = ANY ($5)) AND ($7::uuid IS NULL OR m.session_id = $7)
    AND NOT m.memory_id = ANY ($11) AND m.collection NOT IN ('episode', 'month')
    AND (m.collection <> 'session-document' OR m.session_id = ANY ($15))
    AND (m.session_id IS DISTINCT FROM $16 OR m.session_id IS NULL OR m.kind = 'document'
         OR m.collection = 'artifact')
LEFT JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = c.memory_id AND v.version = c.version
    AND v.validation_status <> 'rejected' AND ($6::text[] IS NULL OR v.role = ANY ($6))
    AND ($8::timestamptz IS NULL OR v.occurred_at >= $8) AND ($9::timestamptz IS NULL OR v.occurred_at <= $9)
    AND ($10::text[] IS NULL OR v.sensitivity = ANY ($10)) AND (v.expires_at IS NULL OR v.expires_at > $13)
    AND ($14::jsonb IS NULL OR v.attributes @> $14)
    AND (m.kind <> 'semantic' OR v.valid_to IS NULL OR v.valid_to > $13 OR v.valid_to <= v.occurred_at)
    AND (m.kind <> 'procedural' OR v.validation_status = 'confirmed')
ORDER BY c.distance;

-- name: memories_by_id
-- These memories in these versions, as recall shows them. Each is looked up by itself, as its vectors are.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 versions int4[]
-- Uses: memories_pkey, memory_versions_pkey, memory_access_pkey. Rows: memory_id, version, kind, scope_id, session_id,
-- changed_version, visible, role, content, integrity, sensitivity, importance, expires_at, occurred_at, created_at,
-- attributes, validation_status, language, injected, last_injected_at, cleaned_by, pinned.
SELECT m.memory_id, v.version, m.kind, m.scope_id, m.session_id, m.changed_version, true AS visible,
       v.role, v.content, v.integrity, v.sensitivity, v.importance, v.expires_at, v.occurred_at, m.created_at,
       v.attributes, v.validation_status, v.language, coalesce(a.injected, 0) AS injected, a.last_injected_at,
       v.cleaned_by, m.pinned
FROM unnest($2::uuid[], $3::int4[]) AS w (memory_id, version)
CROSS JOIN LATERAL (SELECT * FROM memories WHERE tenant_id = $1 AND memory_id = w.memory_id LIMIT 1) m
CROSS JOIN LATERAL (
    SELECT * FROM memory_versions WHERE tenant_id = $1 AND memory_id = w.memory_id AND version = w.version LIMIT 1) v
LEFT JOIN LATERAL (
    SELECT injected, last_injected_at FROM memory_access WHERE tenant_id = $1 AND memory_id = w.memory_id LIMIT 1) a ON true;

-- name: session_of_chains
-- The session that has a chain position, the latest where several branches have it (of very many some are looked at). Not
-- one whose first request brought the last position along: what its client had said for the assistant, a greeting or
-- examples, opens other conversations, too. Each is looked up by itself.
-- $1 tenant uuid, $2 scope_id int8, $3 chains bytea[], as they follow each other
-- Uses: turns_chain, sessions_pkey, turns_tenant_id_session_id_chain_key. Rows: chain, session_id, label.
SELECT DISTINCT ON (t.chain) t.chain, s.session_id, s.label
FROM unnest($3::bytea[]) AS w (chain)
CROSS JOIN LATERAL (
    SELECT has.chain, has.session_id, has.recorded_at, has.event_id
    FROM turns has
    WHERE has.tenant_id = $1 AND has.scope_id = $2 AND has.chain = w.chain
    LIMIT 32) AS t
JOIN sessions s ON s.tenant_id = $1 AND s.session_id = t.session_id
WHERE NOT EXISTS (
    SELECT FROM turns brought
    JOIN turns first ON first.tenant_id = $1 AND first.session_id = brought.session_id AND first.seq = 0
        AND first.exchange_id = brought.exchange_id
    JOIN exchanges e ON e.tenant_id = $1 AND e.exchange_id = brought.exchange_id
    WHERE brought.tenant_id = $1 AND brought.session_id = t.session_id
        AND brought.chain = ($3::bytea[])[cardinality($3::bytea[])]
        AND e.origin = 'live' AND brought.occurred_at = e.arrived_at)  -- an answer of its own has finished_at
ORDER BY t.chain, s.last_at DESC, t.recorded_at DESC, t.event_id DESC;

-- name: has_copies
-- Whether anything was imported into a scope. The first of each index, not EXISTS: where a part of all turns were imported
-- Postgres expects to come upon one at once, and went through all turns for a scope that has none.
-- $1 tenant uuid, $2 scope_id int8
-- Uses: turns_source, turns_line. Rows: has_copies.
SELECT (SELECT source_id FROM turns
        WHERE tenant_id = $1 AND scope_id = $2 AND source_id IS NOT NULL
        ORDER BY source_id LIMIT 1) IS NOT NULL
    OR (SELECT line_digest FROM turns
        WHERE tenant_id = $1 AND scope_id = $2 AND line_digest IS NOT NULL AND source_id IS NULL
        ORDER BY line_digest LIMIT 1) IS NOT NULL AS has_copies;

-- name: session_that_went_on
-- The session in which a later request sent one of these positions as its history; the earliest such request. Each
-- position is looked up by itself, as in session_of_chains.
-- $1 tenant uuid, $2 scope_id int8, $3 chains bytea[], $4 after timestamptz
-- Uses: turns_chain, exchanges_pkey, sessions_pkey. Rows: session_id, label.
SELECT s.session_id, s.label
FROM unnest($3::bytea[]) AS w (chain)
CROSS JOIN LATERAL (
    SELECT session_id, exchange_id, occurred_at
    FROM turns
    WHERE tenant_id = $1 AND scope_id = $2 AND chain = w.chain
    OFFSET 0) t
CROSS JOIN LATERAL (
    SELECT exchange_id, arrived_at FROM exchanges WHERE tenant_id = $1 AND exchange_id = t.exchange_id LIMIT 1) e
CROSS JOIN LATERAL (SELECT session_id, label FROM sessions WHERE tenant_id = $1 AND session_id = t.session_id LIMIT 1) s
WHERE e.arrived_at >= $4 AND t.occurred_at = e.arrived_at  -- an answer of its own would carry finished_at
ORDER BY e.arrived_at, e.exchange_id
LIMIT 1;

-- name: ledger_of_session
-- What the ledger has at these places of a conversation; nothing for a place that it does not know. Each is looked up by
-- itself: else the whole ledger of whoever has thousands of conversations is read.
-- $1 tenant uuid, $2 scope_id int8, $3 session_id uuid, $4 chains bytea[]
-- Uses: ledger_pkey. Rows: chain, placed_sealed, withdrawn.
SELECT l.chain, l.placed_sealed, l.withdrawn_at IS NOT NULL AS withdrawn
FROM unnest($4::bytea[]) AS w (chain)
CROSS JOIN LATERAL (
    SELECT chain, placed_sealed, withdrawn_at
    FROM ledger
    WHERE tenant_id = $1 AND session_id = $3 AND chain = w.chain AND scope_id = $2
    LIMIT 1) l;

-- name: rolling_summary
-- The rolling summary of a session, where it has one that a prompt may get.
-- $1 tenant uuid, $2 scope_ids int8[], $3 session_id uuid
-- Uses: sessions_pkey, memories_pkey, memory_versions_pkey. Rows: memory_id, version, kind, scope_id, session_id,
-- changed_version, visible, role, content, integrity, sensitivity, importance, expires_at, occurred_at, created_at,
-- attributes, validation_status, language, injected, last_injected_at, cleaned_by, pinned.
SELECT m.memory_id, m.version, m.kind, m.scope_id, m.session_id, m.changed_version, true AS visible,
       v.role, v.content, v.integrity, v.sensitivity, v.importance, v.expires_at, v.occurred_at, m.created_at,
       v.attributes, v.validation_status, v.language, 0::int8 AS injected, NULL::timestamptz AS last_injected_at,
       v.cleaned_by, m.pinned
FROM sessions s
JOIN memories m ON m.tenant_id = $1 AND m.memory_id = s.summary_memory_id
JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.version = m.version
WHERE s.tenant_id = $1 AND s.session_id = $3 AND m.scope_id = ANY ($2)
  AND m.deleted_at IS NULL AND m.quarantined_at IS NULL AND m.superseded_by IS NULL
  AND v.validation_status <> 'rejected';

-- name: memories_standing
-- These memories as they are now, also those that recall does not show: why, and what has taken their place. Words that a
-- checkpoint quotes from a turn are hidden with that turn. `ends_at` is the end of the memory, `expires_at` also that of
-- what it says.
-- $1 tenant uuid, $2 scope_ids int8[], $3 memory_ids uuid[]
-- Uses: memories_pkey, memory_versions_pkey. Rows: memory_id, version, kind, scope_id, session_id, changed_version,
-- visible, role, content, integrity, sensitivity, importance, expires_at, ends_at, occurred_at, created_at, attributes,
-- validation_status, language, injected, last_injected_at, cleaned_by, pinned, hidden, successor_id.
SELECT m.memory_id, m.version, m.kind, m.scope_id, m.session_id, m.changed_version, true AS visible,
       v.role, v.content, v.integrity, v.sensitivity, v.importance,
       CASE WHEN m.kind = 'semantic' AND v.valid_to > v.occurred_at AND m.superseded_by IS NULL
           THEN least(v.expires_at, v.valid_to) ELSE v.expires_at END AS expires_at, v.expires_at AS ends_at,
       v.occurred_at, m.created_at, v.attributes, v.validation_status, v.language, 0::int8 AS injected,
       NULL::timestamptz AS last_injected_at, v.cleaned_by, m.pinned,
       CASE WHEN m.deleted_at IS NOT NULL THEN 'hidden' WHEN m.quarantined_at IS NOT NULL THEN 'quarantined'
            WHEN v.validation_status = 'rejected' THEN 'rejected'
            WHEN m.kind = 'procedural' AND v.validation_status <> 'confirmed' AND m.superseded_by IS NULL
                THEN 'rejected'
            WHEN m.collection = 'checkpoint' AND EXISTS (
                SELECT FROM derivations d
                WHERE d.tenant_id = $1 AND d.derived_id = m.memory_id AND d.source_kind = 'turn'
                  AND {withheld(d.source_id)})
                THEN 'hidden' ELSE '' END AS hidden,
       CASE WHEN m.superseded_reason IS DISTINCT FROM 'same meaning' THEN m.superseded_by END AS successor_id
FROM memories m
JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.version = m.version
WHERE m.tenant_id = $1 AND m.scope_id = ANY ($2) AND m.memory_id = ANY ($3);
