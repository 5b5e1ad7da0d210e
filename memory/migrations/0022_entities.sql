-- migrate:up
-- People and things (docs/decisions/0034): who is who, what ties them, and what became of either. Their words are those
-- of memories (a fact that names them, or a card, collection entity); here stand ids, closed words and fingerprints.

CREATE TABLE entities (
    tenant_id   uuid NOT NULL,
    entity_id   uuid NOT NULL,
    scope_id    bigint NOT NULL,
    version     integer NOT NULL DEFAULT 1 CHECK (version >= 1),
    type        text NOT NULL
        CHECK (type IN ('person', 'animal', 'organisation', 'place', 'project', 'repository', 'host', 'service', 'file',
                        'product', 'event', 'other')),
    -- What was said of it by hand; null: it is known by facts alone.
    card_id     uuid,
    -- It is another name for that one, which is itself merged into none.
    merged_into uuid CHECK (merged_into <> entity_id),
    created_at  timestamptz NOT NULL,
    changed_at  timestamptz NOT NULL,
    deleted_at  timestamptz,
    PRIMARY KEY (tenant_id, entity_id),
    FOREIGN KEY (tenant_id, scope_id) REFERENCES scopes,
    FOREIGN KEY (tenant_id, card_id) REFERENCES memories (tenant_id, memory_id) ON DELETE SET NULL (card_id),
    FOREIGN KEY (tenant_id, merged_into) REFERENCES entities (tenant_id, entity_id) ON DELETE SET NULL (merged_into)
);
CREATE INDEX entities_recent ON entities (tenant_id, scope_id, created_at DESC, entity_id DESC);
CREATE INDEX entities_of_card ON entities (tenant_id, card_id) WHERE card_id IS NOT NULL;
CREATE INDEX entities_merged ON entities (tenant_id, merged_into) WHERE merged_into IS NOT NULL;

-- By which memory an entity has a name. The fingerprint is of the name's plain form, in this scope.
CREATE TABLE entity_aliases (
    tenant_id   uuid NOT NULL,
    entity_id   uuid NOT NULL,
    fingerprint bytea NOT NULL CHECK (octet_length(fingerprint) = 16),
    memory_id   uuid NOT NULL,
    scope_id    bigint NOT NULL,
    PRIMARY KEY (tenant_id, entity_id, memory_id, fingerprint),
    FOREIGN KEY (tenant_id, entity_id) REFERENCES entities ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
CREATE INDEX entity_aliases_of_name ON entity_aliases (tenant_id, scope_id, fingerprint);
CREATE INDEX entity_aliases_of_memory ON entity_aliases (tenant_id, memory_id);

CREATE TABLE relationships (
    tenant_id       uuid NOT NULL,
    relationship_id uuid NOT NULL,
    scope_id        bigint NOT NULL,
    source_entity   uuid NOT NULL,
    target_entity   uuid NOT NULL CHECK (target_entity <> source_entity),
    type            text NOT NULL CHECK (type ~ '^[a-z][a-z0-9_]{0,63}$'),
    -- The fact or the memory of its own that says so: while that stands, so does this.
    memory_id       uuid NOT NULL,
    valid_from      timestamptz,
    valid_to        timestamptz,
    created_at      timestamptz NOT NULL,
    deleted_at      timestamptz,
    PRIMARY KEY (tenant_id, relationship_id),
    FOREIGN KEY (tenant_id, source_entity) REFERENCES entities (tenant_id, entity_id) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, target_entity) REFERENCES entities (tenant_id, entity_id) ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories ON DELETE CASCADE
);
CREATE UNIQUE INDEX relationships_of_source ON relationships (tenant_id, source_entity, type, target_entity, memory_id);
CREATE INDEX relationships_of_target ON relationships (tenant_id, target_entity);
CREATE INDEX relationships_of_memory ON relationships (tenant_id, memory_id);

CREATE TABLE entity_history (
    tenant_id uuid NOT NULL,
    entity_id uuid NOT NULL,
    version   integer NOT NULL CHECK (version >= 1),
    scope_id  bigint NOT NULL,
    what      text NOT NULL
        CHECK (what IN ('learnt', 'added', 'changed', 'merged', 'took', 'split', 'gave', 'deleted', 'undeleted')),
    -- The one that it was merged into or split from, or that it took or gave back.
    other     uuid,
    -- The key's id, "open", or "worker".
    actor     text NOT NULL,
    at        timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, entity_id, version),
    FOREIGN KEY (tenant_id, entity_id) REFERENCES entities ON DELETE CASCADE
);

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['entities', 'entity_aliases', 'relationships', 'entity_history'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY visible_scopes ON %I USING (tenant_id = (SELECT mp_tenant())
            AND scope_id = ANY ((SELECT mp_scopes())::bigint[]))', t);
        EXECUTE format('CREATE POLICY whole_for_backup ON %I FOR SELECT TO mp_backup USING (true)', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO mp_app', t);
        EXECUTE format('GRANT SELECT ON %I TO mp_backup', t);
    END LOOP;
END $$;

-- migrate:down
-- Forward only: restore a backup instead.
