-- ---------------------------------------------------------------- an upload is taken

-- name: uploads_waiting
-- How many uploads of a scope are not stored yet.
-- $1 tenant uuid, $2 scope_id int8
-- Uses: document_uploads_open. Rows: waiting.
SELECT count(*) AS waiting
FROM document_uploads
WHERE tenant_id = $1 AND scope_id = $2 AND sealed IS NOT NULL;

-- name: put_document
-- The document of this name, made when it is new, and locked. What is stored of it stays as it is; how it is given to a
-- conversation is the last upload's to say.
-- $1 tenant uuid, $2 document_id uuid, $3 scope_id int8, $4 session_id uuid, $5 name text, $6 media_type text,
-- $7 sha256 bytea, $8 bytes int8, $9 chars int8, $10 pages int4, $11 inline_as text, $12 shown_in uuid,
-- $13 integrity text, $14 sensitivity text, $15 now timestamptz
-- Uses: documents_name. Rows: document_id, sensitivity, integrity.
INSERT INTO documents AS d (tenant_id, document_id, scope_id, session_id, name, media_type, sha256, bytes, chars, pages,
                            inline_as, shown_in, integrity, sensitivity, created_at, changed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15)
ON CONFLICT (tenant_id, scope_id, name, session_id) WHERE deleted_at IS NULL DO UPDATE
SET inline_as = excluded.inline_as, shown_in = coalesce(excluded.shown_in, d.shown_in)
RETURNING d.document_id, d.sensitivity, d.integrity;

-- name: page_deleted
-- Whether all pages of the web that have one of these names in a scope are deleted; false where there is none.
-- $1 tenant uuid, $2 scope_id int8, $3 names text[]
-- Uses: documents_recent. Rows: deleted.
SELECT coalesce(bool_and(deleted_at IS NOT NULL), false) AS deleted
FROM documents
WHERE tenant_id = $1 AND scope_id = $2 AND name = ANY ($3) AND session_id IS NULL AND integrity = 'web';

-- name: end_open_uploads
-- Uploads of a document that are not stored yet are not stored any more, and why.
-- $1 tenant uuid, $2 document_id uuid, $3 reason text, $4 now timestamptz
-- Uses: document_uploads_of_document. Rows: upload_id, sensitivity, integrity.
UPDATE document_uploads
SET status = 'failed', reason = $3, sealed = NULL, finished_at = $4
WHERE tenant_id = $1 AND document_id = $2 AND sealed IS NOT NULL
RETURNING upload_id, sensitivity, integrity;

-- name: drop_ended_uploads
-- Uploads of a document that have ended: the next one is what is asked for from now on.
-- $1 tenant uuid, $2 document_id uuid
-- Uses: document_uploads_of_document. Rows: none.
DELETE FROM document_uploads
WHERE tenant_id = $1 AND document_id = $2 AND sealed IS NULL;

-- name: add_upload
-- A file that was given for a document.
-- $1 tenant uuid, $2 upload_id uuid, $3 document_id uuid, $4 scope_id int8, $5 subject_id uuid, $6 media_type text,
-- $7 sha256 bytea, $8 bytes int8, $9 chars int8, $10 pages int4, $11 integrity text, $12 sensitivity text,
-- $13 sealed bytea, $14 now timestamptz
-- Uses: none. Rows: none.
INSERT INTO document_uploads (tenant_id, upload_id, document_id, scope_id, subject_id, status, media_type, sha256, bytes,
                              chars, pages, integrity, sensitivity, sealed, created_at)
VALUES ($1, $2, $3, $4, $5, 'waiting', $6, $7, $8, $9, $10, $11, $12, $13, $14);

-- name: add_document_due
-- An upload waits for a worker.
-- $1 tenant uuid, $2 upload_id uuid, $3 scope_id int8, $4 since timestamptz
-- Uses: none. Rows: none.
INSERT INTO document_due (tenant_id, upload_id, scope_id, since)
VALUES ($1, $2, $3, $4);

-- ---------------------------------------------------------------- a worker has it

