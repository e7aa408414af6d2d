CREATE OR REPLACE VIEW headgate.answer_rows AS
SELECT a.relation::oid AS relation, jsonb_agg(jsonb_build_object(
    'expression', a.expression, 'unchecked', a.unchecked, 'sealed', a.sealed, 'seal_id', a.seal_id,
    'secrets', coalesce(bound.secrets, '[]')) ORDER BY a.position) AS answers
FROM headgate.webhook_answer a
CROSS JOIN LATERAL (
  SELECT jsonb_agg(
    jsonb_build_object('alias', b.alias, 'name', s.name, 'seal_id', s.seal_id, 'sealed', s.sealed) ORDER BY b.position
  ) AS secrets
  FROM headgate.webhook_answer_secret b JOIN headgate.secret s ON s.id = b.secret_id
  WHERE b.relation = a.relation AND b.answer = a.position
) AS bound
GROUP BY a.relation;
