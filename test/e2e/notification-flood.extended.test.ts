/** A stranger who floods channels: webhooks and changes of the catalog go on, and memory does not grow with it. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { startHeadgate } from '../support/headgate.ts';
import { breath } from '../support/sample.ts';
import { within } from '../support/within.ts';

const growthMiBMax = 160;

test("a flood of NOTIFY on Headgate's channels neither keeps a revoked key in use nor grows memory", async (t) => {
  const headgate = await startHeadgate(t);
  const root = await headgate.client(t);
  await root.query(`CREATE ROLE mallory LOGIN; CREATE SECRET s WITH (backend = 'meta') AS 'k0';
    CREATE TABLE t (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS secure_compare(headers->>'x', s)`);
  const { rows } = await root.query<{ name: string }>('SELECT name FROM headgate.channel');
  const mallory = await headgate.clientAs(t, 'mallory');
  const resident = async () => {
    const status = await readFile(`/proc/${headgate.child.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
  };
  const post = async (x: string) => (await headgate.post('dev/public/t', '{}', { x })).status;
  assert.equal(await post('k0'), 200);
  const before = await resident();
  let most = before;
  let key = 0;
  /** How long a new key took at most while this went on, in ms. */
  const during = async (flood: Promise<unknown>) => {
    let longestMs = 0;
    const over = new AbortController();
    const ended = flood.finally(() => over.abort());
    while (!over.signal.aborted) {
      key += 1;
      await root.query(`ALTER SECRET s AS 'k${key}'`);
      const changed = performance.now();
      await within(20_000, async () => assert.equal(await post(`k${key}`), 200));
      longestMs = Math.max(longestMs, performance.now() - changed);
      assert.notEqual(await post(`k${key - 1}`), 200, 'a key that was changed is never accepted');
      most = Math.max(most, await resident());
      await breath();
    }
    await ended;
    return longestMs;
  };
  const flooded = (channel: string) =>
    during(
      mallory.query(
        `SELECT count(pg_notify('${channel}', repeat('x', 100) || g)) FROM generate_series(1, 200000) g`,
      ),
    );
  // The names that used to be known.
  for (const channel of ['headgate_catalog', 'headgate_rejected']) {
    const longestMs = await flooded(channel);
    assert(longestMs < 2_000, `${channel}: ${Math.round(longestMs)} ms`);
  }
  assert.equal(headgate.stderr.includes('catalog.unreadable'), false, headgate.stderr);
  // Those of now, for somebody who has found them out: the connection that listens may be opened anew for that.
  for (const { name } of rows) await flooded(name);
  assert(most - before < growthMiBMax, `${Math.round(before)} MiB before, ${Math.round(most)} MiB at most`);
});