-- name: choose_document_due
-- An upload that nobody has: of the tenants that have any the oldest of each, one of them drawn. What is taken for more
-- than an hour was taken before the clock was put back.
-- Uses: document_due_oldest. Rows: tenant_id, upload_id.
WITH RECURSIVE waiting AS (
    (SELECT tenant_id FROM document_due ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT d.tenant_id FROM document_due d WHERE d.tenant_id > w.tenant_id ORDER BY d.tenant_id LIMIT 1)
    FROM waiting w
    WHERE w.tenant_id IS NOT NULL)
SELECT q.tenant_id, q.upload_id
FROM waiting w
CROSS JOIN LATERAL (
    SELECT d.tenant_id, d.upload_id
    FROM document_due d
    WHERE d.tenant_id = w.tenant_id
      AND (d.taken_until < clock_timestamp() OR d.taken_until > clock_timestamp() + interval '1 hour')
    ORDER BY d.since
    LIMIT 1) q
ORDER BY random()
LIMIT 1;

-- name: take_document_due
-- Take it for so many seconds, unless somebody has since it was chosen.
-- $1 tenant uuid, $2 upload_id uuid, $3 seconds float8
-- Uses: document_due_pkey. Rows: tenant_id, upload_id, scope_id, takes.
UPDATE document_due
SET taken_until = clock_timestamp() + make_interval(secs => $3), takes = takes + 1
WHERE tenant_id = $1 AND upload_id = $2
  AND (taken_until < clock_timestamp() OR taken_until > clock_timestamp() + interval '1 hour')
RETURNING tenant_id, upload_id, scope_id, takes;

-- name: keep_document_due
-- Keep it for so many seconds more; no row where it is not there any more, or another has taken it since.
-- $1 tenant uuid, $2 upload_id uuid, $3 takes int4, $4 seconds float8
-- Uses: document_due_pkey. Rows: upload_id.
UPDATE document_due
SET taken_until = clock_timestamp() + make_interval(secs => $4)
WHERE tenant_id = $1 AND upload_id = $2 AND takes = $3
RETURNING upload_id;

-- name: give_back_document_due
-- Nobody has it for so many seconds, and that it was taken does not count against it; nothing, where another has taken it
-- since.
-- $1 tenant uuid, $2 upload_id uuid, $3 takes int4, $4 seconds float8
-- Uses: document_due_pkey. Rows: none.
UPDATE document_due
SET taken_until = clock_timestamp() + make_interval(secs => $4), takes = greatest(takes - 1, 0)
WHERE tenant_id = $1 AND upload_id = $2 AND takes = $3;

-- name: finish_document_due
-- It is over: nothing, where another has done it, or the upload is gone. How often it was taken must be ours.
-- $1 tenant uuid, $2 upload_id uuid, $3 takes int4
-- Uses: document_due_pkey. Rows: upload_id.
DELETE FROM document_due
WHERE tenant_id = $1 AND upload_id = $2 AND takes = $3
RETURNING upload_id;

-- name: drop_document_due
-- These wait no more.
-- $1 tenant uuid, $2 upload_ids uuid[]
-- Uses: document_due_pkey. Rows: none.
DELETE FROM document_due
WHERE tenant_id = $1 AND upload_id = ANY ($2);

-- name: upload_to_store
-- An upload with its sealed text, whose it is and what it is for.
-- $1 tenant uuid, $2 upload_id uuid
-- Uses: document_uploads_pkey, documents_pkey, scopes_pkey, sessions_pkey. Rows: upload_id, document_id, scope_id,
-- session_id, label, name, subject_id, media_type, sha256, bytes, chars, pages, integrity, sensitivity, stored_integrity,
-- stored_sensitivity, sealed, created_at, user_name, project, agent.
SELECT u.upload_id, u.document_id, u.scope_id, d.session_id, n.label, d.name, u.subject_id, u.media_type, u.sha256, u.bytes,
       u.chars, u.pages, u.integrity, u.sensitivity, d.integrity AS stored_integrity,
       d.sensitivity AS stored_sensitivity, u.sealed, u.created_at, s.user_name, s.project, s.agent
