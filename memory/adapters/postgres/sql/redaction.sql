-- name: cleaned_by
-- What is written in this transaction from now on was cleaned by these rules.
-- $1 mark text
-- Uses: none. Rows: set_config.
SELECT set_config('mp.rules', $1, true);

-- name: keep_token
-- A piece of personal data behind its token; the first one stays, and nobody takes it away before this transaction ends,
-- whose texts hold the token.
-- $1 tenant uuid, $2 scope_id int8, $3 token text, $4 subject_id uuid, $5 kind text, $6 sealed bytea, $7 now timestamptz
-- Uses: personal_tokens_pkey. Rows: none.
INSERT INTO personal_tokens (tenant_id, scope_id, token, subject_id, kind, sealed, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant_id, scope_id, token) DO UPDATE
SET sealed = excluded.sealed
WHERE false;  -- changes nothing, and locks the row

-- name: token_of_scopes
-- What stands behind a token, in whichever of the visible scopes.
-- $1 tenant uuid, $2 scope_ids int8[], $3 token text
-- Uses: personal_tokens_pkey. Rows: subject_id, kind, sealed.
SELECT subject_id, kind, sealed
FROM personal_tokens
WHERE tenant_id = $1 AND scope_id = ANY ($2) AND token = $3
LIMIT 1;

-- name: scopes_to_redact
-- Scopes of a tenant in pages, with whose they are.
-- $1 tenant uuid, $2 after int8, $3 limit int8
-- Uses: scopes_pkey. Rows: scope_id, user_name, project, agent.
SELECT scope_id, user_name, project, agent
FROM scopes
WHERE tenant_id = $1 AND scope_id > $2
ORDER BY scope_id
LIMIT $3;

-- name: turns_to_redact
-- Turns of a scope behind a cursor that these rules have not cleaned; of all marks where `again`. The cursor is that of
-- the last turn looked at, which may be a clean one: rows come out for the clean ones too, without their text.
-- $1 tenant uuid, $2 scope_id int8, $3 session_id uuid, $4 seq int8, $5 limit int8, $6 mark text, $7 again bool
-- Uses: turns_in_order. Rows: session_id, seq, event_id, due, name, content, tool_calls, parts.
SELECT t.session_id, t.seq, t.event_id, t.due,
       CASE WHEN t.due THEN t.name END AS name, CASE WHEN t.due THEN t.content END AS content,
       CASE WHEN t.due THEN t.tool_calls END AS tool_calls, CASE WHEN t.due THEN t.parts END AS parts
FROM (SELECT *, ($7 OR cleaned_by <> $6) AND sensitivity IN ('public', 'internal') AS due
      FROM turns
      WHERE tenant_id = $1 AND scope_id = $2 AND (session_id, seq) > ($3, $4)
      ORDER BY session_id, seq
      LIMIT $5) t;

-- name: rewrite_turn
-- A turn as these rules leave it, unless it was written anew meanwhile.
-- $1 tenant uuid, $2 event_id uuid, $3 name text, $4 content text, $5 tool_calls jsonb, $6 parts jsonb, $7 found int4,
-- $8 before text
-- Uses: turns_pkey. Rows: none.
UPDATE turns
SET name = $3, content = $4, tool_calls = $5, parts = $6, redactions = redactions + $7, cleaned_by = mp_rules()
WHERE tenant_id = $1 AND event_id = $2 AND content = $8;

-- name: spans_of_turns
-- The ranges of these turns that memories rest on, of those turns that say this now. The arrays go pairwise.
-- $1 tenant uuid, $2 event_ids uuid[], $3 contents text[]
-- Uses: derivations_of_source, turns_pkey. Rows: derived_id, event_id, span_start, span_end.
SELECT d.derived_id, d.source_id AS event_id, d.span_start, d.span_end
FROM unnest($2::uuid[], $3::text[]) AS w (event_id, content)
CROSS JOIN LATERAL (SELECT FROM turns
                    WHERE tenant_id = $1 AND event_id = w.event_id AND content = w.content LIMIT 1) t
