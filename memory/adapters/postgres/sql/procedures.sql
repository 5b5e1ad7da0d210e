-- name: procedures_of_triggers
-- The wordings of these triggers, the latest first, at most `limit` of each, with their labels and when each was last
-- taught; null where nothing supports it.
-- $1 tenant uuid, $2 scope_id int8, $3 triggers text[], $4 limit int8
-- Uses: procedures_of_trigger, memories_pkey, memory_versions_pkey, procedure_teachings_pkey. Rows: memory_id, trigger,
-- origin, number, state, reason, holds, ruled_at, content_key, version, superseded_by, deleted_at, validation_status,
-- integrity, sensitivity, occurred_at, said_at, seq, span_start.
SELECT p.memory_id, p.trigger, p.origin, p.number, p.state, p.reason, p.holds, p.ruled_at, m.content_key, m.version,
       m.superseded_by, m.deleted_at, v.validation_status, v.integrity, v.sensitivity, v.occurred_at, s.said_at, s.seq,
       s.span_start
FROM unnest($3::text[]) AS w (trigger)
CROSS JOIN LATERAL (SELECT * FROM procedures
                    WHERE tenant_id = $1 AND scope_id = $2 AND trigger = w.trigger
                    ORDER BY number DESC LIMIT $4) p
CROSS JOIN LATERAL (SELECT content_key, version, superseded_by, deleted_at FROM memories
                    WHERE tenant_id = $1 AND memory_id = p.memory_id LIMIT 1) m
CROSS JOIN LATERAL (SELECT validation_status, integrity, sensitivity, occurred_at FROM memory_versions
                    WHERE tenant_id = $1 AND memory_id = p.memory_id AND version = m.version LIMIT 1) v
LEFT JOIN LATERAL (SELECT said_at, seq, span_start FROM procedure_teachings
                   WHERE tenant_id = $1 AND memory_id = p.memory_id
                   ORDER BY said_at DESC, seq DESC, span_start DESC LIMIT 1) s ON true;

-- name: triggers_of_procedures
-- What these memories are for, those of them that are procedures.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: procedures_pkey. Rows: trigger.
SELECT DISTINCT trigger
FROM procedures
WHERE tenant_id = $1 AND memory_id = ANY ($2);

-- name: add_procedure
-- What a memory teaches.
-- $1 tenant uuid, $2 memory_id uuid, $3 scope_id int8, $4 trigger text, $5 origin text, $6 number int4, $7 state text,
-- $8 reason text, $9 holds bool, $10 ruled_at timestamptz, $11 successes int4, $12 failures int4
-- Uses: none. Rows: none.
INSERT INTO procedures (tenant_id, memory_id, scope_id, trigger, origin, number, state, reason, holds, ruled_at,
                        successes, failures)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- name: set_procedure
-- What has become of a procedure.
-- $1 tenant uuid, $2 memory_id uuid, $3 state text, $4 reason text, $5 holds bool, $6 ruled_at timestamptz
-- Uses: procedures_pkey. Rows: none.
UPDATE procedures
SET state = $3, reason = $4, holds = $5, ruled_at = $6
WHERE tenant_id = $1 AND memory_id = $2;

-- name: show_procedures
-- What is known of these procedures as attributes of their current versions, for whoever lists them. Counts change
-- without a version: a prompt never shows them.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: procedures_pkey, memory_versions_current. Rows: none.
UPDATE memory_versions v
SET attributes = v.attributes || jsonb_build_object('state', p.state, 'reason', p.reason, 'number', p.number,
        'success_count', p.successes, 'failure_count', p.failures)
FROM procedures p
WHERE p.tenant_id = $1 AND p.memory_id = ANY ($2) AND v.tenant_id = $1 AND v.memory_id = p.memory_id
  AND v.recorded_to IS NULL;

-- name: add_teaching
-- One time that a procedure was taught.
-- $1 tenant uuid, $2 memory_id uuid, $3 event_id uuid, $4 scope_id int8, $5 said_at timestamptz, $6 seq int8,
-- $7 span_start int4, $8 span_end int4
-- Uses: none. Rows: none.
INSERT INTO procedure_teachings (tenant_id, memory_id, event_id, scope_id, said_at, seq, span_start, span_end)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT DO NOTHING;

-- name: drop_teachings
-- What was taught in these turns was not taught: their text has changed.
-- $1 tenant uuid, $2 event_ids uuid[]
-- Uses: derivations_of_source. Rows: memory_id.
DELETE FROM procedure_teachings s
USING derivations d
WHERE d.tenant_id = $1 AND d.source_id = ANY ($2) AND d.source_kind = 'turn' AND d.derived_kind = 'memory'
  AND s.tenant_id = $1 AND s.memory_id = d.derived_id AND s.event_id = d.source_id
RETURNING s.memory_id;