FROM document_uploads u
JOIN documents d ON d.tenant_id = $1 AND d.document_id = u.document_id AND d.deleted_at IS NULL
JOIN scopes s ON s.tenant_id = $1 AND s.scope_id = u.scope_id
LEFT JOIN sessions n ON n.tenant_id = $1 AND n.session_id = d.session_id
WHERE u.tenant_id = $1 AND u.upload_id = $2 AND u.sealed IS NOT NULL;

-- name: note_upload
-- How far a worker is with an upload.
-- $1 tenant uuid, $2 upload_id uuid, $3 chunks int4, $4 embedded int4
-- Uses: document_uploads_pkey. Rows: none.
UPDATE document_uploads
SET status = 'working', chunks = $3, embedded = $4
WHERE tenant_id = $1 AND upload_id = $2 AND sealed IS NOT NULL;

-- name: end_upload
-- An upload is stored, or is not going to be, and why.
-- $1 tenant uuid, $2 upload_id uuid, $3 status text, $4 reason text, $5 chunks int4, $6 embedded int4,
-- $7 new_chunks int4, $8 same_chunks int4, $9 gone_chunks int4, $10 held_back int4, $11 now timestamptz
-- Uses: document_uploads_pkey. Rows: none.
UPDATE document_uploads
SET status = $3, reason = $4, chunks = coalesce($5, chunks), embedded = coalesce($6, embedded), new_chunks = $7,
    same_chunks = $8, gone_chunks = $9, held_back = $10, sealed = NULL, finished_at = $11
WHERE tenant_id = $1 AND upload_id = $2;

-- name: memories_known
-- Which of these memories are there, whether hidden or not, and since when and by whom they are hidden.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_pkey. Rows: memory_id, deleted_at, pruned_at.
SELECT memory_id, deleted_at, pruned_at
FROM memories
WHERE tenant_id = $1 AND memory_id = ANY ($2);

-- name: memories_judged
-- What these memories were made to be: whether each was rejected, and how sensitive it is.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_pkey, memory_versions_pkey. Rows: memory_id, validation_status, sensitivity.
SELECT m.memory_id, v.validation_status, v.sensitivity
FROM memories m
JOIN memory_versions v ON v.tenant_id = $1 AND v.memory_id = m.memory_id AND v.version = m.version
WHERE m.tenant_id = $1 AND m.memory_id = ANY ($2);

-- name: judge_memory
-- What somebody made of a memory's words, in the version that holds.
-- $1 tenant uuid, $2 memory_id uuid, $3 validation_status text
-- Uses: memory_versions_current. Rows: none.
UPDATE memory_versions
SET validation_status = $3
WHERE tenant_id = $1 AND memory_id = $2 AND recorded_to IS NULL;

-- name: chunk_ids
-- The memories of a document as it is stored, in order.
-- $1 tenant uuid, $2 document_id uuid
-- Uses: document_chunks_pkey. Rows: memory_id.
SELECT memory_id
FROM document_chunks
WHERE tenant_id = $1 AND document_id = $2
ORDER BY ordinal;

-- name: drop_document_chunks
-- Where the chunks of a document stood.
-- $1 tenant uuid, $2 document_id uuid
-- Uses: document_chunks_pkey. Rows: none.
DELETE FROM document_chunks
WHERE tenant_id = $1 AND document_id = $2;

-- name: add_document_chunk
-- Where a chunk of a document stands.
-- $1 tenant uuid, $2 document_id uuid, $3 ordinal int4, $4 scope_id int8, $5 memory_id uuid, $6 span_start int4,
-- $7 span_end int4, $8 page int4, $9 page_to int4
-- Uses: none. Rows: none.
INSERT INTO document_chunks (tenant_id, document_id, ordinal, scope_id, memory_id, span_start, span_end, page, page_to)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: collect_memories
-- The collection of these memories.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 collection text
-- Uses: memories_pkey. Rows: none.
UPDATE memories
SET collection = $3
WHERE tenant_id = $1 AND memory_id = ANY ($2);

-- name: unprune_memories
-- These were not hidden by a run, or are shown again.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_pkey. Rows: none.
UPDATE memories
SET pruned_at = NULL, pruned_reason = NULL
WHERE tenant_id = $1 AND memory_id = ANY ($2);

