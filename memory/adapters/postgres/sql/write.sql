-- name: exchange_known
-- Whether this exchange is stored.
-- $1 tenant uuid, $2 exchange_id uuid
-- Uses: exchanges_pkey. Rows: known.
SELECT true AS known
FROM exchanges
WHERE tenant_id = $1 AND exchange_id = $2;

-- name: tombstones_of
-- Which of these digests were forgotten, and when.
-- $1 tenant uuid, $2 kinds text[], $3 digests bytea[]
-- Uses: tombstones_pkey. Rows: kind, digest, created_at.
SELECT t.kind, t.digest, t.created_at
FROM unnest($2::text[], $3::bytea[]) AS w (kind, digest)
JOIN tombstones t ON t.tenant_id = $1 AND t.kind = w.kind AND t.digest = w.digest;

-- name: memories_made_anew
-- Those of these memories that were made again since each was forgotten, and before a moment. The arrays go pairwise.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 since timestamptz[], $4 before timestamptz
-- Uses: memories_pkey. Rows: memory_id.
SELECT w.memory_id
FROM unnest($2::uuid[], $3::timestamptz[]) AS w (memory_id, since)
CROSS JOIN LATERAL (SELECT created_at FROM memories WHERE tenant_id = $1 AND memory_id = w.memory_id LIMIT 1) m
WHERE m.created_at > w.since AND m.created_at <= $4;

-- name: add_subject
-- A subject, unless it is there.
-- $1 tenant uuid, $2 subject_id uuid, $3 user text, $4 now timestamptz
-- Uses: none. Rows: none.
INSERT INTO subjects (tenant_id, subject_id, user_name, created_at)
VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING;

-- name: lock_session
-- A session by its label, locked to the end of the transaction: numbers are given out one writer at a time.
-- $1 tenant uuid, $2 scope_id int8, $3 label text
-- Uses: sessions_tenant_id_scope_id_label_key. Rows: session_id, scope_id, next_seq, epoch, tip_chain, last_at.
SELECT session_id, scope_id, next_seq, epoch, tip_chain, last_at
FROM sessions
WHERE tenant_id = $1 AND scope_id = $2 AND label = $3
FOR UPDATE;

-- name: lock_session_by_id
-- A session by its id, locked to the end of the transaction.
-- $1 tenant uuid, $2 session_id uuid
-- Uses: sessions_pkey. Rows: session_id, scope_id, next_seq, epoch, tip_chain, last_at, summary_memory_id, summarised_seq.
SELECT session_id, scope_id, next_seq, epoch, tip_chain, last_at, summary_memory_id, summarised_seq
FROM sessions
WHERE tenant_id = $1 AND session_id = $2
FOR UPDATE;

-- name: add_session
-- A new session, unless it is there. Any conflict counts: with the label's index alone two at once could meet in the
-- primary key's first, which is an error.
-- $1 tenant uuid, $2 session_id uuid, $3 scope_id int8, $4 label text, $5 at timestamptz, $6 now timestamptz
-- Uses: none. Rows: none.
INSERT INTO sessions (tenant_id, session_id, scope_id, label, created_at, last_at)
VALUES ($1, $2, $3, $4, $6, $5)
ON CONFLICT DO NOTHING;

-- name: advance_session
-- The numbers given out, the new tip, and when it was last spoken in.
-- $1 tenant uuid, $2 session_id uuid, $3 next_seq int8, $4 tip_chain bytea, $5 at timestamptz
-- Uses: sessions_pkey. Rows: none.
UPDATE sessions
SET next_seq = $3, tip_chain = coalesce($4, tip_chain), last_at = greatest(last_at, $5), active_at = clock_timestamp()
WHERE tenant_id = $1 AND session_id = $2;

-- name: session_tail
-- Where a session ends.
-- $1 tenant uuid, $2 scope_id int8, $3 label text
-- Uses: sessions_tenant_id_scope_id_label_key. Rows: session_id, tip_chain, next_seq, last_at.
SELECT session_id, tip_chain, next_seq, last_at
FROM sessions
WHERE tenant_id = $1 AND scope_id = $2 AND label = $3;

