-- migrate:up
-- Episodes (docs/decisions/0011): how far each session is told in episodes, and when turns were last added to it, by
-- this server's clock: sessions of several machines, one judge. The index holds only sessions with something untold.
-- Code of before leaves active_at alone: its sessions count as idle since they began, so an episode may come early and
-- the next one goes on from there.

ALTER TABLE sessions
    ADD COLUMN episode_seq bigint NOT NULL DEFAULT 0,
    ADD COLUMN active_at timestamptz NOT NULL DEFAULT clock_timestamp();
CREATE INDEX sessions_untold ON sessions (tenant_id, active_at) WHERE next_seq > episode_seq;

-- migrate:down
-- Forward only: restore a backup instead.
