-- name: keys_in_force
-- What these memories are about, those of them that hold and are shown.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: facts_pkey, memories_pkey. Rows: memory_id, scope_id, subject, predicate.
SELECT f.memory_id, f.scope_id, f.subject, f.predicate
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (SELECT memory_id, scope_id, subject, predicate FROM facts
                    WHERE tenant_id = $1 AND memory_id = w.memory_id AND state = 'current' LIMIT 1) f
CROSS JOIN LATERAL (SELECT FROM memories
                    WHERE tenant_id = $1 AND memory_id = f.memory_id AND superseded_by IS NULL AND deleted_at IS NULL
                      AND quarantined_at IS NULL LIMIT 1) m;

-- name: statements_in_force
-- What holds and is shown of each of these keys, of one key at most `most`, the latest said. The arrays go together.
-- $1 tenant uuid, $2 scope_ids int8[], $3 subjects text[], $4 predicates text[], $5 most int8
-- Uses: facts_of_key, memories_pkey, memory_versions_pkey. Rows: memory_id, scope_id, subject, predicate, object, negated,
-- aspect, unit, statement.
SELECT f.memory_id, w.scope_id, f.subject, f.predicate, f.object, f.negated, f.aspect, f.unit, v.content AS statement
FROM unnest($2::int8[], $3::text[], $4::text[]) AS w (scope_id, subject, predicate)
CROSS JOIN LATERAL (SELECT memory_id, subject, predicate, object, negated, aspect, unit FROM facts
                    WHERE tenant_id = $1 AND scope_id = w.scope_id AND subject = w.subject AND predicate = w.predicate
                      AND state = 'current'
                    ORDER BY said_at DESC, memory_id
                    LIMIT $5) f
CROSS JOIN LATERAL (SELECT version FROM memories
                    WHERE tenant_id = $1 AND memory_id = f.memory_id AND superseded_by IS NULL AND deleted_at IS NULL
                      AND quarantined_at IS NULL LIMIT 1) m
CROSS JOIN LATERAL (SELECT content FROM memory_versions
                    WHERE tenant_id = $1 AND memory_id = f.memory_id AND version = m.version LIMIT 1) v;

-- name: grounds_of_facts
-- What speaks for keeping each of these facts, those of them that hold and are shown. `dated`: a saying names the time
-- it holds. `holds_others`: some were merged into it.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: facts_pkey, memories_pkey, memory_versions_pkey, fact_sayings_in_order, memories_superseded_by. Rows: memory_id,
-- subject, predicate, object, negated, aspect, unit, said_at, version, pinned, statement, integrity, sensitivity,
-- validation_status, confidence, occurred_at, valid_from, valid_to, expires_at, sayings, corrects, dated, holds_others.
SELECT f.memory_id, f.subject, f.predicate, f.object, f.negated, f.aspect, f.unit, f.said_at, m.version, m.pinned,
       v.content AS statement, v.integrity, v.sensitivity, v.validation_status, v.confidence, v.occurred_at,
       v.valid_from, v.valid_to, v.expires_at, s.sayings, s.corrects, s.dated,
       EXISTS (SELECT FROM memories o
               WHERE o.tenant_id = $1 AND o.superseded_by = f.memory_id AND o.superseded_reason = 'same meaning')
           AS holds_others
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (SELECT memory_id, subject, predicate, object, negated, aspect, unit, said_at FROM facts
                    WHERE tenant_id = $1 AND memory_id = w.memory_id AND state = 'current' LIMIT 1) f
CROSS JOIN LATERAL (SELECT version, pinned FROM memories
                    WHERE tenant_id = $1 AND memory_id = f.memory_id AND superseded_by IS NULL AND deleted_at IS NULL
                      AND quarantined_at IS NULL LIMIT 1) m
CROSS JOIN LATERAL (SELECT content, integrity, sensitivity, validation_status, confidence, occurred_at, valid_from,
                           valid_to, expires_at
                    FROM memory_versions
                    WHERE tenant_id = $1 AND memory_id = f.memory_id AND version = m.version LIMIT 1) v
