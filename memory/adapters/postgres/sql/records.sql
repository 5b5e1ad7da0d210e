-- name: sessions_newest
-- Sessions of a scope, newest first, from a cursor on.
-- $1 tenant uuid, $2 scope_id int8, $3 before timestamptz, $4 before_id uuid, $5 limit int8
-- Uses: sessions_recent, turns_in_order. Rows: session_id, label, turns, epoch, summarised_turns, summary_memory_id,
-- created_at, last_at, ended_at, attributes.
SELECT s.session_id, s.label, n.turns, s.epoch, n.summarised_turns, s.summary_memory_id, s.created_at, s.last_at,
       s.ended_at, s.attributes
FROM sessions s
CROSS JOIN LATERAL {turns_now(s)} n
WHERE s.tenant_id = $1 AND s.scope_id = $2 AND (s.created_at, s.session_id) < ($3, $4)
ORDER BY s.created_at DESC, s.session_id DESC
LIMIT $5;

-- name: sessions_oldest
-- Sessions of a scope, oldest first, from a cursor on.
-- $1 tenant uuid, $2 scope_id int8, $3 after timestamptz, $4 after_id uuid, $5 limit int8
-- Uses: sessions_recent, turns_in_order. Rows: session_id, label, turns, epoch, summarised_turns, summary_memory_id,
-- created_at, last_at, ended_at, attributes.
SELECT s.session_id, s.label, n.turns, s.epoch, n.summarised_turns, s.summary_memory_id, s.created_at, s.last_at,
       s.ended_at, s.attributes
FROM sessions s
CROSS JOIN LATERAL {turns_now(s)} n
WHERE s.tenant_id = $1 AND s.scope_id = $2 AND (s.created_at, s.session_id) > ($3, $4)
ORDER BY s.created_at, s.session_id
LIMIT $5;

-- name: session_by_label
-- A session by what the client calls it.
-- $1 tenant uuid, $2 scope_id int8, $3 label text
-- Uses: sessions_tenant_id_scope_id_label_key, turns_in_order. Rows: session_id, label, turns, epoch, summarised_turns,
-- summary_memory_id, created_at, last_at, ended_at, attributes.
SELECT s.session_id, s.label, n.turns, s.epoch, n.summarised_turns, s.summary_memory_id, s.created_at, s.last_at,
       s.ended_at, s.attributes
FROM sessions s
CROSS JOIN LATERAL {turns_now(s)} n
WHERE s.tenant_id = $1 AND s.scope_id = $2 AND s.label = $3;

-- name: session_by_id
-- A session by its id.
-- $1 tenant uuid, $2 scope_id int8, $3 session_id uuid
-- Uses: sessions_pkey, turns_in_order. Rows: session_id, label, turns, epoch, summarised_turns, summary_memory_id,
-- created_at, last_at, ended_at, attributes.
SELECT s.session_id, s.label, n.turns, s.epoch, n.summarised_turns, s.summary_memory_id, s.created_at, s.last_at,
       s.ended_at, s.attributes
FROM sessions s
CROSS JOIN LATERAL {turns_now(s)} n
WHERE s.tenant_id = $1 AND s.scope_id = $2 AND s.session_id = $3;

-- name: end_session
-- Its client says that a session ended at a moment.
-- $1 tenant uuid, $2 scope_id int8, $3 session_id uuid, $4 ended_at timestamptz
-- Uses: sessions_pkey. Rows: none.
UPDATE sessions
SET ended_at = greatest(ended_at, $4)
WHERE tenant_id = $1 AND scope_id = $2 AND session_id = $3;

-- name: labels_of_sessions
-- What clients call these sessions of a scope.
-- $1 tenant uuid, $2 scope_id int8, $3 session_ids uuid[]
-- Uses: sessions_pkey. Rows: session_id, label.
SELECT s.session_id, s.label
FROM unnest($3::uuid[]) AS w (session_id)
CROSS JOIN LATERAL (SELECT session_id, label, scope_id FROM sessions
                    WHERE tenant_id = $1 AND session_id = w.session_id LIMIT 1) s
WHERE s.scope_id = $2;

