-- name: retrieval_ids_of_scope
-- What the requests of a scope were given, by id, from an id on: no words.
-- $1 tenant uuid, $2 scope_id int8, $3 after uuid, $4 limit int8
-- Uses: retrievals_of_scope. Rows: retrieval_id, session_id, exchange_id, status, tokens, created_at.
SELECT retrieval_id, session_id, exchange_id, status, tokens, created_at
FROM retrievals
WHERE tenant_id = $1 AND scope_id = $2 AND retrieval_id > $3
ORDER BY retrieval_id
LIMIT $4;

-- name: retrieval_ids_newest
-- What the requests of a scope were given, newest first, from before an id on: no words.
-- $1 tenant uuid, $2 scope_id int8, $3 before uuid, $4 limit int8
-- Uses: retrievals_of_scope. Rows: retrieval_id, session_id, exchange_id, status, tokens, created_at.
SELECT retrieval_id, session_id, exchange_id, status, tokens, created_at
FROM retrievals
WHERE tenant_id = $1 AND scope_id = $2 AND retrieval_id < $3
ORDER BY retrieval_id DESC
LIMIT $4;
