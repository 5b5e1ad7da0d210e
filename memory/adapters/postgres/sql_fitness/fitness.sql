-- name: fitness
-- What the doctor asks a Postgres that may not be ours yet: catalogue only, no table of the project.
-- Uses: pg_database. Rows: version_num, in_recovery, vector_installed, vector_offered, owns_database, makes_roles,
-- has_roles, may_become_app, bypasses_rls, connections_max, fsync, synchronous_commit, encoding.
SELECT current_setting('server_version_num')::int AS version_num,
       pg_is_in_recovery() AS in_recovery,
       (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS vector_installed,
       (SELECT default_version FROM pg_available_extensions WHERE name = 'vector') AS vector_offered,
       coalesce(pg_has_role(d.datdba, 'MEMBER'), false) AS owns_database,
       r.rolcreaterole OR r.rolsuper AS makes_roles,
       (SELECT count(*) = 2 FROM pg_roles WHERE rolname IN ('mp_app', 'mp_backup')) AS has_roles,
       (SELECT pg_has_role(oid, 'MEMBER') FROM pg_roles WHERE rolname = 'mp_app') AS may_become_app,
       r.rolsuper OR r.rolbypassrls AS bypasses_rls,
       current_setting('max_connections')::int AS connections_max,
       current_setting('fsync') = 'on' AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('server_encoding') AS encoding
FROM pg_database d, pg_roles r
WHERE d.datname = current_database() AND r.rolname = current_user;