-- name: memories_newest
-- Memories of a scope that are neither deleted nor expired, newest first, from a cursor on; null filters let everything pass.
-- $1 tenant uuid, $2 scope_id int8, $3 before timestamptz, $4 before_id uuid, $5 limit int8, $6 kind text,
-- $7 session_id uuid, $8 now timestamptz
-- Uses: memories_recent, memory_versions_pkey. Rows: memory_id, version, kind, collection, session_id, scope_id, pinned,
-- quarantine_reason, superseded_by, superseded_reason, deleted_at, created_at, content, role, integrity, sensitivity,
-- origin, importance, confidence, validation_status, attributes, expires_at, occurred_at, valid_from, valid_to,
-- recorded_from, review_due_at.
SELECT m.memory_id, m.version, m.kind, m.collection, m.session_id, m.scope_id, m.pinned, m.quarantine_reason,
       m.superseded_by, m.superseded_reason, m.deleted_at, m.created_at, v.content, v.role, v.integrity,
       v.sensitivity, v.origin, v.importance, v.confidence, v.validation_status, v.attributes, v.expires_at, v.occurred_at, v.valid_from,
       v.valid_to, v.recorded_from, m.review_due_at
FROM memories m
JOIN memory_versions v ON v.tenant_id = m.tenant_id AND v.memory_id = m.memory_id AND v.version = m.version
WHERE m.tenant_id = $1 AND m.scope_id = $2 AND (m.created_at, m.memory_id) < ($3, $4)
  AND m.deleted_at IS NULL AND ($6::text IS NULL OR m.kind = $6) AND ($7::uuid IS NULL OR m.session_id = $7)
  AND (v.expires_at IS NULL OR v.expires_at > $8)
ORDER BY m.created_at DESC, m.memory_id DESC
LIMIT $5;

-- name: memories_oldest
-- Memories of a scope that are neither deleted nor expired, oldest first, from a cursor on; null filters let everything pass.
-- $1 tenant uuid, $2 scope_id int8, $3 after timestamptz, $4 after_id uuid, $5 limit int8, $6 kind text,
-- $7 session_id uuid, $8 now timestamptz
-- Uses: memories_recent, memory_versions_pkey. Rows: memory_id, version, kind, collection, session_id, scope_id, pinned,
-- quarantine_reason, superseded_by, superseded_reason, deleted_at, created_at, content, role, integrity, sensitivity,
-- origin, importance, confidence, validation_status, attributes, expires_at, occurred_at, valid_from, valid_to,
-- recorded_from, review_due_at.
SELECT m.memory_id, m.version, m.kind, m.collection, m.session_id, m.scope_id, m.pinned, m.quarantine_reason,
       m.superseded_by, m.superseded_reason, m.deleted_at, m.created_at, v.content, v.role, v.integrity,
       v.sensitivity, v.origin, v.importance, v.confidence, v.validation_status, v.attributes, v.expires_at, v.occurred_at, v.valid_from,
       v.valid_to, v.recorded_from, m.review_due_at
FROM memories m
JOIN memory_versions v ON v.tenant_id = m.tenant_id AND v.memory_id = m.memory_id AND v.version = m.version
WHERE m.tenant_id = $1 AND m.scope_id = $2 AND (m.created_at, m.memory_id) > ($3, $4)
  AND m.deleted_at IS NULL AND ($6::text IS NULL OR m.kind = $6) AND ($7::uuid IS NULL OR m.session_id = $7)
  AND (v.expires_at IS NULL OR v.expires_at > $8)
ORDER BY m.created_at, m.memory_id
LIMIT $5;

-- name: memories_within
-- How many of those that memories_oldest would give say so many bytes together, one at least. The version of each is looked
-- up by itself: joined, all of a scope were read for each page.
-- $1 tenant uuid, $2 scope_id int8, $3 after timestamptz, $4 after_id uuid, $5 limit int8, $6 bytes int8,
-- $7 now timestamptz
-- Uses: memories_recent, memory_versions_pkey. Rows: rows.
SELECT greatest(count(*) FILTER (WHERE said <= $6), 1) AS rows
FROM (
    SELECT sum(octet_length(content)) OVER (ORDER BY created_at, memory_id) AS said
    FROM (
        SELECT m.created_at, m.memory_id, v.content
        FROM memories m
        CROSS JOIN LATERAL (
            SELECT content, expires_at
            FROM memory_versions
            WHERE tenant_id = $1 AND memory_id = m.memory_id AND version = m.version
            LIMIT 1) v
        WHERE m.tenant_id = $1 AND m.scope_id = $2 AND (m.created_at, m.memory_id) > ($3, $4)
          AND m.deleted_at IS NULL AND (v.expires_at IS NULL OR v.expires_at > $7)
        ORDER BY m.created_at, m.memory_id
        LIMIT $5) AS following) AS summed;

