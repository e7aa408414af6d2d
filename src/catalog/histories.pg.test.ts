/**
 * Changes of tables, and of what they consist of, that are committed between any two questions of a look and a reading, by chance. PostgreSQL says what
 * is right: a picture that is read anew while nothing changes. `HEADGATE_TEST_SEED` repeats a history.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { Client } from 'pg';
import { onEnd } from '../../test/support/cleanup.ts';
import { Door, webhook } from '../../test/support/ddl-door.ts';
import { described, pictureOf, update, watcherOf } from '../../test/support/picture.ts';
import type { QueryHooks } from '../../test/support/picture.ts';
import { seededRandom } from '../../test/support/random.ts';
import { times } from '../../test/support/sample.ts';
import { startServer } from '../../test/support/server.ts';
import { migrate, readMigrations } from './migrate.ts';

/** Tables that stay as they are, so that what changes is less than half. */
const others = 12;
const names = ['a', 'b', 'c'] as const;
const rounds = times(8, 1_000);

/** Statements that are right whenever they run, one after another. */
class Changes {
  readonly #random: () => number;
  readonly #exists = new Set<string>();
  /** The name of the first column of each table, as often as it was renamed. */
  readonly #renamed = new Map<string, number>();
  readonly #states = new Map<string, boolean>();

  constructor(random: () => number) {
    this.#random = random;
  }

