import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { test } from 'node:test';
import { asked } from '../support/asked.ts';
import type { Answer } from '../support/asked.ts';
import { stageWithTables } from '../support/spool-stage.ts';
import { within } from '../support/within.ts';

const secret = 'canary-secret-4711';
const signed = (body: string) => ({
  'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
});
const mebibyte = 1024 * 1024;

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);
const body = (id: number, more: object = {}) => JSON.stringify({ id, ...more });

test('webhooks are spooled while the database is away', async (t) => {
  const stage = await stageWithTables(t, secret);
  const { server } = stage;

  await t.test('requests during an outage get 202, and are rows afterwards, in order', async () => {
    assert.equal((await stage.post('kept', body(0))).status, 200);
    assert.equal((await stage.post('latest', body(1, { n: 1 }), { 'x-from': 'a' })).text, '{"rows":1}');
    await stage.killServer();
    const first = await stage.post('kept?a=%20b', body(1));
    assert.deepEqual([first.status, first.text], [202, '{"rows":0,"spooled":1}']);
    assert.equal(first.headers.get('headgate-stored'), 'spool');
    assert.deepEqual(
      await stage.statuses(
        'kept',
        range(2, 40).map((id) => body(id)),
      ),
      range(2, 40).map(() => 202),
    );
    for (const n of range(2, 12)) {
      const answer = await stage.post('latest', body(1, { n }), { 'x-from': `b${n}` });
      assert.deepEqual([answer.status, answer.text], [200, '{"rows":0,"spooled":1}']);
    }
    const ready = await asked(`${stage.headgate.adminUrl}/readyz`);
    const told = JSON.parse(ready.text) as { status: string; spool: { takes: boolean; tables: number } };
    assert.deepEqual(
      [ready.status, told.status, told.spool.takes, told.spool.tables],
      [200, 'spooling', true, 2],
    );
    const metrics = (await asked(`${stage.headgate.adminUrl}/metrics`)).text;
    assert.match(
      metrics,
      /^headgate_spool_requests\{database="postgres",schema="public",table="kept"\} 39$/m,
    );
    assert.match(metrics, /^headgate_ready 0$/m);
    // A table that does not spool.
    assert.equal((await stage.post('other', '{}')).status, 503);
    await server.start();
    await stage.untilDirect('kept', body(40));
    await stage.untilDirect('latest', body(2, { n: 0 }));
    assert.deepEqual(await stage.ids('kept'), range(0, 41));
    assert.deepEqual(
      await stage.ask(
        `select convert_from(raw, 'UTF8') as raw, query, sender from kept where query is not null`,
      ),
      [{ raw: body(1), query: 'a=%20b', sender: '127.0.0.1' }],
    );
    assert.deepEqual(await stage.ask(`select n, "from" from latest where id = 1`), [{ n: 11, from: 'b11' }]);
  });

  await t.test(
    'requests that fail VALIDATE or are no JSON are refused at once during an outage',
    async () => {
      await stage.killServer();
      const good = await stage.post('guarded', body(1), signed(body(1)));
      assert.equal(good.status, 202);
      // The next segment is made ahead.
      let before: unknown = null;
      const look = () =>
        [...stage.files()].map((path) => [path, statSync(path).size, statSync(path).mtimeMs]);
      await within(5_000, async () => {
        before = look();
        await delay(300);
        assert.deepEqual(look(), before);
      });
      for (const headers of [{}, signed('other'), { 'x-hub-signature-256': 'sha256=00' }]) {
        assert.equal((await stage.post('guarded', body(2), headers)).status, 401);
      }
      assert.equal((await stage.post('guarded', '{', signed('{'))).status, 422);
      assert.equal((await stage.post('none', body(2))).status, 503);
      assert.deepEqual(look(), before);
    },
  );

  await t.test('spool files are encrypted and readable by their owner only', async () => {
    const canary = body(3, { text: 'canary-body-0815' });
    const headers = { ...signed(canary), authorization: 'Bearer canary-bearer' };
    assert.equal((await stage.post('guarded', canary, headers)).status, 202);
    for (const path of stage.files()) {
      const bytes = readFileSync(path);
      for (const word of [secret, 'canary-body-0815', 'canary-bearer', 'x-hub-signature', 'hmac', '"id"'])
        assert(!bytes.includes(word), `${word} in ${path}`);
      assert.equal(statSync(path).mode & 0o077, 0, path);
    }
  });

  await t.test('a Headgate killed and started without the database goes on spooling', async () => {
    await stage.killHeadgate();
    await stage.startHeadgate();
    assert.equal((await stage.post('guarded', body(4), signed(body(4)))).status, 202);
    assert.equal((await stage.post('guarded', body(5), signed(body(4)))).status, 401);
    await stage.killHeadgate();
    await stage.startHeadgate({ HEADGATE_SPOOL_TRUST: '0' });
    // Nobody is believed any more.
    assert.equal((await stage.post('guarded', body(6), signed(body(6)))).status, 503);
    await server.start();
    await within(15_000, async () => assert.deepEqual(await stage.ids('guarded'), [1, 3, 4]));
    // Nothing is left of those who have written, and nothing is written twice.
    await within(10_000, async () => {
      await delay(10);
      const left = [...stage.files()].filter((path) => path.endsWith('.seg'));
      assert.equal(left.length, 1, left.join(' '));
    });
  });

  await t.test(
    'a full spool gives 503, loses nothing answered 202, and continues when there is room',
    async () => {
      await stage.killHeadgate();
      await stage.startHeadgate();
      await stage.killServer();
      const large = 'x'.repeat(900 * 1024);
      const kept: number[] = [];
      let full: Answer | null = null;
      for (let id = 1_000; full === null; id++) {
        const answer = await stage.post('kept', body(id, { large }));
        if (answer.status === 202) kept.push(id);
        else full = answer;
      }
      assert.deepEqual([full.status, JSON.parse(full.text).code], [503, 'spool_full']);
      assert.equal(full.headers.get('retry-after'), '30');
      const bytes = [...stage.files()].reduce((sum, path) => sum + statSync(path).size, 0);
      assert(bytes <= 16 * mebibyte + 65_536, String(bytes));
      assert(kept.length >= 10, String(kept.length));
      await server.start();
      await stage.untilDirect('kept', body(2_000));
      assert.deepEqual(
        (await stage.ids('kept')).filter((id) => id >= 1_000 && id <= 2_000),
        [...kept, 2_000],
      );
    },
  );
  await stage.killHeadgate();
});