-- name: memories_to_review
-- Facts of a scope that are due for review and still hold, procedures that wait for it or fail, and what is held back,
-- longest due first, from a cursor on. A fact that was said again since it fell due is as good as reviewed.
-- $1 tenant uuid, $2 scope_id int8, $3 after timestamptz, $4 after_id uuid, $5 limit int8, $6 kind text,
-- $7 session_id uuid, $8 now timestamptz
-- Uses: memories_to_review, memory_versions_pkey, facts_pkey. Rows: memory_id, version, kind, collection, session_id,
-- scope_id, pinned, quarantine_reason, superseded_by, superseded_reason, deleted_at, created_at, content, role,
-- integrity, sensitivity, origin, importance, confidence, validation_status, attributes, expires_at, occurred_at,
-- valid_from, valid_to, recorded_from, review_due_at.
SELECT m.memory_id, m.version, m.kind, m.collection, m.session_id, m.scope_id, m.pinned, m.quarantine_reason,
       m.superseded_by, m.superseded_reason, m.deleted_at, m.created_at, v.content, v.role, v.integrity,
       v.sensitivity, v.origin, v.importance, v.confidence, v.validation_status, v.attributes, v.expires_at, v.occurred_at, v.valid_from,
       v.valid_to, v.recorded_from, m.review_due_at
FROM memories m
JOIN memory_versions v ON v.tenant_id = m.tenant_id AND v.memory_id = m.memory_id AND v.version = m.version
LEFT JOIN facts f ON f.tenant_id = m.tenant_id AND f.memory_id = m.memory_id
WHERE m.tenant_id = $1 AND m.scope_id = $2 AND (m.review_due_at, m.memory_id) > ($3, $4) AND m.review_due_at <= $8
  AND m.deleted_at IS NULL AND ($6::text IS NULL OR m.kind = $6) AND ($7::uuid IS NULL OR m.session_id = $7)
  AND (v.expires_at IS NULL OR v.expires_at > $8)
  AND (f.state = 'current' AND f.said_at < m.review_due_at
      OR m.kind = 'procedural' AND m.superseded_by IS NULL AND v.validation_status <> 'rejected'
      OR m.quarantined_at IS NOT NULL)
ORDER BY m.review_due_at, m.memory_id
LIMIT $5;

-- name: memory_by_id
-- One memory, deleted or not, with its current text.
-- $1 tenant uuid, $2 scope_id int8, $3 memory_id uuid
-- Uses: memories_pkey, memory_versions_pkey. Rows: memory_id, version, kind, collection, session_id, scope_id, pinned,
-- quarantine_reason, superseded_by, superseded_reason, deleted_at, created_at, content, role, integrity, sensitivity,
-- origin, importance, confidence, validation_status, attributes, expires_at, occurred_at, valid_from, valid_to,
-- recorded_from, review_due_at.
SELECT m.memory_id, m.version, m.kind, m.collection, m.session_id, m.scope_id, m.pinned, m.quarantine_reason,
       m.superseded_by, m.superseded_reason, m.deleted_at, m.created_at, v.content, v.role, v.integrity,
       v.sensitivity, v.origin, v.importance, v.confidence, v.validation_status, v.attributes, v.expires_at, v.occurred_at, v.valid_from,
       v.valid_to, v.recorded_from, m.review_due_at
FROM memories m
JOIN memory_versions v ON v.tenant_id = m.tenant_id AND v.memory_id = m.memory_id AND v.version = m.version
WHERE m.tenant_id = $1 AND m.scope_id = $2 AND m.memory_id = $3;

-- name: lock_memory
-- A memory's version, whether it is deleted, waits to be made anew, and what it stands behind, locked to the end of the
-- transaction.
-- $1 tenant uuid, $2 scope_id int8, $3 memory_id uuid
-- Uses: memories_pkey. Rows: version, deleted_at, superseded_by, withdrawn.
SELECT m.version, m.deleted_at, m.superseded_by, {withdrawn(m)} AS withdrawn
FROM memories m
WHERE m.tenant_id = $1 AND m.scope_id = $2 AND m.memory_id = $3
FOR UPDATE;

