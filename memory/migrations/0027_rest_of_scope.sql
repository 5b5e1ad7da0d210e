-- migrate:up
-- The rest of what lies in a scope: without these each erasure, of however little, read these tables of all tenants from
-- end to end, and its probe held every row of theirs against the list of all scopes of the tenant.

CREATE INDEX extraction_due_of_scope ON extraction_due (tenant_id, scope_id);
CREATE INDEX fact_sayings_of_scope ON fact_sayings (tenant_id, scope_id);
CREATE INDEX procedure_teachings_of_scope ON procedure_teachings (tenant_id, scope_id);
CREATE INDEX outdated_turns_of_scope ON outdated_turns (tenant_id, scope_id);
CREATE INDEX untold_turns_of_scope ON untold_turns (tenant_id, scope_id);
CREATE INDEX sealed_windows_of_scope ON sealed_windows (tenant_id, scope_id);
CREATE INDEX import_chunks_of_scope ON import_chunks (tenant_id, scope_id);
CREATE INDEX shares_of_scope ON shares (tenant_id, scope_id);
CREATE INDEX shares_of_source_scope ON shares (tenant_id, source_scope_id);
CREATE INDEX checkpoint_versions_of_scope ON checkpoint_versions (tenant_id, scope_id);
CREATE INDEX checkpoint_parts_of_scope ON checkpoint_parts (tenant_id, scope_id);
CREATE INDEX personas_of_scope ON personas (tenant_id, scope_id);
CREATE INDEX document_uploads_of_scope ON document_uploads (tenant_id, scope_id);
CREATE INDEX document_due_of_scope ON document_due (tenant_id, scope_id);
CREATE INDEX document_chunks_of_scope ON document_chunks (tenant_id, scope_id);
CREATE INDEX task_edges_of_scope ON task_edges (tenant_id, scope_id);
CREATE INDEX task_history_of_scope ON task_history (tenant_id, scope_id);
CREATE INDEX relationships_of_scope ON relationships (tenant_id, scope_id);
CREATE INDEX entity_history_of_scope ON entity_history (tenant_id, scope_id);

-- migrate:down
-- Forward only: restore a backup instead.
