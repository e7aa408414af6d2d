/** A role that owns a table whose code tries to gain more rights, and checks on what it has gained. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import type { ClientConfig } from 'pg';
import { onEnd } from './cleanup.ts';

export interface Code {
  readonly name: string;
  /** Column definitions of a table, and the statements on `mal.t` that follow. */
  readonly columns: string;
  readonly after: string;
}

const trigger = (when: string) =>
  `CREATE FUNCTION mal.fired() RETURNS trigger LANGUAGE plpgsql AS
     $$BEGIN PERFORM mal.evil(); RETURN coalesce(NEW, OLD); END$$;
   CREATE TRIGGER fired ${when} ON mal.t FOR EACH ROW EXECUTE FUNCTION mal.fired()`;

/** Every place in a table where its owner's code can be and run when a row is stored. `id INT` is its key, if any. */
export const codes: readonly Code[] = [
  { name: 'a trigger before', columns: 'v TEXT', after: trigger('BEFORE INSERT OR UPDATE OR DELETE') },
  { name: 'a trigger after', columns: 'v TEXT', after: trigger('AFTER INSERT OR UPDATE OR DELETE') },
  { name: 'a default', columns: 'v TEXT, d TEXT DEFAULT mal.evil()', after: '' },
  { name: 'a check', columns: 'v TEXT CHECK (mal.evil() IS NOT NULL)', after: '' },
  { name: 'a domain', columns: 'v mal.word', after: '' },
  {
    name: 'a generated column',
    columns: 'v TEXT, g TEXT GENERATED ALWAYS AS (mal.pure(v)) STORED',
    after: '',
  },
  { name: 'an index expression', columns: 'v TEXT', after: 'CREATE INDEX ON mal.t ((mal.pure(v)))' },
  {
    name: 'an index predicate',
    columns: 'v TEXT',
    after: `CREATE INDEX ON mal.t (v) WHERE mal.pure(v) <> 'y'`,
  },
  {
    name: 'a policy',
    columns: 'v TEXT',
    after: `ALTER TABLE mal.t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
      CREATE POLICY p ON mal.t USING (mal.evil() IS NOT NULL) WITH CHECK (mal.evil() IS NOT NULL)`,
  },
  {
    name: 'a rule',
    columns: 'v TEXT',
    after: 'CREATE RULE r AS ON INSERT TO mal.t DO ALSO SELECT mal.evil()',
  },
];

/** The superuser's part: a role, its schema, and a table of another owner. */
export const setUp = `
  CREATE ROLE mallory LOGIN; CREATE SCHEMA mal AUTHORIZATION mallory;
  CREATE SCHEMA other; CREATE TABLE other.private (secret text); INSERT INTO other.private VALUES ('hidden');
  CREATE TABLE other.hook (data jsonb)`;

/**
 * Mallory's part. `evil` takes every role that the session lets it have, tries as each what it can, and leaves behind what might run later: cursors
 * WITH HOLD and deferred triggers. It records in `mal.seen` which role it ran as.
 */