-- name: next_version
-- The next version of a memory: the last one with these changes. A null member keeps what was, except expires_at,
-- which set_expires says to set.
-- $1 tenant uuid, $2 memory_id uuid, $3 version int4, $4 now timestamptz, $5 content text, $6 importance float4,
-- $7 sensitivity text, $8 validation_status text, $9 expires_at timestamptz, $10 set_expires bool, $11 attributes jsonb
-- Uses: memory_versions_pkey, memories_pkey. Rows: none.
INSERT INTO memory_versions (tenant_id, memory_id, version, scope_id, content, role, integrity, sensitivity, origin,
                             source, tool_name, language, importance, confidence, validation_status, attributes,
                             expires_at, occurred_at, valid_from, valid_to, recorded_from, superseded_by)
SELECT tenant_id, memory_id, $3 + 1, scope_id, coalesce($5, content), role, integrity, coalesce($7, sensitivity),
       origin, source, tool_name, language, coalesce($6, importance), confidence, coalesce($8, validation_status),
       coalesce($11, attributes), CASE WHEN $10 THEN $9 ELSE expires_at END, occurred_at, valid_from, valid_to,
       greatest($4, recorded_to),
       (SELECT m.superseded_by FROM memories m WHERE m.tenant_id = $1 AND m.memory_id = $2)
FROM memory_versions
WHERE tenant_id = $1 AND memory_id = $2 AND version = $3;

-- name: copy_provenance
-- The next version comes from where the last one came from.
-- $1 tenant uuid, $2 memory_id uuid, $3 version int4, $4 now timestamptz, $5 origin text
-- Uses: provenance_pkey. Rows: none.
INSERT INTO provenance (tenant_id, memory_id, version, scope_id, origin, model, extractor_version, exchange_id,
                        created_at)
SELECT tenant_id, memory_id, $3 + 1, scope_id, $5, model, extractor_version, exchange_id, $4
FROM provenance
WHERE tenant_id = $1 AND memory_id = $2 AND version = $3;

-- name: copy_embeddings
-- The next version has the same text, so the same vectors.
-- $1 tenant uuid, $2 memory_id uuid, $3 version int4
-- Uses: {embeddings}_pkey. Rows: none.
INSERT INTO {embeddings} (tenant_id, scope_id, memory_id, version, window_no, span_start, span_end, embedding)
SELECT tenant_id, scope_id, memory_id, $3 + 1, window_no, span_start, span_end, embedding
FROM {embeddings}
WHERE tenant_id = $1 AND memory_id = $2 AND version = $3;

-- name: pin_memory
-- Whether a memory is pinned.
-- $1 tenant uuid, $2 memory_id uuid, $3 pinned bool
-- Uses: memories_pkey. Rows: none.
UPDATE memories
SET pinned = $3
WHERE tenant_id = $1 AND memory_id = $2;

-- name: mark_reviewed
-- Somebody looked whether a memory holds: it is off the list of what is due.
-- $1 tenant uuid, $2 memory_id uuid, $3 now timestamptz
-- Uses: memories_pkey. Rows: none.
UPDATE memories
SET reviewed_at = $3, review_due_at = NULL
WHERE tenant_id = $1 AND memory_id = $2;

-- name: hide_memory
-- Hide a memory, or show it again (deleted_at null).
-- $1 tenant uuid, $2 memory_id uuid, $3 deleted_at timestamptz, $4 changed_version int8
-- Uses: memories_pkey. Rows: none.
UPDATE memories
SET deleted_at = $3, changed_version = $4
WHERE tenant_id = $1 AND memory_id = $2;