CROSS JOIN LATERAL (SELECT count(*) AS sayings, coalesce(bool_or(correction), false) AS corrects,
                           coalesce(bool_or(valid_from IS NOT NULL OR valid_to IS NOT NULL), false) AS dated
                    FROM (SELECT correction, valid_from, valid_to FROM fact_sayings
                          WHERE tenant_id = $1 AND memory_id = f.memory_id
                          ORDER BY said_at, seq
                          LIMIT 200) y) s;

-- name: cosines_of_pairs
-- How near these memories are to each other, pairwise, those of one window each; the embeddings of what is shown now.
-- $1 tenant uuid, $2 ones uuid[], $3 others uuid[]
-- Uses: memories_pkey, {embeddings}_pkey. Rows: one, other, cosine.
SELECT w.one, w.other, (1 - (a.embedding <=> b.embedding))::float8 AS cosine
FROM unnest($2::uuid[], $3::uuid[]) AS w (one, other)
JOIN memories m ON m.tenant_id = $1 AND m.memory_id = w.one
JOIN memories n ON n.tenant_id = $1 AND n.memory_id = w.other
CROSS JOIN LATERAL (SELECT embedding FROM {embeddings}
                    WHERE tenant_id = $1 AND memory_id = w.one AND version = m.version AND window_no = 0 LIMIT 1) a
CROSS JOIN LATERAL (SELECT embedding FROM {embeddings}
                    WHERE tenant_id = $1 AND memory_id = w.other AND version = n.version AND window_no = 0 LIMIT 1) b;

-- name: copy_sayings
-- What was said of one fact was said of the other.
-- $1 tenant uuid, $2 from_id uuid, $3 to_id uuid
-- Uses: fact_sayings_in_order. Rows: none.
INSERT INTO fact_sayings (tenant_id, memory_id, event_id, scope_id, said_at, seq, span_start, integrity, sensitivity,
                          correction, valid_from, valid_to, aspect, unit, of_many, changed, merged_from)
SELECT tenant_id, $3, event_id, scope_id, said_at, seq, span_start, integrity, sensitivity, correction, valid_from,
       valid_to, aspect, unit, of_many, changed, $2
FROM fact_sayings
WHERE tenant_id = $1 AND memory_id = $2
ON CONFLICT DO NOTHING;

-- name: copy_evidence
-- The turns that one memory rests on, after those that the other has.
-- $1 tenant uuid, $2 from_id uuid, $3 to_id uuid
-- Uses: derivations_pkey. Rows: none.
INSERT INTO derivations (tenant_id, derived_id, derived_kind, source_id, source_kind, ordinal, scope_id, span_start,
                         span_end)
SELECT d.tenant_id, $3, d.derived_kind, d.source_id, d.source_kind,
       (SELECT max(o.ordinal) FROM derivations o
        WHERE o.tenant_id = $1 AND o.derived_id = $3 AND o.derived_kind = 'memory')
           + row_number() OVER (ORDER BY d.ordinal, d.source_id), d.scope_id, d.span_start, d.span_end
FROM derivations d
WHERE d.tenant_id = $1 AND d.derived_id = $2 AND d.derived_kind = 'memory'
ON CONFLICT DO NOTHING;

-- name: outlive
-- A memory lives at least as long as one that it stands for.
-- $1 tenant uuid, $2 memory_id uuid, $3 version int4, $4 expires_at timestamptz
-- Uses: memory_versions_pkey. Rows: none.
UPDATE memory_versions
SET expires_at = CASE WHEN $4::timestamptz IS NULL THEN NULL ELSE greatest(expires_at, $4) END
WHERE tenant_id = $1 AND memory_id = $2 AND version = $3 AND expires_at IS NOT NULL;

-- name: take_sayings_back
-- What one fact was given by another that stands for itself again.
-- $1 tenant uuid, $2 memory_id uuid, $3 merged_from uuid
-- Uses: fact_sayings_in_order. Rows: none.
DELETE FROM fact_sayings
WHERE tenant_id = $1 AND memory_id = $2 AND merged_from = $3;

