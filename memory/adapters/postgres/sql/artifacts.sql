-- name: add_artifact
-- One file.
-- $1 tenant uuid, $2 artifact_id uuid, $3 scope_id int8, $4 subject_id uuid, $5 session_id uuid, $6 memory_id uuid,
-- $7 blob text, $8 bytes int8, $9 media_type text, $10 width int4, $11 height int4, $12 now timestamptz
-- Uses: none. Rows: none.
INSERT INTO artifacts (tenant_id, artifact_id, scope_id, subject_id, session_id, memory_id, blob, bytes, media_type,
                       width, height, created_at, changed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12);

-- name: artifacts_of_blob
-- Those of a scope that have these bytes and are not deleted, newest first.
-- $1 tenant uuid, $2 scope_id int8, $3 blob text
-- Uses: artifacts_of_blob. Rows: artifact_id.
SELECT artifact_id
FROM artifacts
WHERE tenant_id = $1 AND scope_id = $2 AND blob = $3 AND deleted_at IS NULL
ORDER BY created_at DESC;

-- name: bytes_of_artifacts
-- The bytes of a scope's files, with those that were deleted at a moment or later: they can be brought back.
-- $1 tenant uuid, $2 scope_id int8, $3 deleted_from timestamptz
-- Uses: artifacts_recent. Rows: bytes.
SELECT coalesce(sum(bytes), 0)::int8 AS bytes
FROM artifacts
WHERE tenant_id = $1 AND scope_id = $2 AND (deleted_at IS NULL OR deleted_at >= $3);

-- name: blobs_of_subject
-- The names that the bytes of a subject's files of a scope lie under, with those that were deleted at a moment or later.
-- $1 tenant uuid, $2 scope_id int8, $3 subject_id uuid, $4 deleted_from timestamptz
-- Uses: artifacts_recent. Rows: blob.
SELECT DISTINCT blob
FROM artifacts
WHERE tenant_id = $1 AND scope_id = $2 AND subject_id = $3 AND (deleted_at IS NULL OR deleted_at >= $4);

-- name: lock_artifact
-- One of this scope, deleted or not, locked to the end of the transaction.
-- $1 tenant uuid, $2 scope_id int8, $3 artifact_id uuid
-- Uses: artifacts_pkey. Rows: artifact_id, version, memory_id, deleted_at.
SELECT artifact_id, version, memory_id, deleted_at
FROM artifacts
WHERE tenant_id = $1 AND scope_id = $2 AND artifact_id = $3
FOR UPDATE;

-- name: artifacts_by_id
-- These of a scope that are not deleted.
-- $1 tenant uuid, $2 scope_id int8, $3 artifact_ids uuid[]
-- Uses: artifacts_pkey. Rows: artifact_id, version, subject_id, session_id, memory_id, blob, bytes, media_type, width,
-- height, created_at, changed_at.
SELECT artifact_id, version, subject_id, session_id, memory_id, blob, bytes, media_type, width, height, created_at,
       changed_at
FROM artifacts
WHERE tenant_id = $1 AND scope_id = $2 AND artifact_id = ANY ($3) AND deleted_at IS NULL;

-- name: artifacts_newest
-- Those of a scope that are not deleted, newest first, from a place on; of one conversation where it is named.
-- $1 tenant uuid, $2 scope_id int8, $3 before timestamptz, $4 before_id uuid, $5 session_id uuid, $6 limit int8
-- Uses: artifacts_recent. Rows: artifact_id, version, subject_id, session_id, memory_id, blob, bytes, media_type, width,
-- height, created_at, changed_at.
SELECT artifact_id, version, subject_id, session_id, memory_id, blob, bytes, media_type, width, height, created_at,
       changed_at
FROM artifacts
WHERE tenant_id = $1 AND scope_id = $2 AND (created_at, artifact_id) < ($3, $4) AND deleted_at IS NULL
  AND ($5::uuid IS NULL OR session_id = $5)
ORDER BY created_at DESC, artifact_id DESC
LIMIT $6;

-- name: artifacts_oldest
-- The same, oldest first.
-- $1 tenant uuid, $2 scope_id int8, $3 after timestamptz, $4 after_id uuid, $5 session_id uuid, $6 limit int8
-- Uses: artifacts_recent. Rows: artifact_id, version, subject_id, session_id, memory_id, blob, bytes, media_type, width,
-- height, created_at, changed_at.
SELECT artifact_id, version, subject_id, session_id, memory_id, blob, bytes, media_type, width, height, created_at,
       changed_at
FROM artifacts
WHERE tenant_id = $1 AND scope_id = $2 AND (created_at, artifact_id) > ($3, $4) AND deleted_at IS NULL
  AND ($5::uuid IS NULL OR session_id = $5)
ORDER BY created_at, artifact_id
LIMIT $6;

-- name: change_artifact
-- Its next version.
-- $1 tenant uuid, $2 artifact_id uuid, $3 version int4, $4 now timestamptz
-- Uses: artifacts_pkey. Rows: none.
UPDATE artifacts
SET version = $3, changed_at = greatest($4, changed_at)
WHERE tenant_id = $1 AND artifact_id = $2;

-- name: mark_artifact_deleted
-- Delete one, or bring it back (null).
-- $1 tenant uuid, $2 artifact_id uuid, $3 deleted_at timestamptz
-- Uses: artifacts_pkey. Rows: none.
UPDATE artifacts
SET deleted_at = $3
WHERE tenant_id = $1 AND artifact_id = $2;
