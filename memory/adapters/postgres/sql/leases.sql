-- name: lock_lanes
-- One division of the lanes at a time. Held to the end of the transaction. The number is arbitrary and ours.
-- Uses: none. Rows: locked.
SELECT pg_advisory_xact_lock(7210031)::text AS locked;

-- name: beat
-- A worker says it is alive.
-- $1 holder text, $2 ttl_s float8
-- Uses: lane_workers_pkey. Rows: none.
INSERT INTO lane_workers (holder, expires_at)
VALUES ($1, clock_timestamp() + make_interval(secs => $2))
ON CONFLICT (holder) DO UPDATE SET expires_at = excluded.expires_at;

-- name: forget_dead_workers
-- Workers that went without a word, an hour after their time.
-- Uses: none. Rows: none.
DELETE FROM lane_workers
WHERE expires_at < clock_timestamp() - interval '1 hour';

-- name: workers_alive
-- How many workers share the lanes. What ends further ahead than anybody could have asked for was written before the
-- clock was put back: who lives says so anew, who was killed meanwhile would count until then.
-- $1 ttl_s float8
-- Uses: none. Rows: alive.
SELECT count(*) AS alive
FROM lane_workers
WHERE expires_at > clock_timestamp()
  AND expires_at < clock_timestamp() + make_interval(secs => $1) + interval '10 minutes';

-- name: lanes_now
-- Who holds which of these lanes; a lane nobody ever held has no row. Whoever beats holds what it holds, whatever end it
-- was taken with. An end of a worker's time too far ahead is none, as for workers_alive.
-- $1 lanes text[], $2 ttl_s float8
-- Uses: lane_leases_pkey, lane_workers_pkey. Rows: lane, holder, fence, live.
SELECT l.lane, l.holder, l.fence, coalesce(w.expires_at BETWEEN n.now AND n.latest, false) AS live
FROM (SELECT clock_timestamp() AS now, clock_timestamp() + make_interval(secs => $2) + interval '10 minutes' AS latest) n
CROSS JOIN lane_leases l
LEFT JOIN lane_workers w ON w.holder = l.holder
WHERE l.lane = ANY ($1);

-- name: lock_free_lanes
-- Those of these lanes that nobody commits to now, kept so to the end of the transaction. The others are not waited for:
-- a commit may take longer than a lease, and every worker's beat would stand behind it.
-- $1 lanes text[]
-- Uses: lane_leases_pkey. Rows: lane.
SELECT lane
FROM lane_leases
WHERE lane = ANY ($1)
FOR NO KEY UPDATE SKIP LOCKED;

-- name: take_lane
-- Hold a lane. The fence rises whenever the holder changes; lock_lanes is held.
-- $1 lane text, $2 holder text, $3 ttl_s float8
-- Uses: lane_leases_pkey. Rows: lane, fence.
INSERT INTO lane_leases AS held (lane, holder, fence, expires_at)
VALUES ($1, $2, 1, clock_timestamp() + make_interval(secs => $3))
ON CONFLICT (lane) DO UPDATE
SET holder = excluded.holder,
    fence = held.fence + CASE WHEN held.holder = excluded.holder THEN 0 ELSE 1 END,
    expires_at = excluded.expires_at
RETURNING lane, fence;

-- name: renew_lanes
-- Keep what is still held.
-- $1 holder text, $2 ttl_s float8
-- Uses: none. Rows: lane, fence.
UPDATE lane_leases
SET expires_at = clock_timestamp() + make_interval(secs => $2)
WHERE holder = $1
RETURNING lane, fence;

-- name: release_lanes
-- Give lanes back: nobody holds them, and the fence says so to whoever still writes for the old holder.
-- $1 holder text, $2 lanes text[]
-- Uses: lane_leases_pkey. Rows: none.
UPDATE lane_leases
SET holder = '', fence = fence + 1, expires_at = '-infinity'
WHERE lane = ANY ($2) AND holder = $1;

-- name: retire_worker
-- A worker that goes is not counted any more.
-- $1 holder text
-- Uses: lane_workers_pkey. Rows: none.
DELETE FROM lane_workers
WHERE holder = $1;

-- name: hold_fence
-- The lane's fence, kept from changing until this transaction ends.
-- $1 lane text
-- Uses: lane_leases_pkey. Rows: fence.
SELECT fence
FROM lane_leases
WHERE lane = $1
FOR SHARE;
