-- name: find_scope
-- The own scope of these names.
-- $1 tenant uuid, $2 user text, $3 project text, $4 agent text
-- Uses: scopes_tenant_id_visibility_user_name_project_agent_key. Rows: scope_id.
SELECT scope_id
FROM scopes
WHERE tenant_id = $1 AND visibility = 'own' AND user_name = $2 AND project = $3 AND agent = $4;

-- name: add_scope
-- A new own scope with its version row, unless it is there.
-- $1 tenant uuid, $2 user text, $3 project text, $4 agent text
-- Uses: scopes_tenant_id_visibility_user_name_project_agent_key. Rows: none.
WITH made AS (
    INSERT INTO scopes (tenant_id, user_name, project, agent)
    VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant_id, visibility, user_name, project, agent) DO NOTHING
    RETURNING tenant_id, scope_id)
INSERT INTO scope_versions (tenant_id, scope_id)
SELECT tenant_id, scope_id
FROM made;

-- name: visible_scopes
-- What an identity may see: its own scope, what is general to the user, what the project and the tenant share.
-- $1 tenant uuid, $2 user text, $3 project text, $4 agent text
-- Uses: scopes_tenant_id_visibility_user_name_project_agent_key, scope_versions_pkey.
-- Rows: scope_id, version, rebuild_version, visibility.
SELECT s.scope_id, v.version, v.rebuild_version, s.visibility
FROM (VALUES ('own', $2, $3, $4), ('user', $2, '', ''), ('project', '', $3, ''), ('tenant', '', '', ''))
    AS w (visibility, user_name, project, agent)
JOIN scopes s ON s.tenant_id = $1 AND s.visibility = w.visibility AND s.user_name = w.user_name
    AND s.project = w.project AND s.agent = w.agent
JOIN scope_versions v ON v.tenant_id = $1 AND v.scope_id = s.scope_id;

-- name: scope_version
-- The version of one scope.
-- $1 tenant uuid, $2 scope_id int8
-- Uses: scope_versions_pkey. Rows: version.
SELECT version
FROM scope_versions
WHERE tenant_id = $1 AND scope_id = $2;

-- name: bump_scope
-- The next version of a scope. Its row stays locked to the end, so versions become visible in order.
-- $1 tenant uuid, $2 scope_id int8
-- Uses: scope_versions_pkey. Rows: version.
UPDATE scope_versions
SET version = version + 1
WHERE tenant_id = $1 AND scope_id = $2
RETURNING version;

-- name: scopes_of_tenant
-- Scope ids of a tenant, in pages.
-- $1 tenant uuid, $2 after int8, $3 limit int8
-- Uses: scopes_pkey. Rows: scope_id.
SELECT scope_id
FROM scopes
WHERE tenant_id = $1 AND scope_id > $2
ORDER BY scope_id
LIMIT $3;

-- name: all_tenants
-- Every tenant.
-- Uses: none. Rows: tenant_id, name.
SELECT tenant_id, name
FROM tenants
ORDER BY name;

-- name: store_began_at
-- When the first tenant was made; null: there is none yet.
-- Uses: none. Rows: began_at.
SELECT min(created_at) AS began_at
FROM tenants;

-- name: find_common_scope
-- The scope that a project or a tenant shares, or that of the tenant's canary: it has no user and no agent.
-- $1 tenant uuid, $2 visibility text, $3 project text
-- Uses: scopes_tenant_id_visibility_user_name_project_agent_key. Rows: scope_id.
SELECT scope_id
FROM scopes
WHERE tenant_id = $1 AND visibility = $2 AND user_name = '' AND project = $3 AND agent = '';

-- name: add_common_scope
-- Such a scope with its version row, unless it is there.
-- $1 tenant uuid, $2 visibility text, $3 project text
-- Uses: scopes_tenant_id_visibility_user_name_project_agent_key. Rows: none.
WITH made AS (
    INSERT INTO scopes (tenant_id, visibility, user_name, project, agent)
    VALUES ($1, $2, '', $3, '')
    ON CONFLICT (tenant_id, visibility, user_name, project, agent) DO NOTHING
    RETURNING tenant_id, scope_id)
INSERT INTO scope_versions (tenant_id, scope_id)
SELECT tenant_id, scope_id
FROM made;