-- name: last_turns
-- What was said last in a session, latest first.
-- $1 tenant uuid, $2 session_id uuid, $3 limit int8
-- Uses: turns_tenant_id_session_id_seq_key. Rows: event_id, content.
SELECT event_id, content
FROM turns
WHERE tenant_id = $1 AND session_id = $2
ORDER BY seq DESC
LIMIT $3;

-- name: session_tail_by_id
-- Where a session ends whose label is another one by now.
-- $1 tenant uuid, $2 scope_id int8, $3 session_id uuid
-- Uses: sessions_pkey. Rows: session_id, tip_chain, next_seq, last_at.
SELECT session_id, tip_chain, next_seq, last_at
FROM sessions
WHERE tenant_id = $1 AND scope_id = $2 AND session_id = $3;

-- name: add_exchange
-- One request with its answer.
-- $1 tenant uuid, $2 exchange_id uuid, $3 scope_id int8, $4 session_id uuid, $5 subject_id uuid, $6 origin text,
-- $7 status text, $8 reason text, $9 http_status int4, $10 model text, $11 finish_reasons text[], $12 usage jsonb,
-- $13 arrived_at timestamptz, $14 finished_at timestamptz, $15 now timestamptz, $16 sealed bytea,
-- $17 sealed_sha256 bytea, $18 base_id uuid
-- Uses: none. Rows: none.
INSERT INTO exchanges (tenant_id, exchange_id, scope_id, session_id, subject_id, origin, status, reason, http_status,
                       model, finish_reasons, usage, arrived_at, finished_at, recorded_at, sealed, sealed_sha256,
                       base_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18);

-- name: base_of_session
-- Of the bodies that the session's last ones are, or are told from, the latest that is kept whole and no less than
-- `bytes_min`. A body's length is known without reading it.
-- $1 tenant uuid, $2 session_id uuid, $3 subject_id uuid, $4 since timestamptz, $5 bytes_min int4
-- Uses: exchanges_of_session, exchanges_pkey. Rows: exchange_id, sealed.
SELECT b.exchange_id, b.sealed
FROM (
    SELECT coalesce(base_id, exchange_id) AS exchange_id
    FROM exchanges
    WHERE tenant_id = $1 AND session_id = $2 AND arrived_at >= $4
    ORDER BY arrived_at DESC
    LIMIT 8) w
CROSS JOIN LATERAL (
    SELECT exchange_id, arrived_at, sealed
    FROM exchanges
    WHERE tenant_id = $1 AND exchange_id = w.exchange_id AND subject_id = $3 AND arrived_at >= $4 AND base_id IS NULL
      AND octet_length(sealed) >= $5
    LIMIT 1) b
ORDER BY b.arrived_at DESC
LIMIT 1;

-- name: base_stays
-- Whether a body is there whole. It stays until this transaction has ended.
-- $1 tenant uuid, $2 exchange_id uuid
-- Uses: exchanges_pkey. Rows: stays.
SELECT true AS stays
FROM exchanges
WHERE tenant_id = $1 AND exchange_id = $2 AND base_id IS NULL AND sealed IS NOT NULL
FOR SHARE;

-- name: chains_known
-- Which of these chain positions their sessions have, and as which turn. The arrays go pairwise. Each is looked up by itself:
-- joined, all turns of a scope that seemed to hold next to nothing were read for each 64 lines of an import. The order is that
-- of the one index that has the position in it: before the first ANALYZE all indexes cost the same, and by another one all
-- turns of the session were read for each (120 ms for 900 messages that a client sends again).
-- $1 tenant uuid, $2 session_ids uuid[], $3 chains bytea[]
-- Uses: turns_tenant_id_session_id_chain_key. Rows: session_id, chain, event_id.
SELECT t.session_id, t.chain, t.event_id
FROM unnest($2::uuid[], $3::bytea[]) AS w (session_id, chain)
CROSS JOIN LATERAL (
    SELECT session_id, chain, event_id
    FROM turns
    WHERE tenant_id = $1 AND session_id = w.session_id AND chain = ANY (ARRAY[w.chain])
    ORDER BY chain
    LIMIT 1) t;