-- name: keep_hidden
-- Those of these hidden memories that no run hid were hidden by somebody: "pruned" at another moment than they were hidden
-- says so where the document says nothing of them any more.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: memories_pkey. Rows: none.
UPDATE memories
SET pruned_at = deleted_at - interval '1 second', pruned_reason = NULL
WHERE tenant_id = $1 AND memory_id = ANY ($2) AND pruned_at IS DISTINCT FROM deleted_at;

-- name: renew_chunks
-- Those of these memories that would end before a moment end then; null: never.
-- $1 tenant uuid, $2 memory_ids uuid[], $3 expires_at timestamptz, $4 changed_version int8
-- Uses: memory_versions_current, memories_pkey. Rows: none.
WITH renewed AS (
    UPDATE memory_versions
    SET expires_at = $3
    WHERE tenant_id = $1 AND memory_id = ANY ($2) AND recorded_to IS NULL
      AND expires_at < coalesce($3::timestamptz, 'infinity')
    RETURNING memory_id)
UPDATE memories
SET changed_version = $4
WHERE tenant_id = $1 AND memory_id IN (SELECT memory_id FROM renewed);

-- name: lock_document
-- A document, locked to the end of the transaction.
-- $1 tenant uuid, $2 scope_id int8, $3 document_id uuid
-- Uses: documents_pkey. Rows: name, session_id, version, sensitivity, deleted_at.
SELECT name, session_id, version, sensitivity, deleted_at
FROM documents
WHERE tenant_id = $1 AND scope_id = $2 AND document_id = $3
FOR UPDATE;

-- name: drop_unstored_document
-- A document of which nothing is stored goes with its uploads.
-- $1 tenant uuid, $2 document_id uuid
-- Uses: documents_pkey. Rows: none.
DELETE FROM documents
WHERE tenant_id = $1 AND document_id = $2 AND version = 0;

-- name: put_document_version
-- What of a document is stored now.
-- $1 tenant uuid, $2 document_id uuid, $3 version int4, $4 media_type text, $5 sha256 bytea, $6 bytes int8, $7 chars int8,
-- $8 pages int4, $9 integrity text, $10 sensitivity text, $11 now timestamptz
-- Uses: documents_pkey. Rows: none.
UPDATE documents
SET version = $3, media_type = $4, sha256 = $5, bytes = $6, chars = $7, pages = $8, integrity = $9, sensitivity = $10,
    changed_at = $11
WHERE tenant_id = $1 AND document_id = $2;

-- ---------------------------------------------------------------- what there is

-- name: documents_newest
-- Documents of a scope that are not deleted, newest first, from a cursor on, each with its last upload; those given in
-- one conversation where it is named.
-- $1 tenant uuid, $2 scope_id int8, $3 before timestamptz, $4 before_id uuid, $5 limit int8, $6 session_id uuid
-- Uses: documents_recent, document_uploads_of_document, document_chunks_pkey. Rows: document_id, name, version,
-- media_type, sha256, bytes, chars, pages, inline_as, shown_in, integrity, sensitivity, session_id, created_at,
-- changed_at, deleted_at, chunks, upload_id, status, reason, upload_media_type, upload_bytes, upload_chunks, embedded,
-- new_chunks, same_chunks, gone_chunks, held_back, uploaded_at, finished_at.
SELECT d.document_id, d.name, d.version, d.media_type, d.sha256, d.bytes, d.chars, d.pages, d.inline_as, d.shown_in,
       d.integrity, d.sensitivity, d.session_id, d.created_at, d.changed_at, d.deleted_at, c.chunks, u.upload_id,
       u.status, u.reason, u.media_type AS upload_media_type, u.bytes AS upload_bytes, u.chunks AS upload_chunks,
       u.embedded, u.new_chunks, u.same_chunks, u.gone_chunks, u.held_back, u.created_at AS uploaded_at, u.finished_at
FROM documents d
CROSS JOIN LATERAL (
    SELECT * FROM document_uploads
    WHERE tenant_id = $1 AND document_id = d.document_id
    ORDER BY created_at DESC, upload_id DESC
    LIMIT 1) u
