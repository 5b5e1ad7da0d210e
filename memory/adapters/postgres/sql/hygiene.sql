-- name: hygiene_scopes
-- Scopes of a tenant in pages, of one user and one project where these are named.
-- $1 tenant uuid, $2 after int8, $3 limit int8, $4 user text, $5 project text
-- Uses: scopes_pkey. Rows: scope_id.
SELECT scope_id
FROM scopes
WHERE tenant_id = $1 AND scope_id > $2 AND visibility <> 'canary' AND ($4::text IS NULL OR user_name = $4)
  AND ($5::text IS NULL OR project = $5)
ORDER BY scope_id
LIMIT $3;

-- name: hygiene_memories
-- Memories of each of these scopes that are neither deleted nor quarantined, oldest first, at most `limit` of each, from
-- a cursor on, each text cut at `chars` characters. What is sealed is not measured, nor what was made for a record: a
-- checkpoint repeats by its nature. The version of each is looked up by itself: joined, all of a scope were read for each
-- page (100,000: .2 s, and now 2 ms).
-- $1 tenant uuid, $2 scope_ids int8[], $3 after timestamptz, $4 after_id uuid, $5 limit int8, $6 chars int4
-- Uses: memories_recent, memory_versions_pkey, memory_access_pkey. Rows: scope_id, memory_id, kind, created_at, content,
-- injected, shown.
SELECT w.scope_id, f.memory_id, f.kind, f.created_at, f.content, f.injected, f.shown
FROM unnest($2::int8[]) AS w (scope_id)
CROSS JOIN LATERAL (
    SELECT m.memory_id, m.kind, m.created_at, left(v.content, $6) AS content, coalesce(a.injected, 0) AS injected,
           m.superseded_by IS NULL AND v.validation_status <> 'rejected'
               AND (m.kind <> 'procedural' OR v.validation_status = 'confirmed') AS shown
    FROM memories m
    CROSS JOIN LATERAL (
        SELECT content, validation_status, sensitivity
        FROM memory_versions
        WHERE tenant_id = $1 AND memory_id = m.memory_id AND version = m.version
        LIMIT 1) v
    LEFT JOIN LATERAL (
        SELECT injected FROM memory_access WHERE tenant_id = $1 AND memory_id = m.memory_id LIMIT 1) a ON true
    WHERE m.tenant_id = $1 AND m.scope_id = w.scope_id AND (m.created_at, m.memory_id) > ($3, $4)
      AND m.deleted_at IS NULL AND m.quarantined_at IS NULL AND v.sensitivity IN ('public', 'internal')
      AND m.collection NOT IN ('checkpoint', 'persona', 'task', 'entity', 'artifact')
    ORDER BY m.created_at, m.memory_id
    LIMIT $5) f;

-- name: hygiene_evidence
-- What memories were made of, of each the first `most`: the words of the span, or of an answer without one, at most
-- 4,000 characters, and whether more blocks of memory open than close before it.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 most int8
-- Uses: derivations_pkey, turns_pkey. Rows: memory_id, source_id, source_kind, role, name, span_start, span_end, chars,
-- words, in_block.
SELECT w.memory_id, d.source_id, d.source_kind, t.role, t.name, d.span_start, d.span_end,
       CASE WHEN d.span_start IS NOT NULL THEN char_length(t.content) END AS chars,
       CASE WHEN d.span_start IS NOT NULL
            THEN substring(t.content FROM d.span_start + 1 FOR least(greatest(d.span_end - d.span_start, 0), 4000))
            WHEN t.role = 'assistant' THEN left(t.content, 4000) END AS words,
       coalesce((char_length(b.before) - char_length(replace(b.before, '<memory>', ''))) / 8
           > (char_length(b.before) - char_length(replace(b.before, '</memory>', ''))) / 9, false) AS in_block
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (SELECT source_id, source_kind, span_start, span_end, ordinal FROM derivations
                    WHERE tenant_id = $1 AND derived_id = w.memory_id AND derived_kind IN ('memory', 'summary')
                    ORDER BY ordinal LIMIT $3) d
LEFT JOIN LATERAL (SELECT role, name, content FROM turns
                   WHERE tenant_id = $1 AND event_id = d.source_id AND sensitivity IN ('public', 'internal')
                   LIMIT 1) t ON true
LEFT JOIN LATERAL (SELECT left(t.content, greatest(d.span_start, 0)) AS before) b ON true
ORDER BY d.ordinal;

-- name: hygiene_facts
-- What these memories state, those of them that are facts.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: facts_pkey. Rows: memory_id, subject, predicate, object, negated, state, exclusive, aspect, unit.
SELECT memory_id, subject, predicate, object, negated, state, exclusive, aspect, unit
FROM facts
WHERE tenant_id = $1 AND memory_id = ANY ($2);

