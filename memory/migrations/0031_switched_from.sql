-- migrate:up
-- Whether the model that stands by was served before the one that is now. Who asks for a switch again, since its answer
-- never came, has switched already: without this the same command switched back.

ALTER TABLE embedding_serving ADD COLUMN stands_back boolean NOT NULL DEFAULT false;
UPDATE embedding_serving SET stands_back = true WHERE switched_at IS NOT NULL AND standby_id IS NOT NULL;

-- migrate:down
-- Forward only: restore a backup instead.