-- name: deleted_record_of
-- What the deleted record is whose words a memory is; no row where there is none.
-- $1 tenant uuid, $2 memory_id uuid
-- Uses: tasks_of_memory, personas_of_memory, entities_of_card, relationships_of_memory, entities_pkey, memories_pkey,
-- artifacts_of_memory, document_chunks_of_memory, documents_pkey, checkpoint_parts_of_memory, checkpoints_pkey.
-- Rows: record.
SELECT 'task' AS record FROM tasks WHERE tenant_id = $1 AND memory_id = $2 AND deleted_at IS NOT NULL
UNION ALL
SELECT 'persona' FROM personas WHERE tenant_id = $1 AND memory_id = $2 AND deleted_at IS NOT NULL
UNION ALL
SELECT 'entity' FROM entities WHERE tenant_id = $1 AND card_id = $2 AND deleted_at IS NOT NULL
UNION ALL
SELECT CASE WHEN r.deleted_at IS NULL THEN 'entity' ELSE 'relationship' END
FROM relationships r
JOIN entities e ON e.tenant_id = $1 AND e.entity_id IN (r.source_entity, r.target_entity)
JOIN memories m ON m.tenant_id = $1 AND m.memory_id = $2 AND m.collection = 'entity'
WHERE r.tenant_id = $1 AND r.memory_id = $2 AND (r.deleted_at IS NOT NULL OR e.deleted_at IS NOT NULL)
UNION ALL
SELECT 'artifact' FROM artifacts WHERE tenant_id = $1 AND memory_id = $2 AND deleted_at IS NOT NULL
UNION ALL
SELECT 'document'
FROM document_chunks c
JOIN documents d ON d.tenant_id = $1 AND d.document_id = c.document_id AND d.deleted_at IS NOT NULL
WHERE c.tenant_id = $1 AND c.memory_id = $2
UNION ALL
SELECT 'checkpoint'
FROM checkpoint_parts p
JOIN checkpoints c ON c.tenant_id = $1 AND c.checkpoint_id = p.checkpoint_id
WHERE p.tenant_id = $1 AND p.memory_id = $2 AND p.own
HAVING bool_and(c.deleted_at IS NOT NULL);

-- name: withdraw_summaries
-- Hide the rolling summaries that hold words of the turns of these memories, and say that nobody but us did: they wait to
-- be made anew.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 now timestamptz, $4 changed_version int8
-- Uses: derivations_pkey, derivations_of_source. Rows: memory_id.
UPDATE memories s
SET deleted_at = $3, pruned_at = $3, pruned_reason = NULL, changed_version = $4
FROM (
    SELECT DISTINCT told.derived_id
    FROM derivations d
    JOIN derivations told ON told.tenant_id = $1 AND told.source_id = d.source_id AND told.source_kind = 'turn'
        AND told.derived_kind = 'summary'
    WHERE d.tenant_id = $1 AND d.derived_id = ANY ($2) AND d.derived_kind = 'memory' AND d.source_kind = 'turn') w
WHERE s.tenant_id = $1 AND s.memory_id = w.derived_id AND s.kind = 'summary' AND s.collection = 'default'
  AND s.deleted_at IS NULL
RETURNING s.memory_id;

-- name: retrieval_by_id
-- What one request was given.
-- $1 tenant uuid, $2 scope_id int8, $3 retrieval_id uuid
-- Uses: retrievals_of_scope. Rows: retrieval_id, session_id, exchange_id, status, reason, rung, config_digest,
-- embedding_model, served_model, candidates, placements, tokens, tokens_exact, millis, sha256_sent, sealed, created_at.
SELECT retrieval_id, session_id, exchange_id, status, reason, rung, config_digest, embedding_model, served_model,
       candidates, placements, tokens, tokens_exact, millis, sha256_sent, sealed, created_at
FROM retrievals
WHERE tenant_id = $1 AND scope_id = $2 AND retrieval_id = $3;

-- name: exchange_sealed
-- The sealed parts of one exchange, with those that they are told from; none where these are gone. It is looked up by
-- itself: before the first statistics all of its scope was read for it (5,000 of 100,000: 41 to 69 ms, and now .2).
-- $1 tenant uuid, $2 scope_id int8, $3 exchange_id uuid
-- Uses: exchanges_pkey. Rows: exchange_id, session_id, subject_id, status, reason, sealed, sealed_sha256, finished_at,
-- base_id, base_sealed.
SELECT e.exchange_id, e.session_id, e.subject_id, e.status, e.reason,
       CASE WHEN e.base_id IS NULL OR b.sealed IS NOT NULL THEN e.sealed END AS sealed, e.sealed_sha256, e.finished_at,
       e.base_id, b.sealed AS base_sealed
FROM (
    SELECT exchange_id, scope_id, session_id, subject_id, status, reason, sealed, sealed_sha256, finished_at, base_id
    FROM exchanges
    WHERE tenant_id = $1 AND exchange_id = $3
    LIMIT 1) e
LEFT JOIN exchanges b ON b.tenant_id = $1 AND b.exchange_id = e.base_id
WHERE e.scope_id = $2;