-- name: take_places
-- Imported turns of a session that stand where their redacted words have put them, put where their client's messages
-- stand. The arrays go pairwise.
-- $1 tenant uuid, $2 session_id uuid, $3 from bytea[], $4 to bytea[]
-- Uses: turns_tenant_id_session_id_chain_key. Rows: taken.
UPDATE turns t
SET chain = w.taken
FROM unnest($3::bytea[], $4::bytea[]) AS w (chain, taken)
WHERE t.tenant_id = $1 AND t.session_id = $2 AND t.chain = w.chain AND t.origin = 'import'
RETURNING w.taken;

-- name: stand_behind
-- What stands behind turns that were put elsewhere stands behind them still. The arrays go pairwise.
-- $1 tenant uuid, $2 session_id uuid, $3 from bytea[], $4 to bytea[]
-- Uses: turns_siblings. Rows: none.
UPDATE turns t
SET parent_chain = w.taken
FROM unnest($3::bytea[], $4::bytea[]) AS w (chain, taken)
WHERE t.tenant_id = $1 AND t.session_id = $2 AND t.parent_chain = w.chain;

-- name: end_at
-- A session that ends with a turn that was put elsewhere ends there. The arrays go pairwise.
-- $1 tenant uuid, $2 session_id uuid, $3 from bytea[], $4 to bytea[]
-- Uses: sessions_pkey. Rows: none.
UPDATE sessions s
SET tip_chain = w.taken
FROM unnest($3::bytea[], $4::bytea[]) AS w (chain, taken)
WHERE s.tenant_id = $1 AND s.session_id = $2 AND s.tip_chain = w.chain;

-- name: chains_elsewhere
-- Which of these chain positions another session of the scope has. Each is looked up by itself, as in session_of_chains.
-- $1 tenant uuid, $2 scope_id int8, $3 session_id uuid, $4 chains bytea[]
-- Uses: turns_chain. Rows: chain.
SELECT w.chain
FROM unnest($4::bytea[]) AS w (chain)
CROSS JOIN LATERAL (
    SELECT FROM turns
    WHERE tenant_id = $1 AND scope_id = $2 AND chain = w.chain AND session_id <> $3
    LIMIT 1) t;

-- name: last_said_above
-- When the latest was said of the turns of a session from one position of the chain up to its beginning.
-- $1 tenant uuid, $2 session_id uuid, $3 chain bytea
-- Uses: turns_tenant_id_session_id_chain_key. Rows: last_said.
WITH RECURSIVE above AS (
    SELECT parent_chain, occurred_at
    FROM turns
    WHERE tenant_id = $1 AND session_id = $2 AND chain = $3
    UNION ALL
    SELECT t.parent_chain, t.occurred_at
    FROM above a
    JOIN turns t ON t.tenant_id = $1 AND t.session_id = $2 AND t.chain = a.parent_chain)
SELECT max(occurred_at) AS last_said
FROM above;

-- name: siblings
-- How many turns stand behind each of these turns: the next one is that attempt. The arrays go pairwise. Each is looked up by
-- itself, as positions are.
-- $1 tenant uuid, $2 session_ids uuid[], $3 parents bytea[]
-- Uses: turns_siblings. Rows: session_id, parent_chain, attempts.
SELECT w.session_id, w.parent_chain, count(*) AS attempts
FROM unnest($2::uuid[], $3::bytea[]) AS w (session_id, parent_chain)
CROSS JOIN LATERAL (
    SELECT FROM turns WHERE tenant_id = $1 AND session_id = w.session_id AND parent_chain = w.parent_chain OFFSET 0) t