-- name: take_evidence_back
-- The turns that a memory rests on because another did, and in which it was not said itself.
-- $1 tenant uuid, $2 memory_id uuid, $3 merged_from uuid
-- Uses: derivations_pkey, fact_sayings_pkey. Rows: none.
DELETE FROM derivations d
USING derivations l
WHERE d.tenant_id = $1 AND d.derived_id = $2 AND d.derived_kind = 'memory' AND d.ordinal > 0
  AND l.tenant_id = $1 AND l.derived_id = $3 AND l.derived_kind = 'memory' AND l.source_id = d.source_id
  AND NOT EXISTS (
      SELECT FROM fact_sayings s
      WHERE s.tenant_id = $1 AND s.memory_id = $2 AND s.event_id = d.source_id);

-- name: touch_memory
-- What a memory rests on has changed.
-- $1 tenant uuid, $2 memory_id uuid, $3 changed_version int8
-- Uses: memories_pkey. Rows: none.
UPDATE memories
SET changed_version = $3
WHERE tenant_id = $1 AND memory_id = $2;

-- ---------------------------------------------------------------- said in many sessions

-- name: sessions_of_facts
-- In how many sessions a person said each of these facts, those of them that hold and are shown, how many were counted
-- before, and whether a person has edited it; of a fact said very often the first 200 sayings.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: facts_pkey, memories_pkey, memory_versions_pkey, fact_sayings_in_order, turns_pkey, provenance_pkey.
-- Rows: memory_id, version, importance, confidence, sessions, counted, edited.
SELECT f.memory_id, m.version, v.importance, v.confidence, s.sessions, f.sessions_counted AS counted,
       EXISTS (SELECT FROM provenance p
               WHERE p.tenant_id = $1 AND p.memory_id = f.memory_id AND p.origin = 'edit') AS edited
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (SELECT memory_id, sessions_counted FROM facts
                    WHERE tenant_id = $1 AND memory_id = w.memory_id AND state = 'current' LIMIT 1) f
CROSS JOIN LATERAL (SELECT version FROM memories
                    WHERE tenant_id = $1 AND memory_id = f.memory_id AND superseded_by IS NULL AND deleted_at IS NULL
                      AND quarantined_at IS NULL LIMIT 1) m
CROSS JOIN LATERAL (SELECT importance, confidence FROM memory_versions
                    WHERE tenant_id = $1 AND memory_id = f.memory_id AND version = m.version LIMIT 1) v
CROSS JOIN LATERAL (SELECT count(DISTINCT t.session_id) AS sessions
                    FROM (SELECT event_id FROM fact_sayings
                          WHERE tenant_id = $1 AND memory_id = f.memory_id AND integrity IN ('admin', 'user')
                          ORDER BY said_at, seq
                          LIMIT 200) y
                    JOIN turns t ON t.tenant_id = $1 AND t.event_id = y.event_id) s;

-- name: weigh_fact
-- The next version of a fact, whose importance and confidence grew.
-- $1 tenant uuid, $2 memory_id uuid, $3 version int4, $4 now timestamptz, $5 importance float4, $6 confidence float4
-- Uses: memory_versions_pkey. Rows: none.
INSERT INTO memory_versions (tenant_id, memory_id, version, scope_id, content, role, integrity, sensitivity, origin,
                             source, tool_name, language, importance, confidence, validation_status, attributes,
                             expires_at, occurred_at, valid_from, valid_to, recorded_from, superseded_by)
SELECT tenant_id, memory_id, $3 + 1, scope_id, content, role, integrity, sensitivity, origin, source, tool_name,
       language, $5, $6, validation_status, attributes, expires_at, occurred_at, valid_from, valid_to,
       greatest($4, recorded_to), superseded_by
FROM memory_versions
WHERE tenant_id = $1 AND memory_id = $2 AND version = $3;

-- name: count_sessions
-- So many sessions of a fact are counted.
-- $1 tenant uuid, $2 memory_id uuid, $3 sessions int4
-- Uses: facts_pkey. Rows: none.
UPDATE facts
SET sessions_counted = $3
WHERE tenant_id = $1 AND memory_id = $2;
