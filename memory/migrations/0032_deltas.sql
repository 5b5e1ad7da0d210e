-- migrate:up
-- A request holds the history before it. Where a session's bodies have most of their bytes in common, `sealed` is what one
-- has that another, which is kept whole, has not (docs/decisions/0040).

ALTER TABLE exchanges ADD COLUMN base_id uuid;
CREATE INDEX exchanges_deltas ON exchanges (tenant_id, base_id) WHERE base_id IS NOT NULL;

-- migrate:down
-- Forward only: restore a backup instead.
