-- migrate:up
-- The lifecycle feed can be read (docs/decisions/0010): every event has a number, without gaps inside its scope and in
-- the order of commits, because it is given out under the scope's row, which stays locked to the end of a transaction.
-- And turns keep what a message holds beside its text.

ALTER TABLE turns ADD COLUMN parts jsonb;

ALTER TABLE scope_versions ADD COLUMN events bigint NOT NULL DEFAULT 0;

ALTER TABLE outbox
    ADD COLUMN seq bigint,
    ADD COLUMN version integer,
    ADD COLUMN kind text,
    ADD COLUMN caused_by text,
    ADD COLUMN metadata jsonb NOT NULL DEFAULT '{}';

-- Number what is there. Forced row-level security would hide it from an owner that is no superuser.
ALTER TABLE outbox NO FORCE ROW LEVEL SECURITY;
ALTER TABLE scope_versions NO FORCE ROW LEVEL SECURITY;
UPDATE outbox o
SET seq = n.seq
FROM (SELECT ctid AS place, row_number() OVER (PARTITION BY tenant_id, scope_id ORDER BY created_at, event_id) AS seq
      FROM outbox) n
WHERE o.ctid = n.place;
UPDATE scope_versions v
SET events = n.events
FROM (SELECT tenant_id, scope_id, max(seq) AS events FROM outbox GROUP BY tenant_id, scope_id) n
WHERE v.tenant_id = n.tenant_id AND v.scope_id = n.scope_id;
ALTER TABLE outbox FORCE ROW LEVEL SECURITY;
ALTER TABLE scope_versions FORCE ROW LEVEL SECURITY;

-- event_id stays for the code of before, and may go with a later migration.
ALTER TABLE outbox
    DROP CONSTRAINT outbox_pkey,
    ADD PRIMARY KEY (tenant_id, scope_id, seq),
    ALTER COLUMN event_id DROP NOT NULL,
    DROP CONSTRAINT outbox_event_check,
    ADD CONSTRAINT outbox_event_check CHECK (event IN ('created', 'updated', 'superseded', 'expired', 'revalidated',
        'shared', 'deleted', 'restored', 'erased'));
CREATE INDEX outbox_age ON outbox (tenant_id, created_at);

-- While an upgrade rolls, workers of before still write events without a number.
CREATE FUNCTION mp_number_event() RETURNS trigger LANGUAGE plpgsql AS $fn$
BEGIN
    UPDATE scope_versions SET events = events + 1
    WHERE tenant_id = NEW.tenant_id AND scope_id = NEW.scope_id
    RETURNING events INTO NEW.seq;
    RETURN NEW;
END
$fn$;
CREATE TRIGGER outbox_number BEFORE INSERT ON outbox
    FOR EACH ROW WHEN (NEW.seq IS NULL) EXECUTE FUNCTION mp_number_event();

-- migrate:down
-- Forward only: restore a backup instead.