GROUP BY w.session_id, w.parent_chain;

-- name: openings
-- How many turns open each of these sessions.
-- $1 tenant uuid, $2 session_ids uuid[]
-- Uses: turns_siblings. Rows: session_id, attempts.
SELECT session_id, count(*) AS attempts
FROM turns
WHERE tenant_id = $1 AND session_id = ANY ($2) AND parent_chain IS NULL
GROUP BY session_id;

-- name: add_turn
-- One message at one chain position.
-- $1 tenant uuid, $2 event_id uuid, $3 scope_id int8, $4 session_id uuid, $5 exchange_id uuid, $6 seq int8,
-- $7 chain bytea, $8 parent_chain bytea, $9 attempt int4, $10 role text, $11 name text, $12 content text,
-- $13 tool_calls jsonb, $14 tool_call_id text, $15 source_id text, $16 line_digest bytea, $17 origin text,
-- $18 integrity text, $19 sensitivity text, $20 model text, $21 redactions int4, $22 token_count int4,
-- $23 occurred_at timestamptz, $24 now timestamptz, $25 language text, $26 parts jsonb
-- Uses: none. Rows: none.
INSERT INTO turns (tenant_id, event_id, scope_id, session_id, exchange_id, seq, chain, parent_chain, attempt, role, name,
                   content, tool_calls, tool_call_id, source_id, line_digest, origin, integrity, sensitivity, model,
                   redactions, token_count, occurred_at, recorded_at, language, parts)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
        $25, $26);

-- name: replace_turn
-- An imported turn whose line came again with another content: all that was cleaned with it takes the old one's place.
-- $1 tenant uuid, $2 event_id uuid, $3 role text, $4 name text, $5 content text, $6 line_digest bytea,
-- $7 integrity text, $8 sensitivity text, $9 redactions int4, $10 token_count int4, $11 occurred_at timestamptz,
-- $12 now timestamptz, $13 language text, $14 tool_calls jsonb, $15 tool_call_id text, $16 parts jsonb,
-- $17 exchange_id uuid
-- Uses: turns_pkey. Rows: event_id, seq.
UPDATE turns
SET role = $3, name = $4, content = $5, line_digest = $6, integrity = $7, sensitivity = $8, redactions = $9,
    token_count = $10, occurred_at = $11, recorded_at = $12, language = $13, tool_calls = $14, tool_call_id = $15,
    parts = $16, exchange_id = $17, cleaned_by = mp_rules()
WHERE tenant_id = $1 AND event_id = $2
RETURNING event_id, seq;

-- name: add_memory
-- A memory's identity, unless the scope has this content key in this kind. One that is held back is up for review at once.
-- $1 tenant uuid, $2 memory_id uuid, $3 scope_id int8, $4 kind text, $5 content_key bytea, $6 session_id uuid,
-- $7 subject_id uuid, $8 changed_version int8, $9 now timestamptz, $10 quarantine_reason text
-- Uses: memories_content_key. Rows: memory_id.
INSERT INTO memories (tenant_id, memory_id, scope_id, kind, content_key, session_id, subject_id, changed_version,
                      created_at, quarantine_reason, quarantined_at, review_due_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::timestamptz, $10::text, CASE WHEN $10::text IS NOT NULL THEN $9::timestamptz END,
        CASE WHEN $10::text IS NOT NULL THEN $9::timestamptz END)
ON CONFLICT (tenant_id, scope_id, kind, content_key) DO NOTHING
RETURNING memory_id;

