-- name: due_sessions
-- Sessions with turns that no episode tells, and that ended: by their client since the last of them was said, idle for so
-- many seconds, or with so many such turns. The longest idle first. What was spoken in further ahead than clocks differ
-- was so before the clock was put back, and rests since.
-- $1 tenant uuid, $2 idle_s float8, $3 turns int8, $4 limit int8
-- Uses: sessions_untold. Rows: session_id, scope_id, first_seq, next_seq, idle.
SELECT session_id, scope_id, episode_seq AS first_seq, next_seq,
       active_at <= clock_timestamp() - make_interval(secs => $2)
           OR active_at > clock_timestamp() + interval '10 minutes' OR coalesce(ended_at >= last_at, false) AS idle
FROM sessions
WHERE tenant_id = $1 AND next_seq > episode_seq
  AND (active_at <= clock_timestamp() - make_interval(secs => $2)
      OR active_at > clock_timestamp() + interval '10 minutes' OR ended_at >= last_at OR next_seq - episode_seq >= $3)
ORDER BY active_at
LIMIT $4;

-- name: episode_turns
-- Turns of a session from a number on, in order, each cut at so many characters (a sealed one is whole), with what became of their exchange.
-- Hidden is a turn that a memory was made of which a person hid or rejected, which is quarantined, or which something
-- took the place of: its words are not told again. `unlearnt`: an answer that no memory was made of, since it says
-- nothing or only what memory had said.
-- $1 tenant uuid, $2 session_id uuid, $3 seq int8, $4 limit int8, $5 chars int4
-- Uses: turns_tenant_id_session_id_seq_key, exchanges_pkey, derivations_of_source, memories_pkey, memory_versions_pkey,
-- outdated_turns_of_event. Rows: event_id, exchange_id, seq, role, content, tool_calls, parts, integrity, sensitivity,
-- token_count, occurred_at, recorded_at, status, usage, hidden, unlearnt.
SELECT t.event_id, t.exchange_id, t.seq, t.role, CASE WHEN t.sensitivity IN ('public', 'internal') THEN left(t.content, $5)
            ELSE t.content END AS content, t.tool_calls, t.parts, t.integrity,
       t.sensitivity, t.token_count, t.occurred_at, t.recorded_at, e.status, e.usage,
       {not_told(t.event_id)} AS hidden,
       t.role = 'assistant' AND {made_no_memory(t.event_id)} AS unlearnt
FROM turns t
LEFT JOIN exchanges e ON e.tenant_id = $1 AND e.exchange_id = t.exchange_id
WHERE t.tenant_id = $1 AND t.session_id = $2 AND t.seq >= $3
ORDER BY t.seq
LIMIT $4;

-- name: subject_of_scope
-- Whose scope it is.
-- $1 tenant uuid, $2 scope_id int8
-- Uses: scopes_pkey, subjects_tenant_id_user_name_key. Rows: subject_id.
SELECT s.subject_id
FROM scopes c
JOIN subjects s ON s.tenant_id = $1 AND s.user_name = c.user_name
WHERE c.tenant_id = $1 AND c.scope_id = $2;

-- name: lock_for_episode
-- How far a session is told, locked to the end of the transaction.
-- $1 tenant uuid, $2 session_id uuid
-- Uses: sessions_pkey. Rows: episode_seq.
SELECT episode_seq
FROM sessions
WHERE tenant_id = $1 AND session_id = $2
FOR UPDATE;

-- name: turns_of_range
-- How many turns a range of a session has now, and when the latest of them was written.
-- $1 tenant uuid, $2 session_id uuid, $3 first_seq int8, $4 upto_seq int8
-- Uses: turns_tenant_id_session_id_seq_key. Rows: turns, recorded_at.
SELECT count(*) AS turns, max(recorded_at) AS recorded_at
FROM turns
WHERE tenant_id = $1 AND session_id = $2 AND seq >= $3 AND seq < $4;

-- name: add_episode
-- An episode's identity, unless the scope has this range of this session.
-- $1 tenant uuid, $2 memory_id uuid, $3 scope_id int8, $4 collection text, $5 content_key bytea, $6 session_id uuid,
-- $7 subject_id uuid, $8 changed_version int8, $9 now timestamptz
-- Uses: memories_content_key. Rows: memory_id.
INSERT INTO memories (tenant_id, memory_id, scope_id, kind, collection, content_key, session_id, subject_id,
                      changed_version, created_at)
VALUES ($1, $2, $3, 'episodic', $4, $5, $6, $7, $8, $9)
ON CONFLICT (tenant_id, scope_id, kind, content_key) DO NOTHING
RETURNING memory_id;

-- name: mark_told
-- A session is told in episodes below this number.
-- $1 tenant uuid, $2 session_id uuid, $3 upto_seq int8
-- Uses: sessions_pkey. Rows: none.
UPDATE sessions
SET episode_seq = $3
WHERE tenant_id = $1 AND session_id = $2;
