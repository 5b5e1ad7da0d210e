-- name: working_state
-- Whether what is known of a session, as of a version of its scope and of its turns below a number, still holds:
-- the version now, the numbers given out, and whether a memory of one of those turns has changed since. By what changed
-- in the scope since, which is little while somebody speaks; of more than so many versions nothing is looked through.
-- $1 tenant uuid, $2 scope_id int8, $3 session_id uuid, $4 after_version int8, $5 upto_seq int8, $6 versions int8
-- Uses: sessions_pkey, scope_versions_pkey, memories_changed, derivations_pkey, turns_pkey. Rows: version,
-- rebuild_version, next_seq, touched.
SELECT v.version, v.rebuild_version, s.next_seq,
       v.version - $4 > $6 OR EXISTS (
           SELECT FROM (
               SELECT memory_id, session_id, kind
               FROM memories
               WHERE tenant_id = $1 AND scope_id = $2 AND changed_version > $4
               ORDER BY changed_version
               OFFSET 0) m
           CROSS JOIN LATERAL (
               SELECT source_id
               FROM derivations
               WHERE tenant_id = $1 AND derived_id = m.memory_id AND derived_kind = 'memory' AND source_kind = 'turn'
               OFFSET 0) d
           JOIN turns t ON t.tenant_id = $1 AND t.event_id = d.source_id
           WHERE m.kind = 'episodic' AND m.session_id = $3 AND t.seq < $5) AS touched
FROM sessions s
JOIN scope_versions v ON v.tenant_id = $1 AND v.scope_id = s.scope_id
WHERE s.tenant_id = $1 AND s.session_id = $3 AND s.scope_id = $2;

-- name: working_turns
-- Turns of a session from a number on, in order, each with so many characters of its two ends; one of no more than twice
-- as many is whole, and then has no tail. Of a call its id, its name and the beginning of its arguments. Known: the turn
-- has a memory of its own; shown: one that is neither hidden nor rejected nor says something else by now. A sealed turn
-- is never shown. Turn by turn,
-- whatever the planner thinks of it: before the first ANALYZE a join took 400 ms for 1,000 turns, this form 30.
-- $1 tenant uuid, $2 session_id uuid, $3 seq int8, $4 limit int8, $5 chars int4, $6 arguments int4
-- Uses: turns_tenant_id_session_id_seq_key, derivations_of_source, memories_pkey, memory_versions_pkey. Rows: event_id,
-- seq, role, name, chars, head, tail, calls, tool_call_id, chain, parent_chain, integrity, attached, known, shown,
-- expires_at.
SELECT t.event_id, t.seq, t.role, t.name, length(t.content) AS chars,
       CASE WHEN t.sensitivity NOT IN ('public', 'internal') THEN ''
            ELSE left(t.content, CASE WHEN length(t.content) > 2 * $5 THEN $5 ELSE 2 * $5 END) END AS head,
       CASE WHEN length(t.content) > 2 * $5 AND t.sensitivity IN ('public', 'internal')
            THEN right(t.content, $5) ELSE '' END AS tail,
       CASE WHEN jsonb_typeof(t.tool_calls) = 'array' THEN (
           SELECT jsonb_agg(jsonb_build_array(c ->> 'id', coalesce(c #>> '{function,name}', c #>> '{custom,name}'),
                      left(coalesce(c #>> '{function,arguments}', c #>> '{custom,input}', ''), $6)))
           FROM jsonb_array_elements(t.tool_calls) c)
       END AS calls,
       t.tool_call_id, t.chain, t.parent_chain, t.integrity, t.parts IS NOT NULL AS attached,
       o.known OR t.sensitivity NOT IN ('public', 'internal') AS known,
       o.shown AND t.sensitivity IN ('public', 'internal') AS shown, o.expires_at
FROM turns t
CROSS JOIN LATERAL (
    SELECT count(*) > 0 AS known, min(v.expires_at) AS expires_at,
           coalesce(bool_or(m.deleted_at IS NULL AND m.quarantined_at IS NULL AND m.superseded_by IS NULL
               AND v.validation_status <> 'rejected' AND (m.version = 1 OR v.content = t.content
                   OR v.content = t.name || ': ' || t.content)), false) AS shown
    FROM (
        SELECT derived_id
        FROM derivations
        WHERE tenant_id = $1 AND source_id = t.event_id AND source_kind = 'turn' AND derived_kind = 'memory'
        OFFSET 0) d
    CROSS JOIN LATERAL (
        SELECT memory_id, version, deleted_at, quarantined_at, superseded_by
        FROM memories
        WHERE tenant_id = $1 AND memory_id = d.derived_id AND kind = 'episodic'
        OFFSET 0) m
    CROSS JOIN LATERAL (
        SELECT content, validation_status, expires_at
        FROM memory_versions
        WHERE tenant_id = $1 AND memory_id = m.memory_id AND version = m.version
        OFFSET 0) v) o
WHERE t.tenant_id = $1 AND t.session_id = $2 AND t.seq >= $3
ORDER BY t.seq
LIMIT $4;
