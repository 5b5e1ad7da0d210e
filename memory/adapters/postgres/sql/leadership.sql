-- name: lead_job
-- Lead a job that one worker does for all, or go on leading it; no row while another's lease lasts. The fence rises with
-- every change of holder. A lease that ends further ahead than anybody could have asked for was taken before the clock was
-- put back.
-- $1 lane text, $2 holder text, $3 ttl_s float8
-- Uses: lane_leases_pkey. Rows: fence.
INSERT INTO lane_leases AS held (lane, holder, fence, expires_at)
VALUES ($1, $2, 1, clock_timestamp() + make_interval(secs => $3))
ON CONFLICT (lane) DO UPDATE
SET holder = excluded.holder,
    fence = held.fence + CASE WHEN held.holder = excluded.holder THEN 0 ELSE 1 END,
    expires_at = excluded.expires_at
WHERE held.holder = excluded.holder OR held.expires_at <= clock_timestamp()
   OR held.expires_at > clock_timestamp() + make_interval(secs => $3) + interval '10 minutes'
RETURNING fence;
