-- migrate:up
-- What an API key may cost, what its capability tokens are signed with, and the secret it had before it was rotated
-- (docs/decisions/0019). A secret is stored as SHA-256 only; what signs tokens is sealed under the tenant's key.

ALTER TABLE api_keys
    ADD COLUMN limits jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN token_key bytea,
    ADD COLUMN former_prefix text,
    ADD COLUMN former_sha256 bytea CHECK (octet_length(former_sha256) = 32),
    ADD COLUMN former_token_key bytea,
    ADD COLUMN former_until timestamptz,
    ADD COLUMN rotated_at timestamptz;

-- migrate:down
-- Forward only: restore a backup instead.
