-- name: add_task
-- A task.
-- $1 tenant uuid, $2 task_id uuid, $3 scope_id int8, $4 memory_id uuid, $5 status text, $6 session_id uuid,
-- $7 checkpoint_id uuid, $8 created_at timestamptz, $9 changed_at timestamptz
-- Uses: none. Rows: none.
INSERT INTO tasks (tenant_id, task_id, scope_id, memory_id, status, session_id, checkpoint_id, created_at, changed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: add_task_edge
-- What a task needs first.
-- $1 tenant uuid, $2 task_id uuid, $3 needs uuid, $4 scope_id int8
-- Uses: none. Rows: none.
INSERT INTO task_edges (tenant_id, task_id, needs, scope_id)
VALUES ($1, $2, $3, $4);

-- name: add_task_step
-- A row of a task's history.
-- $1 tenant uuid, $2 task_id uuid, $3 version int4, $4 scope_id int8, $5 was text, $6 status text, $7 actor text,
-- $8 at timestamptz
-- Uses: none. Rows: none.
INSERT INTO task_history (tenant_id, task_id, version, scope_id, was, status, actor, at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: lock_task
-- A task of this scope, deleted or not, locked to the end of the transaction.
-- $1 tenant uuid, $2 scope_id int8, $3 task_id uuid
-- Uses: tasks_pkey. Rows: task_id, version, status, memory_id, checkpoint_id, deleted_at.
SELECT task_id, version, status, memory_id, checkpoint_id, deleted_at
FROM tasks
WHERE tenant_id = $1 AND scope_id = $2 AND task_id = $3
FOR UPDATE;

-- name: tasks_by_id
-- These tasks of a scope that are not deleted, each with the checkpoint that it names, unless that is deleted.
-- $1 tenant uuid, $2 scope_id int8, $3 task_ids uuid[]
-- Uses: tasks_pkey, checkpoints_pkey. Rows: task_id, version, status, memory_id, session_id, created_at, changed_at,
-- checkpoint_id, checkpoint_name, checkpoint_session.
SELECT t.task_id, t.version, t.status, t.memory_id, t.session_id, t.created_at, t.changed_at, c.checkpoint_id,
       c.name AS checkpoint_name, c.session_id AS checkpoint_session
FROM tasks t
LEFT JOIN checkpoints c ON c.tenant_id = $1 AND c.scope_id = $2 AND c.checkpoint_id = t.checkpoint_id
    AND c.deleted_at IS NULL
WHERE t.tenant_id = $1 AND t.scope_id = $2 AND t.task_id = ANY ($3) AND t.deleted_at IS NULL;

-- name: tasks_newest
-- The tasks of a scope that are not deleted, newest first, from a place on, each with the checkpoint that it names, unless
-- that is deleted; of these statuses, of one conversation where it is named.
-- $1 tenant uuid, $2 scope_id int8, $3 before timestamptz, $4 before_id uuid, $5 statuses text[], $6 session_id uuid,
-- $7 limit int8
-- Uses: tasks_recent, checkpoints_pkey. Rows: task_id, version, status, memory_id, session_id, created_at, changed_at,
-- checkpoint_id, checkpoint_name, checkpoint_session.
SELECT t.task_id, t.version, t.status, t.memory_id, t.session_id, t.created_at, t.changed_at, c.checkpoint_id,
       c.name AS checkpoint_name, c.session_id AS checkpoint_session
FROM tasks t
LEFT JOIN checkpoints c ON c.tenant_id = $1 AND c.scope_id = $2 AND c.checkpoint_id = t.checkpoint_id
    AND c.deleted_at IS NULL
WHERE t.tenant_id = $1 AND t.scope_id = $2 AND (t.created_at, t.task_id) < ($3, $4) AND t.deleted_at IS NULL
  AND t.status = ANY ($5) AND ($6::uuid IS NULL OR t.session_id = $6)
ORDER BY t.created_at DESC, t.task_id DESC
LIMIT $7;

-- name: tasks_oldest
-- The same, oldest first.
-- $1 tenant uuid, $2 scope_id int8, $3 after timestamptz, $4 after_id uuid, $5 statuses text[], $6 session_id uuid,
-- $7 limit int8
-- Uses: tasks_recent, checkpoints_pkey. Rows: task_id, version, status, memory_id, session_id, created_at, changed_at,
-- checkpoint_id, checkpoint_name, checkpoint_session.
SELECT t.task_id, t.version, t.status, t.memory_id, t.session_id, t.created_at, t.changed_at, c.checkpoint_id,
       c.name AS checkpoint_name, c.session_id AS checkpoint_session
FROM tasks t
LEFT JOIN checkpoints c ON c.tenant_id = $1 AND c.scope_id = $2 AND c.checkpoint_id = t.checkpoint_id
    AND c.deleted_at IS NULL
WHERE t.tenant_id = $1 AND t.scope_id = $2 AND (t.created_at, t.task_id) > ($3, $4) AND t.deleted_at IS NULL
  AND t.status = ANY ($5) AND ($6::uuid IS NULL OR t.session_id = $6)
ORDER BY t.created_at, t.task_id
LIMIT $7;

-- name: checkpoints_to_name
-- The checkpoints of a scope with these names that are not deleted.
-- $1 tenant uuid, $2 scope_id int8, $3 names text[]
-- Uses: checkpoints_name. Rows: checkpoint_id, checkpoint_name, checkpoint_session.
SELECT checkpoint_id, name AS checkpoint_name, session_id AS checkpoint_session
FROM checkpoints
WHERE tenant_id = $1 AND scope_id = $2 AND name = ANY ($3) AND deleted_at IS NULL;

-- name: checkpoints_to_keep
-- Which of these checkpoints are to be seen and not deleted, locked to the end of the transaction against going away.
-- $1 tenant uuid, $2 checkpoint_ids uuid[]
-- Uses: checkpoints_pkey. Rows: checkpoint_id.
SELECT checkpoint_id
FROM checkpoints
WHERE tenant_id = $1 AND checkpoint_id = ANY ($2) AND deleted_at IS NULL
ORDER BY checkpoint_id
FOR KEY SHARE;

-- name: edges_of_tasks
-- What these tasks need, as far as that is not deleted.
-- $1 tenant uuid, $2 task_ids uuid[]
-- Uses: task_edges_pkey, tasks_pkey. Rows: task_id, needs.
SELECT e.task_id, e.needs
FROM task_edges e
JOIN tasks t ON t.tenant_id = $1 AND t.task_id = e.needs AND t.deleted_at IS NULL
WHERE e.tenant_id = $1 AND e.task_id = ANY ($2);

-- name: drop_task_edges
-- A task needs nothing any more.
-- $1 tenant uuid, $2 task_id uuid
-- Uses: task_edges_pkey. Rows: none.
DELETE FROM task_edges
WHERE tenant_id = $1 AND task_id = $2;

-- name: change_task
-- The next version of a task.
-- $1 tenant uuid, $2 task_id uuid, $3 version int4, $4 status text, $5 checkpoint_id uuid, $6 now timestamptz
-- Uses: tasks_pkey. Rows: none.
UPDATE tasks
SET version = $3, status = $4, checkpoint_id = $5, changed_at = greatest($6, changed_at)
WHERE tenant_id = $1 AND task_id = $2;

-- name: mark_task_deleted
-- Delete a task, or bring it back (null).
-- $1 tenant uuid, $2 task_id uuid, $3 deleted_at timestamptz
-- Uses: tasks_pkey. Rows: none.
UPDATE tasks
SET deleted_at = $3
WHERE tenant_id = $1 AND task_id = $2;

-- name: history_of_task
-- How a task came where it is, oldest first.
-- $1 tenant uuid, $2 task_id uuid, $3 limit int8
-- Uses: task_history_pkey. Rows: version, was, status, actor, at.
SELECT version, was, status, actor, at
FROM task_history
WHERE tenant_id = $1 AND task_id = $2
ORDER BY version
LIMIT $3;
