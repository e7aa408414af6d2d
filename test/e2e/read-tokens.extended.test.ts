/** Tokens FOR SELECT, with which a page follows a table by EventSource: what they open, what they do not, when they end, and where they leak. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { limits } from '../../src/config/limits.ts';
import { onEnd } from '../support/cleanup.ts';
import { request } from '../support/gateway.ts';
import { startHeadgate } from '../support/headgate.ts';
import { openPages } from '../support/pages.ts';
import { within } from '../support/within.ts';

const page = 'https://app.example';
const main = 'main-token';

/** A stream as a browser's EventSource reads it. */
class Followed {
  readonly response: Response;
  /** Resolves when the gateway has ended it. */
  readonly ended: Promise<void>;
  text = '';

  constructor(response: Response) {
    this.response = response;
    this.ended = this.#read();
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    for await (const piece of this.response.body ?? [])
      this.text += decoder.decode(piece as Uint8Array, { stream: true });
  }

  shows(wanted: string): Promise<void> {
    return within(20_000, async () => assert.ok(this.text.includes(wanted), this.text));
  }
}

test('read tokens of the events gateway work on one Headgate', { timeout: 180_000 }, async (t) => {
  const headgate = await startHeadgate(t, {
    args: ['--log-level=debug'],
    env: { EVENTS_API_TOKEN: main },
  });
  const root = await headgate.client(t);
  await root.query(`
    CREATE TABLE clicks (n int); CREATE TABLE other (n int); CREATE VIEW seen AS SELECT * FROM clicks;
    CREATE TABLE parted (n int) PARTITION BY LIST (n); CREATE TABLE guarded (n int); ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
    CREATE ROLE alice LOGIN; GRANT CREATE ON SCHEMA public TO alice; GRANT SELECT ON clicks, guarded TO alice; GRANT SELECT (n) ON other TO alice`);
  const alice = await headgate.clientAs(t, 'alice');
  const made: string[] = [];
  const token = async (words: string, client = root): Promise<string> => {
    const { rows } = await client.query<{ Token: string }>(`CREATE TOKEN ${words}`);
    const text = rows[0]?.Token ?? '';
    made.push(text);
    return text;
  };
  const urlOf = (query: string) => `${headgate.gatewayUrl}/v1/events?${query}`;
  const open = async (step: TestContext, query: string, headers: Record<string, string> = {}) => {
    const stop = new AbortController();
    onEnd(step, 'stream', () => stop.abort());
    const followed = new Followed(await fetch(urlOf(query), { headers, signal: stop.signal }));
    // Aborted with the test.
    followed.ended.catch(() => undefined);
    return followed;
  };
  const refused = async (query: string, headers: Record<string, string> = {}) => {
    const { status, json } = await request(urlOf(query), { headers });
    return `${status} ${json.code}`;
  };

  await t.test(
    'a read token lets pages of its origin follow the table as EventSource does, and no others',
    async (step) => {
      const live = await token(`live FOR SELECT ON clicks WITH (expires = '1 minute', origins = '${page}')`);
      const followed = await open(step, `name=clicks&token=${live}`, {
        origin: page,
        accept: 'text/event-stream',
      });
      const { status, headers } = followed.response;
      assert.deepEqual(
        [status, headers.get('content-type'), headers.get('access-control-allow-origin')],
        [200, 'text/event-stream', page],
      );
      assert.deepEqual(
        [headers.get('referrer-policy'), headers.get('cache-control')],
        ['no-referrer', 'no-store'],
      );
      await root.query('INSERT INTO clicks VALUES (11)');
      await followed.shows('data: {"n":11}');
      assert.equal(
        await refused(`name=clicks&token=${live}`, { origin: 'https://evil.example' }),
        '403 page_refused',
      );
      // Without an Origin, as an image or a navigation asks.
      assert.equal(
        await refused(`name=clicks&token=${live}`, { 'sec-fetch-site': 'cross-site' }),
        '403 page_refused',
      );
      const bearer = await open(step, 'name=clicks&after=0', { authorization: `Bearer ${live}` });
      await bearer.shows('data: {"n":11}');
    },
  );

  await t.test(
    "a browser's EventSource with a read token gets rows until it expires, then stops",
    async (step) => {
      const pages = await openPages(step);
      if (pages === null) return;
      const { origin, other, follow } = pages;
      const short = await token(
        `browser FOR SELECT ON clicks WITH (expires = '6 seconds', origins = '${origin}')`,
      );
      assert.deepEqual(await follow(origin, urlOf(`name=clicks&after=0&token=${short}`)), ['{"n":11}']);
      const longer = await token(`longer FOR SELECT ON clicks WITH (origins = '${origin}')`);
      assert.deepEqual(await follow(other, urlOf(`name=clicks&after=0&token=${longer}`)), []);
      assert.deepEqual(await follow(origin, urlOf(`name=other&after=0&token=${longer}`)), []);
    },
  );

  await t.test('a read token permits no other tables, no writing and no SQL', async () => {
    const live = await token('narrow FOR SELECT ON clicks');
    for (const name of [
      'other',
      'seen',
      'nothing',
      'parted',
      'headgate.token',
      'pg_class',
      'x.y',
      '12345',
      '"',
      'headgate.secret',
    ])
      assert.equal(await refused(`name=${encodeURIComponent(name)}&token=${live}`), '403 token_scope', name);
    const bearer = { authorization: `Bearer ${live}` };
    const post = async (path: string, body: string) => {
      const { status, json } = await request(`${headgate.gatewayUrl}${path}`, {
        method: 'POST',
        body,
        headers: bearer,
      });
      return `${status} ${json.code}`;
    };
    assert.equal(await post('/v1/events?name=clicks', '{"n":1}'), '403 token_scope');
    assert.equal(await post('/v1/sql', 'SELECT 1'), '403 token_scope');
    assert.match(await post(`/v1/events?name=clicks&token=${live}`, '{"n":1}'), /^40[013] /);
    const { status } = await request(`${headgate.gatewayUrl}/v1/sql?token=${live}`, {
      method: 'POST',
      body: 'SELECT 1',
    });
    assert.equal(status, 401);
    const writes = await token('writes FOR INSERT ON clicks');
    assert.equal(await refused(`name=clicks&token=${writes}`), '403 token_scope');
    assert.equal(await refused('name=clicks', { authorization: `Bearer ${writes}` }), '403 token_scope');
  });

  await t.test(
    "a stream with a wrong, missing or doubled read token, or the gateway's own in its URL, is refused",
    async () => {
      const live = await token('again FOR SELECT ON clicks');
      assert.equal(await refused(`name=clicks&token=hgt_${'0'.repeat(64)}`), '401 token_required');
      assert.equal(await refused('name=clicks&token='), '401 token_required');
      assert.equal(await refused('name=clicks'), '401 token_required');
      assert.equal(await refused(`name=clicks&token=${main}`), '401 token_required');
      assert.equal(await refused(`name=clicks&token=${live}&token=${live}`), '400 malformed_query');
      // What is in the query counts, and the better credential beside it does not.
      assert.equal(
        await refused(`name=other&token=${live}`, { authorization: `Bearer ${main}` }),
        '403 token_scope',
      );
      assert.equal(await refused(`name=clicks&%74oken=${live}x`), '401 token_required');
    },
  );

  await t.test('a read token expires, and ends its open stream', async (step) => {
    const short = await token(`short FOR SELECT ON clicks WITH (expires = '2 seconds')`);
    const followed = await open(step, `name=clicks&token=${short}`);
    assert.equal(followed.response.status, 200);
    await followed.ended;
    assert.equal(await refused(`name=clicks&token=${short}`), '401 token_required');
    // Its name is free for the next one.
    await token(`short FOR SELECT ON clicks`);
  });

  await t.test(
    "a stream ends when its read token is dropped or the token's owner loses SELECT",
    async (step) => {
      const live = await token('dropped FOR SELECT ON clicks');
      const followed = await open(step, `name=clicks&token=${live}`);
      await root.query('DROP TOKEN dropped');
      await followed.ended;
      assert.equal(await refused(`name=clicks&token=${live}`), '401 token_required');
      const hers = await token('hers FOR SELECT ON clicks', alice);
      const second = await open(step, `name=clicks&token=${hers}`);
      assert.equal(second.response.status, 200);
      await root.query('REVOKE SELECT ON clicks FROM alice');
      await second.ended;
      assert.equal(await refused(`name=clicks&token=${hers}`), '403 token_scope');
      await root.query('GRANT SELECT ON clicks TO alice');
    },
  );

  await t.test('a read token is bound to the table, not to its name', async (step) => {
    const live = await token('renamed FOR SELECT ON clicks');
    await root.query('ALTER TABLE clicks RENAME TO was_clicks; ALTER TABLE other RENAME TO clicks');
    assert.equal(await refused(`name=clicks&token=${live}`), '403 token_scope');
    assert.equal((await open(step, `name=was_clicks&token=${live}`)).response.status, 200);
    await root.query('ALTER TABLE clicks RENAME TO other; ALTER TABLE was_clicks RENAME TO clicks');
  });

  await t.test('holders of read tokens cannot use up all streams', async (step) => {
    const live = await token('many FOR SELECT ON clicks');
    const all = await Promise.all(
      Array.from({ length: limits.streamsOfTokensMax + 5 }, () => open(step, `name=clicks&token=${live}`)),
    );
    const statuses = all.map(({ response }) => response.status).toSorted((a, b) => a - b);
    assert.equal(statuses.at(-1), 503);
    assert.ok(statuses.filter((status) => status === 200).length <= limits.streamsOfTokensMax);
    const own = await open(step, 'name=other', { authorization: `Bearer ${main}` });
    assert.equal(own.response.status, 200);
  });

  await t.test('holders of a read token cannot use up all table readings of the gateway', async (step) => {
    const names = ['one', 'two', 'three'];
    for (const name of names) await root.query(`CREATE TABLE ${name} (n int)`);
    const live = await token(`tables FOR SELECT ON ${names.join(', ')}`);
    const statuses: number[] = [];
    // Readers of each format, and of each number of rows, have a reading of their own.
    for (const name of names)
      for (const accept of ['text/event-stream', 'application/x-ndjson'])
        for (const batch of ['', '&batch=1', '&batch=10', '&batch=100', '&batch=1000', '&batch=10000'])
          statuses.push((await open(step, `name=${name}${batch}&token=${live}`, { accept })).response.status);
    assert.deepEqual(
      [statuses.filter((status) => status === 200).length, statuses.at(-1)],
      [limits.streamTablesOfTokensMax, 503],
    );
    const own = await open(step, 'name=other', { authorization: `Bearer ${main}` });
    assert.equal(own.response.status, 200);
  });

  await t.test('holders of a read token cannot use up the memory with unread large rows', async (step) => {
    await root.query(`CREATE TABLE large AS SELECT repeat('x', 15000000) AS x`);
    const live = await token('large FOR SELECT ON large');
    const { port } = headgate.ports.gateway;
    const count = 8;
    const held = Math.floor(limits.streamsOfTokensBytesMax / 15_000_000);
    let closed = 0;
    const idle = new Set<number>();
    for (let i = 0; i < count; i++) {
      const socket = connect(port, '127.0.0.1', () =>
        socket.write(
          `GET /v1/events?name=large&after=0&token=${live} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`,
        ),
      );
      let bytes = 0;
      socket.on('error', () => undefined);
      socket.on('close', () => (closed += 1));
      socket.on('data', (part) => {
        bytes += part.length;
        if (bytes < 100_000) return;
        socket.pause();
        idle.add(i);
      });
      onEnd(step, 'socket', () => void socket.destroy());
    }
    await within(25_000, () => {
      assert.deepEqual([idle.size, closed], [held, count - held]);
      return Promise.resolve();
    });
    const { status } = await request(`${headgate.gatewayUrl}/v1/sql`, {
      method: 'POST',
      body: `SELECT repeat('y', 30000000)`,
      headers: { authorization: `Bearer ${main}` },
    });
    assert.equal(status, 200);
  });

  await t.test('only permitted roles create read tokens, for a bounded time', async () => {
    for (const [words, code, client] of [
      ['a FOR SELECT ON guarded', '42501', alice],
      ['a FOR SELECT ON other', '42501', alice],
      ['a FOR SELECT ON seen', '42809', root],
      ['a FOR SELECT ON parted', '42809', root],
      ['a FOR SELECT ON headgate.token', '42809', root],
      [`a FOR SELECT ON clicks WITH (expires = '0 seconds')`, '22023', root],
      [`a FOR SELECT ON clicks WITH (expires = '2 days')`, '22023', root],
      [`a FOR SELECT ON clicks WITH (expires = 'soon')`, '22023', root],
      [`a FOR INSERT ON clicks WITH (expires = '1 hour')`, '22023', root],
    ] as const)
      await assert.rejects(client.query(`CREATE TOKEN ${words}`), { code }, words);
    // Past the statement, which bounds the time as well.
    for (const seconds of [0, -5, 86_401, 2_000_000_000])
      await assert.rejects(
        alice.query(`SELECT headgate.create_token('a', ARRAY['clicks'::regclass], '[]', NULL, ${seconds})`),
        { code: '22023' },
      );
    const { rows } = await root.query<{ For: string; Expires: Date | null }>('SHOW TOKENS');
    assert.ok(
      rows.every((row) => (row.For === 'SELECT') === (row.Expires !== null)),
      JSON.stringify(rows),
    );
    assert.deepEqual(
      (await alice.query<{ Name: string }>('SHOW TOKENS')).rows.map(({ Name }) => Name),
      ['hers'],
    );
  });

  await t.test('read tokens appear in no log, metric, error or table', async () => {
    const wrong = `hgt_${'f'.repeat(64)}`;
    const answers = await Promise.all(
      [
        `name=clicks&token=${wrong}&after=x`,
        `name=nope&token=${wrong}`,
        `${wrong}=1&name=clicks&token=${wrong}`,
      ].map(async (query) => (await request(urlOf(query), {})).text),
    );
    const metrics = (await request(`${headgate.adminUrl}/metrics`, {})).text;
    const { rows } = await root.query('SELECT * FROM pg_stat_activity');
    const kept = await root.query('SELECT t::text FROM headgate.token t');
    assert.match(headgate.stderr, /gateway\.answered/);
    const all = [headgate.stderr, headgate.stdout, metrics, JSON.stringify([rows, kept.rows, answers])].join(
      '\n',
    );
    for (const text of [...made, wrong]) assert.ok(!all.includes(text.slice(4)), text);
  });
});