  next(): string {
    const name = this.#oneOf(names);
    if (!this.#exists.has(name)) {
      this.#exists.add(name);
      this.#renamed.set(name, 0);
      for (const what of ['added', 'trigger', 'secured']) this.#states.delete(`${what} ${name}`);
      return webhook(name);
    }
    return this.#oneOf([
      () => this.#drop(name),
      () => this.#rename(name),
      () => this.#rename(name),
      () => this.#swap(),
      () =>
        this.#either(
          `added ${name}`,
          `ALTER TABLE ${name} ADD m mood, ADD n score`,
          `ALTER TABLE ${name} DROP m, DROP n`,
        ),
      () =>
        this.#either(
          `trigger ${name}`,
          `CREATE TRIGGER noted BEFORE INSERT ON ${name} FOR EACH ROW EXECUTE FUNCTION noted()`,
          `DROP TRIGGER noted ON ${name}`,
        ),
      () =>
        this.#either(
          `secured ${name}`,
          `ALTER TABLE ${name} ENABLE ROW LEVEL SECURITY`,
          `ALTER TABLE ${name} DISABLE ROW LEVEL SECURITY`,
        ),
      () => this.#either('attached', attach, 'ALTER TABLE p DETACH PARTITION q'),
      () => this.#either('attached', attach, 'ALTER TABLE p DETACH PARTITION q'),
      () => this.#either('own', 'ALTER TABLE q OWNER TO carol', 'ALTER TABLE q OWNER TO root'),
      () =>
        this.#either(
          'default',
          'ALTER TABLE q ALTER id SET DEFAULT 1',
          'ALTER TABLE q ALTER id DROP DEFAULT',
        ),
      () =>
        this.#either(
          'mood',
          'ALTER TYPE mood RENAME VALUE $$x$$ TO $$y$$',
          'ALTER TYPE mood RENAME VALUE $$y$$ TO $$x$$',
        ),
      () => this.#either('score', 'ALTER DOMAIN score SET DEFAULT 2', 'ALTER DOMAIN score SET DEFAULT 1'),
      () => this.#either('name', 'ALTER ROLE dave RENAME TO david', 'ALTER ROLE david RENAME TO dave'),
      () => this.#either('super', 'ALTER ROLE carol SUPERUSER', 'ALTER ROLE carol NOSUPERUSER'),
      () => this.#either('schema', 'ALTER TABLE other.d SET SCHEMA public', 'ALTER TABLE d SET SCHEMA other'),
      () => `ALTER TABLE ${name} OWNER TO ${this.#oneOf(['carol', 'root'])}`,
      () => `VACUUM ${name}`,
    ])();
  }

  #oneOf<T>(some: readonly T[]): T {
    return some[Math.floor(this.#random() * some.length)] as T;
  }

  #either(which: string, first: string, second: string): string {
    const is = this.#states.get(which) === true;
    this.#states.set(which, !is);
    return is ? second : first;
  }

  #drop(name: string): string {
    this.#exists.delete(name);
    return `DROP TABLE ${name}`;
  }

  #rename(name: string): string {
    const times = this.#renamed.get(name) ?? 0;
    // To a name that it had before, too: the version must not come back with it.
    const next = (times + 1) % 3;
    this.#renamed.set(name, next);
    const columns = ['data', 'one', 'two'] as const;
    return `ALTER TABLE ${name} RENAME ${columns[times]} TO ${columns[next]}`;
  }

  #swap(): string {
    const [one, two] = [...this.#exists];
    if (one === undefined || two === undefined) return 'SELECT 1';
    for (const what of ['added', 'trigger', 'secured']) {
      const keys = [`${what} ${one}`, `${what} ${two}`] as const;
      const states = keys.map((key) => this.#states.get(key) === true);
      keys.forEach((key, i) => this.#states.set(key, states[1 - i] === true));
    }
    const renamed = [one, two].map((name) => this.#renamed.get(name) ?? 0);
    this.#renamed.set(one, renamed[1] ?? 0);
    this.#renamed.set(two, renamed[0] ?? 0);
    return `ALTER TABLE ${one} RENAME TO swapped; ALTER TABLE ${two} RENAME TO ${one}; ALTER TABLE swapped RENAME TO ${two}`;
  }
}

const attach = 'ALTER TABLE p ATTACH PARTITION q FOR VALUES FROM (0) TO (9)';

suite('a catalog snapshot is right after any history of changes', () => {
  for (const isOwn of [true, false])
    test(`the catalog is right after any commits between its queries, over ${isOwn ? "Headgate's own" : 'any'} sessions`, async (t) => {
      const server = await startServer(process.env['HEADGATE_TEST_BIN']);
      onEnd(t, 'server', () => server.close());
      const open = async () => {
        const client = new Client({ host: server.socketDir, user: 'root', database: 'postgres' });
        await client.connect();
        onEnd(t, 'session', () => client.end());
        return client;
      };
      const root = new Door(server.socketDir, 'root');
      await root.client.connect();
      onEnd(t, 'root', () => root.client.end());
      await migrate(root.client, readMigrations());
      for (let i = 0; i < others; i++) await root.run(webhook(`another_${i}`));
      await root.run(`CREATE ROLE carol; CREATE ROLE dave; ALTER TABLE another_0 OWNER TO dave; CREATE TYPE mood AS ENUM ('x'); CREATE DOMAIN score AS int DEFAULT 1; CREATE SCHEMA other;
        CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`);
      await root.run(
        `CREATE TABLE p (data jsonb, id int) PARTITION BY RANGE (id) WITH (connector = 'webhook')`,
      );
      await root.run('CREATE TABLE q (data jsonb, id int)');
      await root.run(webhook('other.d'));
      const { seed, random } = seededRandom();
      const changes = new Changes(random);
      const hooks: QueryHooks = {};
      const { watcher, settled } = await watcherOf(t, open, hooks, isOwn);
      const { picture } = watcher;
      const fresh = await open();
      const told: string[] = [];
      let last: Promise<unknown> = Promise.resolve();
      /** The last change that a look has seen, or a later one. */
      let covered: Promise<unknown> | null = null;
      /** One after another, over one session. */
      const change = () => {
        const sql = changes.next();
        told.push(sql);
        return (last = root.run(sql));
      };
      const complete = async () => {
        const whole = pictureOf({});
        await update(whole, fresh);
        return described(whole.tables.snapshot);
      };
      for (let round = 0; round < rounds; round++) {
        told.push(`-- round ${round}`);
        const where = () => `seed ${seed}\n${told.slice(-40).join('\n')}`;
        hooks.before = async (text) => {
          told.push(`-- ${text.replaceAll(/\s+/g, ' ').slice(-70)}`);
          if (random() < 0.3) await change();
        };
        hooks.after = async (text) => {
          if (!/table_versions\('\{\d/.test(text) || random() > 0.3) return;
          // Another look knows more than this reading.
          const changed = change();
          await changed;
          await watcher.ask();
          covered = changed;
        };
        await change();
        const isDoubted = random() < 0.2;
        const oids = [...picture.tables.snapshot.tables.values()].map(({ oid }) => oid);
        if (isDoubted) picture.doubt(oids[Math.floor(random() * oids.length)] ?? 0);
        const about = random() < 0.3 ? oids[Math.floor(random() * oids.length)] : undefined;
        const changed = change().then(() => watcher.ask());
        await Promise.all([watcher.ask(about), changed, random() < 0.5 ? watcher.settle() : undefined]);
        hooks.before = hooks.after = () => Promise.resolve();
        await last;
        await watcher.wait(false);
        if (covered !== last) await watcher.ask();
        // What the engine has confirmed by now is true, or in doubt.
        const right = await complete();
        const { tables } = described(picture.tables.snapshot);
        for (const [key, is] of right.tables)
          if (!picture.tables.doubts.has(is.oid)) assert.deepEqual(tables.get(key), is, where());
        for (const key of tables.keys())
          if (!right.tables.has(key))
            assert.ok(picture.tables.doubts.has(tables.get(key)?.oid ?? 0), where());
        for (let i = 0; i < 3; i++) await settled();
        assert.deepEqual([...picture.tables.doubts], [], where());
        assert.ok(isDeepStrictEqual(described(picture.tables.snapshot), right), where());
      }
    });
});
