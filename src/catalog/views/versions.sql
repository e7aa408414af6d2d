-- For the events gateway, of each table with the option version: that option, the column that takes whole documents, and the columns that headers
-- fill. Anybody may read it, as anybody may read names of columns and options of tables in PostgreSQL's own catalog.
CREATE OR REPLACE VIEW headgate.versions WITH (security_barrier) AS
SELECT w.relation, jsonb_build_object(
  'options', (
    SELECT jsonb_object_agg(o.key, o.value) FROM jsonb_each(w.options) o WHERE o.key IN ('version', 'version_equal', 'version_window')),
  'document', headgate.placed(w.relation, w.document),
  'headers', (
    SELECT coalesce(jsonb_object_agg(lower(i.value ->> 'header'), p.name), '{}') FROM jsonb_array_elements(w.includes) i
    CROSS JOIN LATERAL headgate.placed(w.relation, i.value) AS p (name) WHERE i.value ->> 'what' = 'header' AND p.name IS NOT NULL)) AS versioned
FROM headgate.webhook_table w WHERE coalesce(w.options ->> 'version', 'off') <> 'off';
GRANT SELECT (relation, versioned) ON headgate.versions TO PUBLIC;