CROSS JOIN LATERAL (
    SELECT count(*) AS chunks FROM document_chunks WHERE tenant_id = $1 AND document_id = d.document_id) c
WHERE d.tenant_id = $1 AND d.scope_id = $2 AND (d.created_at, d.document_id) < ($3, $4) AND d.deleted_at IS NULL
  AND ($6::uuid IS NULL OR coalesce(d.session_id, d.shown_in) = $6)
ORDER BY d.created_at DESC, d.document_id DESC
LIMIT $5;

-- name: documents_oldest
-- The same, oldest first.
-- $1 tenant uuid, $2 scope_id int8, $3 after timestamptz, $4 after_id uuid, $5 limit int8, $6 session_id uuid
-- Uses: documents_recent, document_uploads_of_document, document_chunks_pkey. Rows: document_id, name, version,
-- media_type, sha256, bytes, chars, pages, inline_as, shown_in, integrity, sensitivity, session_id, created_at,
-- changed_at, deleted_at, chunks, upload_id, status, reason, upload_media_type, upload_bytes, upload_chunks, embedded,
-- new_chunks, same_chunks, gone_chunks, held_back, uploaded_at, finished_at.
SELECT d.document_id, d.name, d.version, d.media_type, d.sha256, d.bytes, d.chars, d.pages, d.inline_as, d.shown_in,
       d.integrity, d.sensitivity, d.session_id, d.created_at, d.changed_at, d.deleted_at, c.chunks, u.upload_id,
       u.status, u.reason, u.media_type AS upload_media_type, u.bytes AS upload_bytes, u.chunks AS upload_chunks,
       u.embedded, u.new_chunks, u.same_chunks, u.gone_chunks, u.held_back, u.created_at AS uploaded_at, u.finished_at
FROM documents d
CROSS JOIN LATERAL (
    SELECT * FROM document_uploads
    WHERE tenant_id = $1 AND document_id = d.document_id
    ORDER BY created_at DESC, upload_id DESC
    LIMIT 1) u
CROSS JOIN LATERAL (
    SELECT count(*) AS chunks FROM document_chunks WHERE tenant_id = $1 AND document_id = d.document_id) c
WHERE d.tenant_id = $1 AND d.scope_id = $2 AND (d.created_at, d.document_id) > ($3, $4) AND d.deleted_at IS NULL
  AND ($6::uuid IS NULL OR coalesce(d.session_id, d.shown_in) = $6)
ORDER BY d.created_at, d.document_id
LIMIT $5;

-- name: document_by_id
-- A document, deleted or not, with its last upload.
-- $1 tenant uuid, $2 scope_id int8, $3 document_id uuid
-- Uses: documents_pkey, document_uploads_of_document, document_chunks_pkey. Rows: document_id, name, version,
-- media_type, sha256, bytes, chars, pages, inline_as, shown_in, integrity, sensitivity, session_id, created_at,
-- changed_at, deleted_at, chunks, upload_id, status, reason, upload_media_type, upload_bytes, upload_chunks, embedded,
-- new_chunks, same_chunks, gone_chunks, held_back, uploaded_at, finished_at.
SELECT d.document_id, d.name, d.version, d.media_type, d.sha256, d.bytes, d.chars, d.pages, d.inline_as, d.shown_in,
       d.integrity, d.sensitivity, d.session_id, d.created_at, d.changed_at, d.deleted_at, c.chunks, u.upload_id,
       u.status, u.reason, u.media_type AS upload_media_type, u.bytes AS upload_bytes, u.chunks AS upload_chunks,
       u.embedded, u.new_chunks, u.same_chunks, u.gone_chunks, u.held_back, u.created_at AS uploaded_at, u.finished_at
FROM documents d
CROSS JOIN LATERAL (
    SELECT * FROM document_uploads
    WHERE tenant_id = $1 AND document_id = d.document_id
    ORDER BY created_at DESC, upload_id DESC
    LIMIT 1) u
CROSS JOIN LATERAL (
    SELECT count(*) AS chunks FROM document_chunks WHERE tenant_id = $1 AND document_id = d.document_id) c
WHERE d.tenant_id = $1 AND d.scope_id = $2 AND d.document_id = $3;

