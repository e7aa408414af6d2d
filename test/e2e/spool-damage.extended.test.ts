/** Files of the spool that a disk, or a person, has damaged: everything else arrives byte by byte as it was sent, and what is lost is said. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync, rmSync, truncateSync, unlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { test } from 'node:test';
import { asked } from '../support/asked.ts';
import { temporaryFolder } from '../support/headgate.ts';
import { MortalServer } from '../support/mortal-server.ts';
import { sampleOf } from '../support/sample.ts';
import { SpoolStage } from '../support/spool-stage.ts';
import { writeVersion1 } from '../support/spool-v1.ts';
import { within } from '../support/within.ts';

interface Ready {
  readonly status: string;
  readonly spool?: { readonly takes: boolean; readonly held: number; readonly damaged: number };
}

test('a damaged spool is reported, and its undamaged requests arrive', async (t) => {
  const server = await MortalServer.start(t);
  const stage = new SpoolStage(t, server, await temporaryFolder(t));
  await stage.startHeadgate();
  const tables = ['one', 'two'];
  await stage.sql(
    tables
      .map(
        (name) =>
          `CREATE TABLE ${name} (data BYTEA) WITH (connector = 'webhook', format = 'bytes', spool = 'fallback')`,
      )
      .join(';'),
  );
  for (const name of tables)
    await within(10_000, async () => assert.equal((await stage.post(name, 'first')).status, 200));
  const ready = async () => JSON.parse((await asked(`${stage.headgate.adminUrl}/readyz`)).text) as Ready;
  const segments = () => [...stage.files()].filter((path) => path.endsWith('.seg'));
  /** That holds records. */
  const written = () =>
    segments().filter((path) =>
      readFileSync(path)
        .subarray(64, 72)
        .some((byte) => byte !== 0),
    );
  const rows = async (name: string) =>
    (
      await stage.ask<{ hex: string }>(`select encode(data, 'hex') as hex from ${name} where data <> 'first'`)
    ).map(({ hex }) => hex);
  const bodyOf = () => randomBytes(40).toString('base64');
  const hexOf = (body: string) => Buffer.from(body).toString('hex');
  /** Keeps requests of both tables in turn while the database is away, and then ends; returns the bodies of each. */
  const keep = async (count: number) => {
    await stage.ask('truncate one, two');
    await stage.killServer();
    const sent: Record<string, string[]> = { one: [], two: [] };
    for (let i = 0; i < count; i++)
      for (const name of tables) {
        const body = bodyOf();
        assert.equal((await stage.post(name, body)).status, 202);
        sent[name]?.push(hexOf(body));
      }
    await stage.killHeadgate();
    await server.start();
    return sent;
  };
  const flip = (path: string, at: number) => {
    const bytes = readFileSync(path);
    bytes[at] = (bytes[at] ?? 0) ^ 0x10;
    writeFileSync(path, bytes);
  };
  const arrived = async (expected: Readonly<Record<string, readonly string[]>>) => {
    for (const name of tables) {
      await within(15_000, async () => {
        await delay(20);
        assert.deepEqual(await rows(name), expected[name]);
      });
    }
  };
  const shown = async () =>
    (await stage.sql<Record<string, string | null>>('SHOW SPOOL')).map((row) => [
      row['Table'],
      row['State'],
      row['Requests'],
    ]);
  const clean = () => {
    for (const path of stage.files()) if (path.includes('quarantine')) unlinkSync(path);
  };

  await t.test("a flipped bit in a table's first spool record costs that record", async () => {
    const sent = await keep(20);
    const [path] = written();
    assert(path !== undefined);
    flip(path, 64 + 40);
    await stage.startHeadgate();
    await arrived({ ...sent, one: sent['one']?.slice(1) ?? [] });
    const { status, spool } = await ready();
    assert.deepEqual([status, spool?.damaged, spool?.held], ['ready', 1, 0]);
    assert.deepEqual(await shown(), [['public.one', 'damaged', '1']]);
    assert.match(stage.headgate.stderr, /"requests":1,"reason":"damaged".*"kind":"spool\.damaged"/);
    const { text } = await asked(`${stage.headgate.adminUrl}/metrics`);
    assert.match(text, /^headgate_spool_quarantined 1$/m);
    const checked = await stage.command('spool', 'check', stage.folder);
    assert.equal(checked.code, 1);
    assert.match(checked.stdout, /put aside earlier, because it could not be read/);
    // A person has looked at it.
    clean();
    await within(15_000, async () => {
      await delay(50);
      assert.deepEqual([await shown(), (await ready()).spool?.damaged], [[], 0]);
    });
  });

  await t.test("a flipped bit in a spool segment's header costs nothing", async () => {
    const sent = await keep(5);
    const [path] = written();
    assert(path !== undefined);
    flip(path, 40);
    await stage.startHeadgate();
    await arrived(sent);
    assert.match(stage.headgate.stderr, /"reason":"its header is damaged"/);
    clean();
  });

  await t.test('a cut or missing spool file is reported, and the requests left in it arrive', async () => {
    for (const how of sampleOf(['cut', 'emptied', 'removed'] as const, 1)) {
      const sent = await keep(10);
      const [path] = written();
      assert(path !== undefined);
      const checked = async () => stage.command('spool', 'check', stage.folder);
      assert.equal((await checked()).code, 0);
      const bytes = readFileSync(path);
      const end = bytes.subarray(0, -64).findLastIndex((byte) => byte !== 0) + 1;
      if (how === 'removed') rmSync(path);
      // Into the last record, which is of the second table.
      else truncateSync(path, how === 'cut' ? end - 20 : 0);
      const bad = await checked();
      assert.equal(bad.code, 1);
      assert.match(bad.stdout, how === 'removed' ? /the file is missing/ : /the file was cut/);
      await stage.startHeadgate();
      await arrived(how === 'cut' ? { ...sent, two: sent['two']?.slice(0, -1) ?? [] } : { one: [], two: [] });
      await within(10_000, async () => assert(((await ready()).spool?.damaged ?? 0) > 0));
      assert.match(
        stage.headgate.stderr,
        new RegExp(`the file ${how === 'removed' ? 'is missing' : 'was cut'}`),
      );
      assert((await shown()).some(([, state]) => state === 'damaged'));
      clean();
    }
  });

  await t.test(
    'requests spooled by an earlier version arrive, also without a table description',
    async () => {
      await stage.killHeadgate();
      await stage.ask('truncate one, two');
      const [about] = await stage.ask<{ home: string; one: number; two: number }>(
        `select headgate.home() as home, 'one'::regclass::oid::int8::int4 as one, 'two'::regclass::oid::int8::int4 as two`,
      );
      assert(about !== undefined);
      const bodies = Array.from({ length: 12 }, bodyOf);
      const path = writeVersion1(
        join(stage.folder, 'postgres'),
        readFileSync(join(stage.dataDir, 'master.key'), 'utf8'),
        {
          home: about.home,
          database: 'postgres',
          tables: [
            { oid: about.one, table: 'one' },
            { oid: about.two, table: 'two' },
          ],
          bodies,
        },
      );
      flip(path, 64 + 30);
      await stage.startHeadgate();
      const of = (table: number) => bodies.filter((_, i) => i % 2 === table).map(hexOf);
      await arrived({ one: of(0), two: of(1) });
      assert.match(stage.headgate.stderr, /"kind":"spool\.damaged"/);
      assert.doesNotMatch(stage.headgate.stderr, /spool\.held/);
      clean();
    },
  );

  await t.test(
    'a spool without its master key accepts nothing and says so, and with the key all requests arrive',
    async () => {
      const sent = await keep(3);
      const key = join(stage.dataDir, 'master.key');
      renameSync(key, `${key}.away`);
      await stage.startHeadgate();
      await within(10_000, async () => {
        await delay(20);
        assert.deepEqual(await shown(), [
          ['public.one', 'held', '3'],
          ['public.two', 'held', '3'],
        ]);
      });
      const { spool } = await ready();
      assert.deepEqual([spool?.takes, spool?.held], [false, 2]);
      assert.match(stage.headgate.stderr, /the master key that they were sealed with is not here/);
      await stage.killServer();
      const refused = await stage.post('one', bodyOf());
      assert.equal(refused.status, 503);
      assert.notEqual((JSON.parse(refused.text) as { code: string }).code, 'commit_unknown');
      assert.notEqual((await asked(`${stage.headgate.adminUrl}/readyz`)).status, 200);
      await server.start();
      renameSync(`${key}.away`, key);
      await arrived(sent);
      await within(10_000, async () => assert.deepEqual(await shown(), []));
    },
  );

  await t.test('a missing spool folder is reported as incomplete', async () => {
    const checked = await stage.command(
      'spool',
      'check',
      join(stage.folder, basename(stage.dataDir), 'none'),
    );
    assert.equal(checked.code, 1);
    assert.match(checked.stderr, /there is no directory/);
  });
});
