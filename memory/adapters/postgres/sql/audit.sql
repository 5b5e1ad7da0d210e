-- name: lock_audit_head
-- Where the tenant's chain ends, locked to the end of the transaction: one writer at a time goes on.
-- $1 tenant uuid
-- Uses: audit_heads_pkey. Rows: seq, digest.
SELECT seq, digest
FROM audit_heads
WHERE tenant_id = $1
FOR UPDATE;

-- name: audit_head
-- Where the tenant's chain ends.
-- $1 tenant uuid
-- Uses: audit_heads_pkey. Rows: seq, digest.
SELECT seq, digest
FROM audit_heads
WHERE tenant_id = $1;

-- name: add_audit_head
-- The beginning of a chain, unless it is there.
-- $1 tenant uuid, $2 digest bytea
-- Uses: none. Rows: none.
INSERT INTO audit_heads (tenant_id, seq, digest)
VALUES ($1, 0, $2)
ON CONFLICT DO NOTHING;

-- name: move_audit_head
-- The chain has become longer.
-- $1 tenant uuid, $2 seq int8, $3 digest bytea
-- Uses: audit_heads_pkey. Rows: none.
UPDATE audit_heads
SET seq = $2, digest = $3
WHERE tenant_id = $1;

-- name: add_audit_row
-- One row of the chain.
-- $1 tenant uuid, $2 seq int8, $3 at timestamptz, $4 actor text, $5 action text, $6 decision text, $7 why text,
-- $8 ids text[], $9 detail jsonb, $10 prior bytea, $11 digest bytea
-- Uses: none. Rows: none.
INSERT INTO audit_log (tenant_id, seq, at, actor, action, decision, why, ids, detail, prior, digest)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- name: audit_ends
-- The numbers of the first and the last row of the tenant; null where there is none.
-- $1 tenant uuid
-- Uses: audit_log_pkey. Rows: first, last.
SELECT (SELECT min(seq) FROM audit_log WHERE tenant_id = $1) AS first,
       (SELECT max(seq) FROM audit_log WHERE tenant_id = $1) AS last;

-- name: audit_newest
-- Rows of the log, newest first, before a number and from another on; null filters let everything pass. Times are inclusive.
-- $1 tenant uuid, $2 before int8, $3 first int8, $4 limit int8, $5 action text, $6 actor text, $7 decision text, $8 id text,
-- $9 since timestamptz, $10 until timestamptz
-- Uses: audit_log_pkey. Rows: seq, at, actor, action, decision, why, ids, detail, prior, digest.
SELECT seq, at, actor, action, decision, why, ids, detail, prior, digest
FROM audit_log
WHERE tenant_id = $1 AND seq < $2 AND seq >= $3
  AND ($5::text IS NULL OR action = $5) AND ($6::text IS NULL OR actor = $6) AND ($7::text IS NULL OR decision = $7)
  AND ($8::text IS NULL OR $8 = ANY (ids)) AND ($9::timestamptz IS NULL OR at >= $9)
  AND ($10::timestamptz IS NULL OR at <= $10)
ORDER BY seq DESC
LIMIT $4;

-- name: audit_oldest
-- The same, oldest first, behind a number and up to another.
-- $1 tenant uuid, $2 after int8, $3 last int8, $4 limit int8, $5 action text, $6 actor text, $7 decision text, $8 id text,
-- $9 since timestamptz, $10 until timestamptz
-- Uses: audit_log_pkey. Rows: seq, at, actor, action, decision, why, ids, detail, prior, digest.
SELECT seq, at, actor, action, decision, why, ids, detail, prior, digest
FROM audit_log
WHERE tenant_id = $1 AND seq > $2 AND seq <= $3
  AND ($5::text IS NULL OR action = $5) AND ($6::text IS NULL OR actor = $6) AND ($7::text IS NULL OR decision = $7)
  AND ($8::text IS NULL OR $8 = ANY (ids)) AND ($9::timestamptz IS NULL OR at >= $9)
  AND ($10::timestamptz IS NULL OR at <= $10)
ORDER BY seq
LIMIT $4;

-- name: audit_rows_past
-- The last row of those at the beginning of the chain that are all older than a moment, at most so many; none where these
-- are nothing but anchors.
-- $1 tenant uuid, $2 before timestamptz, $3 limit int8
-- Uses: audit_log_pkey. Rows: seq, digest.
WITH oldest AS MATERIALIZED (
    SELECT seq, at, action, digest
    FROM audit_log
    WHERE tenant_id = $1
    ORDER BY seq
    LIMIT $3),
past AS (
    SELECT seq, action, digest
    FROM oldest
    WHERE seq < (SELECT coalesce(min(seq), 9223372036854775807) FROM oldest WHERE at >= $2))
SELECT seq, digest
FROM past
WHERE EXISTS (SELECT FROM past WHERE action <> 'audit.anchor')
ORDER BY seq DESC
LIMIT 1;

-- name: drop_audited
-- Drop the rows up to one that an anchor covers; how many. Raises where none does.
-- $1 through int8
-- Uses: none. Rows: mp_drop_audited.
SELECT mp_drop_audited($1);
