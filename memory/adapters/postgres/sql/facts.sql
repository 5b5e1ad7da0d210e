-- name: facts_of_keys
-- What is known of these keys: of each the statements of these objects, and with them all that can exclude each other
-- (one object at a time) and all denials. The best fitting, then the latest said, at most `limit` of each key. The
-- arrays go pairwise, so a statement may come more than once. (As plain joins a table without statistics, as in the
-- first minute of an import, was joined from the wrong end: 228 ms among 1,000 facts, this form 0.7.)
-- $1 tenant uuid, $2 scope_id int8, $3 subjects text[], $4 predicates text[], $5 objects text[], $6 limit int8
-- Uses: facts_of_key, memories_pkey, memory_versions_pkey. Rows: memory_id, subject, predicate, object, negated,
-- cardinality, state, version, superseded_by, superseded_reason, deleted_at, validation_status, integrity,
-- sensitivity, valid_from, valid_to, occurred_at, expires_at.
WITH f AS MATERIALIZED (
    SELECT k.*
    FROM unnest($3::text[], $4::text[], $5::text[]) AS w (subject, predicate, object)
    CROSS JOIN LATERAL (
        SELECT memory_id, subject, predicate, object, negated, cardinality, state
        FROM facts
        WHERE tenant_id = $1 AND scope_id = $2 AND subject = w.subject AND predicate = w.predicate
          AND (object = w.object OR cardinality = 'one' OR negated)
        ORDER BY object = w.object DESC, said_at DESC, memory_id
        LIMIT $6) k)
SELECT f.memory_id, f.subject, f.predicate, f.object, f.negated, f.cardinality, f.state, m.version, m.superseded_by,
       m.superseded_reason, m.deleted_at, v.validation_status, v.integrity, v.sensitivity, v.valid_from, v.valid_to,
       v.occurred_at, v.expires_at
FROM f
CROSS JOIN LATERAL (SELECT version, superseded_by, superseded_reason, deleted_at FROM memories
                    WHERE tenant_id = $1 AND memory_id = f.memory_id LIMIT 1) m
CROSS JOIN LATERAL (SELECT validation_status, integrity, sensitivity, valid_from, valid_to, occurred_at, expires_at
                    FROM memory_versions
                    WHERE tenant_id = $1 AND memory_id = f.memory_id AND version = m.version LIMIT 1) v;

-- name: sayings_of_facts
-- The first and the latest times that these facts were said.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 first int8, $4 latest int8
-- Uses: fact_sayings_in_order. Rows: memory_id, event_id, said_at, seq, span_start, integrity, sensitivity, correction,
-- aspect, unit, of_many, changed, valid_from, valid_to.
SELECT y.memory_id, y.event_id, y.said_at, y.seq, y.span_start, y.integrity, y.sensitivity, y.correction, y.aspect,
       y.unit, y.of_many, y.changed, y.valid_from, y.valid_to
FROM unnest($2::uuid[]) AS w (memory_id)
CROSS JOIN LATERAL (
    (SELECT * FROM fact_sayings WHERE tenant_id = $1 AND memory_id = w.memory_id ORDER BY said_at, seq LIMIT $3)
    UNION
    (SELECT * FROM fact_sayings WHERE tenant_id = $1 AND memory_id = w.memory_id ORDER BY said_at DESC, seq DESC
     LIMIT $4)) y;

-- name: told_of_names
-- What holds of somebody under these words, a name or what they are ("dog"). The arrays go pairwise.
-- $1 tenant uuid, $2 scope_id int8, $3 subjects text[], $4 words text[]
-- Uses: facts_of_key. Rows: subject, word, predicate, object, cardinality.
SELECT w.subject, w.word, f.predicate, f.object, f.cardinality
FROM unnest($3::text[], $4::text[]) AS w (subject, word)
CROSS JOIN LATERAL (
    SELECT DISTINCT predicate, object, cardinality
    FROM facts
    WHERE tenant_id = $1 AND scope_id = $2 AND subject = w.subject AND NOT negated AND state = 'current'
      AND (object = w.word OR predicate = w.word || '_name')) f;

-- name: keys_of_facts
-- What these memories are about, those of them that are facts.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: facts_pkey. Rows: subject, predicate, object.
SELECT subject, predicate, object
FROM facts
WHERE tenant_id = $1 AND memory_id = ANY ($2);

