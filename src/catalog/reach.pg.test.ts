import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import { onEnd } from '../../test/support/cleanup.ts';
import { seededRandom } from '../../test/support/random.ts';
import { times } from '../../test/support/sample.ts';
import { debianBin, embeddedBin, startServer } from '../../test/support/server.ts';
import { involvedSql, joinedSql, lateCodeSql, lookedIntoSql, ownersSql, trustedSql } from './owner-code.ts';
import { relationsSql } from './shape.ts';
import type { RelationRow } from './shape.ts';

async function root(t: TestContext, bin: string): Promise<Client> {
  const server = await startServer(bin);
  onEnd(t, 'server', () => server.close());
  const client = new Client({ host: server.socketDir, user: 'root', database: 'postgres' });
  await client.connect();
  onEnd(t, 'client', () => client.end());
  await client.query('CREATE ROLE hg; CREATE ROLE a; CREATE ROLE b; CREATE ROLE m; GRANT m TO hg');
  return client;
}

/** The same answers by a walk from each relation. */
const oneByOne = `
  select c.oid as relation, c.relname::text as name,
    (select o.name from (${ownersSql(lookedIntoSql('c.oid', 'keyed'))}) as o
      where not ${trustedSql('o.relowner')} order by o.relowner <> c.relowner, o.name limit 1) as outsider,
    (select o.name from (${ownersSql(involvedSql('c.oid', 'inFunction'))}) as o
      where o.relowner <> c.relowner and not ${trustedSql('o.relowner')} order by o.name limit 1) as stranger,
    (select t.tgname from pg_trigger t
      where t.tgrelid in (${involvedSql('c.oid', 'inFunction')}) and ${lateCodeSql('t')} order by t.tgname limit 1) as late,
    ${joinedSql('c.oid', 'keyed')} as joined
  from pg_class c where c.relnamespace = 'g'::regnamespace and c.relkind in ('r', 'p', 'v') order by c.oid`;
const together = relationsSql(
  `select oid as relation from pg_class where relnamespace = 'g'::regnamespace and relkind in ('r', 'p', 'v')`,
);

const actions: readonly [string, ...string[]] = [
  'ON DELETE CASCADE',
  'ON UPDATE CASCADE',
  'ON DELETE SET NULL',
  'ON UPDATE SET DEFAULT',
  'ON DELETE RESTRICT',
  '',
];

/** Tables of several owners that are joined at random. */
async function randomGraph(client: Client, random: () => number): Promise<void> {
  const below = (n: number) => Math.floor(random() * n);
  const one = <T>(all: readonly [T, ...(readonly T[])]): T => all[below(all.length)] ?? all[0];
  /** Much of what is made up cannot be made. */
  const attempt = (sql: string) =>
    client.query(sql).then(
      () => true,
      () => false,
    );
  await client.query(`DROP SCHEMA IF EXISTS g CASCADE; CREATE SCHEMA g; GRANT ALL ON SCHEMA g TO hg, a, b, m;
    CREATE FUNCTION g.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'`);
  const owners = one<readonly string[]>([
    ['hg', 'root', 'a', 'b', 'm'],
    ['hg', 'root', 'a'],
    ['a', 'a', 'a', 'b'],
  ]);
  const tables: string[] = [];
  const number = 10 + below(15);
  for (let i = 0; i < number; i++) {
    const [name, other] = [`g.t${i}`, tables[below(tables.length)] ?? 'none'];
    const columns = (key: string) => `(id int ${key}, r int, s int)`;
    // Partitions have a primary key: without one, foreign keys that refer to the partition itself count here, but not in a walk from it alone.
    const kinds = [
      `TABLE ${name} ${columns('PRIMARY KEY')} PARTITION BY LIST (id)`,
      `TABLE ${name} PARTITION OF ${other} FOR VALUES IN (${i})`,
      `TABLE ${name} PARTITION OF ${other} FOR VALUES IN (${i}) PARTITION BY LIST (id)`,
      `TABLE ${name} (x${i} int) INHERITS (${other})`,
      `VIEW ${name} AS SELECT id, r, s FROM ${other}`,
    ] as const;
    const plain = `TABLE ${name} ${columns(one<string>(['PRIMARY KEY', 'UNIQUE']))}`;
    if (random() < 0.5 || !(await attempt(`CREATE ${one(kinds)}`))) await client.query(`CREATE ${plain}`);
    await client.query(`ALTER TABLE ${name} OWNER TO ${owners[below(owners.length)] ?? 'root'}`);
    const late = `CREATE CONSTRAINT TRIGGER late${i} AFTER INSERT ON ${name} DEFERRABLE FOR EACH ROW EXECUTE FUNCTION g.f()`;
    if (below(6) === 0) await attempt(late);
    tables.push(name);
  }
  for (let i = below(2 * number); i > 0; i--) {
    const column = one(['r', 's', 'id']);
    const [from, to] = [tables[below(number)] ?? '', tables[below(number)] ?? ''];
    await attempt(`ALTER TABLE ${from} ADD FOREIGN KEY (${column}) REFERENCES ${to} (id) ${one(actions)}`);
  }
}