-- name: add_version
-- One version of a memory's text, with its labels.
-- $1 tenant uuid, $2 memory_id uuid, $3 version int4, $4 scope_id int8, $5 content text, $6 role text,
-- $7 integrity text, $8 sensitivity text, $9 origin text, $10 importance float4, $11 confidence float4,
-- $12 attributes jsonb, $13 occurred_at timestamptz, $14 now timestamptz, $15 language text, $16 tool_name text,
-- $17 valid_from timestamptz, $18 valid_to timestamptz, $19 validation_status text, $20 superseded_by uuid,
-- $21 expires_at timestamptz
-- Uses: memory_versions_pkey. Rows: none.
INSERT INTO memory_versions (tenant_id, memory_id, version, scope_id, content, role, integrity, sensitivity, origin,
                             importance, confidence, attributes, occurred_at, recorded_from, language, tool_name,
                             valid_from, valid_to, validation_status, superseded_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
        greatest($14, (SELECT recorded_to FROM memory_versions
                       WHERE tenant_id = $1 AND memory_id = $2 AND version = $3 - 1)),
        $15, $16, $17, $18, $19, $20, $21);

-- name: close_version
-- The version in force ends; never before it began, should the clock have been put back. Whether it was held back to its
-- end: what takes its place may be set free.
-- $1 tenant uuid, $2 memory_id uuid, $3 now timestamptz
-- Uses: memory_versions_current, memories_pkey. Rows: none.
UPDATE memory_versions
SET recorded_to = greatest($3, recorded_from + interval '1 microsecond'),
    held_back = EXISTS (
        SELECT FROM memories WHERE tenant_id = $1 AND memory_id = $2 AND quarantined_at IS NOT NULL)
WHERE tenant_id = $1 AND memory_id = $2 AND recorded_to IS NULL;

-- name: point_memory
-- The memory's current version, and the scope version it changed at.
-- $1 tenant uuid, $2 memory_id uuid, $3 version int4, $4 changed_version int8
-- Uses: memories_pkey. Rows: none.
UPDATE memories
SET version = $3, changed_version = $4
WHERE tenant_id = $1 AND memory_id = $2;

