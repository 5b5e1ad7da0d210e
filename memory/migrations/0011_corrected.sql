-- migrate:up
-- What a person's edit and an erasure leave behind: which turn says what its fact or procedure was edited away from, and
-- which turn's words stay untold when the memory that said so is gone.

-- The memory rests on this turn itself, and says something else since a person edited it.
ALTER TABLE outdated_turns ADD COLUMN corrected boolean NOT NULL DEFAULT false;

-- Turns of memories that a person hid or rejected, or that were quarantined, once those memories are erased.
CREATE TABLE untold_turns (
    tenant_id uuid NOT NULL,
    event_id  uuid NOT NULL,
    scope_id  bigint NOT NULL,
    PRIMARY KEY (tenant_id, event_id),
    FOREIGN KEY (tenant_id, event_id) REFERENCES turns ON DELETE CASCADE
);
ALTER TABLE untold_turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE untold_turns FORCE ROW LEVEL SECURITY;
CREATE POLICY visible_scopes ON untold_turns USING (tenant_id = (SELECT mp_tenant())
    AND scope_id = ANY ((SELECT mp_scopes())::bigint[]));
CREATE POLICY whole_for_backup ON untold_turns FOR SELECT TO mp_backup USING (true);
GRANT SELECT, INSERT, DELETE ON untold_turns TO mp_app;
GRANT SELECT ON untold_turns TO mp_backup;

-- migrate:down
-- Forward only: restore a backup instead.