-- name: add_fact
-- What a memory states.
-- $1 tenant uuid, $2 memory_id uuid, $3 scope_id int8, $4 subject text, $5 predicate text, $6 object text,
-- $7 negated bool, $8 cardinality text, $9 category text, $10 state text, $11 said_at timestamptz, $12 seq int8,
-- $13 correction bool, $14 aspect text, $15 unit text, $16 exclusive bool
-- Uses: none. Rows: none.
INSERT INTO facts (tenant_id, memory_id, scope_id, subject, predicate, object, negated, cardinality, category, state,
                   said_at, seq, correction, aspect, unit, exclusive)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16);

-- name: add_saying
-- One time that a fact was said.
-- $1 tenant uuid, $2 memory_id uuid, $3 event_id uuid, $4 scope_id int8, $5 said_at timestamptz, $6 seq int8,
-- $7 span_start int4, $8 integrity text, $9 sensitivity text, $10 correction bool, $11 valid_from timestamptz,
-- $12 valid_to timestamptz, $13 aspect text, $14 unit text, $15 of_many bool, $16 changed bool
-- Uses: none. Rows: none.
INSERT INTO fact_sayings (tenant_id, memory_id, event_id, scope_id, said_at, seq, span_start, integrity, sensitivity,
                          correction, valid_from, valid_to, aspect, unit, of_many, changed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
ON CONFLICT DO NOTHING;

-- name: add_evidence
-- One turn more that a memory rests on, after those it has.
-- $1 tenant uuid, $2 memory_id uuid, $3 event_id uuid, $4 scope_id int8, $5 span_start int4, $6 span_end int4
-- Uses: derivations_pkey. Rows: none.
INSERT INTO derivations (tenant_id, derived_id, derived_kind, source_id, source_kind, ordinal, scope_id, span_start,
                         span_end)
SELECT $1, $2, 'memory', $3, 'turn', coalesce(max(d.ordinal) + 1, 0), $4, $5, $6
FROM derivations d
WHERE d.tenant_id = $1 AND d.derived_id = $2 AND d.derived_kind = 'memory'
ON CONFLICT DO NOTHING;

-- name: set_fact
-- Whether a fact holds, and its latest saying.
-- $1 tenant uuid, $2 memory_id uuid, $3 state text, $4 said_at timestamptz, $5 seq int8, $6 correction bool,
-- $7 aspect text, $8 unit text, $9 exclusive bool
-- Uses: facts_pkey. Rows: none.
UPDATE facts
SET state = $3, said_at = $4, seq = $5, correction = $6, aspect = $7, unit = $8, exclusive = $9
WHERE tenant_id = $1 AND memory_id = $2;

-- name: withdraw_facts
-- Nothing supports these facts any more, or they are not to be used.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: facts_pkey. Rows: none.
UPDATE facts
SET state = 'withdrawn'
WHERE tenant_id = $1 AND memory_id = ANY ($2) AND state <> 'withdrawn';

-- name: next_fact_version
-- The next version of a fact: the same text with these labels.
-- $1 tenant uuid, $2 memory_id uuid, $3 version int4, $4 now timestamptz, $5 integrity text, $6 sensitivity text,
-- $7 validation_status text, $8 occurred_at timestamptz, $9 valid_from timestamptz, $10 valid_to timestamptz,
-- $11 superseded_by uuid
-- Uses: memory_versions_pkey. Rows: none.
INSERT INTO memory_versions (tenant_id, memory_id, version, scope_id, content, role, integrity, sensitivity, origin,
                             source, tool_name, language, importance, confidence, validation_status, attributes,
                             expires_at, occurred_at, valid_from, valid_to, recorded_from, superseded_by)
SELECT tenant_id, memory_id, $3 + 1, scope_id, content, role, $5, $6, origin, source, tool_name, language, importance,
       confidence, $7, attributes, expires_at, $8, $9, $10, greatest($4, recorded_to), $11
FROM memory_versions
WHERE tenant_id = $1 AND memory_id = $2 AND version = $3;

-- name: renew_expiry
-- A fact that was said again lives anew; one that was to live for ever still does.
-- $1 tenant uuid, $2 memory_id uuid, $3 version int4, $4 expires_at timestamptz
-- Uses: memory_versions_pkey. Rows: none.
UPDATE memory_versions
SET expires_at = $4
WHERE tenant_id = $1 AND memory_id = $2 AND version = $3 AND expires_at IS NOT NULL;

-- name: point_fact
-- The memory's current version, and what has taken its place since when; null: it holds.
-- $1 tenant uuid, $2 memory_id uuid, $3 version int4, $4 changed_version int8, $5 superseded_by uuid, $6 reason text,
-- $7 now timestamptz
-- Uses: memories_pkey. Rows: none.
UPDATE memories
SET version = $3, changed_version = $4, superseded_by = $5, superseded_reason = $6,
    superseded_at = CASE WHEN $5::uuid IS NOT NULL THEN coalesce(superseded_at, $7) END
WHERE tenant_id = $1 AND memory_id = $2;

-- name: drop_sayings
-- What was said in these turns was not said: their text has changed.
-- $1 tenant uuid, $2 event_ids uuid[]
-- Uses: derivations_of_source. Rows: memory_id.
DELETE FROM fact_sayings s
USING derivations d
WHERE d.tenant_id = $1 AND d.source_id = ANY ($2) AND d.source_kind = 'turn' AND d.derived_kind = 'memory'
  AND s.tenant_id = $1 AND s.memory_id = d.derived_id AND s.event_id = d.source_id
RETURNING s.memory_id;

-- name: drop_evidence
-- These memories do not rest on these turns any more.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 event_ids uuid[]
-- Uses: derivations_of_source. Rows: none.
DELETE FROM derivations
WHERE tenant_id = $1 AND derived_id = ANY ($2) AND derived_kind = 'memory' AND source_id = ANY ($3);

-- name: hide_unsupported
-- Hide those of these facts that nobody has said.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 now timestamptz, $4 changed_version int8
-- Uses: memories_pkey, fact_sayings_in_order. Rows: memory_id.
UPDATE memories m
SET deleted_at = $3, changed_version = $4
WHERE m.tenant_id = $1 AND m.memory_id = ANY ($2) AND m.deleted_at IS NULL
  AND NOT EXISTS (SELECT FROM fact_sayings s WHERE s.tenant_id = $1 AND s.memory_id = m.memory_id)
RETURNING m.memory_id;

-- name: facts_left_alone
-- The facts that rest on the turns of this memory and on no turn whose own memory is shown: they go with it.
-- $1 tenant uuid, $2 memory_id uuid
-- Uses: derivations_pkey, derivations_of_source, memories_pkey. Rows: memory_id.
SELECT DISTINCT f.memory_id
FROM derivations d
JOIN derivations e ON e.tenant_id = $1 AND e.source_id = d.source_id AND e.derived_kind = 'memory'
JOIN memories f ON f.tenant_id = $1 AND f.memory_id = e.derived_id AND f.kind = 'semantic' AND f.deleted_at IS NULL
WHERE d.tenant_id = $1 AND d.derived_id = $2 AND d.derived_kind = 'memory'
  AND NOT EXISTS (
      SELECT
      FROM derivations o
      JOIN derivations p ON p.tenant_id = $1 AND p.source_id = o.source_id AND p.derived_kind = 'memory'
      JOIN memories t ON t.tenant_id = $1 AND t.memory_id = p.derived_id AND t.kind = 'episodic' AND t.deleted_at IS NULL
      WHERE o.tenant_id = $1 AND o.derived_id = f.memory_id AND o.derived_kind = 'memory');

-- name: facts_gone_with
-- The facts of the turns of this memory that went when it did, or with that of another turn that they rest on.
-- $1 tenant uuid, $2 memory_id uuid, $3 deleted_at timestamptz
-- Uses: derivations_pkey, derivations_of_source, memories_pkey. Rows: memory_id.
SELECT DISTINCT f.memory_id
FROM derivations d
JOIN derivations e ON e.tenant_id = $1 AND e.source_id = d.source_id AND e.derived_kind = 'memory'
JOIN memories f ON f.tenant_id = $1 AND f.memory_id = e.derived_id AND f.kind = 'semantic' AND f.deleted_at IS NOT NULL
WHERE d.tenant_id = $1 AND d.derived_id = $2 AND d.derived_kind = 'memory' AND f.memory_id <> $2
  AND (f.deleted_at = $3 OR {went_with_a_turn(f)});