-- name: procedures_left_alone
-- The procedures that go with this memory: taught in its turns and in no turn whose own memory is shown, or derived from
-- this episode and from none that is shown.
-- $1 tenant uuid, $2 memory_id uuid
-- Uses: derivations_pkey, derivations_of_source, memories_pkey. Rows: memory_id.
SELECT DISTINCT f.memory_id
FROM derivations d
JOIN derivations e ON e.tenant_id = $1 AND e.source_id = d.source_id AND e.derived_kind = 'memory'
JOIN memories f ON f.tenant_id = $1 AND f.memory_id = e.derived_id AND f.kind = 'procedural' AND f.deleted_at IS NULL
WHERE d.tenant_id = $1 AND d.derived_id = $2 AND d.derived_kind = 'memory'
  AND NOT EXISTS (
      SELECT
      FROM derivations o
      JOIN derivations p ON p.tenant_id = $1 AND p.source_id = o.source_id AND p.derived_kind = 'memory'
      JOIN memories t ON t.tenant_id = $1 AND t.memory_id = p.derived_id AND t.kind = 'episodic' AND t.deleted_at IS NULL
      WHERE o.tenant_id = $1 AND o.derived_id = f.memory_id AND o.derived_kind = 'memory')
UNION
SELECT f.memory_id
FROM derivations d
JOIN memories f ON f.tenant_id = $1 AND f.memory_id = d.derived_id AND f.kind = 'procedural' AND f.deleted_at IS NULL
WHERE d.tenant_id = $1 AND d.source_id = $2 AND d.source_kind = 'memory' AND d.derived_kind = 'summary'
  AND NOT EXISTS (
      SELECT
      FROM derivations o
      JOIN memories t ON t.tenant_id = $1 AND t.memory_id = o.source_id AND t.deleted_at IS NULL
      WHERE o.tenant_id = $1 AND o.derived_id = f.memory_id AND o.derived_kind = 'summary');

-- name: procedures_gone_with
-- The procedures that went when this memory did, or with that of another turn that they rest on.
-- $1 tenant uuid, $2 memory_id uuid, $3 deleted_at timestamptz
-- Uses: derivations_pkey, derivations_of_source, memories_pkey. Rows: memory_id.
SELECT f.memory_id
FROM derivations d
JOIN derivations e ON e.tenant_id = $1 AND e.source_id = d.source_id AND e.derived_kind = 'memory'
JOIN memories f ON f.tenant_id = $1 AND f.memory_id = e.derived_id AND f.kind = 'procedural' AND f.deleted_at IS NOT NULL
WHERE d.tenant_id = $1 AND d.derived_id = $2 AND d.derived_kind = 'memory' AND f.memory_id <> $2
  AND (f.deleted_at = $3 OR {went_with_a_turn(f)})
UNION
SELECT f.memory_id
FROM derivations d
JOIN memories f ON f.tenant_id = $1 AND f.memory_id = d.derived_id AND f.kind = 'procedural' AND f.deleted_at = $3
WHERE d.tenant_id = $1 AND d.source_id = $2 AND d.source_kind = 'memory' AND d.derived_kind = 'summary';

-- name: procedures_given
-- The taught procedures that were placed in the requests of these exchanges, which were made between two moments.
-- $1 tenant uuid, $2 session_id uuid, $3 exchange_ids uuid[], $4 after timestamptz, $5 before timestamptz
-- Uses: retrievals_of_session, procedures_pkey. Rows: memory_id, trigger.
SELECT DISTINCT p.memory_id, p.trigger
FROM retrievals r
CROSS JOIN LATERAL jsonb_array_elements(r.placements) AS e (placement)
CROSS JOIN LATERAL jsonb_array_elements_text(e.placement -> 'memory_ids') AS i (memory_id)
CROSS JOIN LATERAL (SELECT memory_id, trigger, origin FROM procedures
                    WHERE tenant_id = $1 AND memory_id = i.memory_id::uuid LIMIT 1) p
WHERE r.tenant_id = $1 AND r.session_id = $2 AND r.created_at BETWEEN $4 AND $5 AND r.exchange_id = ANY ($3)
  AND p.origin = 'taught';

-- name: add_run
-- What came of a conversation, by what was done in it.
-- $1 tenant uuid, $2 memory_id uuid, $3 scope_id int8, $4 pattern text, $5 succeeded bool, $6 ended_at timestamptz
-- Uses: none. Rows: none.
INSERT INTO procedure_runs (tenant_id, memory_id, scope_id, pattern, succeeded, ended_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING;

-- name: runs_of_pattern
-- The latest runs of a pattern whose episode is shown, the latest first.
-- $1 tenant uuid, $2 scope_id int8, $3 pattern text, $4 limit int8
-- Uses: procedure_runs_of_pattern, memories_pkey, memory_versions_pkey. Rows: memory_id, succeeded, ended_at, integrity,
-- sensitivity, topics.
SELECT r.memory_id, r.succeeded, r.ended_at, v.integrity, v.sensitivity, v.attributes -> 'topics' AS topics
FROM procedure_runs r
JOIN memories m ON m.tenant_id = $1 AND m.memory_id = r.memory_id AND m.deleted_at IS NULL
    AND m.quarantined_at IS NULL
JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = r.memory_id AND v.version = m.version
WHERE r.tenant_id = $1 AND r.scope_id = $2 AND r.pattern = $3
ORDER BY r.ended_at DESC, r.memory_id
LIMIT $4;

-- name: count_runs
-- A procedure's runs, as they are counted now.
-- $1 tenant uuid, $2 memory_id uuid, $3 successes int4, $4 failures int4
-- Uses: procedures_pkey. Rows: none.
UPDATE procedures
SET successes = $3, failures = $4
WHERE tenant_id = $1 AND memory_id = $2;
