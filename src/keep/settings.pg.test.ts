import assert from 'node:assert/strict';
import { performance } from 'node:perf_hooks';
import { suite, test } from 'node:test';
import { Door } from '../../test/support/ddl-door.ts';
import { hostileSettings, makeHostile } from '../../test/support/hostile-settings.ts';
import { ownerLogins } from '../../test/support/owner-logins.ts';
import { someVersion } from '../../test/support/sample.ts';
import { startServer } from '../../test/support/server.ts';
import { migrate, readMigrations } from '../catalog/migrate.ts';
import { limits } from '../config/limits.ts';
import { keepOnce } from './retention.ts';

const made = (name: string, keep: string, more = '') =>
  `CREATE TABLE ${name} (n INT, data JSONB) INCLUDE TIMESTAMP AS arrived ${more} WITH (connector = 'webhook', keep = '${keep}', document = 'data')`;

for (const [version, bin] of someVersion()) {
  suite(
    `keep removes the same rows whatever the database's DateStyle and TimeZone are, on PostgreSQL ${version}`,
    () => {
      test('keep by age, by number and by partition removes the same rows, as Headgate and as another owner', async (t) => {
        const server = await startServer(bin);
        const root = new Door(server.socketDir, 'root');
        t.after(async () => {
          await root.client.end();
          await server.close();
        });
        await root.client.connect();
        await root.run('CREATE ROLE mallory LOGIN');
        await root.run('CREATE DATABASE plain');
        const plain = new Door(server.socketDir, 'root', 'plain');
        await plain.client.connect();
        await migrate(plain.client, readMigrations());
        await plain.run('GRANT CREATE ON SCHEMA public TO mallory');
        await plain.client.end();
        for (const [name, settings] of Object.entries({ default: {}, ...hostileSettings })) {
          await root.run(`CREATE DATABASE hostile_${name} TEMPLATE plain`);
          // This session has PostgreSQL's defaults: what it says is right.
          const right = new Door(server.socketDir, 'root', `hostile_${name}`);
          const hers = new Door(server.socketDir, 'mallory', `hostile_${name}`);
          for (const door of [right, hers]) {
            await door.client.connect();
            await door.client.query(
              `SET search_path = public; SET TimeZone = 'UTC'; SET DateStyle = 'ISO, MDY'`,
            );
          }
          try {
            await right.run(made('aged', '12 hours'));
            await hers.run(made('aged_hers', '12 hours'));
            await right.run(made('counted', '3 rows'));
            await right.run('CREATE INDEX ON counted (arrived)');
            await hers.run(made('counted_hers', '3 rows'));
            await hers.run('CREATE INDEX ON counted_hers (arrived)');
            // One row for every half hour of a day.
            for (const table of ['aged', 'aged_hers'])
              await right.run(`INSERT INTO ${table} SELECT g, 'null', now() - g * interval '30 minutes' - interval '1 minute'
                FROM generate_series(0, 47) g`);
            // The statistics know the whole table: 40 rows, microseconds apart.
            for (const table of ['counted', 'counted_hers']) {
              await right.run(`INSERT INTO ${table} SELECT g, 'null', '2026-03-02 04:05:06.000001Z'::timestamptz + g * interval '1 us'
                FROM generate_series(1, 40) g`);
              await right.run(`ANALYZE ${table}`);
            }
            await right.run(made('days', '12 hours', 'PARTITION BY RANGE (arrived)'));
            // The bound of the first partition has passed; that of the second, 13 hours later, has not.
            await right.run(`DO $$ DECLARE day timestamptz := date_trunc('hour', now()) - interval '12 hours'; BEGIN
              EXECUTE format('CREATE TABLE days_old PARTITION OF days FOR VALUES FROM (MINVALUE) TO (%L)', day);
              EXECUTE format('CREATE TABLE days_new PARTITION OF days FOR VALUES FROM (%L) TO (%L)', day, day + interval '13 hours'); END $$`);
            await right.run(`INSERT INTO days SELECT g, 'null', now() - g * interval '1 hour' - interval '1 minute' FROM generate_series(0, 10) g;
              INSERT INTO days SELECT g, 'null', now() - g * interval '1 hour' FROM generate_series(14, 20) g`);
            await right.run('ANALYZE days_old');
            await makeHostile(right.client, `hostile_${name}`, settings, 'mallory');

            const { signal } = new AbortController();
            const engine = {
              clientConfig: (database: string) => ({ host: server.socketDir, user: 'root', database }),
              unavailable: null,
            };
            const quick = { ...limits, keepRestMs: 0, keepRestTimes: 0 };
            const refused: unknown[] = [];
            await keepOnce(
              `hostile_${name}`,
              {
                engine,
                logins: ownerLogins(t, engine.clientConfig),
                limits: quick,
                observe: (it) => void (it.kind === 'keep.refused' && refused.push(it)),
                clock: () => performance.now(),
              },
              signal,
            );
            assert.deepEqual(refused, [], name);
            const left = async (table: string) =>
              (await right.run(`SELECT coalesce(array_agg(n ORDER BY n), '{}') FROM ${table}`))[0]?.[0];
            const young = Array.from({ length: 24 }, (_, g) => g);
            assert.deepEqual(await left('aged'), young, name);
            assert.deepEqual(await left('aged_hers'), young, name);
            assert.deepEqual(await left('counted'), [38, 39, 40], name);
            assert.deepEqual(await left('counted_hers'), [38, 39, 40], name);
            assert.deepEqual(await left('days'), young.slice(0, 11), name);
            // Emptied at once, not row by row.
            assert.deepEqual(await right.run(`SELECT pg_relation_size('days_old')::int`), [[0]], name);
            assert.deepEqual(
              await right.run(`SELECT table_name, rows::int FROM headgate.kept ORDER BY table_name`),
              [
                ['aged', 24],
                ['aged_hers', 24],
                ['counted', 37],
                ['counted_hers', 37],
                ['days', 7],
              ],
              name,
            );
            assert.deepEqual(
              await right.run(`SELECT DISTINCT older_than BETWEEN now() - interval '12 hours 5 minutes' AND now() - interval '11 hours 55 minutes'
              FROM headgate.kept WHERE table_name IN ('aged', 'aged_hers', 'days')`),
              [[true]],
              name,
            );
          } finally {
            await right.client.end();
            await hers.client.end();
          }
        }
      });
    },
  );
}