-- name: chunks_of_document
-- Where the chunks of a document stand, in order, from one on.
-- $1 tenant uuid, $2 document_id uuid, $3 from int4, $4 limit int8
-- Uses: document_chunks_pkey. Rows: ordinal, memory_id, span_start, span_end, page, page_to.
SELECT ordinal, memory_id, span_start, span_end, page, page_to
FROM document_chunks
WHERE tenant_id = $1 AND document_id = $2 AND ordinal >= $3
ORDER BY ordinal
LIMIT $4;

-- name: citations_of_memories
-- Where these memories stand in their documents; one that is of none has no row.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: document_chunks_of_memory, documents_pkey. Rows: memory_id, document_id, name, page, page_to, span_start,
-- span_end.
SELECT c.memory_id, c.document_id, d.name, c.page, c.page_to, c.span_start, c.span_end
FROM unnest($2::uuid[]) AS w (memory_id)
JOIN document_chunks c ON c.tenant_id = $1 AND c.memory_id = w.memory_id
JOIN documents d ON d.tenant_id = $1 AND d.document_id = c.document_id;

-- name: chunks_given
-- The chunks of the documents that a conversation is given whole, in order, the oldest document first: of those that are to
-- be, and of those that have no more than so many characters. Where there are more, those of what was stored last.
-- $1 tenant uuid, $2 scope_id int8, $3 session_id uuid, $4 chars_max int8, $5 limit int8
-- Uses: documents_shown_in, document_chunks_pkey. Rows: memory_id.
SELECT g.memory_id
FROM (
    SELECT d.created_at, d.document_id, c.ordinal, c.memory_id
    FROM documents d
    JOIN document_chunks c ON c.tenant_id = $1 AND c.document_id = d.document_id
    WHERE d.tenant_id = $1 AND d.shown_in = $3 AND d.scope_id = $2 AND d.deleted_at IS NULL
      AND (d.inline_as = 'always' OR (d.inline_as = 'auto' AND d.chars <= $4))
    ORDER BY d.changed_at DESC, d.document_id DESC, c.ordinal
    LIMIT $5) g
ORDER BY g.created_at, g.document_id, g.ordinal;

-- name: newest_page_of_memories
-- When the newest page of the web that one of these memories is a chunk of was stored.
-- $1 tenant uuid, $2 memory_ids uuid[]
-- Uses: document_chunks_of_memory, documents_pkey. Rows: at.
SELECT max(d.changed_at) AS at
FROM unnest($2::uuid[]) AS w (memory_id)
JOIN document_chunks c ON c.tenant_id = $1 AND c.memory_id = w.memory_id
JOIN documents d ON d.tenant_id = $1 AND d.document_id = c.document_id
WHERE d.integrity = 'web';

-- ---------------------------------------------------------------- hidden and shown

-- name: hide_document
-- Hide a document, or show it again (deleted_at null). What is stored of it has not changed.
-- $1 tenant uuid, $2 document_id uuid, $3 deleted_at timestamptz
-- Uses: documents_pkey. Rows: none.
UPDATE documents
SET deleted_at = $3
WHERE tenant_id = $1 AND document_id = $2;

-- name: name_taken
-- Whether another document that is not deleted has this name.
-- $1 tenant uuid, $2 scope_id int8, $3 name text, $4 session_id uuid
-- Uses: documents_name. Rows: document_id.
SELECT document_id
FROM documents
WHERE tenant_id = $1 AND scope_id = $2 AND name = $3 AND session_id IS NOT DISTINCT FROM $4 AND deleted_at IS NULL;

-- name: shown_chunks
-- The chunks of a document that nobody has hidden, or those that were hidden at a moment.
-- $1 tenant uuid, $2 document_id uuid, $3 hidden_at timestamptz
-- Uses: document_chunks_pkey, memories_pkey. Rows: memory_id.
SELECT m.memory_id
FROM document_chunks c
JOIN memories m ON m.tenant_id = $1 AND m.memory_id = c.memory_id
WHERE c.tenant_id = $1 AND c.document_id = $2 AND m.deleted_at IS NOT DISTINCT FROM $3;