-- name: turns_in_order
-- Turns of a scope by session and number, from a cursor on, with what the client calls the session. `memory`: none where
-- none in its own words was made of the turn, hidden where that was hidden or rejected by a person or has expired. `parent`:
-- what a copy knows the turn by that it stands behind; not what a client called one that is more sensitive.
-- $1 tenant uuid, $2 scope_id int8, $3 after_session uuid, $4 after_seq int8, $5 limit int8, $6 now timestamptz
-- Uses: turns_in_order, sessions_pkey, derivations_of_source, memories_pkey, memory_versions_pkey, untold_turns_pkey,
-- turns_tenant_id_session_id_chain_key.
-- Rows: label, event_id, session_id, exchange_id, seq, chain, attempt, role, name, content, tool_calls, tool_call_id,
-- source_id, origin, integrity, sensitivity, model, redactions, token_count, occurred_at, recorded_at, parts,
-- parent_chain, memory, parent.
SELECT s.label, t.event_id, t.session_id, t.exchange_id, t.seq, t.chain, t.attempt, t.role, t.name, t.content,
       t.tool_calls, t.tool_call_id, t.source_id, t.origin, t.integrity, t.sensitivity, t.model, t.redactions,
       t.token_count, t.occurred_at, t.recorded_at, t.parts, t.parent_chain,
       CASE WHEN own.gone OR EXISTS (SELECT FROM untold_turns u WHERE u.tenant_id = $1 AND u.event_id = t.event_id)
                THEN 'hidden'
            WHEN own.pruned IS NOT FALSE THEN 'none' END AS memory,
       (SELECT CASE WHEN p.source_id IS NULL THEN p.event_id::text
                    WHEN array_position(ARRAY['public', 'internal', 'confidential', 'secret'], p.sensitivity)
                        <= array_position(ARRAY['public', 'internal', 'confidential', 'secret'], t.sensitivity)
                        THEN p.source_id END
        FROM turns p
        WHERE p.tenant_id = $1 AND p.session_id = t.session_id AND p.chain = t.parent_chain
        LIMIT 1) AS parent
FROM turns t
JOIN sessions s ON s.tenant_id = t.tenant_id AND s.session_id = t.session_id
LEFT JOIN LATERAL (
    SELECT m.pruned_at IS NOT NULL AND m.pruned_at = m.deleted_at AS pruned,
           (m.deleted_at IS NOT NULL AND m.pruned_at IS DISTINCT FROM m.deleted_at)
               OR v.validation_status = 'rejected' OR coalesce(v.expires_at <= $6, false) AS gone
    FROM derivations d
    JOIN memories m ON m.tenant_id = $1 AND m.memory_id = d.derived_id AND m.kind = 'episodic'
    JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.version = m.version
    WHERE d.tenant_id = $1 AND d.source_id = t.event_id AND d.source_kind = 'turn' AND d.derived_kind = 'memory'
    LIMIT 1) own ON true
WHERE t.tenant_id = $1 AND t.scope_id = $2 AND (t.session_id, t.seq) > ($3, $4)
ORDER BY t.session_id, t.seq
LIMIT $5;

-- name: turns_within
-- How many of the turns that turns_in_order would give say so many bytes together, one at least.
-- $1 tenant uuid, $2 scope_id int8, $3 after_session uuid, $4 after_seq int8, $5 limit int8, $6 bytes int8
-- Uses: turns_in_order. Rows: rows.
SELECT greatest(count(*) FILTER (WHERE said <= $6), 1) AS rows
FROM (
    SELECT sum(octet_length(content)) OVER (ORDER BY session_id, seq) AS said
    FROM (
        SELECT session_id, seq, content
        FROM turns
        WHERE tenant_id = $1 AND scope_id = $2 AND (session_id, seq) > ($3, $4)
        ORDER BY session_id, seq
        LIMIT $5) AS following) AS summed;

-- name: counts_of_scope
-- How much a scope holds.
-- $1 tenant uuid, $2 scope_id int8
-- Uses: sessions_recent, turns_in_order, memories_changed. Rows: sessions, turns, memories.
SELECT (SELECT count(*) FROM sessions WHERE tenant_id = $1 AND scope_id = $2) AS sessions,
       (SELECT count(*) FROM turns WHERE tenant_id = $1 AND scope_id = $2) AS turns,
       (SELECT count(*) FROM memories WHERE tenant_id = $1 AND scope_id = $2 AND deleted_at IS NULL) AS memories;
