-- migrate:up
-- What a text was cleaned by, and the values behind tokens (docs/decisions/0021). A writer that has just redacted says so
-- by `SET LOCAL mp.rules`; whatever is written without that counts as not cleaned, and is looked at again before a prompt
-- may have it.

CREATE FUNCTION mp_rules() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT coalesce(current_setting('mp.rules', true), '') $$;

ALTER TABLE memory_versions ADD COLUMN cleaned_by text NOT NULL DEFAULT mp_rules();
ALTER TABLE turns ADD COLUMN cleaned_by text NOT NULL DEFAULT mp_rules();

-- A version that says what the one before it said is as clean as that was, whoever wrote it.
CREATE FUNCTION mp_keep_cleaned_by() RETURNS trigger LANGUAGE plpgsql AS $fn$
DECLARE
    before record;
BEGIN
    SELECT v.content, v.cleaned_by INTO before
    FROM memory_versions v
    WHERE v.tenant_id = NEW.tenant_id AND v.memory_id = NEW.memory_id AND v.version = NEW.version - 1;
    IF FOUND AND before.content = NEW.content THEN
        NEW.cleaned_by := before.cleaned_by;
    END IF;
    RETURN NEW;
END
$fn$;
CREATE TRIGGER keep_cleaned_by BEFORE INSERT ON memory_versions
    FOR EACH ROW WHEN (NEW.version > 1) EXECUTE FUNCTION mp_keep_cleaned_by();

-- A person's e-mail address, number or postal address behind the token that stands in the open text. `sealed` is bound
-- to tenant, subject and token, under the subject's key: it dies with that key.
CREATE TABLE personal_tokens (
    tenant_id  uuid NOT NULL,
    scope_id   bigint NOT NULL,
    token      text NOT NULL CHECK (token ~ '^\[kept:[a-z-]{3,12}:[a-z2-7]{26}\]$'),
    subject_id uuid NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('email', 'phone', 'iban', 'card', 'national-id', 'address')),
    sealed     bytea NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, scope_id, token),
    FOREIGN KEY (tenant_id, scope_id) REFERENCES scopes ON DELETE CASCADE
);
CREATE INDEX personal_tokens_of_subject ON personal_tokens (tenant_id, subject_id);
ALTER TABLE personal_tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE personal_tokens FORCE ROW LEVEL SECURITY;
CREATE POLICY visible_scopes ON personal_tokens USING (tenant_id = (SELECT mp_tenant())
    AND scope_id = ANY ((SELECT mp_scopes())::bigint[]));
CREATE POLICY whole_for_backup ON personal_tokens FOR SELECT TO mp_backup USING (true);
GRANT SELECT, INSERT, UPDATE, DELETE ON personal_tokens TO mp_app;
GRANT SELECT ON personal_tokens TO mp_backup;

-- migrate:down
-- Forward only: restore a backup instead.
