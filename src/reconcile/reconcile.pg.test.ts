/** APIs that lie, and what is asked of them: whatever they answer, a turn ends, its reason is in headgate.gaps, and nobody else is called. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { onEnd } from '../../test/support/cleanup.ts';
import { Door } from '../../test/support/ddl-door.ts';
import { startServer } from '../../test/support/server.ts';
import { until } from '../../test/support/until.ts';
import { createApiCall } from '../access/outgoing.ts';
import { migrate, readMigrations } from '../catalog/migrate.ts';
import { limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import { Reconciliation } from './reconcile.ts';

const token = 'ghp_hidden';
const bounds = {
  ...limits,
  reconcileLookMs: 5,
  reconcilePagesMax: 8,
  reconcileCallMs: 400,
  reconcileBytesMax: 60_000,
};
type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** A server on loopback; `asked`: the requests that it got. */
async function serve(
  t: TestContext,
  name: string,
): Promise<{ url: string; asked: string[]; answer: Answer }> {
  const it = { url: '', asked: [] as string[], answer: ((_, response) => response.end('[]')) as Answer };
  const server = createServer((request, response) => {
    it.asked.push(`${request.method} ${request.url} ${request.headers.authorization}`);
    it.answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onEnd(t, name, () => {
    server.closeAllConnections();
    server.close();
  });
  it.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return it;
}

const entry = (over: object = {}) => ({
  id: 1,
  guid: 'g',
  delivered_at: new Date(Date.now() + 30_000).toISOString(),
  redelivery: false,
  status_code: 502,
  ...over,
});
const page =
  (items: unknown, headers: Record<string, string> = {}): Answer =>
  (_, response) =>
    void response.writeHead(200, headers).end(JSON.stringify(items));
const next = (url: string) => ({ link: `<${url}>; rel="next"` });

/** A table `h` that is compared with an API; `reconciling`: a Headgate that begins to, anew or where another was. */
async function stage(t: TestContext) {
  const server = await startServer();
  onEnd(t, 'server', () => server.close());
  const root = new Door(server.socketDir, 'root');
  await root.client.connect();
  onEnd(t, 'client', () => root.client.end());
  await migrate(root.client, readMigrations());
  const api = await serve(t, 'API');
  await root.run(`CREATE SECRET tok WITH (backend = 'meta') AS '${token}'`);
  await root.run(`CREATE TABLE h (data JSONB) WITH (connector = 'webhook', dedupe = 'header:x-github-delivery',
      reconcile = 'github:o/r/hooks/7', every = '1 minute', reconcile_secret = tok)`);
  const reconciling = async (fresh: boolean, observe: Observe = () => undefined): Promise<Reconciliation> => {
    // The last statement of one that was closed may still run, and take the table.
    await until(async () => {
      const [others] = await root.run(
        `SELECT count(*)::int FROM pg_stat_activity WHERE application_name = 'headgate reconcile'`,
      );
      return others?.[0] === 0;
    });
    if (fresh) await root.run('DELETE FROM headgate.reconciling; DELETE FROM headgate.announced');
    const reconciler = new Reconciliation(
      {
        engine: {
          clientConfig: (database) => ({ host: server.socketDir, user: 'root', database }),
          unavailable: null,
        },
        sealing: { open: () => token },
        apis: new Map([['github', api.url]]),
        exchange: createApiCall({
          outgoingMs: bounds.reconcileCallMs,
          outgoingBytesMax: bounds.reconcileBytesMax,
        }),
        store: () => Promise.reject(new Error('nothing is stored')),
        limits: bounds,
        observe,
      },
      () => true,
    );
    reconciler.serve('postgres');
    return reconciler;
  };
  return { root, api, reconciling };
}

suite('reconcile withstands an API that lies', () => {
  test('each false answer of an API ends the reconcile turn with a reason, and no call or token goes elsewhere', async (t) => {
    const { root, api, reconciling } = await stage(t);
    const elsewhere = await serve(t, 'elsewhere');
    const lies: readonly [what: string, answer: Answer, problem: RegExp][] = [
      [
        'a redirect',
        (_, response) => void response.writeHead(302, { location: elsewhere.url }).end(),
        /answered 302/,
      ],
      [
        'a moved place',
        (_, response) => void response.writeHead(301, { location: `${elsewhere.url}/x` }).end(),
        /answered 301: it is elsewhere/,
      ],
      [
        'another protocol',
        (_, response) => void response.writeHead(101, { upgrade: 'x', connection: 'upgrade' }).end(),
        /answered 101/,
      ],
      [
        'pages without end',
        (_, response) => page([entry()], next(`${api.url}/?cursor=c${Math.random()}`))(_, response),
        /more than 8 pages/,
      ],
      ['a page that is its own next', page([entry()], next(`${api.url}/?cursor=same`)), /own next one/],
      ['a next page elsewhere', page([entry()], next(`${elsewhere.url}/steal?cursor=same`)), /own next one/],
      [
        'a cursor with line ends',
        page([entry()], next(`${api.url}/?cursor=a%0d%0aX-Evil:1`)),
        /cursor is not a plain text/,
      ],
      [
        'an answer that is too large',
        (_, response) => void response.end(`["${'x'.repeat(100_000)}"]`),
        /too large/,
      ],
      ['an answer that never ends', (_, response) => void response.write('['), /took too long/],
      ['no answer', () => undefined, /took too long/],
      ['a connection that is cut', ({ socket }) => void socket.destroy(), /socket hang up|ECONNRESET/],
      ['no JSON', (_, response) => void response.end('<html>'), /is not JSON/],
      ['an object', page({}), /is no list/],
      ['nothing in a list', page([null]), /no object/],
      ['an id with a zero byte', page([entry({ guid: 'a\u0000b' })]), /guid is not a plain text/],
      ['an id of 10,000 characters', page([entry({ guid: 'g'.repeat(10_000) })]), /guid is not a plain text/],
      ['an id that is a path', page([entry({ id: { a: 1 } })]), /id is not a plain text/],
      ['a time that is none', page([entry({ delivered_at: 'soon' })]), /delivered_at is no time/],
      [
        'a time of another millennium',
        page([entry({ delivered_at: '+099999-01-01T00:00:00Z' })]),
        /delivered_at is no time/,
      ],
      ['another clock', page([], { date: new Date(Date.now() + 7_200_000).toUTCString() }), /clock/],
      [
        'no right',
        (_, response) => void response.writeHead(401).end(`{"message":"${token}"}`),
        /answered 401: the token is wrong/,
      ],
      [
        'too many calls',
        (_, response) => void response.writeHead(429, { 'retry-after': '99999999999' }).end(),
        /too many calls/,
      ],
      ['an error', (_, response) => void response.writeHead(503).end(), /answered 503/],
    ];
    for (const [what, answer, problem] of lies) {
      api.answer = answer;
      const reconciler = await reconciling(true);
      let said = '';
      await until(async () => {
        const [row] = await root.run('SELECT problem FROM headgate.gaps WHERE problem IS NOT NULL');
        said = typeof row?.[0] === 'string' ? row[0] : '';
        return said !== '';
      });
      await reconciler.close();
      assert.match(said, problem, what);
      assert.doesNotMatch(said, /ghp_/, what);
      // It is left alone: a second at least, a day at most.
      const [rest] = await root.run(
        `SELECT next_at > now() AND next_at < now() + interval '25 hours', holder FROM headgate.reconciling`,
      );
      assert.deepEqual(rest, [true, null], what);
    }
    assert.deepEqual(elsewhere.asked, []);
    assert.ok(
      api.asked.every((it) =>
        /^(GET|POST) \/repos\/o\/r\/hooks\/7\/deliveries\S* Bearer ghp_hidden$/.test(it),
      ),
    );
    // Another owner does not get the token with the table.
    await root.run('CREATE ROLE mallory; ALTER TABLE h OWNER TO mallory');
    const calls = api.asked.length;
    const reconciler = await reconciling(true);
    let said = '';
    await until(async () => {
      const [row] = await root.run('SELECT problem FROM headgate.gaps WHERE problem IS NOT NULL');
      said = typeof row?.[0] === 'string' ? row[0] : '';
      return said !== '';
    });
    await reconciler.close();
    assert.match(said, /may not use the secret/);
    assert.equal(api.asked.length, calls);
  });

  test('reconcile rests longer after each 401, reports each reason once, and uses a changed token at once', async (t) => {
    const { root, api, reconciling } = await stage(t);
    const told: string[] = [];
    const refusing = (status: number) =>
      (api.answer = (_, response) => void response.writeHead(status).end());
    const observe: Observe = (it) => {
      if (it.kind === 'reconcile.refused')
        told.push(`${it.repeated ? 'again' : 'new'}: ${it.reason.slice(0, 20)}`);
      if (it.kind === 'reconcile.read') told.push('read');
    };
    /** The rest after so many more turns, in s, shortened by half at most. */
    const restAfter = async (turns: number): Promise<number> => {
      const before = told.length;
      for (let turn = 1; turn <= turns; turn++) {
        await root.run('UPDATE headgate.reconciling SET next_at = now()');
        await until(() => told.length === before + turn);
      }
      const [row] = await root.run(
        `SELECT extract(epoch FROM next_at - looked_at)::float8, looked_at > now() - interval '1 minute' FROM headgate.gaps`,
      );
      assert.equal(row?.[1], true);
      return Number(row?.[0]);
    };
    refusing(401);
    const first = await reconciling(true, observe);
    await until(() => told.length === 1);
    assert.ok((await restAfter(4)) > 470, 'after five failures: 8 to 16 minutes');
    assert.ok((await restAfter(4)) > 1_790, 'an hour at most, half of it at least');
    refusing(403);
    const rest = await restAfter(1);
    assert.ok(rest > 1_790 && rest <= 3_600);
    await first.close();
    assert.deepEqual(
      told.filter((it) => it.startsWith('new')),
      ['new: the API answered 401', 'new: the API answered 403'],
    );
    // A start.
    const second = await reconciling(false, observe);
    await restAfter(1);
    assert.equal(told.at(-1), 'new: the API answered 403');
    const calls = api.asked.length;
    await root.run(`ALTER SECRET tok WITH (backend = 'meta') AS 'ghp_another'`);
    await until(() => api.asked.length > calls);
    await until(() => told.at(-1) === 'again: the API answered 403');
    const turns = told.length;
    await root.run('ALTER TABLE h SET (reconcile_secret = tok)');
    await until(() => told.length > turns);
    api.answer = page([]);
    await restAfter(1);
    assert.equal(told.at(-1), 'read');
    const [row] = await root.run('SELECT problem, window_from, next_at - looked_at FROM headgate.gaps');
    assert.deepEqual(row?.slice(0, 2), [null, null]);
    await second.close();
  });
});
