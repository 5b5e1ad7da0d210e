-- migrate:up
-- A task names the checkpoint that its work goes on from (docs/decisions/0033); without that it is a task all the same.

ALTER TABLE tasks
    ADD COLUMN checkpoint_id uuid,
    ADD FOREIGN KEY (tenant_id, checkpoint_id) REFERENCES checkpoints (tenant_id, checkpoint_id)
        ON DELETE SET NULL (checkpoint_id);
CREATE INDEX tasks_of_checkpoint ON tasks (tenant_id, checkpoint_id) WHERE checkpoint_id IS NOT NULL;

-- migrate:down
-- Forward only: restore a backup instead.