-- name: add_provenance
-- Where a version came from.
-- $1 tenant uuid, $2 memory_id uuid, $3 version int4, $4 scope_id int8, $5 origin text, $6 model text,
-- $7 extractor_version text, $8 exchange_id uuid, $9 now timestamptz
-- Uses: none. Rows: none.
INSERT INTO provenance (tenant_id, memory_id, version, scope_id, origin, model, extractor_version, exchange_id,
                        created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: add_derivation
-- What a memory was made of.
-- $1 tenant uuid, $2 derived_id uuid, $3 derived_kind text, $4 source_id uuid, $5 source_kind text, $6 ordinal int4,
-- $7 scope_id int8, $8 span_start int4, $9 span_end int4
-- Uses: none. Rows: none.
INSERT INTO derivations (tenant_id, derived_id, derived_kind, source_id, source_kind, ordinal, scope_id, span_start,
                         span_end)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT DO NOTHING;

-- name: add_embedding
-- The vector of one window of one version.
-- $1 tenant uuid, $2 scope_id int8, $3 memory_id uuid, $4 version int4, $5 window_no int4, $6 span_start int4,
-- $7 span_end int4, $8 embedding halfvec
-- Uses: none. Rows: none.
INSERT INTO {embeddings} (tenant_id, scope_id, memory_id, version, window_no, span_start, span_end, embedding)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT DO NOTHING;

-- name: add_ledger_node
-- One chain position of the ledger: what was placed once stays as it was, where nothing was something may be. Another
-- attempt at an opening may be given something else (anew), also in place of what was withdrawn: the later one, whichever
-- is stored first. Places that are no message's (-1) have other ids than retrievals.
-- $1 tenant uuid, $2 session_id uuid, $3 chain bytea, $4 scope_id int8, $5 epoch int4, $6 position int4,
-- $7 token_count int4, $8 placed_sealed bytea, $9 placed_sha256 bytea, $10 placed_tokens int4, $11 retrieval_id uuid,
-- $12 now timestamptz, $13 anew bool
-- Uses: none. Rows: none.
INSERT INTO ledger (tenant_id, session_id, chain, scope_id, epoch, position, token_count, placed_sealed, placed_sha256,
                    placed_tokens, retrieval_id, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (tenant_id, session_id, chain) DO UPDATE
SET placed_sealed = EXCLUDED.placed_sealed, placed_sha256 = EXCLUDED.placed_sha256,
    placed_tokens = EXCLUDED.placed_tokens, retrieval_id = EXCLUDED.retrieval_id, withdrawn_at = NULL
WHERE EXCLUDED.retrieval_id IS NOT NULL
  AND CASE WHEN $13 THEN ledger.retrieval_id IS NULL OR ledger.position < 0 OR ledger.retrieval_id < EXCLUDED.retrieval_id
      ELSE ledger.retrieval_id IS NULL AND ledger.withdrawn_at IS NULL END;

-- name: take_mark_off
-- A place of a session that is no message's says nothing more, where it says this.
-- $1 tenant uuid, $2 session_id uuid, $3 chain bytea, $4 mark bytea
-- Uses: ledger_pkey. Rows: none.
UPDATE ledger
SET placed_sealed = NULL, placed_sha256 = NULL
WHERE tenant_id = $1 AND session_id = $2 AND chain = $3 AND placed_sealed = $4;

-- name: withdraw_places
-- What was placed here is never sent again.
-- $1 tenant uuid, $2 session_id uuid, $3 chains bytea[], $4 now timestamptz
-- Uses: ledger_pkey. Rows: none.
UPDATE ledger
SET placed_sealed = NULL, placed_sha256 = NULL, withdrawn_at = coalesce(withdrawn_at, $4)
WHERE tenant_id = $1 AND session_id = $2 AND chain = ANY ($3);

-- name: add_retrieval
-- What one request was given.
-- $1 tenant uuid, $2 retrieval_id uuid, $3 scope_id int8, $4 session_id uuid, $5 exchange_id uuid, $6 status text,
-- $7 reason text, $8 rung text, $9 config_digest text, $10 embedding_model text, $11 served_model text,
-- $12 candidates jsonb, $13 placements jsonb, $14 tokens int4, $15 tokens_exact bool, $16 millis float4,
-- $17 sha256_sent bytea, $18 sealed bytea, $19 created_at timestamptz
-- Uses: none. Rows: none.
INSERT INTO retrievals (tenant_id, retrieval_id, scope_id, session_id, exchange_id, status, reason, rung, config_digest,
                        embedding_model, served_model, candidates, placements, tokens, tokens_exact, millis,
                        sha256_sent, sealed, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
ON CONFLICT DO NOTHING;

-- name: add_injections
-- One injection more for each of these memories, those that are visible and not deleted; in the order of their ids, so
-- that two writers cannot wait for each other in a circle.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 at timestamptz, $4 changed_version int8
-- Uses: memories_pkey, memory_access_pkey. Rows: none.
INSERT INTO memory_access AS a (tenant_id, memory_id, scope_id, injected, last_injected_at, changed_version)
SELECT m.tenant_id, m.memory_id, m.scope_id, 1, $3, $4
FROM unnest($2::uuid[]) AS w (memory_id)
JOIN memories m ON m.tenant_id = $1 AND m.memory_id = w.memory_id AND m.deleted_at IS NULL
ORDER BY m.memory_id
FOR KEY SHARE OF m
ON CONFLICT (tenant_id, memory_id) DO UPDATE
SET injected = a.injected + 1, last_injected_at = greatest(a.last_injected_at, excluded.last_injected_at),
    changed_version = excluded.changed_version;

-- name: turns_since
-- The turns of a session from a number on, in order.
-- $1 tenant uuid, $2 scope_id int8, $3 session_id uuid, $4 seq int8, $5 limit int8
-- Uses: turns_in_order. Rows: event_id, session_id, exchange_id, seq, chain, attempt, role, name,
-- content, tool_calls, tool_call_id, source_id, origin, integrity, sensitivity, model, redactions, token_count,
-- occurred_at, recorded_at, parts, parent_chain.
SELECT event_id, session_id, exchange_id, seq, chain, attempt, role, name, content, tool_calls, tool_call_id, source_id,
       origin, integrity, sensitivity, model, redactions, token_count, occurred_at, recorded_at, parts, parent_chain
FROM turns
WHERE tenant_id = $1 AND scope_id = $2 AND session_id = $3 AND seq >= $4
ORDER BY seq
LIMIT $5;

-- name: summary_state
-- The rolling summary of a session as it stands, and how many tokens were said since; of a turn that was not counted a
-- quarter of its characters.
-- $1 tenant uuid, $2 scope_id int8, $3 session_id uuid
-- Uses: sessions_pkey, memories_pkey, memory_versions_pkey, turns_tenant_id_session_id_seq_key. Rows: summarised_seq,
-- next_seq, memory_id, version, changed_version, content, attributes, integrity, sensitivity, withdrawn, tokens_since.
SELECT s.summarised_seq, s.next_seq, m.memory_id, m.version, m.changed_version, v.content, v.attributes, v.integrity,
       v.sensitivity, coalesce({withdrawn(m)}, false) AS withdrawn,
       (SELECT coalesce(sum(coalesce(t.token_count, length(t.content) / 4)), 0)
        FROM turns t
        WHERE t.tenant_id = $1 AND t.session_id = $3 AND t.seq >= s.summarised_seq) AS tokens_since
FROM sessions s
LEFT JOIN memories m ON m.tenant_id = $1 AND m.memory_id = s.summary_memory_id
LEFT JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.version = m.version
WHERE s.tenant_id = $1 AND s.scope_id = $2 AND s.session_id = $3;

-- name: current_version_of
-- The number of a memory's current version, the scope's version as of its latest change, whether it is a summary that
-- waits to be made anew, and what a person said of it.
-- $1 tenant uuid, $2 memory_id uuid
-- Uses: memories_pkey, memory_versions_pkey. Rows: version, changed_version, withdrawn, validation_status.
SELECT m.version, m.changed_version, {withdrawn(m)} AS withdrawn, v.validation_status
FROM memories m
JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.version = m.version
WHERE m.tenant_id = $1 AND m.memory_id = $2;

-- name: mark_summarised
-- How far the rolling summary reaches.
-- $1 tenant uuid, $2 session_id uuid, $3 memory_id uuid, $4 summarised_seq int8
-- Uses: sessions_pkey. Rows: none.
UPDATE sessions
SET summary_memory_id = $3, summarised_seq = $4
WHERE tenant_id = $1 AND session_id = $2;

-- name: drop_sealed_exchanges
-- Sealed parts of some exchanges past their retention; of those that others are told from, once the last of these is.
-- $1 tenant uuid, $2 before timestamptz, $3 limit int8
-- Uses: exchanges_sealed_age, exchanges_deltas, exchanges_pkey. Rows: none.
UPDATE exchanges
SET sealed = NULL, base_id = NULL
WHERE tenant_id = $1 AND exchange_id IN (
    SELECT e.exchange_id
    FROM exchanges e
    LEFT JOIN LATERAL (
        SELECT exchange_id
        FROM exchanges
        WHERE tenant_id = $1 AND base_id = e.exchange_id AND finished_at >= $2
        LIMIT 1) told ON true
    WHERE e.tenant_id = $1 AND e.finished_at < $2 AND e.sealed IS NOT NULL AND told.exchange_id IS NULL
    LIMIT $3);

-- name: drop_sealed_retrievals
-- Sealed parts of some retrievals past their retention.
-- $1 tenant uuid, $2 before timestamptz, $3 limit int8
-- Uses: retrievals_sealed_age, retrievals_pkey. Rows: none.
UPDATE retrievals
SET sealed = NULL
WHERE tenant_id = $1 AND retrieval_id IN (
    SELECT retrieval_id
    FROM retrievals
    WHERE tenant_id = $1 AND created_at < $2 AND sealed IS NOT NULL
    LIMIT $3);
