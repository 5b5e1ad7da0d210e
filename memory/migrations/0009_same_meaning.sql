-- migrate:up
-- What merging, promoting and compressing need (docs/decisions/0018). Nothing of it is written by a live commit.

-- In the order in which a commit takes them, so that a store that is written to meanwhile waits and does not deadlock.
LOCK TABLE memories, facts, fact_sayings IN ACCESS EXCLUSIVE MODE;
-- A saying that came with a fact that says the same in other words: of which, so that the merge can be undone.
ALTER TABLE fact_sayings ADD COLUMN merged_from uuid;
-- In how many sessions it was heard when it last gained by that.
ALTER TABLE facts ADD COLUMN sessions_counted integer NOT NULL DEFAULT 0;
-- The month into which an episode was compressed; it is told again where that goes.
ALTER TABLE memories ADD COLUMN compressed_into uuid;
-- Episodes, what they were compressed into, and that once recall has it: a few rows beside those of turns.
CREATE INDEX memories_told ON memories (tenant_id, scope_id, created_at, memory_id)
    WHERE collection IN ('episode', 'month', 'past');
CREATE INDEX memories_compressed_into ON memories (tenant_id, compressed_into) WHERE compressed_into IS NOT NULL;
-- Whether a turn says what something has taken the place of, also where that fact is gone by now.
CREATE INDEX outdated_turns_of_event ON outdated_turns (tenant_id, event_id);
-- Also what was told and of which nothing may be told any more is hidden by us.
ALTER TABLE memories
    DROP CONSTRAINT memories_pruned_reason_check,
    ADD CONSTRAINT memories_pruned_reason_check
        CHECK (pruned_reason IN ('never used', 'over the bound', 'nothing left'));

-- migrate:down
-- Forward only: restore a backup instead.
