-- Whoever may see refused requests follows the new ones by their transactions (kit/position.ts): `headgate tail`, and `wait` of `headgate mcp`.
GRANT SELECT (xmin) ON headgate.rejected_requests TO PUBLIC;