CROSS JOIN LATERAL (SELECT derived_id, source_id, span_start, span_end
                    FROM derivations
                    WHERE tenant_id = $1 AND source_id = w.event_id AND source_kind = 'turn'
                      AND derived_kind = 'memory' AND span_start IS NOT NULL
                    OFFSET 0) d
ORDER BY d.derived_id, d.source_id;

-- name: move_span
-- The range of a turn that a memory rests on.
-- $1 tenant uuid, $2 memory_id uuid, $3 event_id uuid, $4 span_start int4, $5 span_end int4
-- Uses: derivations_pkey. Rows: none.
UPDATE derivations
SET span_start = $4, span_end = $5
WHERE tenant_id = $1 AND derived_id = $2 AND derived_kind = 'memory' AND source_id IS NOT DISTINCT FROM $3
  AND source_kind = 'turn';

-- name: turns_are_clean
-- These turns hold nothing that these rules would cut.
-- $1 tenant uuid, $2 event_ids uuid[], $3 mark text
-- Uses: turns_pkey. Rows: none.
UPDATE turns
SET cleaned_by = $3
WHERE tenant_id = $1 AND event_id = ANY (ARRAY(SELECT unnest($2::uuid[]))) AND cleaned_by <> $3;

-- name: memories_to_redact
-- Versions of the memories of a scope behind a cursor, oldest first; `due`: not cleaned by these rules, and not sealed
-- (what is sealed is cleaned whenever it is loaded). Those of each are looked up by itself, here and below: joined to a page
-- of them, all of a scope that seemed to hold next to nothing were read for it.
-- $1 tenant uuid, $2 scope_id int8, $3 created_at timestamptz, $4 memory_id uuid, $5 limit int8, $6 mark text,
-- $7 again bool
-- Uses: memories_recent, memory_versions_pkey. Rows: memory_id, created_at, kind, current, version, due, content,
-- attributes, occurred_at.
SELECT m.memory_id, m.created_at, m.kind, m.version AS current, v.version,
       ($7 OR v.cleaned_by <> $6) AND v.sensitivity IN ('public', 'internal') AS due, v.content, v.attributes, v.occurred_at
FROM (SELECT memory_id, created_at, kind, version
      FROM memories
      WHERE tenant_id = $1 AND scope_id = $2 AND (created_at, memory_id) > ($3, $4)
      ORDER BY created_at, memory_id
      LIMIT $5) m
CROSS JOIN LATERAL (SELECT * FROM memory_versions WHERE tenant_id = $1 AND memory_id = m.memory_id OFFSET 0) v
ORDER BY m.created_at, m.memory_id, v.version;

-- name: rewrite_version
-- A version as these rules leave it, unless it was sealed meanwhile.
-- $1 tenant uuid, $2 memory_id uuid, $3 version int4, $4 content text, $5 attributes jsonb
-- Uses: memory_versions_pkey. Rows: none.
UPDATE memory_versions
SET content = $4, attributes = $5, cleaned_by = mp_rules()
WHERE tenant_id = $1 AND memory_id = $2 AND version = $3 AND sensitivity IN ('public', 'internal');

-- name: versions_are_clean
-- All versions of these memories hold nothing that these rules would cut.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 versions int4[], $4 mark text
-- Uses: memory_versions_pkey. Rows: none.
UPDATE memory_versions v
SET cleaned_by = $4
FROM unnest($2::uuid[], $3::int4[]) AS w (memory_id, version)
WHERE v.tenant_id = $1 AND v.memory_id = ANY (ARRAY(SELECT unnest($2::uuid[]))) AND v.memory_id = w.memory_id
  AND v.version = w.version AND v.cleaned_by <> $4;

-- name: drop_version_vectors
-- The vectors of a version: its text is another one now.
-- $1 tenant uuid, $2 memory_id uuid, $3 version int4
-- Uses: {embeddings}_pkey. Rows: none.
DELETE FROM {embeddings}
WHERE tenant_id = $1 AND memory_id = $2 AND version = $3;

