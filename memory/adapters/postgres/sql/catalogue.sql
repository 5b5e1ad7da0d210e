-- name: catalogue_tables
-- Tables of this project and whether row-level security is on and forced.
-- Uses: pg_class. Rows: line.
SELECT format('table %s rls=%s forced=%s', c.relname, c.relrowsecurity, c.relforcerowsecurity) AS line
FROM pg_class c
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname NOT LIKE 'memory\_embeddings\_%';

-- name: catalogue_columns
-- Columns with type, nullability, default and identity.
-- Uses: pg_attribute. Rows: line.
SELECT format('column %s.%s %s%s%s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
              CASE WHEN a.attnotnull THEN ' not null' ELSE '' END,
              coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), ''),
              CASE a.attidentity WHEN '' THEN '' ELSE ' identity ' || a.attidentity::text END) AS line
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname NOT LIKE 'memory\_embeddings\_%';

-- name: catalogue_indexes
-- Indexes by definition; those left invalid by a broken build are told apart.
-- Uses: pg_index. Rows: line.
SELECT format('index %s%s', pg_get_indexdef(i.indexrelid), CASE WHEN i.indisvalid THEN '' ELSE ' INVALID' END) AS line
FROM pg_index i
JOIN pg_class c ON c.oid = i.indrelid
WHERE c.relnamespace = 'public'::regnamespace AND c.relname NOT LIKE 'memory\_embeddings\_%';

-- name: catalogue_constraints
-- Keys and checks. Not-null is told with the column: only Postgres 18 keeps it as a constraint too.
-- Uses: pg_constraint. Rows: line.
SELECT format('constraint %s.%s %s', c.relname, k.conname, pg_get_constraintdef(k.oid)) AS line
FROM pg_constraint k
JOIN pg_class c ON c.oid = k.conrelid
WHERE c.relnamespace = 'public'::regnamespace AND k.contype <> 'n' AND c.relname NOT LIKE 'memory\_embeddings\_%';

-- name: catalogue_policies
-- Row-level-security policies.
-- Uses: pg_policies. Rows: line.
SELECT format('policy %s.%s %s for %s to %s using %s check %s', p.tablename, p.policyname, p.permissive, p.cmd,
              array_to_string(p.roles, ','), regexp_replace(p.qual, '\s+', ' ', 'g'),
              coalesce(p.with_check, '-')) AS line
FROM pg_policies p
WHERE p.schemaname = 'public' AND p.tablename NOT LIKE 'memory\_embeddings\_%';

-- name: catalogue_functions
-- Functions of this project (not those of an extension), with a digest of their text.
-- Uses: pg_proc. Rows: line.
SELECT format('function %s volatile=%s definer=%s %s', p.oid::regprocedure, p.provolatile, p.prosecdef,
              md5(p.prosrc)) AS line
FROM pg_proc p
WHERE p.pronamespace = 'public'::regnamespace
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e');

-- name: catalogue_grants
-- What the two other roles may do on tables and sequences.
-- Uses: pg_class. Rows: line.
SELECT format('grant %s to %s on %s', string_agg(g.privilege_type, ',' ORDER BY g.privilege_type),
              g.grantee::regrole, c.relname) AS line
FROM pg_class c
CROSS JOIN LATERAL aclexplode(c.relacl) g
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'S')
  AND c.relname NOT LIKE 'memory\_embeddings\_%'
  AND g.grantee IN (SELECT oid FROM pg_roles WHERE rolname IN ('mp_app', 'mp_backup'))
GROUP BY g.grantee, c.relname;

-- name: catalogue_roles
-- The attributes that matter: mp_app with BYPASSRLS would void every policy.
-- Uses: pg_roles. Rows: line.
SELECT format('role %s superuser=%s bypassrls=%s', r.rolname, r.rolsuper, r.rolbypassrls) AS line
FROM pg_roles r
WHERE r.rolname = 'mp_app';

-- name: embedding_tables_unfit
-- Registered embedding tables that are missing or not under forced row-level security.
-- Uses: none. Rows: table_name.
SELECT t.table_name
FROM embedding_tables t
LEFT JOIN pg_class c ON c.relnamespace = 'public'::regnamespace AND c.relname = t.table_name
LEFT JOIN pg_policies p ON p.schemaname = 'public' AND p.tablename = t.table_name AND p.policyname = 'visible_scopes'
WHERE c.oid IS NULL OR NOT c.relforcerowsecurity OR NOT c.relrowsecurity OR p.policyname IS NULL;

-- name: add_embedding_model
-- Register a model.
-- $1 name text, $2 digest text, $3 dim int4
-- Uses: embedding_models_name_digest_key. Rows: model_id, dim.
INSERT INTO embedding_models (name, digest, dim, created_at)
VALUES ($1, $2, $3, now())
ON CONFLICT (name, digest) DO UPDATE SET name = excluded.name
RETURNING model_id, dim;

-- name: create_embedding_table
-- Make the table of a model from the template.
-- $1 suffix text, $2 dim int4
-- Uses: none. Rows: table_name.
SELECT mp_create_embedding_table($1, $2) AS table_name;

-- name: add_embedding_table
-- Record where the vectors of a model lie.
-- $1 model_id int4, $2 table_name text
-- Uses: embedding_tables_pkey. Rows: none.
INSERT INTO embedding_tables (model_id, table_name)
VALUES ($1, $2)
ON CONFLICT (model_id) DO NOTHING;

-- name: place_embedding_model
-- Where the files of a model lie.
-- $1 model_id int4, $2 directory text
-- Uses: embedding_models_pkey. Rows: none.
UPDATE embedding_models
SET directory = $2
WHERE model_id = $1;

-- name: guard_embedding_table
-- From now on only the served model's vectors are written.
-- $1 table_name text
-- Uses: none. Rows: guarded.
SELECT mp_guard_embedding_table($1)::text AS guarded;

-- name: drop_standby_model
-- The model that stands by goes, with its table. Waits 5 s at most for what uses it.
-- Uses: none. Rows: table_name.
SELECT mp_drop_standby_model() AS table_name;
