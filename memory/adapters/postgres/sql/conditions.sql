-- Conditions that several queries share: `{name(value)}` in a query stands for the text below, with `{value}` in it.
-- $1 is the tenant in every query that uses one.

-- condition: not_told
-- Whether the words of the turn with this id must not be told (any more): a memory was made of it that a person hid or
-- rejected, that is quarantined or that something took the place of, also where that is gone by now. What a run hid, and
-- what stands behind another that says the same, may be told. OFFSET 0: each turn is looked up by itself; else all edges of
-- whoever has a hundred thousand are put into a table first.
(EXISTS (
    SELECT FROM derivations made_of
    JOIN memories made ON made.tenant_id = $1 AND made.memory_id = made_of.derived_id
    JOIN memory_versions says ON says.tenant_id = $1 AND says.memory_id = made.memory_id
        AND says.version = made.version
    WHERE made_of.tenant_id = $1 AND made_of.source_id = {value} AND made_of.source_kind = 'turn'
      AND made_of.derived_kind = 'memory'
      AND (made.quarantined_at IS NOT NULL OR says.validation_status = 'rejected'
          OR (made.deleted_at IS NOT NULL AND made.pruned_at IS DISTINCT FROM made.deleted_at)
          OR (made.superseded_by IS NOT NULL AND made.superseded_reason IS DISTINCT FROM 'same meaning'))
    OFFSET 0)
 OR EXISTS (SELECT FROM outdated_turns gone WHERE gone.tenant_id = $1 AND gone.event_id = {value})
 OR EXISTS (SELECT FROM untold_turns hidden WHERE hidden.tenant_id = $1 AND hidden.event_id = {value}))

-- condition: withheld
-- Whether a person hid or rejected the turn with this id, or it is quarantined: by the memory that holds its words.
(EXISTS (
    SELECT FROM derivations made_of
    JOIN memories made ON made.tenant_id = $1 AND made.memory_id = made_of.derived_id AND made.kind = 'episodic'
    JOIN memory_versions says ON says.tenant_id = $1 AND says.memory_id = made.memory_id
        AND says.version = made.version
    WHERE made_of.tenant_id = $1 AND made_of.source_id = {value} AND made_of.source_kind = 'turn'
      AND made_of.derived_kind = 'memory'
      AND (made.quarantined_at IS NOT NULL OR says.validation_status = 'rejected'
          OR (made.deleted_at IS NOT NULL AND made.pruned_at IS DISTINCT FROM made.deleted_at))
    OFFSET 0)
 OR EXISTS (SELECT FROM untold_turns hidden WHERE hidden.tenant_id = $1 AND hidden.event_id = {value}))

-- condition: withdrawn
-- Whether this row of memories is a rolling summary that was hidden with words it held, and waits to be made anew.
({value}.kind = 'summary' AND {value}.collection = 'default' AND {value}.deleted_at IS NOT NULL
 AND {value}.pruned_at IS NOT DISTINCT FROM {value}.deleted_at)

-- condition: made_no_memory
-- Whether no memory was made of the turn with this id.
(NOT EXISTS (
    SELECT FROM derivations made_of
    WHERE made_of.tenant_id = $1 AND made_of.source_id = {value} AND made_of.source_kind = 'turn'
      AND made_of.derived_kind = 'memory'))

-- condition: turns_now
-- How many turns this row of sessions has, and how many of these its rolling summary covers: those that were forgotten
-- have left their numbers behind.
(SELECT count(*) AS turns, count(*) FILTER (WHERE held.seq < {value}.summarised_seq) AS summarised_turns
 FROM turns held
 WHERE held.tenant_id = $1 AND held.scope_id = {value}.scope_id AND held.session_id = {value}.session_id)

-- condition: went_with_a_turn
-- Whether this row of memories was hidden with the memory of a turn that it rests on.
(EXISTS (
    SELECT FROM derivations rests_on
    JOIN derivations made_of ON made_of.tenant_id = $1 AND made_of.source_id = rests_on.source_id
        AND made_of.derived_kind = 'memory'
    JOIN memories made ON made.tenant_id = $1 AND made.memory_id = made_of.derived_id AND made.kind = 'episodic'
    WHERE rests_on.tenant_id = $1 AND rests_on.derived_id = {value}.memory_id AND rests_on.derived_kind = 'memory'
      AND made.deleted_at = {value}.deleted_at))