-- name: memory_was_redacted
-- A memory changed at this version of its scope.
-- $1 tenant uuid, $2 memory_id uuid, $3 changed_version int8
-- Uses: memories_pkey. Rows: none.
UPDATE memories
SET changed_version = $3
WHERE tenant_id = $1 AND memory_id = $2;

-- name: facts_to_redact
-- What these memories state.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: facts_pkey. Rows: memory_id, subject, object.
SELECT f.memory_id, f.subject, f.object
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (
    SELECT memory_id, subject, object FROM facts WHERE tenant_id = $1 AND memory_id = w.memory_id LIMIT 1) f;

-- name: fact_under
-- The rest of what a memory states, and whether under these words another states the same already, or is the one of its
-- key that can be current.
-- $1 tenant uuid, $2 memory_id uuid, $3 subject text, $4 object text
-- Uses: facts_pkey, facts_of_key. Rows: predicate, negated, taken.
SELECT f.predicate, f.negated, EXISTS (
    SELECT
    FROM facts o
    WHERE o.tenant_id = $1 AND o.scope_id = f.scope_id AND o.subject = $3 AND o.predicate = f.predicate
      AND o.memory_id <> $2
      AND ((o.object = $4 AND o.negated = f.negated)
           OR (f.exclusive AND o.exclusive AND f.state = 'current' AND o.state = 'current' AND o.aspect = f.aspect
               AND o.unit = f.unit))) AS taken
FROM facts f
WHERE f.tenant_id = $1 AND f.memory_id = $2;

-- name: rewrite_fact
-- What a memory states, as these rules leave it.
-- $1 tenant uuid, $2 memory_id uuid, $3 subject text, $4 object text
-- Uses: facts_pkey. Rows: none.
UPDATE facts
SET subject = $3, object = $4
WHERE tenant_id = $1 AND memory_id = $2;

-- name: procedures_to_redact
-- What these memories are for.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: procedures_pkey. Rows: memory_id, trigger.
SELECT p.memory_id, p.trigger
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (
    SELECT memory_id, trigger FROM procedures WHERE tenant_id = $1 AND memory_id = w.memory_id LIMIT 1) p;

-- name: rewrite_trigger
-- What a procedure is for, as these rules leave it. Where others are for the same by now it is the next wording of that,
-- and the one that holds already goes on to.
-- $1 tenant uuid, $2 memory_id uuid, $3 trigger text
-- Uses: procedures_pkey, procedures_of_trigger. Rows: none.
UPDATE procedures p
SET trigger = $3, number = coalesce(o.number + 1, p.number), holds = p.holds AND coalesce(NOT o.holds, true)
FROM (SELECT max(number) AS number, bool_or(holds) AS holds
      FROM procedures
      WHERE tenant_id = $1 AND trigger = $3 AND memory_id <> $2
        AND scope_id = (SELECT scope_id FROM procedures WHERE tenant_id = $1 AND memory_id = $2)) o
WHERE p.tenant_id = $1 AND p.memory_id = $2;

-- name: sessions_to_redact
-- Sessions of a scope behind a cursor.
-- $1 tenant uuid, $2 scope_id int8, $3 label text, $4 limit int8
-- Uses: sessions_tenant_id_scope_id_label_key. Rows: session_id, label, attributes.
SELECT session_id, label, attributes
FROM sessions
WHERE tenant_id = $1 AND scope_id = $2 AND label > $3
ORDER BY label
LIMIT $4;

-- name: rewrite_session
-- A session as these rules leave it.
-- $1 tenant uuid, $2 session_id uuid, $3 label text, $4 attributes jsonb
-- Uses: sessions_pkey. Rows: none.
UPDATE sessions
SET label = $3, attributes = $4
WHERE tenant_id = $1 AND session_id = $2;

-- name: read_anew
-- The next version of a scope, and every index built before it is built anew.
-- $1 tenant uuid, $2 scope_id int8
-- Uses: scope_versions_pkey. Rows: version.
UPDATE scope_versions
SET version = version + 1, rebuild_version = version + 1
WHERE tenant_id = $1 AND scope_id = $2
RETURNING version;
