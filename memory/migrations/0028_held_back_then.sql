-- migrate:up
-- A version that came to its end while its memory was held back was in no answer, and is as of no moment: what takes its
-- place may be set free, by a person or because an imported line says something else by now, and it was not.

ALTER TABLE memory_versions ADD COLUMN held_back boolean NOT NULL DEFAULT false;

-- The first of a memory that was held back from its birth ended so, whatever ended it: that sets free behind it. As far
-- back as the feed tells of births (30 days).
ALTER TABLE memory_versions NO FORCE ROW LEVEL SECURITY;
ALTER TABLE outbox NO FORCE ROW LEVEL SECURITY;
UPDATE memory_versions v
SET held_back = true
FROM outbox o
WHERE o.event = 'created' AND o.metadata ->> 'quarantine' = 'held'
  AND v.tenant_id = o.tenant_id AND v.memory_id = o.object_id AND v.version = 1 AND v.recorded_to IS NOT NULL;
ALTER TABLE outbox FORCE ROW LEVEL SECURITY;
ALTER TABLE memory_versions FORCE ROW LEVEL SECURITY;

-- migrate:down
-- Forward only: restore a backup instead.
