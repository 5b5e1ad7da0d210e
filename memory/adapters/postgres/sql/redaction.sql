-- name: cleaned_by
-- What is written in this transaction from now on was cleaned by these rules.
-- $1 mark text
-- Uses: none. Rows: set_config.
SELECT set_config('mp.rules', $1, true);

-- name: keep_token
-- A piece of personal data behind its token; the first one stays.
-- $1 tenant uuid, $2 scope_id int8, $3 token text, $4 subject_id uuid, $5 kind text, $6 sealed bytea, $7 now timestamptz
-- Uses: personal_tokens_pkey. Rows: none.
INSERT INTO personal_tokens (tenant_id, scope_id, token, subject_id, kind, sealed, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant_id, scope_id, token) DO NOTHING;

-- name: token_of_scopes
-- What stands behind a token, in whichever of the visible scopes.
-- $1 tenant uuid, $2 scope_ids int8[], $3 token text
-- Uses: personal_tokens_pkey. Rows: subject_id, kind, sealed.
SELECT subject_id, kind, sealed
FROM personal_tokens
WHERE tenant_id = $1 AND scope_id = ANY ($2) AND token = $3
LIMIT 1;