export const setTraps = `
  CREATE TABLE mal.seen (who text, session text, won text);
  CREATE TABLE mal.queue (n int);
  CREATE FUNCTION mal.late() RETURNS text LANGUAGE plpgsql AS $$
  BEGIN EXECUTE 'ALTER ROLE mallory SUPERUSER'; RETURN 'late'; EXCEPTION WHEN OTHERS THEN RETURN SQLERRM; END$$;
  CREATE FUNCTION mal.evil() RETURNS text LANGUAGE plpgsql AS $$
  DECLARE role text; attempt text; won text := ''; who text := current_user;
  BEGIN
    -- Once all of it was tried, more rows are stored quickly.
    IF (SELECT count(*) FROM (SELECT FROM mal.seen LIMIT 20) AS s) = 20 THEN RETURN 'x'; END IF;
    FOREACH role IN ARRAY ARRAY['SELECT 1', 'RESET ROLE', 'RESET SESSION AUTHORIZATION', 'SET ROLE NONE',
      format('SET SESSION AUTHORIZATION %I', session_user), format('SET ROLE %I', session_user), 'SET SESSION AUTHORIZATION root',
      'SET ROLE root', 'SET ROLE headgate_commit', 'SET ROLE hg'] LOOP
      BEGIN EXECUTE role; EXCEPTION WHEN OTHERS THEN CONTINUE; END;
      FOREACH attempt IN ARRAY ARRAY['ALTER ROLE mallory SUPERUSER', 'INSERT INTO other.private VALUES (''mine'')',
        'SELECT sealed FROM headgate.secret', 'SELECT secret FROM other.private', 'INSERT INTO other.hook VALUES (''{}'')',
        'UPDATE headgate.spool_position SET position = 99', 'DELETE FROM headgate.spool_position',
        'SELECT headgate.advance(gen_random_uuid(), ''mal.t''::regclass, 1, 99)', 'SELECT headgate.lock_keys(1, true)',
        'SELECT headgate.claim_deliveries(''other.hook''::regclass, ARRAY[gen_random_uuid()], 9)',
        'INSERT INTO headgate.request (action, given) VALUES (''advance'', jsonb_build_object(''relation'', ''other.hook''::regclass::oid::int8,
          ''spool'', gen_random_uuid(), ''first'', 1, ''last'', 99))',
        'INSERT INTO headgate.request (caller, action, given) VALUES (''root'', ''claim'', ''{}'')', 'LOCK TABLE headgate.request',
        'LOCK TABLE headgate.commit_lock_1'] LOOP
        BEGIN EXECUTE attempt; won := won || role || ': ' || attempt || '; '; EXCEPTION WHEN OTHERS THEN NULL; END;
      END LOOP;
    END LOOP;
    FOREACH attempt IN ARRAY ARRAY['RESET ROLE', 'SET search_path = mal, pg_catalog', 'SET synchronous_commit = off', 'SET CONSTRAINTS ALL DEFERRED'] LOOP
      BEGIN EXECUTE attempt; EXCEPTION WHEN OTHERS THEN NULL; END;
    END LOOP;
    BEGIN EXECUTE format('DECLARE "hold %s" CURSOR WITH HOLD FOR SELECT mal.late()', random()); EXCEPTION WHEN OTHERS THEN NULL; END;
    INSERT INTO mal.seen VALUES (who, session_user, won);
    RETURN 'x';
  END$$;
  CREATE FUNCTION mal.pure(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$BEGIN PERFORM mal.evil(); RETURN 'z'; END$$;
  CREATE DOMAIN mal.word AS text CHECK (mal.evil() IS NOT NULL);
  -- What a path that begins with this schema would find before PostgreSQL's own.
  CREATE FUNCTION mal.concat(VARIADIC text[]) RETURNS text LANGUAGE sql AS 'SELECT mal.late()';
  CREATE FUNCTION mal.to_regclass(text) RETURNS regclass LANGUAGE plpgsql AS $$BEGIN PERFORM mal.late(); RETURN NULL; END$$;
  CREATE DOMAIN mal.bool AS pg_catalog.bool CHECK (mal.late() IS NOT NULL)`;

export async function clientOf(t: TestContext, config: ClientConfig): Promise<Client> {
  const client = new Client(config);
  client.on('error', () => undefined);
  await client.connect();
  onEnd(t, 'client', () => client.end());
  return client;
}

/** The login that Headgate has made for mallory. */
export async function loginOf(root: Client): Promise<string> {
  const { rows } = await root.query<{ name: string }>(
    `SELECT m.rolname AS name FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member
     WHERE a.roleid = 'mallory'::regrole AND m.rolname LIKE 'headgate\\_as\\_%'`,
  );
  assert.equal(rows.length, 1);
  return rows[0]?.name ?? '';
}

/** Nothing was gained, and the code has run as its owner in a session of the owner's; returns how often. */
export async function nothingGained(root: Client, name: string): Promise<number> {
  const { rows: supers } = await root.query(`SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'`);
  assert.deepEqual(supers, [{ rolsuper: false }], name);
  const { rows: secrets } = await root.query('SELECT secret FROM other.private');
  assert.deepEqual(secrets, [{ secret: 'hidden' }], name);
  assert.equal((await root.query('SELECT FROM other.hook')).rowCount, 0, name);
  const { rows } = await root.query<{ who: string; session: string; won: string; n: number }>(
    `SELECT who, regexp_replace(session, concat('^headgate_as_', 'mallory'::regrole::oid, '(_[0-9a-f]{32})?$'), 'its owner''s') AS session, won, count(*)::int AS n
     FROM mal.seen GROUP BY 1, 2, 3`,
  );
  assert.deepEqual(
    rows.map(({ who, session, won }) => ({ who, session, won })),
    rows.length === 0 ? [] : [{ who: 'mallory', session: "its owner's", won: '' }],
    name,
  );
  return rows[0]?.n ?? 0;
}
