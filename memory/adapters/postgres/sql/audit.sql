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

-- name: audit_newest
-- Rows of the log, newest first, before a number; null filters let everything pass. Times are inclusive.
-- $1 tenant uuid, $2 before int8, $3 limit int8, $4 action text, $5 actor text, $6 decision text, $7 id text,
-- $8 since timestamptz, $9 until timestamptz
-- Uses: audit_log_pkey. Rows: seq, at, actor, action, decision, why, ids, detail, prior, digest.
SELECT seq, at, actor, action, decision, why, ids, detail, prior, digest
FROM audit_log
WHERE tenant_id = $1 AND seq < $2
  AND ($4::text IS NULL OR action = $4) AND ($5::text IS NULL OR actor = $5) AND ($6::text IS NULL OR decision = $6)
  AND ($7::text IS NULL OR $7 = ANY (ids)) AND ($8::timestamptz IS NULL OR at >= $8)
  AND ($9::timestamptz IS NULL OR at <= $9)
ORDER BY seq DESC
LIMIT $3;

-- name: audit_oldest
-- The same, oldest first, behind a number.
-- $1 tenant uuid, $2 after int8, $3 limit int8, $4 action text, $5 actor text, $6 decision text, $7 id text,
-- $8 since timestamptz, $9 until timestamptz
-- Uses: audit_log_pkey. Rows: seq, at, actor, action, decision, why, ids, detail, prior, digest.
SELECT seq, at, actor, action, decision, why, ids, detail, prior, digest
FROM audit_log
WHERE tenant_id = $1 AND seq > $2
  AND ($4::text IS NULL OR action = $4) AND ($5::text IS NULL OR actor = $5) AND ($6::text IS NULL OR decision = $6)
  AND ($7::text IS NULL OR $7 = ANY (ids)) AND ($8::timestamptz IS NULL OR at >= $8)
  AND ($9::timestamptz IS NULL OR at <= $9)
ORDER BY seq
LIMIT $3;

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