for (const bin of [embeddedBin, debianBin].filter(existsSync)) {
  test(`relations that are walked together reach what each of them reaches alone: ${bin}`, async (t) => {
    const client = await root(t, bin);
    const { seed, random } = seededRandom();
    const seen = { outsider: 0, stranger: 0, late: 0, joined: 0 };
    for (let round = 0; round < times(8, 100); round++) {
      await randomGraph(client, random);
      for (const role of ['root', 'hg']) {
        await client.query(`SET SESSION AUTHORIZATION ${role}`);
        const { rows: alone } = await client.query<{ relation: number; name: string } & typeof seen>(
          oneByOne,
        );
        const { rows } = await client.query<RelationRow>(`${together} order by relation`);
        const all = rows.map(({ relation, table_name: name, code: { outsider, stranger, late, joined } }) => {
          if (outsider !== null) seen.outsider += 1;
          if (stranger !== null) seen.stranger += 1;
          if (late !== null) seen.late += 1;
          if (joined) seen.joined += 1;
          return { relation, name, outsider, stranger, late, joined };
        });
        assert.deepEqual(all, alone, `HEADGATE_TEST_SEED=${seed}, round ${round}, as ${role}`);
        await client.query('RESET SESSION AUTHORIZATION; RESET search_path');
      }
    }
    assert(seen.outsider > 20 && seen.late > 5 && seen.joined > 20, JSON.stringify(seen));
  });

  test(`a chain of foreign keys behind many tables is walked once: ${bin}`, async (t) => {
    const client = await root(t, bin);
    await client.query(`CREATE SCHEMA g; GRANT ALL ON SCHEMA g TO a;
      CREATE FUNCTION g.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'`);
    const [heads, links] = [40, 100];
    const asked = relationsSql(`select oid as relation from pg_class where relname ~ '^h[0-9]+$'`);
    /** Rows that pass through all nodes of the plan. */
    const work = async (): Promise<number> => {
      const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
        `EXPLAIN (ANALYZE, TIMING off, FORMAT json) ${asked}`,
      );
      return rowsOf(rows[0]?.['QUERY PLAN'][0].Plan);
    };
    const table = (name: string, to: string, i: number) => `
      CREATE TABLE g.${name} (id int PRIMARY KEY ${to}); ALTER TABLE g.${name} OWNER TO a;
      CREATE CONSTRAINT TRIGGER late${i} AFTER INSERT ON g.${name} DEFERRABLE FOR EACH ROW EXECUTE FUNCTION g.f();`;
    const refer = (i: number) => `REFERENCES g.c${i} ON DELETE CASCADE`;
    const few = (n: number) => Array.from({ length: n }, (_, i) => i);
    await client.query(
      few(heads)
        .map((i) => table(`h${i}`, '', i))
        .join(''),
    );
    await client.query(table('c0', '', heads));
    for (const i of few(heads))
      await client.query(`ALTER TABLE g.c0 ADD FOREIGN KEY (id) REFERENCES g.h${i} ON DELETE CASCADE`);
    const works: number[] = [];
    for (const part of [0, 1, 2]) {
      for (const i of few(links)) {
        const link = part * links + i + 1;
        await client.query(table(`c${link}`, refer(link - 1), heads + link));
      }
      works.push(await work());
    }
    const [first = 0, second = 0, third = 0] = works;
    t.diagnostic(`${works.join(', ')} rows`);
    // A walk from each head would pass each link once for each head, and each name as often.
    assert((third - second) / (second - first) < 1.3, works.join(', '));
    assert((third - second) / links < 20 * heads, works.join(', '));
    // An owner with more names than are told apart has late code nevertheless.
    const { rows } = await client.query<RelationRow>(asked);
    assert.equal(rows.filter(({ code }) => code.late?.startsWith('late') === true).length, heads);
  });
}

interface PlanNode {
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly Plans?: readonly PlanNode[];
}

function rowsOf(node: PlanNode | undefined): number {
  if (node === undefined) return 0;
  const below = (node.Plans ?? []).reduce((sum, one) => sum + rowsOf(one), 0);
  return node['Actual Rows'] * node['Actual Loops'] + below;
}
