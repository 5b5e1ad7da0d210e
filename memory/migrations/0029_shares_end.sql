-- migrate:up
-- A fact that is said to end ("I am in Lisbon", then "I am in Lisbon until Friday") takes its copies along, as a memory does
-- whose end is set: they have the end that it had when it was shared, and outlived it.

CREATE OR REPLACE FUNCTION mp_reworded(tenant uuid, memory uuid, before integer, after integer) RETURNS boolean
LANGUAGE sql STABLE AS $fn$
    SELECT EXISTS (
        SELECT FROM memory_versions a
        JOIN memory_versions b ON b.tenant_id = a.tenant_id AND b.memory_id = a.memory_id AND b.version = after
        WHERE a.tenant_id = tenant AND a.memory_id = memory AND a.version = before
          AND (a.content, a.integrity, a.sensitivity, a.expires_at, a.valid_to, b.validation_status = 'rejected')
              IS DISTINCT FROM (b.content, b.integrity, b.sensitivity, b.expires_at, b.valid_to, false))
$fn$;

-- migrate:down
-- Forward only: restore a backup instead.
