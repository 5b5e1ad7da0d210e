-- migrate:up
-- What the requests of one scope were given is listed by scope: without this a user with few requests was looked for
-- among all of the tenant's.

CREATE INDEX retrievals_of_scope ON retrievals (tenant_id, scope_id, retrieval_id);

-- migrate:down
-- Forward only: restore a backup instead.
