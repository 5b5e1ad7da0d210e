-- migrate:up
-- A session may be ended by its client: by the clock of the proxies, as the times of its turns are. What is said later
-- goes on with it as before.

ALTER TABLE sessions ADD COLUMN ended_at timestamptz;

-- migrate:down
-- Forward only: restore a backup instead.
