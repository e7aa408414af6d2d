/**
 * Why the banner's first table cannot be created as it is printed: it exists, or the role of the database URL has not the rights.
 * Takes an engine that is reachable; returns a sentence with the statement to run, or null. Touches nothing; never rejects.
 */
import { limits } from '../config/limits.ts';
import { withClient } from '../engine/close-client.ts';
import type { Engine } from '../engine/engine.ts';
import { quoteIdentifier as quote } from '../kit/sql-text.ts';

interface TablePlace {
  readonly role: string;
  readonly schema: string | null;
  readonly creates: boolean | null;
  readonly exists: boolean;
}

const ask = `select current_user::pg_catalog.text as role, s.name as schema,
    pg_catalog.has_schema_privilege(s.name, 'CREATE') as creates,
    pg_catalog.to_regclass('github_events') is not null as exists
  from (select pg_catalog.current_schema()::pg_catalog.text) as s (name)`;

export async function whyNoFirstTable(engine: Engine): Promise<string | null> {
  const config = engine.clientConfig(engine.defaultDatabase);
  const asked = withClient(config, limits.engineAnswerMs, (client) => client.query<TablePlace>(ask));
  const [place] = await asked.then(
    ({ rows }) => rows,
    () => [],
  );
  return place === undefined ? null : sentence(place);
}

function sentence({ role, schema, creates, exists }: TablePlace): string | null {
  if (exists)
    return 'the table github_events exists already, with a check and a secret of its own: put another name into these lines';
  const path = `ALTER ROLE ${quote(role)} SET search_path = public`;
  if (schema === null) return `role ${quote(role)} finds no schema for its tables: let it run ${path}`;
  if (schema === 'headgate')
    return `tables of role ${quote(role)} would be created in the schema headgate, which is Headgate's own: let it run ${path}`;
  if (creates === true) return null;
  return (
    `role ${quote(role)} may not create tables in schema ${quote(schema)}: let the owner of the database run ` +
    `GRANT USAGE, CREATE ON SCHEMA ${quote(schema)} TO ${quote(role)}`
  );
}
