-- name: ping
-- Whether the schema is there, and whether anything can be written: not to a standby, nor where an operator or a provider
-- has ended that.
-- Uses: none. Rows: tenants, writable.
SELECT to_regclass('public.tenants')::text AS tenants,
       NOT pg_is_in_recovery() AND current_setting('default_transaction_read_only') = 'off' AS writable;

-- name: find_tenant
-- A tenant by name.
-- $1 name text
-- Uses: tenants_name_key. Rows: tenant_id.
SELECT tenant_id
FROM tenants
WHERE name = $1;

-- name: add_tenant
-- A new tenant, unless the name is taken.
-- $1 tenant_id uuid, $2 name text, $3 now timestamptz
-- Uses: tenants_name_key. Rows: none.
INSERT INTO tenants (tenant_id, name, created_at)
VALUES ($1, $2, $3)
ON CONFLICT (name) DO NOTHING;

-- name: current_key
-- The data key in use of a subject, or of the tenant itself (subject null).
-- $1 tenant uuid, $2 subject uuid
-- Uses: data_keys_current. Rows: key_id, subject_id, wrapped.
SELECT key_id, subject_id, wrapped
FROM data_keys
WHERE tenant_id = $1 AND subject_id = $2 AND retired_at IS NULL AND shredded_at IS NULL;

-- name: current_tenant_key
-- The data key in use of the tenant itself.
-- $1 tenant uuid
-- Uses: data_keys_current. Rows: key_id, subject_id, wrapped.
SELECT key_id, subject_id, wrapped
FROM data_keys
WHERE tenant_id = $1 AND subject_id IS NULL AND retired_at IS NULL AND shredded_at IS NULL;

-- name: key_by_id
-- One data key, whatever became of it; wrapped is null once shredded.
-- $1 tenant uuid, $2 key_id uuid
-- Uses: data_keys_pkey. Rows: key_id, subject_id, wrapped.
SELECT key_id, subject_id, wrapped
FROM data_keys
WHERE tenant_id = $1 AND key_id = $2;

-- name: add_key
-- A new data key, unless the subject has one.
-- $1 tenant uuid, $2 key_id uuid, $3 subject uuid, $4 wrapped bytea, $5 now timestamptz
-- Uses: none. Rows: none.
INSERT INTO data_keys (tenant_id, key_id, subject_id, wrapped, created_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT DO NOTHING;

-- name: make_keys_in_turn
-- Whoever makes a key that no other is to be beside makes it alone, to the end of the transaction.
-- Uses: none. Rows: locked.
SELECT pg_advisory_xact_lock(7210033)::text AS locked;

-- name: add_api_key
-- A new API key.
-- $1 key_id uuid, $2 tenant uuid, $3 prefix text, $4 secret_sha256 bytea, $5 name text, $6 fixed jsonb,
-- $7 defaults jsonb, $8 capabilities text[], $9 ceiling text, $10 now timestamptz, $11 expires_at timestamptz,
-- $12 limits jsonb, $13 token_key bytea
-- Uses: none. Rows: none.
INSERT INTO api_keys (key_id, tenant_id, prefix, secret_sha256, name, fixed, defaults, capabilities,
                      sensitivity_ceiling, created_at, expires_at, limits, token_key)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);

-- name: api_keys_of_tenant
-- Every key of a tenant, newest first.
-- $1 tenant uuid
-- Uses: api_keys_of_tenant. Rows: key_id, tenant_id, prefix, secret_sha256, name, fixed, defaults, capabilities,
-- sensitivity_ceiling, created_at, expires_at, revoked_at, limits, token_key, former_prefix, former_sha256,
-- former_token_key, former_until, rotated_at.
SELECT key_id, tenant_id, prefix, secret_sha256, name, fixed, defaults, capabilities, sensitivity_ceiling, created_at,
       expires_at, revoked_at, limits, token_key, former_prefix, former_sha256, former_token_key, former_until,
       rotated_at
FROM api_keys
WHERE tenant_id = $1
ORDER BY created_at DESC, key_id DESC;

-- name: api_keys_called
-- Keys of all tenants by prefix, former prefix, id as text, or name, newest first. For an operator: there are few keys.
-- $1 called text
-- Uses: none. Rows: key_id, tenant_id, prefix, secret_sha256, name, fixed, defaults, capabilities,
-- sensitivity_ceiling, created_at, expires_at, revoked_at, limits, token_key, former_prefix, former_sha256,
-- former_token_key, former_until, rotated_at.
SELECT key_id, tenant_id, prefix, secret_sha256, name, fixed, defaults, capabilities, sensitivity_ceiling, created_at,
       expires_at, revoked_at, limits, token_key, former_prefix, former_sha256, former_token_key, former_until,
       rotated_at
FROM api_keys
WHERE prefix = $1 OR former_prefix = $1 OR key_id::text = $1 OR name = $1
ORDER BY created_at DESC, key_id DESC;

-- name: active_api_keys
-- Every key that may be used now, of all tenants: the table each process holds.
-- $1 now timestamptz
-- Uses: none. Rows: key_id, tenant_id, prefix, secret_sha256, name, fixed, defaults, capabilities,
-- sensitivity_ceiling, created_at, expires_at, revoked_at, limits, token_key, former_prefix, former_sha256,
-- former_token_key, former_until, rotated_at.
SELECT key_id, tenant_id, prefix, secret_sha256, name, fixed, defaults, capabilities, sensitivity_ceiling, created_at,
       expires_at, revoked_at, limits, token_key, former_prefix, former_sha256, former_token_key, former_until,
       rotated_at
FROM api_keys
WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $1);

-- name: api_keys_mark
-- Another answer behind every change of any key: how many there are, and what stands for who wrote them last.
-- Uses: none. Rows: keys, writers.
SELECT count(*) AS keys, coalesce(sum(xmin::text::int8), 0)::int8 AS writers
FROM api_keys;

-- name: rotate_api_key
-- A new secret for a key in use; the one it had holds until `former_until`. While an earlier one still holds, only with
-- `redo`, which replaces the newest secret and leaves that one its time, or where `former_until` ends both now.
-- $1 tenant uuid, $2 key_id uuid, $3 now timestamptz, $4 prefix text, $5 secret_sha256 bytea, $6 token_key bytea,
-- $7 former_until timestamptz, $8 redo bool
-- Uses: api_keys_pkey. Rows: none.
UPDATE api_keys
SET former_prefix = CASE WHEN $8 THEN former_prefix ELSE prefix END,
    former_sha256 = CASE WHEN $8 THEN former_sha256 ELSE secret_sha256 END,
    former_token_key = CASE WHEN $8 THEN former_token_key ELSE token_key END,
    former_until = CASE WHEN $8 THEN former_until ELSE $7 END,
    prefix = $4, secret_sha256 = $5, token_key = $6, rotated_at = $3
WHERE tenant_id = $1 AND key_id = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)
  AND (former_until IS NULL OR former_until <= $3 OR $8 OR $7 <= $3);

-- name: revoke_api_key
-- Revoke a key by its id, inside its tenant.
-- $1 tenant uuid, $2 key_id uuid, $3 now timestamptz
-- Uses: api_keys_pkey. Rows: none.
UPDATE api_keys
SET revoked_at = $3
WHERE tenant_id = $1 AND key_id = $2 AND revoked_at IS NULL;