-- name: hygiene_rivals
-- Other facts that hold of the keys of these, where both cannot: one denies, or both are the one object. Of each at
-- most `most`. What holds of a key is read once: looked for one by one, all of it was read for each fact of a page, and
-- somebody likes 10,000 things.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 most int8
-- Uses: facts_pkey, facts_of_key. Rows: memory_id, subject, predicate, object, negated, state, exclusive, aspect, unit.
WITH asked AS MATERIALIZED (
    SELECT memory_id, scope_id, subject, predicate, object, negated, exclusive, aspect, unit
    FROM facts
    WHERE tenant_id = $1 AND memory_id = ANY ($2) AND state = 'current'),
holding AS MATERIALIZED (
    SELECT k.scope_id, k.subject, k.predicate, o.*
    FROM (SELECT DISTINCT scope_id, subject, predicate FROM asked) k
    CROSS JOIN LATERAL (
        SELECT memory_id AS rival, object, negated, state, exclusive, aspect, unit
        FROM facts
        WHERE tenant_id = $1 AND scope_id = k.scope_id AND subject = k.subject AND predicate = k.predicate
          AND state = 'current'
        OFFSET 0) o),
rivals AS (
    SELECT f.memory_id, o.*
    FROM asked f
    JOIN holding o ON o.scope_id = f.scope_id AND o.subject = f.subject AND o.predicate = f.predicate
        AND o.object = f.object AND o.negated <> f.negated
    UNION
    SELECT f.memory_id, o.*
    FROM asked f
    JOIN holding o ON o.scope_id = f.scope_id AND o.subject = f.subject AND o.predicate = f.predicate
        AND o.aspect = f.aspect AND o.unit = f.unit AND o.exclusive AND o.rival <> f.memory_id
    WHERE f.exclusive)
SELECT memory_id, subject, predicate, object, negated, state, exclusive, aspect, unit
FROM (SELECT *, row_number() OVER (PARTITION BY memory_id) AS n FROM rivals) r
WHERE n <= $3;

-- name: hygiene_placed
-- The texts that memory had placed for these answers, each cut at `chars` characters. The record of a request is looked
-- for in its session around its time: it has no index of its own by exchange.
-- $1 tenant uuid, $2 event_ids uuid[], $3 chars int4
-- Uses: turns_pkey, exchanges_pkey, retrievals_of_session, memories_pkey, memory_versions_pkey. Rows: event_id, content.
SELECT w.event_id, left(v.content, $3) AS content
FROM unnest($2::uuid[]) AS w (event_id)
CROSS JOIN LATERAL (SELECT session_id, exchange_id FROM turns WHERE tenant_id = $1 AND event_id = w.event_id LIMIT 1) t
CROSS JOIN LATERAL (SELECT arrived_at, finished_at FROM exchanges
                    WHERE tenant_id = $1 AND exchange_id = t.exchange_id LIMIT 1) e
CROSS JOIN LATERAL (SELECT placements FROM retrievals
                    WHERE tenant_id = $1 AND session_id = t.session_id AND exchange_id = t.exchange_id
                      AND created_at BETWEEN e.arrived_at - interval '1 minute' AND e.finished_at + interval '1 minute'
                    LIMIT 1) r
CROSS JOIN LATERAL jsonb_array_elements(r.placements) AS p (placement)
CROSS JOIN LATERAL jsonb_array_elements_text(p.placement -> 'memory_ids') AS i (memory_id)
CROSS JOIN LATERAL (SELECT version FROM memories
                    WHERE tenant_id = $1 AND memory_id = i.memory_id::uuid LIMIT 1) m
CROSS JOIN LATERAL (SELECT content FROM memory_versions
                    WHERE tenant_id = $1 AND memory_id = i.memory_id::uuid AND version = m.version
                      AND sensitivity IN ('public', 'internal') LIMIT 1) v;

-- name: turns_learnt
-- Those of these turns that a memory of their own was made of: not what says nothing or only quotes memory. Each is looked
-- up by itself: else all edges of whoever has a hundred thousand are read.
-- $1 tenant uuid, $2 event_ids uuid[]
-- Uses: derivations_of_source. Rows: event_id.
SELECT w.event_id
FROM unnest($2::uuid[]) AS w (event_id)
WHERE EXISTS (
    SELECT FROM derivations
    WHERE tenant_id = $1 AND source_id = w.event_id AND source_kind = 'turn' AND derived_kind = 'memory'
    OFFSET 0);
