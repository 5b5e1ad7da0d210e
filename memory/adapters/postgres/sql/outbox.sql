-- name: announce_events
-- Lines of the lifecycle feed for these memories, in the order given; the numbers are given out under the scope's row,
-- which stays locked to the end, so that they become visible in order. A memory that is not in the scope makes no line.
-- metadata goes by memory id. The array stands in a subquery so that the plan is made once, not for its length anew: planning
-- took 0.56 ms, running takes 0.28.
-- $1 tenant uuid, $2 scope_id int8, $3 event text, $4 memory_ids uuid[], $5 metadata jsonb, $6 caused_by text,
-- $7 now timestamptz
-- Uses: memories_pkey, memory_versions_pkey, scope_versions_pkey. Rows: none.
WITH told AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY w.place) AS n, m.memory_id, m.version, m.kind,
           jsonb_build_object('integrity', m.integrity, 'sensitivity', m.sensitivity) AS labels
    FROM unnest((SELECT $4::uuid[])) WITH ORDINALITY AS w (memory_id, place)
    CROSS JOIN LATERAL (
        SELECT m.memory_id, m.version, m.kind, v.integrity, v.sensitivity
        FROM memories m
        JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.version = m.version
        WHERE m.tenant_id = $1 AND m.memory_id = w.memory_id AND m.scope_id = $2
        LIMIT 1) m),
given AS (
    UPDATE scope_versions
    SET events = events + (SELECT count(*) FROM told)
    WHERE tenant_id = $1 AND scope_id = $2
    RETURNING events - (SELECT count(*) FROM told) AS before)
INSERT INTO outbox (tenant_id, scope_id, seq, event, object_id, version, kind, caused_by, metadata, created_at)
SELECT $1::uuid, $2::int8, before + n, $3::text, memory_id, version, kind, $6::text,
       labels || coalesce($5::jsonb -> memory_id::text, '{}'), $7::timestamptz
FROM given, told;

-- name: last_event
-- The number of the newest event of a scope, kept or not; 0 before the first.
-- $1 tenant uuid, $2 scope_id int8
-- Uses: scope_versions_pkey. Rows: events.
SELECT events
FROM scope_versions
WHERE tenant_id = $1 AND scope_id = $2;

-- name: events_after
-- Events of a scope behind a number, oldest first.
-- $1 tenant uuid, $2 scope_id int8, $3 after int8, $4 limit int8
-- Uses: outbox_pkey. Rows: seq, at, what, memory_id, version, kind, by, metadata.
SELECT seq, created_at AS at, event AS what, object_id AS memory_id, version, kind, caused_by AS by, metadata
FROM outbox
WHERE tenant_id = $1 AND scope_id = $2 AND seq > $3
ORDER BY seq
LIMIT $4;

-- name: drop_events
-- Some of the events past their retention, of the visible scopes, oldest first.
-- $1 tenant uuid, $2 before timestamptz, $3 limit int8
-- Uses: outbox_age, outbox_pkey. Rows: none.
DELETE FROM outbox
WHERE (tenant_id, scope_id, seq) IN (
    SELECT tenant_id, scope_id, seq
    FROM outbox
    WHERE tenant_id = $1 AND created_at < $2
    ORDER BY created_at
    LIMIT $3);
