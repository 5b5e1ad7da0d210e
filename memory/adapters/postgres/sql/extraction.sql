-- name: see_all_due
-- The rest of this transaction sees the exchanges that wait of all tenants, and still no content of any.
-- Uses: none. Rows: set_config.
SELECT set_config('mp.due', 'all', true);

-- name: add_due
-- Facts of this exchange are to be taken out later; nothing where its user has said nothing new in it. Its turns are the
-- last of their session, those among them that went ahead of it.
-- $1 tenant uuid, $2 exchange_id uuid, $3 scope_id int8, $4 session_id uuid, $5 session_last timestamptz,
-- $6 since timestamptz
-- Uses: turns_tenant_id_session_id_seq_key. Rows: none.
INSERT INTO extraction_due (tenant_id, exchange_id, scope_id, session_id, seq_from, seq_to, session_last, since)
SELECT $1, $2, $3, $4, min(seq), max(seq), $5, $6
FROM turns
WHERE tenant_id = $1 AND session_id = $4 AND exchange_id = $2 AND role = 'user' AND seq > coalesce((
    SELECT t.seq
    FROM turns t
    WHERE t.tenant_id = $1 AND t.session_id = $4 AND t.exchange_id <> $2
    ORDER BY t.seq DESC
    LIMIT 1), -1)
HAVING count(*) > 0
ON CONFLICT (tenant_id, exchange_id) DO NOTHING;

-- name: choose_due
-- At most `limit` exchanges that nobody has, of those since before `before` (null: all): in turn from the tenants that
-- have any, each one's oldest first, tenants of which less is held first; drawn among equals, so that none waits behind
-- others for ever. What is taken for more than an hour was taken before the clock was put back. `held`: a tenant for each
-- exchange in hand. Costs by the tenants that wait, not by all.
-- $1 limit int8, $2 held uuid[], $3 before timestamptz
-- Uses: extraction_due_oldest. Rows: tenant_id, exchange_id.
WITH RECURSIVE waiting AS (
    (SELECT tenant_id FROM extraction_due ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT d.tenant_id FROM extraction_due d WHERE d.tenant_id > w.tenant_id ORDER BY d.tenant_id LIMIT 1)
    FROM waiting w
    WHERE w.tenant_id IS NOT NULL)
SELECT q.tenant_id, q.exchange_id
FROM waiting w
CROSS JOIN LATERAL (
    SELECT o.tenant_id, o.exchange_id, row_number() OVER (ORDER BY o.since) AS place
    FROM (SELECT d.tenant_id, d.exchange_id, d.since
          FROM extraction_due d
          WHERE d.tenant_id = w.tenant_id AND ($3::timestamptz IS NULL OR d.since < $3)
            AND (d.taken_until < clock_timestamp() OR d.taken_until > clock_timestamp() + interval '1 hour')
          ORDER BY d.since
          LIMIT $1) o) q
ORDER BY q.place + cardinality(array_positions($2::uuid[], q.tenant_id)), random()
LIMIT $1;

-- name: take_due
-- Take these for so many seconds, those that nobody has taken since they were chosen. The arrays go pairwise.
-- $1 tenants uuid[], $2 exchange_ids uuid[], $3 seconds float8
-- Uses: extraction_due_pkey. Rows: tenant_id, exchange_id, scope_id, session_id, seq_from, seq_to, session_last, since,
-- takes.
UPDATE extraction_due t
SET taken_until = clock_timestamp() + make_interval(secs => $3), takes = t.takes + 1
FROM unnest($1::uuid[], $2::uuid[]) AS w (tenant_id, exchange_id)
WHERE t.tenant_id = w.tenant_id AND t.exchange_id = w.exchange_id
  AND (t.taken_until < clock_timestamp() OR t.taken_until > clock_timestamp() + interval '1 hour')
RETURNING t.tenant_id, t.exchange_id, t.scope_id, t.session_id, t.seq_from, t.seq_to, t.session_last, t.since, t.takes;

-- name: keep_due
-- Keep what is in hand for so many seconds more, but for what another has taken since. The arrays go together.
-- $1 tenants uuid[], $2 exchange_ids uuid[], $3 takes int4[], $4 seconds float8
-- Uses: extraction_due_pkey. Rows: none.
UPDATE extraction_due t
SET taken_until = clock_timestamp() + make_interval(secs => $4)
FROM unnest($1::uuid[], $2::uuid[], $3::int4[]) AS w (tenant_id, exchange_id, takes)
WHERE t.tenant_id = w.tenant_id AND t.exchange_id = w.exchange_id AND t.takes = w.takes;

-- name: give_back_due
-- Nobody has it now, and that it was taken does not count against it; nothing, where another has taken it since.
-- $1 tenant uuid, $2 exchange_id uuid, $3 takes int4
-- Uses: extraction_due_pkey. Rows: none.
UPDATE extraction_due
SET taken_until = '-infinity', takes = greatest(takes - 1, 0)
WHERE tenant_id = $1 AND exchange_id = $2 AND takes = $3;

-- name: finish_due
-- It is done: nothing, where another has done it, or its exchange is gone.
-- $1 tenant uuid, $2 exchange_id uuid
-- Uses: extraction_due_pkey. Rows: exchange_id.
DELETE FROM extraction_due
WHERE tenant_id = $1 AND exchange_id = $2
RETURNING exchange_id;

-- name: count_due
-- How many exchanges wait, of all tenants, counted up to a bound.
-- $1 most int8
-- Uses: none. Rows: waiting.
SELECT count(*) AS waiting
FROM (SELECT FROM extraction_due LIMIT $1) d;

-- name: exchange_of_due
-- What is needed of an exchange to ask about it.
-- $1 tenant uuid, $2 exchange_id uuid
-- Uses: exchanges_pkey. Rows: subject_id, model, sealed, base_id, base_sealed.
SELECT e.subject_id, e.model, CASE WHEN e.base_id IS NULL OR b.sealed IS NOT NULL THEN e.sealed END AS sealed,
       e.base_id, b.sealed AS base_sealed
FROM exchanges e
LEFT JOIN exchanges b ON b.tenant_id = $1 AND b.exchange_id = e.base_id
WHERE e.tenant_id = $1 AND e.exchange_id = $2;

-- name: user_turns_of_due
-- The exchange's own turns of the user, in order; not those that must not be told, those that are sealed, nor those that
-- made no memory (an errand of a front-end, examples that other conversations begin with, a thank you): nobody is asked
-- about them.
-- $1 tenant uuid, $2 session_id uuid, $3 exchange_id uuid, $4 seq_from int8, $5 seq_to int8
-- Uses: turns_tenant_id_session_id_seq_key. Rows: event_id, exchange_id, seq, chain, parent_chain, role, name, content,
-- origin, integrity, sensitivity, model, redactions, token_count, occurred_at, language.
SELECT event_id, exchange_id, seq, chain, parent_chain, role, name, content, origin, integrity, sensitivity, model,
       redactions, token_count, occurred_at, language
FROM turns
WHERE tenant_id = $1 AND session_id = $2 AND seq BETWEEN $4 AND $5 AND exchange_id = $3 AND role = 'user'
  AND sensitivity IN ('public', 'internal')
  AND NOT {not_told(turns.event_id)}
  AND NOT {made_no_memory(turns.event_id)}
ORDER BY seq;
