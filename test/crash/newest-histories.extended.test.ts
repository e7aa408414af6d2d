/**
 * Random histories of rows with versions, repeated and deleted, through every door of two Headgates on one database, of which one loses the database, so that
 * requests go to the disk, and the other is killed. However it goes, the table ends in what plain SQL takes for the newest of all that was sent.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { Client } from 'pg';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { FaultyProxy } from '../support/faulty-proxy.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { seededRandom } from '../support/random.ts';
import { times } from '../support/sample.ts';
import { spoolOpened } from '../support/spool-opened.ts';
import { startTcpServer } from '../support/tls-server.ts';
import { until } from '../support/until.ts';
import { within } from '../support/within.ts';
import { WsClient } from '../support/ws-client.ts';

interface Event {
  readonly id: number;
  readonly seen: number;
  readonly op: 'upsert' | 'delete';
  readonly note: string;
}

const events = times(300, 10_000);
const keys = times(40, 200);
const senders = 8;

test(
  'a table with version has the newest row of each key after kills of Headgate and outages with a spool',
  { timeout: 1_200_000 },
  async (t) => {
    const { random, seed } = seededRandom();
    const below = (n: number) => Math.floor(random() * n);
    const server = await startTcpServer();
    onEnd(t, 'server', () => server.close());
    const proxy = await FaultyProxy.open({ kind: 'tcp', host: '127.0.0.1', port: server.port, tls: false });
    onEnd(t, 'proxy', () => proxy.close());
    const key = randomBytes(32).toString('base64');
    const places = await Promise.all(
      [server.port, proxy.port].map(async (port) => ({
        dataDir: await temporaryFolder(t),
        env: {
          HEADGATE_DATABASE_URL: `postgresql://root@127.0.0.1:${port}/postgres?sslmode=disable`,
          HEADGATE_MASTER_KEY: key,
        },
      })),
    );
    const headgates: Headgate[] = [];
    for (const place of places) headgates.push(await startHeadgate(t, place));
    const client = new Client({ host: '127.0.0.1', port: server.port, user: 'root', database: 'postgres' });
    await client.connect();
    onEnd(t, 'client', () => client.end());
    const statements = new Client({
      host: '127.0.0.1',
      port: headgates[0]?.ports.sql.port ?? 0,
      user: 'root',
      database: 'postgres',
    });
    await statements.connect();
    await statements.query(`CREATE TABLE objects (id INT PRIMARY KEY, seen BIGINT, note TEXT CONSTRAINT passable CHECK (note <> 'later'))
    WITH (connector = 'webhook', version = 'seen', is_batched = true, spool = 'fallback')`);
    await statements.end();
    for (const { dataDir } of places) await spoolOpened(dataDir, 'postgres');
    await client.query('CREATE TABLE sent (id INT, seen BIGINT, op TEXT, note TEXT)');

    // Versions are unique, and come in any order; of the rows that are refused at first some are the newest of their key.
    const versions = Array.from({ length: events }, (_, seen) => ({ seen, order: random() })).toSorted(
      (a, b) => a.order - b.order,
    );
    const history = versions.map(({ seen }, at): Event => {
      const op = random() < 0.15 ? 'delete' : 'upsert';
      const note = op === 'upsert' && at % Math.ceil(events / 12) === 0 ? 'later' : `v${seen}`;
      return { id: below(keys), seen, op, note };
    });
    await client.query(
      'INSERT INTO sent SELECT * FROM jsonb_to_recordset($1) AS s (id INT, seen BIGINT, op TEXT, note TEXT)',
      [JSON.stringify(history)],
    );

    const line = ({ id, seen, note }: Event) => JSON.stringify({ id, seen, note });
    const counts = { http: 0, events: 0, sockets: 0, spooled: 0, refused: 0, again: 0 };
    let isStalled = false;
    /** Until one of them has taken it: what is not known is sent again, which changes nothing. */
    const taken = async (
      send: (headgate: Headgate) => Promise<boolean>,
      choose = (): number => below(2),
    ): Promise<void> => {
      await until(async () => {
        const headgate = headgates[choose()];
        const done = headgate === undefined ? false : await send(headgate).catch(() => false);
        if (!done) counts.again += 1;
        return done;
      });
    };
    /** To the one without a database as a rule, or the other would store all of them. */
    const byHttp = (some: readonly Event[]) =>
      taken(
        async (headgate) => {
          const { status } = await asked(`${headgate.webhookUrl}/postgres/public/objects`, {
            method: 'POST',
            body: some.map(line).join('\n'),
          });
          counts.http += 1;
          if (status === 202) counts.spooled += 1;
          if (status === 422) counts.refused += 1;
          return status < 300 || status === 422;
        },
        () => (isStalled && random() < 0.8 ? 1 : below(2)),
      );
    const byEvents = (some: readonly Event[]) =>
      taken(async (headgate) => {
        const url = `${headgate.gatewayUrl}/v1/events?name=objects&database=postgres&on_conflict=update`;
        const { status } = await asked(url, { method: 'POST', body: some.map(line).join('\n') });
        counts.events += 1;
        return status === 200;
      });
    const bySocket = (some: readonly Event[]) =>
      taken(async (headgate) => {
        const url = `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/postgres/public/objects`;
        const socket = await WsClient.open(url);
        socket.send(
          1,
          some.map(({ op, id, seen, note }) =>
            op === 'delete' ? { op, data: { id, seen } } : { op, data: { id, seen, note } },
          ),
        );
        counts.sockets += 1;
        // A database that stalls stalls it, too.
        const late = setTimeout(() => void socket.kill(), 5_000);
        const isAcked = await Promise.race([
          socket.acked(1).then(() => true),
          socket.ended.then(() => false),
        ]);
        clearTimeout(late);
        void socket.kill();
        return isAcked;
      });

    let next = 0;
    const sending = Array.from({ length: senders }, async () => {
      while (next < history.length) {
        const some = history.slice(next, (next += 1 + below(6)));
        const later = some.filter(({ note }) => note === 'later');
        const others = some.filter(({ note }) => note !== 'later');
        // Each alone: a batch with one of them would be refused as a whole. Only over HTTP a refused one is kept.
        for (const one of later) await byHttp([one]);
        const deletions = others.some(({ op }) => op === 'delete');
        const door = deletions ? bySocket : ([byHttp, byHttp, byEvents, bySocket][below(4)] ?? byHttp);
        if (others.length > 0) await door(others);
        if (random() < 0.1 && others.length > 0) await door(others);
      }
    });
    const progress = (part: number) => until(() => next >= history.length * part);
    const faults = (async () => {
      for (const part of [0.15, 0.4, 0.65, 0.9]) {
        await progress(part);
        proxy.stall();
        isStalled = true;
        const before = counts.spooled;
        await until(() => counts.spooled > before + 1 || next >= history.length);
        // What is on the disk outlives its process.
        const place = places[1];
        await headgates[1]?.signal('SIGKILL');
        proxy.resume();
        isStalled = false;
        headgates[1] = await startHeadgate(t, place);
        await headgates[0]?.signal('SIGKILL');
        headgates[0] = await startHeadgate(t, places[0]);
      }
    })();
    await Promise.all([...sending, faults]);
    assert(counts.spooled > 0, 'some went to the disk');

    const rows = async (sql: string) => (await client.query<{ n: string }>(sql)).rows.map(({ n }) => n);
    await within(120_000, async () => {
      for (const { adminUrl } of headgates) {
        const { text } = await asked(`${adminUrl}/metrics`);
        for (const [, waiting] of text.matchAll(/^headgate_spool_requests(?:\{.*\})? (\d+)$/gm))
          assert.equal(waiting, '0');
      }
    });
    // A crash takes away what was refused and not written down yet: its sender has it still. Of many refusals at a time not all are kept.
    const isKept = async (one: Event) =>
      (
        await client.query(
          `SELECT FROM headgate.rejected_requests WHERE table_name = 'objects' AND convert_from(body, 'UTF8') = $1`,
          [line(one)],
        )
      ).rowCount !== 0;
    for (const one of history.filter(({ note }) => note === 'later'))
      await within(60_000, async () => {
        if (await isKept(one)) return;
        const url = `${headgates[0]?.webhookUrl}/postgres/public/objects`;
        // An older one is not tried at all, and changes nothing.
        const { status } = await asked(url, { method: 'POST', body: line(one) });
        assert(status === 200 || (await isKept(one)));
      });
    await client.query('ALTER TABLE objects DROP CONSTRAINT passable');
    await client.query('SELECT headgate.retry_rejected(id, true) FROM headgate.rejected_requests');
    await within(60_000, async () =>
      assert.deepEqual(
        await rows(
          `SELECT count(*) AS n FROM headgate.rejected_requests WHERE retry_outcome IS DISTINCT FROM 'committed'`,
        ),
        ['0'],
      ),
    );
    const expected = `SELECT id, seen, note FROM (SELECT DISTINCT ON (id) * FROM sent ORDER BY id, seen DESC) AS newest WHERE op = 'upsert'`;
    const found = 'SELECT id, seen, note FROM objects';
    const differing = await client.query(
      `(${expected} EXCEPT ${found}) UNION ALL (${found} EXCEPT ${expected})`,
    );
    t.diagnostic(
      `seed ${seed}: ${JSON.stringify(counts)}, ${(await rows(`SELECT count(*) AS n FROM objects`))[0]} rows of ${keys} keys`,
    );
    assert.deepEqual(differing.rows, [], `seed ${seed}`);
  },
);
